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

// statementTimeout bounds one statement, signalGrace a statement that a signal interrupts, and cleanupTimeout the whole
// clean-up. lateSchemaWait bounds the wait for a schema that may still appear.
const (
	statementTimeout = 30 * time.Second
	signalGrace      = 5 * time.Second
	cleanupTimeout   = 30 * time.Second
	lateSchemaWait   = 5 * time.Second
)

// examination is the state of one run of sluice doctor, which asks a cluster what it supports.
type examination struct {
	config *config.Config
	dial   reservoir.DialFunc
	schema string
	report doctorReport
	// byteaMapping is the mapping of bytea columns that the cluster supports, which later questions use.
	byteaMapping rewrite.ByteaMapping
	// schemaMayExist reports that the scratch schema, in which doctor creates its tables, may exist.
	schemaMayExist bool
	// creationUnknown reports that the answer to CREATE SCHEMA was lost, so that the scratch schema may still appear.
	creationUnknown bool
	// mainConn is the main connection to the cluster. secondConn is the connection of a second client, and nil until a
	// question needs it.
	mainConn, secondConn *queryConn
}

func newExamination(c *config.Config, dial reservoir.DialFunc) *examination {
	return &examination{config: c, dial: dial, schema: randomSchemaName(), report: doctorReport{
		Endpoint: c.Backend.Endpoint, Role: c.Backend.User, Questions: []doctorQuestion{}, Settings: []doctorSetting{}, LeftBehind: []string{}}}
}

// run asks all questions of sluice doctor, and removes the scratch schema in any case.
func (e *examination) run(ctx context.Context) error {
	var err error
	if e.mainConn, err = e.connect(ctx); err == nil {
		e.report.ServerVersion = e.mainConn.conn.Params["server_version"]
		err = e.askQuestions(ctx)
		e.removeSchema()
	}
	for _, a := range []*queryConn{e.mainConn, e.secondConn} {
		a.close()
	}
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted: not every question was asked")
	}
	if err != nil && e.schemaMayExist && len(e.report.LeftBehind) == 0 {
		err = fmt.Errorf("%w\n  the schema that was made for the questions, %s, is removed", err, e.schema)
	}
	return err
}

// connect opens a connection to the cluster.
func (e *examination) connect(ctx context.Context) (*queryConn, error) {
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
	return &queryConn{conn: conn}, nil
}

// askQuestions asks all questions in order. askQuestions returns an error if the connection is lost, after a signal, or
// if the schema cannot be created.
func (e *examination) askQuestions(ctx context.Context) error {
	if err := e.askCluster(ctx, &questions[0]); err != nil {
		return err
	}
	if err := e.createSchema(ctx); err != nil {
		return err
	}
	for i := range questions[1:] {
		if err := e.askCluster(ctx, &questions[1+i]); err != nil {
			return err
		}
	}
	return nil
}

// askCluster asks the cluster one question of sluice doctor, and adds the answer to the report.
func (e *examination) askCluster(ctx context.Context, q *question) error {
	a := questionRun{doctorQuestion: doctorQuestion{Name: q.name, Question: q.text, Answer: unknown, Found: []string{}}, e: e, ctx: ctx}
	if q.mapped && e.byteaMapping == rewrite.ByteaOff {
		a.addFinding("Not asked: it is about mapped columns, which this cluster cannot have.")
	} else if q.ask(&a); a.err != nil {
		return fmt.Errorf("%s: %w", q.name, a.err)
	}
	e.report.Questions = append(e.report.Questions, a.doctorQuestion)
	return nil
}

// tableName returns the SQL name of a table in the scratch schema.
func (e *examination) tableName(name string) string { return e.schema + "." + name }

// createSchema creates the scratch schema and the table that most questions use.
func (e *examination) createSchema(ctx context.Context) error {
	e.schemaMayExist = true // the answer may be lost
	err := e.mainConn.execute(ctx, "CREATE SCHEMA "+e.schema)
	if refused, ok := err.(*serverError); ok {
		e.schemaMayExist = false
		switch refused.code {
		case "54000":
			return fmt.Errorf("no schema can be made for the questions: %w\n  a cluster takes ten schemas; drop one that is not needed, and try again", err)
		case "42501":
			return fmt.Errorf("no schema can be made for the questions: %w\n  backend.user: %q: the role has no right to; set backend.user to admin, or let admin run GRANT CREATE ON DATABASE %s TO %s",
				err, e.config.Backend.User, e.config.Backend.Database, quoteIdentifier(e.config.Backend.User))
		}
		return fmt.Errorf("no schema can be made for the questions: %w", err)
	}
	if err != nil {
		e.creationUnknown = e.mainConn.lost
		return err
	}
	if err := e.mainConn.execute(ctx, "CREATE TABLE "+e.tableName("keyed")+" (a int, digits text, n int, PRIMARY KEY (a, digits))"); err != nil {
		return fmt.Errorf("no table can be made for the questions: %w", err)
	}
	rows := ""
	for i := range 64 {
		rows += fmt.Sprintf(", (%d, '%02x', %d)", i/8, i, i)
	}
	if err := e.mainConn.execute(ctx, "INSERT INTO "+e.tableName("keyed")+" VALUES "+rows[2:]); err != nil {
		return fmt.Errorf("no rows can be written for the questions: %w", err)
	}
	return nil
}

