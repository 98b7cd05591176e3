package constraint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// Server is the backend of a session, idle between calls. After an error for which RefusalFrom returns the server's
// error, the backend is idle too. Any other error ends the statement.
type Server interface {
	// Ask sends a statement, which commits at once, and calls row with each row. row may be nil. A NULL is passed as "".
	Ask(sql string, row func(values []string)) error
	// RefusalFrom returns the server's error in err, or nil if err is another error.
	RefusalFrom(err error) *wire.Error
	// Pause waits. CheckMayContinue returns nil if the statement may continue. After a cancel, a timeout or the client's
	// end, Pause and CheckMayContinue return an error.
	Pause(time.Duration) error
	CheckMayContinue() error
	// UpdateInBatches sends UPDATEs of a table until no row is left, and returns the number of changed rows. update
	// returns an UPDATE of at most rows rows, in the order of the key's columns.
	UpdateInBatches(table string, update func(key []string, rows int) string) (int, error)
	// ChangedNothing reports whether the statement of this error has done nothing and the server can still be used. That
	// is so if the error is the server's own, or one of a pause. ConsumeCancel marks the cause of the error, for example
	// a cancel, as handled, so that it does not end the next statement.
	ChangedNothing(err error) bool
	ConsumeCancel(err error)
}

// LacksBatches reports whether a table has no primary key, and more rows than one transaction may change. Batches
// change rows in the order of the key. table is the table's name as SQL.
func LacksBatches(server Server, table string) (lacks bool, err error) {
	keyless := false
	err = server.Ask(`SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = `+quoteLiteral(table)+`::pg_catalog.regclass AND c.relkind = 'r' AND NOT EXISTS`+
		` (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p')`, func([]string) { keyless = true })
	if err == nil && keyless {
		err = server.Ask(`SELECT 1 FROM `+table+` LIMIT 1 OFFSET 3000`, func([]string) { lacks = true })
	}
	return lacks, err
}

// NoBatches is the DETAIL of a statement that changes all rows of a table for which LacksBatches is true.
const NoBatches = "The table has no primary key, by whose order Sluice changes rows in batches, and more rows than one transaction changes."

// ConstraintAdder is a running ALTER TABLE that adds constraints, if need be by several statements of Sluice.
type ConstraintAdder struct {
	*alter.AddedConstraints
	Notices            [][]byte // sent to the client before the tag
	server             Server
	oid, schema, table string // of the table
	made               []madeObject
	found              []madeObject // of earlier statements, and not valid
	undecided          bool         // a job of an object may still be running
	own                bool         // all names are Sluice's own
	promised           []string     // future names of this statement's constraints
}

// madeObject is an object that the statement creates, with the SQL that removes it.
type madeObject struct {
	what, undo string
	column     string // "" for a constraint or index
}

// NewConstraintAdder returns a ConstraintAdder that executes st.
func NewConstraintAdder(server Server, st *alter.AddedConstraints) *ConstraintAdder {
	return &ConstraintAdder{server: server, AddedConstraints: st}
}

// Run sends the ALTER TABLE to the server. If the server refuses it, Run performs it by several other statements.
func (c *ConstraintAdder) Run() error {
	err := c.server.Ask(c.Text, nil)
	told := c.server.RefusalFrom(err)
	switch {
	case err == nil && len(c.DroppedNotNull) > 0:
		return c.dropNotNullChecks()
	case told == nil || told.Code != retry.StateUnsupported:
		return err
	}
	return c.runInSteps(told)
}

// RunInSteps performs the ALTER TABLE by several statements, without sending the ALTER TABLE itself.
func (c *ConstraintAdder) RunInSteps() error {
	return c.runInSteps(&wire.Error{Code: retry.StateUnsupported, Message: "constraints are added to tables only"})
}

// runInSteps performs the ALTER TABLE in steps. told is the server's refusal of the statement.
func (c *ConstraintAdder) runInSteps(told *wire.Error) error {
	there, err := c.readTable(told)
	if err != nil || !there {
		return err
	}
	if err = c.runSteps(); err != nil {
		return c.dropMadeObjects(err)
	}
	return nil
}

