package ddl

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file has CREATE DATABASE and DROP DATABASE of a name that maps to a schema: Sluice creates or drops the schema.

// Database is a running CREATE DATABASE or DROP DATABASE. Unused is called without a backend, Run with one.
type Database struct {
	*rewrite.DatabaseChange
	// Server is the session's backend.
	Server DatabaseServer
	// Cascades means that one DROP SCHEMA ... CASCADE drops the schema with its objects. If Cascades is not set, each
	// object is dropped by itself, since a DSQL transaction allows one DDL statement.
	Cascades bool
	// Current is the schema of the database to which the session is connected.
	Current string
	// Sessions returns the number of sessions whose database name maps to the schema.
	Sessions func() int
	// Notices are the frames that the client gets before the tag. Run sets Notices.
	Notices [][]byte

	dropped int // objects of the schema
}

// DatabaseServer is the backend of a session, idle between calls. After an error for which RefusalFrom returns the
// server's error, the backend is idle. Any other error ends the statement.
type DatabaseServer interface {
	// Ask sends a statement, which commits at once, and calls row with each row of the result. row may be nil. Ask
	// repeats the statement after a conflict over the catalog. A cancel, a timeout or the client's end stops Ask at any
	// time.
	Ask(sql string, row func(values []string)) error
	// RefusalFrom returns the server's error in err, or nil if err is another error.
	RefusalFrom(err error) *wire.Error
	// Pause waits for d. Its error is a cancel, a timeout, or the end of a drain.
	Pause(d time.Duration) error
}

// Run creates or drops the schema.
func (c *Database) Run() error {
	if c.Drop {
		return c.drop()
	}
	return c.create()
}

// WithPartialResult adds to an error how many objects a failed DROP DATABASE has dropped.
func (c *Database) WithPartialResult(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || c.dropped == 0 || told.Detail != "" {
		return err
	}
	with := *told
	with.Detail = fmt.Sprintf("%d objects of the database are dropped, and stay so.", c.dropped)
	return &with
}

func (c *Database) create() error {
	err := c.Server.Ask("CREATE SCHEMA "+parse.QuoteIdent(c.Schema), nil)
	switch told := c.Server.RefusalFrom(err); {
	case told == nil:
	case told.Code == "42P06":
		return &wire.Error{Code: "42P04", Message: fmt.Sprintf("database \"%s\" already exists", c.Name)}
	case told.Code == "54000" && told.Hint == "":
		told.Hint = "A database is a schema here (listen.databases), and a cluster takes ten, public among them. Drop a database that is not needed."
	}
	return err
}

// drop drops the schema and its objects: with one statement, or on DSQL object by object, because a DSQL transaction
// allows one DDL statement.
func (c *Database) drop() error {
	there := false
	if err := c.Server.Ask("SELECT 1"+fromSchema(c.Schema), func([]string) { there = true }); err != nil {
		return err
	}
	if !there {
		missing := &wire.Error{Code: "3D000", Message: fmt.Sprintf("database \"%s\" does not exist", c.Name)}
		if !c.IfExists {
			return missing
		}
		missing.Code, missing.Message = "00000", missing.Message+", skipping"
		c.Notices = append(c.Notices, missing.AppendNotice(nil, "NOTICE"))
		return nil
	}
	if c.Cascades {
		return c.Server.Ask("DROP SCHEMA "+parse.QuoteIdent(c.Schema)+" CASCADE", nil)
	}
	if err := c.dropObjects(); err != nil {
		return err
	}
	err := c.Server.Ask("DROP SCHEMA "+parse.QuoteIdent(c.Schema), nil)
	if told := c.Server.RefusalFrom(err); told != nil {
		return c.errStays(told, told.Message+". "+told.Detail)
	}
	return err
}

// mostWaitForSessions is how long DROP DATABASE waits for the sessions in the database to end. lookForSessions is the
// pause between two checks. The values are PostgreSQL's.
const (
	mostWaitForSessions = 5 * time.Second
	lookForSessions     = 100 * time.Millisecond
)

// Unused waits until no session of this process is in the database. As in PostgreSQL, it returns 55006 if that takes
// too long (mostWaitForSessions). Unused does not see sessions of other processes.
func (c *Database) Unused() error {
	if c.Current == c.Schema {
		return &wire.Error{Code: "55006", Message: "cannot drop the currently open database"}
	}
	for end := time.Now().Add(mostWaitForSessions); !c.Force; {
		n := c.Sessions()
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
		if err := c.Server.Pause(lookForSessions); err != nil {
			return err
		}
	}
	return nil
}

