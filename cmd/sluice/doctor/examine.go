package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/cmd/sluice/config"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Bounds of an examination: of one statement, of one that a signal finds under way, of all
// that is done to clean up, and of the wait for a schema that may come yet.
const (
	statementTime = 30 * time.Second
	signalGrace   = 5 * time.Second
	cleaningTime  = 30 * time.Second
	lateTime      = 5 * time.Second
)

// examination is one run of sluice doctor.
type examination struct {
	config *config.Config
	dial   reservoir.DialFunc
	schema string
	report doctorReport
	// how is the mapping that the cluster can do, by which is asked further.
	how rewrite.ByteaMapping
	// made: the schema may be there.
	made bool
	// unsure: the answer to making it was lost, so that it may come yet.
	unsure bool
	// here is the connection that asks; there is that of the other party, nil until needed.
	here, there *asker
}

func newExamination(c *config.Config, dial reservoir.DialFunc) *examination {
	return &examination{config: c, dial: dial, schema: scratchName(), report: doctorReport{
		Endpoint: c.Backend.Endpoint, Role: c.Backend.User, Questions: []doctorQuestion{}, Settings: []doctorSetting{}, LeftBehind: []string{}}}
}

// run asks all questions and cleans up, whatever becomes of the asking.
func (e *examination) run(ctx context.Context) error {
	var err error
	if e.here, err = e.connect(ctx); err == nil {
		e.report.ServerVersion = e.here.conn.Params["server_version"]
		err = e.ask(ctx)
		e.clean()
	}
	for _, a := range []*asker{e.here, e.there} {
		a.close()
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted: not every question was asked")
	}
	if err != nil && e.made && len(e.report.LeftBehind) == 0 {
		err = fmt.Errorf("%w\n  the schema that was made for the questions, %s, is removed", err, e.schema)
	}
	return err
}

// connect opens a connection.
func (e *examination) connect(ctx context.Context) (*asker, error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Backend.Timeout)
	defer cancel()
	conn, err := e.dial(ctx, nil)
	if err != nil {
		step := reservoir.StepStartup
		if failed, ok := errors.AsType[*reservoir.DialError](err); ok {
			step = failed.Step
		}
		return nil, stepError(step, err)
	}
	return &asker{conn: conn}, nil
}

// ask asks one question after another. The error is of a connection that is lost, of a signal,
// or of a schema that cannot be made.
func (e *examination) ask(ctx context.Context) error {
	if err := e.question(ctx, &questions[0]); err != nil {
		return err
	}
	if err := e.makeSchema(ctx); err != nil {
		return err
	}
	for i := range questions[1:] {
		if err := e.question(ctx, &questions[1+i]); err != nil {
			return err
		}
	}
	return nil
}

// question asks one.
func (e *examination) question(ctx context.Context, q *question) error {
	a := inquiry{doctorQuestion: doctorQuestion{Name: q.name, Question: q.text, Answer: unknown, Found: []string{}}, e: e, ctx: ctx}
	if q.mapped && e.how == rewrite.ByteaOff {
		a.found("Not asked: it is about mapped columns, which this cluster cannot have.")
	} else if q.ask(&a); a.err != nil {
		return fmt.Errorf("%s: %w", q.name, a.err)
	}
	e.report.Questions = append(e.report.Questions, a.doctorQuestion)
	return nil
}

// table is a table of the scratch schema, as a text names it.
func (e *examination) table(name string) string { return e.schema + "." + name }

// makeSchema makes the scratch schema, with the table that most questions are about.
func (e *examination) makeSchema(ctx context.Context) error {
	e.made = true // an answer may be lost
	err := e.here.do(ctx, "CREATE SCHEMA "+e.schema)
	if refused, ok := err.(*serverError); ok {
		e.made = false
		switch refused.code {
		case "54000":
			return fmt.Errorf("no schema can be made for the questions: %w\n  a cluster takes ten schemas; drop one that is not needed, and try again", err)
		case "42501":
			return fmt.Errorf("no schema can be made for the questions: %w\n  backend.user: %q: the role has no right to; set backend.user to admin, or let admin run GRANT CREATE ON DATABASE %s TO %s",
				err, e.config.Backend.User, e.config.Backend.Database, quoted(e.config.Backend.User))
		}
		return fmt.Errorf("no schema can be made for the questions: %w", err)
	}
	if err != nil {
		e.unsure = e.here.lost
		return err
	}
	if err := e.here.do(ctx, "CREATE TABLE "+e.table("keyed")+" (a int, digits text, n int, PRIMARY KEY (a, digits))"); err != nil {
		return fmt.Errorf("no table can be made for the questions: %w", err)
	}
	rows := ""
	for i := range 64 {
		rows += fmt.Sprintf(", (%d, '%02x', %d)", i/8, i, i)
	}
	if err := e.here.do(ctx, "INSERT INTO "+e.table("keyed")+" VALUES "+rows[2:]); err != nil {
		return fmt.Errorf("no rows can be written for the questions: %w", err)
	}
	return nil
}

