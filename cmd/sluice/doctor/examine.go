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

// statementTime bounds one statement, signalGrace a statement that a signal interrupts, and cleaningTime the whole
// clean-up. lateTime bounds the wait for a schema that may still appear.
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
	// how is the mapping of bytea columns that the cluster supports, which later questions use.
	how rewrite.ByteaMapping
	// made reports that the scratch schema may exist.
	made bool
	// unsure reports that the answer to CREATE SCHEMA was lost, so that the schema may still appear.
	unsure bool
	// here is the main connection. there is the connection of a second client, nil until needed.
	here, there *asker
}

func newExamination(c *config.Config, dial reservoir.DialFunc) *examination {
	return &examination{config: c, dial: dial, schema: scratchName(), report: doctorReport{
		Endpoint: c.Backend.Endpoint, Role: c.Backend.User, Questions: []doctorQuestion{}, Settings: []doctorSetting{}, LeftBehind: []string{}}}
}

// run asks all questions of sluice doctor, and removes the scratch schema in any case.
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

// connect opens a connection to the cluster.
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

// ask asks all questions in order. It fails if the connection is lost, after a signal, or if the
// schema cannot be created.
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

// question asks one question.
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

// table returns the SQL name of a table in the scratch schema.
func (e *examination) table(name string) string { return e.schema + "." + name }

// makeSchema creates the scratch schema and the table that most questions use.
func (e *examination) makeSchema(ctx context.Context) error {
	e.made = true // the answer may be lost
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

// clean removes the scratch schema, on the current connection or on a new one. It reports a schema
// that remains.
func (e *examination) clean() {
	if !e.made {
		return
	}
	// The clean-up has a new context, because a signal ends the questions and not the clean-up.
	ctx, cancel := context.WithTimeout(context.Background(), cleaningTime)
	defer cancel()
	e.there.close() // its transaction would block the DROP
	e.there = nil
	drop := "DROP SCHEMA IF EXISTS " + e.schema + " CASCADE"
	err := errors.New("the connection is lost")
	if !e.here.lost {
		_ = e.here.do(ctx, "ROLLBACK") // fails outside a transaction
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

// appears waits up to lateTime for the scratch schema: a cluster may continue a statement after its
// client has left.
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

// setting records the value of a key that fits the cluster.
func (e *examination) setting(key, value string) {
	k := config.KeyNamed(key)
	configured := k.Plain(e.config.Effective(k))
	e.report.Settings = append(e.report.Settings, doctorSetting{key, value, configured})
}

// asker is a connection for simple queries.
type asker struct {
	conn *reservoir.Conn
	lost bool
}

// close closes the connection of an asker, if there is one.
func (a *asker) close() {
	if a == nil {
		return
	}
	_, _ = a.conn.Net.Write([]byte{'X', 0, 0, 0, 4}) // Terminate; its error does not matter
	_ = a.conn.Net.Close()
}

// errInterrupted reports that a signal has ended the questions.
var errInterrupted = errors.New("interrupted")

// rows runs a query and returns the first value of each row. A *serverError is the server's answer;
// after any other error the connection is lost, or nothing was sent. After a signal a running
// statement gets signalGrace, so that its answer is known.
func (a *asker) rows(ctx context.Context, sql string) (rows []string, err error) {
	return a.exchange(ctx, appendFrame(nil, 'Q', sql+"\x00"), false)
}

// exchange sends a request and returns its rows, as rows does for a query. The request has the form of exchange in
// query.go.
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

// mostTries bounds the attempts of a statement that meets a conflict, mostly with an earlier change
// of the schema.
const mostTries = 5

// do runs a statement in its own transaction.
func (a *asker) do(ctx context.Context, sql string) error {
	for try := 1; ; try++ {
		_, err := a.rows(ctx, sql)
		if refused, ok := err.(*serverError); !ok || refused.code != "40001" || try == mostTries {
			return err
		}
	}
}

// value returns one value, by a statement in its own transaction.
func (a *asker) value(ctx context.Context, sql string) (string, error) {
	for try := 1; ; try++ {
		rows, err := a.rows(ctx, sql)
		if refused, ok := err.(*serverError); ok && refused.code == "40001" && try < mostTries {
			continue
		}
		return slices.Concat(rows, []string{""})[0], err
	}
}