// readTable reads the table from the catalog. readTable returns false if the table is missing and IF EXISTS allows
// that.
func (c *ConstraintAdder) readTable(told *wire.Error) (there bool, err error) {
	name := quoteLiteral(c.Table) + "::pg_catalog.regclass"
	if c.IfExists {
		name = "pg_catalog.to_regclass(" + quoteLiteral(c.Table) + ")"
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

// runSteps adds columns, then constraints, and then validates the constraints. CHECKs come first, because PostgreSQL
// reports their errors first. Between steps, runSteps checks for a cancel, a timeout and the client's end.
func (c *ConstraintAdder) runSteps() error {
	for _, column := range c.Columns {
		if err := c.createObject(column.Add, madeObject{what: fmt.Sprintf("column \"%s\"", column.Name), undo: column.Drop, column: column.Name}); err != nil {
			return err
		}
	}
	var doubtful [2][]*pendingConstraint // of CHECK, and of FOREIGN KEY
	for i := range c.Adds {
		if err := c.server.CheckMayContinue(); err != nil {
			return err
		}
		a := &c.Adds[i]
		at, err := c.addConstraint(a)
		switch {
		case err != nil:
			return err
		case at.done || a.Kind == alter.Unique:
		case a.Kind == alter.ForeignKey:
			doubtful[1] = append(doubtful[1], &at)
		default:
			doubtful[0] = append(doubtful[0], &at)
		}
	}
	for _, at := range slices.Concat(doubtful[0], doubtful[1]) {
		if err := c.server.CheckMayContinue(); err != nil {
			return err
		}
		if err := c.validateConstraint(at); err != nil {
			return err
		}
	}
	if c.Keys {
		for _, at := range doubtful[1] {
			if err := c.noticeNarrowColumns(at.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// createObject sends a statement that creates an object. The object is recorded first, because its existence is unknown
// after a lost connection.
func (c *ConstraintAdder) createObject(sql string, t madeObject) error {
	c.made = append(c.made, t)
	err := c.server.Ask(sql, nil)
	if err != nil && c.server.ChangedNothing(err) {
		c.made = c.made[:len(c.made)-1]
	}
	return err
}

// addConstraint adds one constraint. It does not validate a FOREIGN KEY or CHECK yet. If the server finds the chosen
// name taken, or an object that Sluice has found is gone, addConstraint starts again.
func (c *ConstraintAdder) addConstraint(a *alter.AddedConstraint) (pendingConstraint, error) {
	for tries := 0; ; tries++ {
		at, err := c.locateConstraint(a)
		switch {
		case err != nil || at.done:
			return at, err
		case a.Kind == alter.Unique:
			err = c.addUnique(a, &at)
		case at.there:
			c.found = append(c.found, at.unvalidatedObject())
		default:
			err = c.createObject(a.AddNotValidSQL(at.under), at.unvalidatedObject())
		}
		told := c.server.RefusalFrom(err)
		taken := told != nil && (told.Code == takenRelation || told.Code == takenName) && (c.own || at.under != at.name)
		if told == nil || tries == mostLooks || !taken && !c.isGone(err) {
			c.promised = append(c.promised, at.name)
			if told != nil {
				return at, at.withFinalName(told)
			}
			return at, err
		}
		index := at.indexObject(c.schema)
		c.found, c.made = removeObject(c.found, index), removeObject(c.made, index)
	}
}

// mostLooks bounds how often a constraint is looked up again after other clients changed it.
const mostLooks = 3

// unvalidatedObject returns, as a madeObject, a constraint that is not validated, or lacks its final name.
func (at *pendingConstraint) unvalidatedObject() madeObject {
	return madeObject{what: fmt.Sprintf("constraint \"%s\", not validated", at.under), undo: at.add.DropSQL(at.under)}
}

// validObject returns, as a madeObject, a valid constraint under its final name.
func (at *pendingConstraint) validObject() madeObject {
	return madeObject{what: fmt.Sprintf("constraint \"%s\"", at.name), undo: at.add.DropSQL(at.name)}
}

// indexObject returns, as a madeObject, the index of a future UNIQUE constraint.
func (at *pendingConstraint) indexObject(schema string) madeObject {
	return madeObject{what: fmt.Sprintf("index \"%s\"", at.under), undo: at.add.DropIndexSQL(schema, at.under)}
}

// validateConstraint validates the constraint and gives it its final name. If another client has renamed or dropped the
// constraint meanwhile, validateConstraint adds it again.
func (c *ConstraintAdder) validateConstraint(at *pendingConstraint) error {
	for tries := 0; ; tries++ {
		err := c.validateRows(at)
		if err == nil {
			err = c.renameToFinal(at)
		}
		if err == nil {
			break
		}
		if !c.isGone(err) || tries == mostLooks {
			if told := c.server.RefusalFrom(err); told != nil {
				return at.withFinalName(told)
			}
			return err
		}
		c.found, c.made = removeObject(c.found, at.unvalidatedObject()), removeObject(c.made, at.unvalidatedObject())
		c.promised = slices.DeleteFunc(c.promised, func(name string) bool { return name == at.name })
		again, err := c.addConstraint(at.add)
		if err != nil || again.done {
			return err
		}
		*at = again
	}
	c.found, c.made = removeObject(c.found, at.unvalidatedObject()), removeObject(c.made, at.unvalidatedObject())
	if !slices.Contains(c.made, at.validObject()) {
		c.made = append(c.made, at.validObject())
	}
	if at.add.Kind == alter.NotNull {
		c.warnOfNotNullCheck(at.add, at.name)
	}
	return nil
}

// validateRows has the server validate the constraint against the table's rows, by a job.
func (c *ConstraintAdder) validateRows(at *pendingConstraint) error {
	end, err := c.runJob(at.add.ValidateSQL(at.under))
	if err != nil {
		return err
	}
	valid, err := c.awaitJobResult(at.name, end, fmt.Sprintf(`SELECT convalidated FROM pg_catalog.pg_constraint WHERE conrelid = %s AND conname = %s`, c.oid, quoteLiteral(at.under)),
		func() error { return c.violationError(at, end) })
	if err == nil && !valid {
		err = c.violationError(at, end)
	}
	return err
}

// removeObject returns the objects of things without the object t.
func removeObject(things []madeObject, t madeObject) []madeObject {
	return slices.DeleteFunc(things, func(other madeObject) bool { return other == t })
}

// dropMadeObjects drops the objects that this statement has created, the last first. dropMadeObjects returns why, the
// reason that the statement failed, or the error of a lost server. Objects that cannot be dropped stay in made. A
// column with values stays, because the values belong to other clients.
func (c *ConstraintAdder) dropMadeObjects(why error) error {
	if !c.server.ChangedNothing(why) || c.undecided {
		return why
	}
	c.server.ConsumeCancel(why)
	for i := len(c.made) - 1; i >= 0; i-- {
		t := c.made[i]
		err := error(nil)
		left := false
		if t.column != "" {
			left, err = c.hasValues(t.column)
		}
		if err == nil && !left {
			err = c.server.Ask(t.undo, nil)
		}
		told := c.server.RefusalFrom(err)
		switch {
		case err == nil && !left, told != nil && slices.Contains(notThere, told.Code):
			c.made = slices.Delete(c.made, i, i+1)
		case err != nil && !c.server.ChangedNothing(err):
			return err
		}
	}
	return why
}

// These are SQLSTATEs of an unknown outcome, and of existing or missing names.
const (
	unknownOutcome  = "08007"
	undefinedColumn = "42703"
	undefinedObject = "42704"
	takenRelation   = "42P07"
	takenName       = "42710"
)

// notThere are the SQLSTATEs with which the server refuses to DROP an object because the object is missing.
var notThere = []string{undefinedObject, undefinedColumn, "42P01"}

// hasValues reports whether a column has a value other than NULL in any row.
func (c *ConstraintAdder) hasValues(column string) (any bool, err error) {
	err = c.server.Ask(fmt.Sprintf("SELECT 1 FROM %s WHERE %s IS NOT NULL LIMIT 1", c.Table, quoteIdent(column)), func([]string) { any = true })
	return any, err
}

// WithPartialResult adds to an error the objects that the failed statement has left, and the statements that remove
// them.
func (c *ConstraintAdder) WithPartialResult(err error) error {
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
	if len(c.DroppedNotNull) > 0 {
		with.Hint = "NOT NULL is dropped, and this stands for it: " + strings.Join(undo, "; ") + "."
	} else if len(c.Columns)+len(c.Adds) > 1 { // otherwise finished parts would be added again
		with.Hint = "Take it back, and send the statement again: " + strings.Join(undo, "; ") + "."
	}
	return &with
}

// warnOfNotNullCheck warns the client that a CHECK replaces NOT NULL.
func (c *ConstraintAdder) warnOfNotNullCheck(a *alter.AddedConstraint, name string) {
	warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is held to NOT NULL by the constraint \"%s\"", a.Keys[0], name),
		Detail: "DSQL refuses SET NOT NULL. The error of a NULL is that of a CHECK (23514), and the catalog shows the column as nullable.",
		Hint:   "DROP NOT NULL, sent alone outside of a transaction, takes it away; so does " + a.DropSQL(name) + "."}
	c.Notices = append(c.Notices, warning.AppendNotice(nil, "WARNING"))
}

// quoteLiteral returns a text as an SQL constant, for sessions with standard_conforming_strings on.
func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// quoteIdent returns a name as a quoted SQL identifier.
func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
