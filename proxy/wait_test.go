package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
)

// dialKeyed is dialRaw that keeps the client's key: cancel sends a CancelRequest
// and returns once the server has dealt with it.
func dialKeyed(t *testing.T, addr string, params map[string]string) (c *rawClient, cancel func()) {
	t.Helper()
	c, key := startRaw(t, addr, params)
	return c, func() {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		conn.Write(append([]byte{0, 0, 0, byte(8 + len(key)), 4, 210, 22, 46}, key...))
		conn.Read(make([]byte, 1)) // up to its end
	}
}

// freezer swallows what is written to a backend and holds a word.
type freezer struct {
	word   atomic.Pointer[string]
	frozen atomic.Int32
}

func (f *freezer) arm(word string) { f.word.Store(&word) }

func (f *freezer) option(s *setup) {
	s.dial.Wrap = func(conn net.Conn) net.Conn { return &freezable{Conn: rawconn.Wrap(conn), f: f} }
}

type freezable struct {
	rawconn.Conn
	f *freezer
}

func (x *freezable) Write(b []byte) (int, error) {
	if word := x.f.word.Load(); word != nil && bytes.Contains(b, []byte(*word)) {
		x.f.word.Store(nil)
		x.f.frozen.Add(1)
		return len(b), nil
	}
	return x.Conn.Write(b)
}

// hurdle(2) waits, the first time, for a lock of the test's, and then meets a conflict.
const hurdles = changing + `
CREATE TABLE fight (id int, n int); INSERT INTO fight VALUES (1, 0);
CREATE FUNCTION hurdle(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_' || n) = 1 THEN
		PERFORM pg_advisory_xact_lock_shared(9);
		RAISE EXCEPTION 'change conflicts with another transaction, please retry: (OC000)' USING ERRCODE = '40001';
	END IF;
	RETURN n; END $$;`

// ownWait brings a client's statement to a wait that Sluice itself makes.
type ownWait struct {
	statement string
	opts      []option
	// before is done before the statement is sent, with the server's world, and
	// after once it was sent: it returns when the client certainly waits.
	before, after func(w *waitWorld)
	// more is how often the statement may run, beyond what before saw.
	more int64
	// others is how often other clients run it meanwhile.
	others int64
	// slow: it takes a while to come to the wait.
	slow bool
}

type waitWorld struct {
	*testing.T
	s      *sluice
	pg     postgres
	db     *pgx.Conn // of the test, directly at the server
	frozen *freezer
	send   string // the frames with the statement
	others []*rawClient
	holder *rawClient
}

// client plays lines for another client, which stays.
func (w *waitWorld) client(script string) *rawClient {
	w.Helper()
	c := dialRaw(w.T, w.s.addr)
	c.say(w.T, script)
	w.others = append(w.others, c)
	return c
}

// say plays lines of a dialogue.
func (c *rawClient) say(t *testing.T, script string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(script) {
		verb, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if verb == "<" {
			out.WriteString(c.readThrough(strings.ReplaceAll(rest, " ", "")))
		} else if verb != "" {
			c.queue(encodeLine(t, verb, rest))
		}
	}
	c.flush()
	return out.String()
}

func (w *waitWorld) runs() (n int64) {
	w.Helper()
	if err := w.db.QueryRow(w.Context(), "SELECT last_value - 1 + is_called::int FROM stumble_2").Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *waitWorld) busy(n int) func() bool {
	return func() bool { st := w.s.Stats(); return st.Clients-st.Idle == n }
}

const (
	fights  = "UPDATE fight SET n = n + 1 WHERE id = stumble(2)"
	hurdled = "UPDATE fight SET n = n + 1 WHERE id = hurdle(2)"
)

// patientReplay pauses for a minute; keenReplay hardly at all. Both keep their pass.
func patientReplay(s *setup) {
	fastReplay(s)
	s.proxy.Retry.Policy.FirstDelay = time.Minute
	s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay, s.proxy.Retry.Policy.MaxElapsed = time.Minute, time.Minute, 5*time.Minute
	s.proxy.Retry.GateHold = 5 * time.Minute
}

func keenReplay(s *setup) {
	fastReplay(s)
	s.proxy.Retry.Policy.MaxElapsed = 5 * time.Minute
	s.proxy.Retry.GateHold = 5 * time.Minute
}

func halfASecond(s *setup) {
	s.proxy.Retry.Policy.FirstDelay = 500 * time.Millisecond
	s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay = 500*time.Millisecond, 500*time.Millisecond
}

func longCheckout(s *setup) { s.backends.CheckoutWait = 30 * time.Second }