// clean removes the scratch schema: by the connection that is there, else by another. What
// stays is told.
func (e *examination) clean() {
	if !e.made {
		return
	}
	// The context is one of its own: a signal ends the asking, not this.
	ctx, cancel := context.WithTimeout(context.Background(), cleaningTime)
	defer cancel()
	e.there.close() // its transaction would be in the way
	e.there = nil
	drop := "DROP SCHEMA IF EXISTS " + e.schema + " CASCADE"
	err := errors.New("the connection is lost")
	if !e.here.lost {
		_ = e.here.do(ctx, "ROLLBACK") // fails outside a block
		err = e.here.do(ctx, drop)
	}
	if e.here.lost {
		e.here.close()
		if e.here, err = e.connect(ctx); err == nil {
			late := e.unsure && !e.appears(ctx)
			if err = e.here.do(ctx, drop); err == nil && late {
				err = errors.New("the cluster may make the schema yet")
			}
		}
	}
	if refused, ok := err.(*serverError); ok && refused.code == "0A000" {
		err = e.cleanPiecemeal(ctx)
	}
	if err != nil {
		e.report.LeftBehind = append(e.report.LeftBehind, drop+";")
	}
}

// appears waits until the scratch schema is there, lateTime at most: a cluster may go on with a
// statement whose client has gone.
func (e *examination) appears(ctx context.Context) bool {
	for end := time.Now().Add(lateTime); ; time.Sleep(lateTime / 20) {
		n, err := e.here.value(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = '"+e.schema+"'")
		if err != nil || n == "1" || time.Now().After(end) {
			return n == "1"
		}
	}
}

// cleanPiecemeal removes the scratch schema table by table.
func (e *examination) cleanPiecemeal(ctx context.Context) error {
	tables, err := e.here.rows(ctx, "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"+
		" WHERE c.relkind = 'r' AND n.nspname = '"+e.schema+"'")
	for _, table := range tables {
		if err == nil {
			err = e.here.do(ctx, "DROP TABLE "+e.table(table))
		}
	}
	if err == nil {
		err = e.here.do(ctx, "DROP SCHEMA "+e.schema)
	}
	return err
}

// setting notes a key with the value that follows.
func (e *examination) setting(key, value string) {
	k := config.KeyNamed(key)
	configured := k.Plain(e.config.Effective(k))
	e.report.Settings = append(e.report.Settings, doctorSetting{key, value, configured})
}

// asker is a connection that is asked by simple queries.
type asker struct {
	conn *reservoir.Conn
	lost bool
}

// close ends a connection; nil is none.
func (a *asker) close() {
	if a == nil {
		return
	}
	_, _ = a.conn.Net.Write([]byte{'X', 0, 0, 0, 4}) // Terminate: a courtesy
	_ = a.conn.Net.Close()
}

// errInterrupted is why nothing more is sent.
var errInterrupted = errors.New("interrupted")

// rows asks, and returns the first value of each row. A *serverError is the server's answer;
// behind any other the connection is lost, or nothing was sent. A signal leaves what is under
// way a little time, so that its answer is known.
func (a *asker) rows(ctx context.Context, sql string) (rows []string, err error) {
	return a.exchange(ctx, appendFrame(nil, 'Q', sql+"\x00"), false)
}

// exchange is rows for a request as exchange in query.go takes it.
func (a *asker) exchange(ctx context.Context, request []byte, flushed bool) (rows []string, err error) {
	if err := a.conn.Net.SetDeadline(time.Now().Add(statementTime)); err != nil {
		a.lost = true
		return nil, err
	}
	hurry := context.AfterFunc(ctx, func() { _ = a.conn.Net.SetDeadline(time.Now().Add(signalGrace)) })
	defer hurry()
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	err = exchange(a.conn.Net, request, flushed, func(first string) { rows = append(rows, first) })
	if _, answered := err.(*serverError); err != nil && !answered {
		a.lost = true
		return rows, fmt.Errorf("the connection was lost: %w", err)
	}
	return rows, err
}

// mostTries bounds how often a statement is tried that meets a conflict: with the change of
// the schema before it, as a rule.
const mostTries = 5

// do runs a statement that is a transaction of its own.
func (a *asker) do(ctx context.Context, sql string) error {
	for try := 1; ; try++ {
		_, err := a.rows(ctx, sql)
		if refused, ok := err.(*serverError); !ok || refused.code != "40001" || try == mostTries {
			return err
		}
	}
}

// value asks for one value, by a statement that is a transaction of its own.
func (a *asker) value(ctx context.Context, sql string) (string, error) {
	for try := 1; ; try++ {
		rows, err := a.rows(ctx, sql)
		if refused, ok := err.(*serverError); ok && refused.code == "40001" && try < mostTries {
			continue
		}
		return slices.Concat(rows, []string{""})[0], err
	}
}
