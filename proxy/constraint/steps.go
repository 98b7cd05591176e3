package constraint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Server is the backend of a session that waits for nothing else. An error that Refused knows is
// the server's, behind which it is idle; any other one ends the work.
type Server interface {
	// Ask sends a statement, which commits at once, and gives its rows to row, which may be nil;
	// NULL is "".
	Ask(sql string, row func(values []string)) error
	// Refused is the server's error; nil for none, and for any other.
	Refused(err error) *wire.Error
	// Pause waits, and More says whether the work may go on: a cancel, a timeout and the client's
	// end are errors.
	Pause(time.Duration) error
	More() error
	// Batches sends UPDATEs of a table, each of so many rows in the order of its key, as update
	// makes them, until none is left, and returns how many there were.
	Batches(table string, update func(key []string, rows int) string) (int, error)
	// Undone reports an error behind which the server is there, and has done nothing of the
	// statement that was asked: the server's own, or that of a pause. Heed has the cause of such
	// an error, a cancel for one, not end what is asked next.
	Undone(err error) bool
	Heed(err error)
}

// Work is a statement that adds constraints, and is being carried out.
type Work struct {
	*rewrite.Constraints
	Notices            [][]byte // for the client, in front of the tag
	server             Server
	oid, schema, table string // of the table
	made               []thing
	found              []thing  // not of this statement, and not valid
	undecided          bool     // a job may still be at work for what was made
	own                bool     // all names are Sluice's own
	promised           []string // names that constraints of this statement are to have
}

// thing is what a statement has made, with what takes it back.
type thing struct {
	what, undo string
	column     string // "" for a constraint or index
}

// New is the work of a statement.
func New(server Server, st *rewrite.Constraints) *Work {
	return &Work{server: server, Constraints: st}
}

// Run has the server carry the statement out, or does it in steps where the server refuses.
func (c *Work) Run() error {
	err := c.server.Ask(c.Text, nil)
	told := c.server.Refused(err)
	switch {
	case err == nil && len(c.Freed) > 0:
		return c.free()
	case told == nil || told.Code != retry.StateUnsupported:
		return err
	}
	return c.carry(told)
}

// Carry does it in steps, without the statement.
func (c *Work) Carry() error {
	return c.carry(&wire.Error{Code: retry.StateUnsupported, Message: "constraints are added to tables only"})
}

// carry does it in steps, where the server has refused it.
func (c *Work) carry(told *wire.Error) error {
	there, err := c.look(told)
	if err != nil || !there {
		return err
	}
	if err = c.steps(); err != nil {
		return c.takeBack(err)
	}
	return nil
}

// look learns which table it is. false: there is none, and IF EXISTS says that this is well.
func (c *Work) look(told *wire.Error) (there bool, err error) {
	name := literal(c.Table) + "::pg_catalog.regclass"
	if c.IfExists {
		name = "pg_catalog.to_regclass(" + literal(c.Table) + ")"
	}
	kind := ""
	err = c.server.Ask(`SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = `+name,
		func(v []string) {
			if len(v) == 4 {
				c.oid, c.schema, c.table, kind = v[0], v[1], v[2], v[3]
			}
		})
	switch {
	case err != nil:
		return false, err
	case kind == "" && c.IfExists:
		missing := &wire.Error{Code: "00000", Message: fmt.Sprintf("relation \"%s\" does not exist, skipping", c.Relation)}
		c.Notices = append(c.Notices, missing.AppendNotice(nil, "NOTICE"))
		return false, nil
	case kind != "r":
		return false, told
	}
	return true, nil
}

