package proxy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// CREATE DATABASE and DROP DATABASE of a name that maps to a schema (schemaname.go). Sluice creates or drops the
// schema on the session's backend, each statement in a transaction of its own. perform (local.go) calls
// changeDatabase.

// databaseRefused refuses the statement in a multi-statement query, which is a transaction.
func databaseRefused(_ *division, st *rewrite.Statement) place {
	return place{err: errDatabaseInBlock(st)}
}

// errDatabaseInBlock is PostgreSQL's error for the statement inside a transaction.
func errDatabaseInBlock(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: "25001", Message: result.DatabaseTag(st) + " cannot run inside a transaction block"}
}

// errDatabaseInPipeline is PostgreSQL's error for the statement behind others in its pipeline.
func errDatabaseInPipeline(st *rewrite.Statement) *wire.Error {
	return &wire.Error{Code: "25001", Message: result.DatabaseTag(st) + " cannot be executed within a pipeline"}
}

// changeDatabase creates or drops the schema of a statement. It returns the notices that precede the tag. Afterwards
// the session is outside any transaction. An error is for the client, or ends the session.
func (s *session) changeDatabase(st *rewrite.Statement) (notices [][]byte, err error) {
	c := schemaDDL{s: s, Database: st.Database}
	switch {
	case s.inBlock():
		return nil, errDatabaseInBlock(st)
	case s.t.touched, s.t.executed, s.t.ranLocal:
		return nil, errDatabaseInPipeline(st)
	}
	s.startWaiting()
	if c.Drop { // without a backend, since the other sessions may need one to end
		if err := c.unused(); err != nil {
			return nil, err
		}
	}
	s.tx.operation, s.tx.writes = st.Operation, true
	if err := s.ensureBackend(); err != nil {
		return nil, err
	}
	if c.Drop {
		err = c.drop()
	} else {
		err = c.create()
	}
	s.srv.catalog.flush()
	return c.notices, s.settleOwn(err, c.partly)
}

// schemaDDL is a running CREATE DATABASE or DROP DATABASE. Its turn has a backend and has sent nothing else to it.
// Its methods return four kinds of errors: a server's refusal, after which the backend is idle; one that stops the
// turn (stops); errClientGone; a *lostError.
type schemaDDL struct {
	*rewrite.Database
	s       *session
	notices [][]byte
	dropped int // objects of the schema
}

// partly adds to an error how many objects a failed DROP DATABASE has dropped.
func (c *schemaDDL) partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || c.dropped == 0 || told.Detail != "" {
		return err
	}
	with := *told
	with.Detail = fmt.Sprintf("%d objects of the database are dropped, and stay so.", c.dropped)
	return &with
}

// Pauses between tries. The first are short, for the small tables of tests and tools.
const (
	jobPauseFirst = 20 * time.Millisecond
	jobPauseMost  = time.Second
)

// run sends one statement, which commits at once, and calls row for its rows. It repeats the statement after a
// conflict over the catalog.
func (c *schemaDDL) run(sql string, row func(payload []byte)) error {
	s, query := c.s, wire.AppendStrings(nil, wire.Query, sql)
	if row == nil {
		row = func([]byte) {}
	}
	pause := jobPauseFirst
	for try := 1; ; try++ {
		if err := s.promiseDDL(); err != nil {
			return err
		}
		var refusal []byte
		err := s.asking(func(b *backend) (err error) {
			refusal, err = b.exchangeAll(query, row, s.srv.cfg.SilenceTimeout, s.t.deadline, c.wanted)
			return err
		})
		switch {
		case stops(err), err == errClientGone:
			return err
		case err != nil:
			return &lostError{err: err}
		case refusal == nil:
			return nil
		}
		told := toldBy(refusal)
		if told.Code != retry.StateConflict || try == mostCatalogTries {
			return told
		}
		if err := s.pause(pause); err != nil {
			return err
		}
		pause = min(2*pause, jobPauseMost)
	}
}