var ownWaits = map[string]ownWait{
	"gate, for the first time": {statement: fights, opts: []option{keenReplay, maxOpen(4)},
		before: func(w *waitWorld) { w.client("Q BEGIN\n< Z\n" + w.send + "< Z\n") },
		after:  func(w *waitWorld) { waitFor(w, "the client to wait", w.busy(1)) }},
	"gate, in a replay": {statement: hurdled, opts: []option{keenReplay, maxOpen(4)}, more: 1, others: 2, slow: true,
		before: func(w *waitWorld) { w.lock("SELECT pg_advisory_lock(9)") },
		after: func(w *waitWorld) {
			waitFor(w, "the statement to be at the server", func() bool { return w.runs() == 1 })
			w.client("Q BEGIN\n< Z\n" + w.send + "< Z\nQ SELECT stumble(1)\n< Z\n")
			w.lock("SELECT pg_advisory_unlock(9)")
			waitFor(w, "the replay", func() bool { return replayed(w, w.s) == 2 })
		}},
	"backoff": {statement: fights, opts: []option{patientReplay, maxOpen(4)}, more: 1, slow: true,
		after: func(w *waitWorld) { waitFor(w, "the replay", func() bool { return replayed(w, w.s) == 1 }) }},
	"backend": {statement: fights, opts: []option{keenReplay, maxOpen(1), longCheckout},
		before: func(w *waitWorld) { w.holder = w.client("Q BEGIN\n< Z\nQ SELECT 1\n< Z\n") },
		after:  func(w *waitWorld) { waitFor(w, "the line", func() bool { return w.s.backends.Stats().Waiting == 1 }) }},
	// Another client is in line before the conflict, and gets the backend while the replay
	// pauses.
	"backend, in a replay": {statement: hurdled, opts: []option{keenReplay, halfASecond, maxOpen(1), longCheckout}, more: 1, slow: true,
		before: func(w *waitWorld) {
			w.lock("SELECT pg_advisory_lock(9)")
			w.holder = w.client("Q BEGIN\n< Z\n")
		},
		after: func(w *waitWorld) {
			waitFor(w, "the statement to be at the server", func() bool { return w.runs() == 1 })
			w.holder.say(w.T, "Q SELECT 1\n")
			waitFor(w, "the other client to be in line", func() bool { return w.s.backends.Stats().Waiting == 1 })
			w.lock("SELECT pg_advisory_unlock(9)")
			w.holder.say(w.T, "< Z\n")
			waitFor(w, "the line", func() bool { return w.s.backends.Stats().Waiting == 1 })
		}},
	"settings": {statement: fights, opts: []option{keenReplay, maxOpen(1)},
		before: func(w *waitWorld) { w.frozen.arm("SET timezone") },
		after: func(w *waitWorld) {
			waitFor(w, "the settings to be sent", func() bool { return w.frozen.frozen.Load() == 1 })
		}},
}

// lock runs a statement on a connection that is the test's own.
func (w *waitWorld) lock(sql string) {
	w.Helper()
	if _, err := w.db.Exec(w.Context(), sql); err != nil {
		w.Fatal(err)
	}
}

// waitForms are the ways in which a statement is sent: what goes before it, the
// frames with it, and the status behind the error.
var waitForms = []struct {
	name, before, send, status string
}{
	{"simple", "", "Q %s\n", "I"},
	{"string", "", "Q %s; INSERT INTO stumbled VALUES (1)\n", "I"},
	{"block", "Q BEGIN\n< Z\n", "Q %s\n", "E"},
	{"extended", "", "P - | %s\nB - | -\nE -\nP - | INSERT INTO stumbled VALUES (1)\nB - | -\nE -\nS\n", "I"},
	{"extended in a block", "Q BEGIN\n< Z\n", "P - | %s\nB - | -\nE -\nP - | INSERT INTO stumbled VALUES (1)\nB - | -\nE -\nS\n", "E"},
}

// whoseEnd are the two ways in which a statement is stopped.
var whoseEnd = []struct {
	name, message string
	params        map[string]string
	set           string
}{
	{"cancel", "canceling statement due to user request", nil, ""},
	{"statement_timeout", "canceling statement due to statement timeout", nil, "Q SET statement_timeout = '300ms'\n< Z\n"},
	{"startup option", "canceling statement due to statement timeout", map[string]string{"statement_timeout": "300"}, ""},
}