// steps adds columns, then constraints, and then has rows looked at: for CHECKs first, as
// PostgreSQL does, whose error the first of several is. Between two a cancel, a timeout and the
// client's end are heeded.
func (c *Work) steps() error {
	for _, column := range c.Columns {
		if err := c.make(column.Add, thing{what: fmt.Sprintf("column \"%s\"", column.Name), undo: column.Drop, column: column.Name}); err != nil {
			return err
		}
	}
	var doubtful [2][]*spot // of CHECK, and of FOREIGN KEY
	for i := range c.Adds {
		if err := c.server.More(); err != nil {
			return err
		}
		a := &c.Adds[i]
		at, err := c.add(a)
		switch {
		case err != nil:
			return err
		case at.done || a.Kind == rewrite.Unique:
		case a.Kind == rewrite.ForeignKey:
			doubtful[1] = append(doubtful[1], &at)
		default:
			doubtful[0] = append(doubtful[0], &at)
		}
	}
	for _, at := range slices.Concat(doubtful[0], doubtful[1]) {
		if err := c.server.More(); err != nil {
			return err
		}
		if err := c.validate(at); err != nil {
			return err
		}
	}
	if c.Keys {
		for _, at := range doubtful[1] {
			if err := c.tellNarrow(at.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// make sends a statement that makes something. It is noted before: where the connection is
// lost, nobody knows.
func (c *Work) make(sql string, t thing) error {
	c.made = append(c.made, t)
	err := c.server.Ask(sql, nil)
	if err != nil && c.server.Undone(err) {
		c.made = c.made[:len(c.made)-1]
	}
	return err
}

// add adds one constraint, which for a FOREIGN KEY or CHECK is not validated yet. Where its name
// was free, and is taken by the time that something is made under it, or what was found there is gone, what is there
// is looked at once more.
func (c *Work) add(a *rewrite.Addition) (spot, error) {
	for tries := 0; ; tries++ {
		at, err := c.spotOf(a)
		switch {
		case err != nil || at.done:
			return at, err
		case a.Kind == rewrite.Unique:
			err = c.unique(a, &at)
		case at.there:
			c.found = append(c.found, at.doubtful())
		default:
			err = c.make(a.NotValid(at.under), at.doubtful())
		}
		told := c.server.Refused(err)
		taken := told != nil && (told.Code == takenRelation || told.Code == takenName) && (c.own || at.under != at.name)
		if told == nil || tries == mostLooks || !taken && !c.gone(err) {
			c.promised = append(c.promised, at.name)
			if told != nil {
				return at, at.inItsName(told)
			}
			return at, err
		}
		index := at.index(c.schema)
		c.found, c.made = without(c.found, index), without(c.made, index)
	}
}

// mostLooks is how often what is there is looked at once more.
const mostLooks = 3

// doubtful is a constraint that is not validated, or has not its own name.
func (at *spot) doubtful() thing {
	return thing{what: fmt.Sprintf("constraint \"%s\", not validated", at.under), undo: at.add.Drop(at.under)}
}

// valid is a constraint that is.
func (at *spot) valid() thing {
	return thing{what: fmt.Sprintf("constraint \"%s\"", at.name), undo: at.add.Drop(at.name)}
}

// index is the index of a UNIQUE constraint that is none yet.
func (at *spot) index(schema string) thing {
	return thing{what: fmt.Sprintf("index \"%s\"", at.under), undo: at.add.DropIndex(schema, at.under)}
}

// validate has the rows looked at, and gives the constraint its name. One that another client has brought to its end, or
// has taken back, is added once more.
func (c *Work) validate(at *spot) error {
	for tries := 0; ; tries++ {
		err := c.looksAtRows(at)
		if err == nil {
			err = c.arrive(at)
		}
		if err == nil {
			break
		}
		if !c.gone(err) || tries == mostLooks {
			if told := c.server.Refused(err); told != nil {
				return at.inItsName(told)
			}
			return err
		}
		c.found, c.made = without(c.found, at.doubtful()), without(c.made, at.doubtful())
		c.promised = slices.DeleteFunc(c.promised, func(name string) bool { return name == at.name })
		again, err := c.add(at.add)
		if err != nil || again.done {
			return err
		}
		*at = again
	}
	c.found, c.made = without(c.found, at.doubtful()), without(c.made, at.doubtful())
	if !slices.Contains(c.made, at.valid()) {
		c.made = append(c.made, at.valid())
	}
	if at.add.Kind == rewrite.NotNull {
		c.warnOfNotNull(at.add, at.name)
	}
	return nil
}

// looksAtRows has the rows looked at.
func (c *Work) looksAtRows(at *spot) error {
	end, err := c.job(at.add.Validate(at.under))
	if err != nil {
		return err
	}
	valid, err := c.decided(at.name, end, fmt.Sprintf(`SELECT convalidated FROM pg_catalog.pg_constraint WHERE conrelid = %s AND conname = %s`, c.oid, literal(at.under)),
		func() error { return c.violated(at, end) })
	if err == nil && !valid {
		err = c.violated(at, end)
	}
	return err
}

// without are things but for one.
func without(things []thing, t thing) []thing {
	return slices.DeleteFunc(things, func(other thing) bool { return other == t })
}

// takeBack drops what this statement has made, the last first, and returns why it failed; or the
// loss of the server meanwhile. What cannot be dropped stays in made. A column in which there
// are values by now is left: they are somebody's.
func (c *Work) takeBack(why error) error {
	if !c.server.Undone(why) || c.undecided {
		return why
	}
	c.server.Heed(why)
	for i := len(c.made) - 1; i >= 0; i-- {
		t := c.made[i]
		err := error(nil)
		left := false
		if t.column != "" {
			left, err = c.holdsValues(t.column)
		}
		if err == nil && !left {
			err = c.server.Ask(t.undo, nil)
		}
		told := c.server.Refused(err)
		switch {
		case err == nil && !left, told != nil && slices.Contains(notThere, told.Code):
			c.made = slices.Delete(c.made, i, i+1)
		case err != nil && !c.server.Undone(err):
			return err
		}
	}
	return why
}

// SQLSTATEs of an outcome that nobody knows, and of names that are there, or not.
const (
	unknownOutcome  = "08007"
	undefinedColumn = "42703"
	undefinedObject = "42704"
	takenRelation   = "42P07"
	takenName       = "42710"
)

// notThere are the SQLSTATEs of what is not there to be dropped.
var notThere = []string{undefinedObject, undefinedColumn, "42P01"}

// holdsValues reports whether a column holds a value in some row.
func (c *Work) holdsValues(column string) (any bool, err error) {
	err = c.server.Ask(fmt.Sprintf("SELECT 1 FROM %s WHERE %s IS NOT NULL LIMIT 1", c.Table, quoted(column)), func([]string) { any = true })
	return any, err
}

// Partly adds to an error what stands all the same.
func (c *Work) Partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || len(c.made)+len(c.found) == 0 {
		return err
	}
	var what, undo []string
	for _, t := range slices.Backward(slices.Concat(c.found, c.made)) {
		what, undo = append(what, t.what), append(undo, t.undo)
	}
	verb := "stands"
	if told.Code == unknownOutcome {
		verb = "may stand"
	}
	with := *told
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s Of what the statement adds there %s: %s.", told.Detail, verb, strings.Join(what, "; ")))
	with.Hint = "If it is not valid yet (pg_constraint, pg_index), send the statement again: it goes on from there. Or give it up: " + strings.Join(undo, "; ") + "."
	if len(c.Freed) > 0 {
		with.Hint = "NOT NULL is dropped, and this stands for it: " + strings.Join(undo, "; ") + "."
	} else if len(c.Columns)+len(c.Adds) > 1 { // what is done would be added once more
		with.Hint = "Take it back, and send the statement again: " + strings.Join(undo, "; ") + "."
	}
	return &with
}

// warnOfNotNull tells what holds a column to NOT NULL.
func (c *Work) warnOfNotNull(a *rewrite.Addition, name string) {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is held to NOT NULL by the constraint \"%s\"", a.Keys[0], name),
		Detail: "DSQL refuses SET NOT NULL. The error of a NULL is that of a CHECK (23514), and the catalog shows the column as nullable.",
		Hint:   "DROP NOT NULL, sent alone outside of a transaction, takes it away; so does " + a.Drop(name) + "."}
	c.Notices = append(c.Notices, warning.AppendNotice(nil, "WARNING"))
}

// literal is a text as SQL has it, where standard_conforming_strings is on.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// quoted is a name as SQL.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