// wanted returns why the statement must stop, or nil.
func (c *schemaDDL) wanted() error {
	if err := c.s.stopped(); err != nil {
		return err
	}
	if c.s.hasLeft() {
		return errClientGone
	}
	return nil
}

// refused returns err if it is a server's refusal, else nil.
func refused(err error) *wire.Error {
	told, ok := err.(*wire.Error)
	if !ok || stops(err) {
		return nil
	}
	return told
}

func (c *schemaDDL) create() error {
	err := c.run("CREATE SCHEMA "+quoted(c.Schema), nil)
	switch told := refused(err); {
	case told == nil:
	case told.Code == "42P06":
		return &wire.Error{Code: "42P04", Message: fmt.Sprintf("database \"%s\" already exists", c.Name)}
	case told.Code == "54000" && told.Hint == "":
		told.Hint = "A database is a schema here (listen.databases), and a cluster takes ten, public among them. Drop a database that is not needed."
	}
	return err
}

// quoted returns a name as a quoted SQL identifier.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// drop drops the schema and its objects: with one statement, or on DSQL object by object, because a DSQL transaction
// allows one DDL statement.
func (c *schemaDDL) drop() error {
	there := false
	if err := c.run("SELECT 1"+fromSchema(c.Schema), func([]byte) { there = true }); err != nil {
		return err
	}
	if !there {
		missing := errNoDatabase(c.Name)
		if !c.IfExists {
			return missing
		}
		missing.Code, missing.Message = "00000", missing.Message+", skipping"
		c.notices = append(c.notices, missing.AppendNotice(nil, "NOTICE"))
		return nil
	}
	if c.s.srv.cfg.Kind == Postgres {
		return c.run("DROP SCHEMA "+quoted(c.Schema)+" CASCADE", nil)
	}
	if err := c.dropObjects(); err != nil {
		return err
	}
	err := c.run("DROP SCHEMA "+quoted(c.Schema), nil)
	if told := refused(err); told != nil {
		return c.errStays(told, told.Message+". "+told.Detail)
	}
	return err
}

// mostWaitForSessions is how long DROP DATABASE waits for the sessions in the database to end. lookForSessions is how
// often it checks. Both are PostgreSQL's values.
const (
	mostWaitForSessions = 5 * time.Second
	lookForSessions     = 100 * time.Millisecond
)

// unused waits until no session of this process is in the database, as PostgreSQL does, and otherwise returns 55006.
// It does not see sessions of other processes.
func (c *schemaDDL) unused() error {
	if c.s.inSchema == c.Schema {
		return &wire.Error{Code: "55006", Message: "cannot drop the currently open database"}
	}
	for end := time.Now().Add(mostWaitForSessions); !c.Force; {
		n := c.sessions()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			detail := "There is 1 other session using the database."
			if n > 1 {
				detail = fmt.Sprintf("There are %d other sessions using the database.", n)
			}
			return &wire.Error{Code: "55006", Message: fmt.Sprintf("database \"%s\" is being accessed by other users", c.Name), Detail: detail}
		}
		if err := c.s.pause(lookForSessions); err != nil {
			return err
		}
	}
	return nil
}

// sessions counts the sessions whose database name maps to the schema.
func (c *schemaDDL) sessions() (n int) {
	c.s.srv.each(func(s *session) {
		if s.inSchema == c.Schema {
			n++
		}
	})
	return n
}

// object is something in a schema: the kind that DROP needs, the name, and a function's argument types in
// parentheses.
type object struct{ kind, name, arguments string }

