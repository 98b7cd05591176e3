package drivers

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// driver is a Go client library in one of its modes.
type driver struct {
	name string
	open func(ctx context.Context, dsn string) (session, error)
	// own are the scenarios that this driver has for itself.
	own []ownScenario
}

// session is one connection of a driver. Its methods write what the client was
// told, errors included; those it lacks say so.
type session interface {
	query(ctx context.Context, w *transcript, sql string, prepared bool, args []any)
	// cancel asks for the end of the query that another goroutine runs.
	cancel(ctx context.Context) error
	// kill cuts the connection without a goodbye.
	kill() error
	// notified waits for the next notification.
	notified(ctx context.Context, w *transcript)
	// copyIn sends chunks; with a failure it then breaks off with that message.
	copyIn(ctx context.Context, w *transcript, sql string, chunks []string, failure string)
	copyOut(ctx context.Context, w *transcript, sql string)
	close()
}

// ownScenario is a scenario in code.
type ownScenario struct {
	name  string
	needs []Feature
	run   func(ctx context.Context, w *transcript, s session, table string)
}

// goClients are the Go drivers as clients of the matrix.
func goClients(scenarios []scenario) []client {
	var all []client
	for _, d := range append(pgxDrivers(), sqlDrivers()...) {
		all = append(all, client{d.name, func(ctx context.Context, t *testing.T, r route) []played {
			return d.play(ctx, r, scenarios)
		}})
	}
	return all
}

func (d driver) play(ctx context.Context, r route, scenarios []scenario) []played {
	var all []played
	for _, sc := range scenarios {
		var w transcript
		d.perform(ctx, &w, r.dsn, sc)
		all = append(all, played{sc.name, sc.needs, w.String()})
	}
	for _, o := range d.own {
		var w transcript
		d.performOwn(ctx, &w, r.dsn, o)
		all = append(all, played{o.name, o.needs, w.String()})
	}
	return append(all, played{"crowd", nil, d.crowd(ctx, r.dsn, d.table("crowd"))})
}

// performOwn plays a scenario in code, which ends as those of the files do.
func (d driver) performOwn(ctx context.Context, w *transcript, dsn string, o ownScenario) {
	s, err := d.open(ctx, dsn)
	if err != nil {
		w.fail(err)
		return
	}
	defer s.close()
	o.run(ctx, w, s, d.table(o.name))
	s.query(ctx, w, "ROLLBACK", false, nil)
	w.line("a: %s", alive)
	s.query(ctx, w, alive, false, nil)
}

// table is a name that no other client and no other scenario has.
func (d driver) table(scenario string) string {
	return strings.NewReplacer("/", "_", "-", "_", " ", "_").Replace(d.name + "_" + scenario)
}

// perform plays a scenario of the files.
func (d driver) perform(ctx context.Context, w *transcript, dsn string, sc scenario) {
	actors := map[string]*actor{}
	defer func() {
		for _, a := range actors {
			a.wait(w)
			a.close()
		}
	}()
	for _, st := range sc.steps {
		st.sql = strings.ReplaceAll(st.sql, "{t}", d.table(sc.name))
		a := actors[st.session]
		if a == nil {
			s, err := d.open(ctx, dsn)
			if err != nil {
				w.line("%s: cannot connect", st.session)
				w.fail(err)
				return
			}
			a = &actor{session: s}
			actors[st.session] = a
		}
		w.line("%s%s: %s", st.session, st.mark, st.sql)
		a.step(ctx, w, st)
	}
}

// actor is a session of a scenario with what it runs in the background.
type actor struct {
	session
	deaf    bool // waited for a notification in vain, as where LISTEN is refused
	running sync.WaitGroup
	heard   transcript // of the background; read after running
}

func (a *actor) step(ctx context.Context, w *transcript, st step) {
	switch st.mark {
	case "", "*":
		from := w.Len()
		a.query(ctx, w, st.sql, st.mark == "*", st.args)
		a.deaf = a.deaf || strings.HasPrefix(st.sql, "LISTEN") && strings.HasPrefix(w.String()[from:], "!")
	case "&":
		a.running.Go(func() { a.query(ctx, &a.heard, st.sql, false, st.args) })
	case "!wait":
		a.wait(w)
	case "!cancel":
		if err := a.cancel(ctx); err != nil {
			w.line("! cancel: %v", err)
		}
	case "!kill":
		if err := a.kill(); err != nil {
			w.line("! kill: %v", err)
		}
	case "!until":
		a.until(ctx, w, st.sql)
	case "!notified":
		if a.deaf {
			w.line("! deaf")
			return
		}
		a.notified(ctx, w)
	case "!copyin":
		a.copyIn(ctx, w, st.sql, texts(st.args), "")
	case "!copyfail":
		a.copyIn(ctx, w, st.sql, texts(st.args), "no more of it")
	case "!copyout":
		a.copyOut(ctx, w, st.sql)
	}
}

func (a *actor) wait(w *transcript) {
	a.running.Wait()
	w.WriteString(a.heard.String())
	a.heard.Reset()
}

// untilLimit is for what takes milliseconds.
const untilLimit = 20 * time.Second

// until repeats a query until its answer is true.
func (a *actor) until(ctx context.Context, w *transcript, sql string) {
	for end := time.Now().Add(untilLimit); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		var answer transcript
		a.query(ctx, &answer, sql, false, nil)
		if strings.Contains(answer.String(), "(true)") {
			return
		}
		if strings.Contains(answer.String(), "\n!") {
			w.WriteString(answer.String())
			return
		}
	}
	w.line("! not within %v", untilLimit)
}

func texts(args []any) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i], _ = a.(string)
	}
	return out
}