// Whatever Sluice waits for, a cancel and the statement timeout end the wait, and
// the statement is not run.
func TestStoppedWhileSluiceWaits(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", hurdles)
	for name, wait := range ownWaits {
		for _, end := range whoseEnd {
			for i, form := range waitForms {
				if i > 2 && end.set != "" || i > 0 && end.params != nil {
					continue // enough of them for the timeout
				}
				t.Run(name+"/"+end.name+"/"+form.name, func(t *testing.T) {
					stopsWhile(t, pg, wait, end.message, end.params, end.set, form.before, fmt.Sprintf(form.send, wait.statement), form.status)
				})
			}
			if end.params == nil && !strings.Contains(name, "backend") && name != "settings" { // it has its backend already
				t.Run(name+"/"+end.name+"/late in a block", func(t *testing.T) {
					stopsWhile(t, pg, wait, end.message, end.params, end.set, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n", "Q "+wait.statement+"\n", "E")
				})
			}
		}
		t.Run(name+"/SET LOCAL", func(t *testing.T) {
			stopsWhile(t, pg, wait, "canceling statement due to statement timeout", nil, "",
				"Q BEGIN\n< Z\nQ SET LOCAL statement_timeout = '300ms'\n< Z\n", "Q "+wait.statement+"\n", "E")
		})
	}
}

func stopsWhile(t *testing.T, pg postgres, wait ownWait, message string, params map[string]string, set, before, send, status string) {
	stumbles(t, pg, true)
	if wait.slow { // time enough to get there
		set, before = strings.ReplaceAll(set, "300ms", "3s"), strings.ReplaceAll(before, "300ms", "3s")
		if params != nil {
			params = map[string]string{"statement_timeout": "3000"}
		}
	}
	db, err := pgx.Connect(t.Context(), "postgres://postgres@"+pg.addr+"/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	w := &waitWorld{T: t, pg: pg, db: db, frozen: new(freezer), send: send}
	w.s = startSluice(t, pg, append([]option{asDSQL, w.frozen.option}, wait.opts...)...)
	if strings.HasPrefix(t.Name(), "TestStoppedWhileSluiceWaits/settings") {
		set += "Q SET TimeZone = 'Asia/Tokyo'\n< Z\n"
		w.say("Q SELECT 1\n< Z\n")
	}
	c, cancel := dialKeyed(t, w.s.addr, params)
	c.say(t, set)
	if strings.HasPrefix(t.Name(), "TestStoppedWhileSluiceWaits/settings") {
		w.say("Q SELECT 1\n< Z\n") // and the backend has another client's settings
	}
	c.say(t, before)
	if wait.before != nil {
		wait.before(w)
	}
	ran := w.runs()
	c.say(t, send)
	wait.after(w)
	if strings.Contains(message, "user") {
		cancel()
	}
	got := c.readThrough("Z")
	if want := "E S=ERROR C=57014 M=" + message + "\nZ " + status + "\n"; !strings.HasSuffix(got, want) || strings.Contains(got, "\nC ") {
		t.Fatalf("got:\n%swant:\n%s", got, want)
	}
	if n := w.s.count(t, "dsql_backends_lost_total", "idle"); n > 0 {
		t.Errorf("%g backends were waited for until they were given up", n)
	}
	if n := w.runs() - ran - wait.others; n > wait.more {
		t.Errorf("the statement was run %d times, want %d at most", n, wait.more)
	}
	if status == "E" {
		if got := c.say(t, "Q SELECT 1\n< Z\n"); !strings.Contains(got, "C=25P02") || !strings.HasSuffix(got, "Z E\n") {
			t.Errorf("in the failed block: %s", got)
		}
		if got := c.say(t, "Q ROLLBACK\n< Z\n"); got != "C ROLLBACK\\x00\nZ I\n" {
			t.Errorf("ROLLBACK: %s", got)
		}
	}
	for _, o := range w.others {
		o.say(t, "Q ROLLBACK\n< Z\n")
	}
	// The pass was given back, no cancel hits a later statement, and none of the turn was run.
	cancel()
	if got := w.say("Q SET statement_timeout = 0\n< Z\nQ " + wait.statement + "\n< Z\n"); !strings.Contains(got, "C UPDATE") {
		t.Errorf("another client: %s", got)
	}
	if got := c.say(t, "Q SET statement_timeout = 0\n< Z\nQ "+wait.statement+"\n< Z\nQ SELECT count(*) FROM stumbled\n< Z\n"); !strings.Contains(got, "C UPDATE") || !strings.Contains(got, `\x010`+"\n") {
		t.Errorf("the client's next statements: %s", got)
	}
	c.say(t, "X\n")
	waitFor(t, "backends to come back", func() bool { return w.s.backends.Stats().InUse == 0 })
}

// say is client for one that leaves again.
func (w *waitWorld) say(script string) string {
	w.Helper()
	c := dialRaw(w.T, w.s.addr)
	defer c.conn.Close()
	return c.say(w.T, script)
}