// object is something in a schema: the kind that DROP needs, the name, and a function's argument types in
// parentheses.
type object struct{ kind, name, arguments string }

// dropObjects drops the objects of a DSQL schema one by one. An object that others depend on is tried again until no
// more objects can be dropped. Then dropObjects drops the foreign keys of the remaining tables once, because tables may
// refer to each other in a circle.
func (c *Database) dropObjects() error {
	for untied := false; ; {
		all, err := c.objects()
		if err != nil || len(all) == 0 {
			return err
		}
		var stay []string
		var why *wire.Error
		for _, o := range all {
			name := parse.QuoteIdent(c.Schema) + "." + parse.QuoteIdent(o.name) + o.arguments
			// An identity column's sequence is dropped with its table.
			err := c.Server.Ask("DROP "+o.kind+" IF EXISTS "+name, nil)
			switch told := c.Server.RefusalFrom(err); {
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

// dropForeignKeys drops the foreign keys of the schema's tables, each in one transaction. A foreign key whose drop is
// refused stays with its table, which dropObjects then reports. Foreign keys of tables in other schemas are not
// dropped.
func (c *Database) dropForeignKeys() error {
	var all []object // each a table; kind is the name of the constraint
	err := c.Server.Ask(`SELECT k.conname, t.relname FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class t ON t.oid = k.conrelid `+
		`WHERE k.contype = 'f' AND t.relnamespace = (SELECT n.oid`+fromSchema(c.Schema)+`) ORDER BY 2, 1`, func(columns []string) {
		if len(columns) == 2 {
			all = append(all, object{kind: columns[0], name: columns[1]})
		}
	})
	for _, o := range all {
		if err == nil {
			err = c.Server.Ask("ALTER TABLE "+parse.QuoteIdent(c.Schema)+"."+parse.QuoteIdent(o.name)+" DROP CONSTRAINT "+parse.QuoteIdent(o.kind), nil)
		}
		if c.Server.RefusalFrom(err) != nil {
			err = nil
		}
	}
	return err
}

// objects returns the views, functions, tables, sequences and domains of the schema, in the order in which they are
// dropped.
func (c *Database) objects() (all []object, err error) {
	const kinds = `SELECT k.kind, k.name, k.arguments FROM (` +
		`SELECT c.relnamespace AS schema, CASE c.relkind WHEN 'v' THEN 1 WHEN 'S' THEN 4 ELSE 3 END AS place, ` +
		`CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.relname AS name, '' AS arguments ` +
		`FROM pg_catalog.pg_class c WHERE c.relkind IN ('v', 'r', 'S') ` +
		`UNION ALL SELECT f.pronamespace, 2, 'FUNCTION', f.proname, '(' || pg_catalog.pg_get_function_identity_arguments(f.oid) || ')' ` +
		`FROM pg_catalog.pg_proc f WHERE f.prokind = 'f' ` +
		`UNION ALL SELECT t.typnamespace, 5, 'DOMAIN', t.typname, '' FROM pg_catalog.pg_type t WHERE t.typtype = 'd') k ` +
		`WHERE k.schema = (SELECT n.oid`
	err = c.Server.Ask(kinds+fromSchema(c.Schema)+`) ORDER BY k.place, k.name, k.arguments`, func(columns []string) {
		if len(columns) == 3 {
			all = append(all, object{columns[0], columns[1], columns[2]})
		}
	})
	return all, err
}

// fromSchema returns the FROM and WHERE of a query about a schema, with alias n.
func fromSchema(schema string) string {
	return " FROM pg_catalog.pg_namespace n WHERE n.nspname = " + parse.QuoteLiteral(schema)
}

// errStays returns the error for an object that could not be dropped. why is the server's first reason.
func (c *Database) errStays(why *wire.Error, detail string) *wire.Error {
	return &wire.Error{Code: why.Code, Message: fmt.Sprintf("database \"%s\" is not dropped: its schema still holds something", c.Name),
		Detail: fmt.Sprintf("%d objects of the database are dropped. ", c.dropped) + strings.TrimSpace(detail),
		Hint:   "Drop in the schema " + parse.QuoteIdent(c.Schema) + " what stays, then the database again."}
}

// listed joins names for a sentence, with a count if there are many.
func listed(names []string) string {
	if n := len(names) - listing.MaxNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listing.MaxNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}