// dropObjects drops the objects of a DSQL schema one by one. An object that others depend on is tried again until no
// more can be dropped. Then it drops the foreign keys of the rest once, because tables may refer to each other in a
// circle.
func (c *schemaDDL) dropObjects() error {
	for untied := false; ; {
		all, err := c.objects()
		if err != nil || len(all) == 0 {
			return err
		}
		var stay []string
		var why *wire.Error
		for _, o := range all {
			name := quoted(c.Schema) + "." + quoted(o.name) + o.arguments
			// An identity column's sequence is dropped with its table.
			err := c.run("DROP "+o.kind+" IF EXISTS "+name, nil)
			switch told := refused(err); {
			case err == nil:
				c.dropped++
			case told == nil:
				return err
			default:
				stay = append(stay, strings.ToLower(o.kind)+" "+name)
				why = cmp.Or(why, told)
			}
		}
		switch {
		case len(stay) < len(all):
		case untied:
			return c.errStays(why, listed(stay)+" stay: "+why.Message+".")
		default:
			if err := c.dropForeignKeys(); err != nil {
				return err
			}
			untied = true
		}
	}
}

// dropForeignKeys drops the foreign keys of the schema's tables, each in a transaction of its own. A refused one
// stays with its table, which dropObjects then reports. Foreign keys of tables in other schemas are not dropped.
func (c *schemaDDL) dropForeignKeys() error {
	var all []object // each a table; kind is the name of the constraint
	err := c.run(`SELECT k.conname, t.relname FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid = k.conrelid `+
		`WHERE k.contype = 'f' AND t.relnamespace = (SELECT n.oid`+fromSchema(c.Schema)+`) ORDER BY 2, 1`, func(row []byte) {
		if columns := columnsOf(row); len(columns) == 2 {
			all = append(all, object{kind: columns[0], name: columns[1]})
		}
	})
	for _, o := range all {
		if err == nil {
			err = c.run("ALTER TABLE "+quoted(c.Schema)+"."+quoted(o.name)+" DROP CONSTRAINT "+quoted(o.kind), nil)
		}
		if refused(err) != nil {
			err = nil
		}
	}
	return err
}

// objects returns the views, functions, tables, sequences and domains of the schema, in the order in which they are
// dropped.
func (c *schemaDDL) objects() (all []object, err error) {
	const kinds = `SELECT k.kind, k.name, k.arguments FROM (` +
		`SELECT c.relnamespace AS schema, CASE c.relkind WHEN 'v' THEN 1 WHEN 'S' THEN 4 ELSE 3 END AS place, ` +
		`CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.relname AS name, '' AS arguments ` +
		`FROM pg_catalog.pg_class c WHERE c.relkind IN ('v', 'r', 'S') ` +
		`UNION ALL SELECT f.pronamespace, 2, 'FUNCTION', f.proname, '(' || pg_catalog.pg_get_function_identity_arguments(f.oid) || ')' ` +
		`FROM pg_catalog.pg_proc f WHERE f.prokind = 'f' ` +
		`UNION ALL SELECT t.typnamespace, 5, 'DOMAIN', t.typname, '' FROM pg_catalog.pg_type t WHERE t.typtype = 'd') k ` +
		`WHERE k.schema = (SELECT n.oid`
	err = c.run(kinds+fromSchema(c.Schema)+`) ORDER BY k.place, k.name, k.arguments`, func(row []byte) {
		if columns := columnsOf(row); len(columns) == 3 {
			all = append(all, object{columns[0], columns[1], columns[2]})
		}
	})
	return all, err
}

// errStays is the error if an object could not be dropped; why is the server's first reason.
func (c *schemaDDL) errStays(why *wire.Error, detail string) *wire.Error {
	return &wire.Error{Code: why.Code, Message: fmt.Sprintf("database \"%s\" is not dropped: its schema still holds something", c.Name),
		Detail: fmt.Sprintf("%d objects of the database are dropped. ", c.dropped) + strings.TrimSpace(detail),
		Hint:   "Drop in the schema " + quoted(c.Schema) + " what stays, then the database again."}
}

// listed joins names for a sentence, with a count if there are many.
func listed(names []string) string {
	if n := len(names) - listing.Most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listing.Most], ", "), n)
	}
	return strings.Join(names, ", ")
}