// removeSchema removes the scratch schema, on the current connection or on a new one. removeSchema reports a schema
// that remains.
func (e *examination) removeSchema() {
	if !e.schemaMayExist {
		return
	}
	// The clean-up has a new context, because a signal ends the questions and not the clean-up.
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	e.secondConn.close() // its transaction would block the DROP
	e.secondConn = nil
	drop := "DROP SCHEMA IF EXISTS " + e.schema + " CASCADE"
	err := errors.New("the connection is lost")
	if !e.mainConn.lost {
		_ = e.mainConn.execute(ctx, "ROLLBACK") // fails outside a transaction
		err = e.mainConn.execute(ctx, drop)
	}
	if e.mainConn.lost {
		e.mainConn.close()
		if e.mainConn, err = e.connect(ctx); err == nil {
			late := e.creationUnknown && !e.schemaAppears(ctx)
			if err = e.mainConn.execute(ctx, drop); err == nil && late {
				err = errors.New("the cluster may make the schema yet")
			}
		}
	}
	if refused, ok := err.(*serverError); ok && refused.code == "0A000" {
		err = e.removeTableByTable(ctx)
	}
	if err != nil {
		e.report.LeftBehind = append(e.report.LeftBehind, drop+";")
	}
}

// schemaAppears waits up to lateSchemaWait for the scratch schema, and reports whether it exists. A cluster may
// continue a CREATE SCHEMA after its client has left.
func (e *examination) schemaAppears(ctx context.Context) bool {
	for end := time.Now().Add(lateSchemaWait); ; time.Sleep(lateSchemaWait / 20) {
		n, err := e.mainConn.queryValue(ctx, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = '"+e.schema+"'")
		if err != nil || n == "1" || time.Now().After(end) {
			return n == "1"
		}
	}
}

// removeTableByTable removes the scratch schema table by table.
func (e *examination) removeTableByTable(ctx context.Context) error {
	tables, err := e.mainConn.queryRows(ctx, "SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"+
		" WHERE c.relkind = 'r' AND n.nspname = '"+e.schema+"'")
	for _, table := range tables {
		if err == nil {
			err = e.mainConn.execute(ctx, "DROP TABLE "+e.tableName(table))
		}
	}
	if err == nil {
		err = e.mainConn.execute(ctx, "DROP SCHEMA "+e.schema)
	}
	return err
}

// recordSetting records in the report the value of a configuration key that fits the cluster.
func (e *examination) recordSetting(key, value string) {
	k := config.KeyByName(key)
	configured := k.PlainText(e.config.EffectiveValue(k))
	e.report.Settings = append(e.report.Settings, doctorSetting{key, value, configured})
}

// queryConn is a connection of doctor to the cluster for simple queries.
type queryConn struct {
	conn *reservoir.Conn
	lost bool
}

// close closes the connection, unless the queryConn is nil.
func (a *queryConn) close() {
	if a == nil {
		return
	}
	_, _ = a.conn.Net.Write([]byte{'X', 0, 0, 0, 4}) // Terminate; its error does not matter
	_ = a.conn.Net.Close()
}

// errInterrupted reports that a signal has ended the questions.
var errInterrupted = errors.New("interrupted")

// queryRows runs a query and returns the first value of each row. A *serverError is the server's answer. After any
// other error the connection is lost, or nothing was sent. After a signal a running statement gets signalGrace, so that
// its answer is known.
func (a *queryConn) queryRows(ctx context.Context, sql string) (rows []string, err error) {
	return a.requestRows(ctx, appendFrame(nil, 'Q', sql+"\x00"), false)
}

// requestRows sends a request and returns the first value of each row of the answer, as queryRows does for a query.
// request and flushed have the same meaning as in sendAndReceive.
func (a *queryConn) requestRows(ctx context.Context, request []byte, flushed bool) (rows []string, err error) {
	if err := a.conn.Net.SetDeadline(time.Now().Add(statementTimeout)); err != nil {
		a.lost = true
		return nil, err
	}
	hurry := context.AfterFunc(ctx, func() { _ = a.conn.Net.SetDeadline(time.Now().Add(signalGrace)) })
	defer hurry()
	if ctx.Err() != nil {
		return nil, errInterrupted
	}
	err = sendAndReceive(a.conn.Net, request, flushed, func(first string) { rows = append(rows, first) })
	if _, answered := err.(*serverError); err != nil && !answered {
		a.lost = true
		return rows, fmt.Errorf("the connection was lost: %w", err)
	}
	return rows, err
}

// maxTries bounds the attempts of a statement that meets a conflict, mostly with an earlier change
// of the schema.
const maxTries = 5

// execute runs a statement in its own transaction.
func (a *queryConn) execute(ctx context.Context, sql string) error {
	for try := 1; ; try++ {
		_, err := a.queryRows(ctx, sql)
		if refused, ok := err.(*serverError); !ok || refused.code != "40001" || try == maxTries {
			return err
		}
	}
}

// queryValue runs a statement in its own transaction and returns the first value of its first row.
func (a *queryConn) queryValue(ctx context.Context, sql string) (string, error) {
	for try := 1; ; try++ {
		rows, err := a.queryRows(ctx, sql)
		if refused, ok := err.(*serverError); ok && refused.code == "40001" && try < maxTries {
			continue
		}
		return slices.Concat(rows, []string{""})[0], err
	}
}
