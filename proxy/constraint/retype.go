package constraint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/alter"
)

// This file performs ALTER TABLE ... ALTER COLUMN ... TYPE (alter.ColumnTypeChange) by the steps that DSQL has, each
// in its own transaction:
//
//	readColumn           the column and its dependencies (retypefacts.go)
//	AddColumnSQL         a column of the new type, under a name that no other such statement uses
//	BackfillSQL          its values, in batches; others write the old column meanwhile
//	createIndexes        like those of the old column, under temporary names
//	RenameOldSQL         rename the old column: nobody can write it afterwards
//	ClearChangedSQL,     values that others have written since
//	BackfillSQL
//	createIndexes        that need the column's values (alter.IndexCopy)
//	NotNullCheck         a CHECK
//	copyConstraints      CHECKs and foreign keys like those of the old column, NOT VALID if those are
//	AddEqualityCheckSQL  a CHECK that both columns agree
//	CopyDifferingSQL     values that others have written by position since
//	checkUnchanged       has a dependency of the old column changed?
//	DropOldSQL           drop the old column with its indexes
//	RenameNewSQL         rename the new column and its indexes to the final names
//
// Between RenameOldSQL and RenameNewSQL other clients get 42703 for the column. Between AddEqualityCheckSQL and
// DropOldSQL, which also drops that CHECK, an INSERT or COPY without column names is refused (23514). Its value for the
// old column would otherwise be lost. At least one of the two columns has all values at any time.
//
// Up to DropOldSQL a failure is undone. After DropOldSQL the error lists the missing statements. An interrupted
// statement leaves its columns. Another statement does not continue with them, because the first may still be running.
// Its error names the columns.

// ColumnRetyper is a running ALTER TABLE ... ALTER COLUMN ... TYPE.
type ColumnRetyper struct {
	*alter.ColumnTypeChange
	Notices [][]byte // sent to the client before the tag

	server Server
	facts  retypeFacts
	from   string   // the old column's current name
	filled int      // number of copied values
	undo   []string // statements that undo the finished steps, the last first
	left   []string // statements that are missing after DropOldSQL
}

// NewColumnRetyper returns a ColumnRetyper that executes st.
func NewColumnRetyper(server Server, st *alter.Alteration) *ColumnRetyper {
	return &ColumnRetyper{server: server, ColumnTypeChange: st.StartTypeChange(fmt.Sprintf("%08x", rand.Uint32())), from: st.Column}
}

// Run sends the ALTER TABLE to the server. If the server refuses it, Run performs it by other statements.
func (r *ColumnRetyper) Run() error {
	err := r.server.Ask(r.Text, nil)
	told := r.server.RefusalFrom(err)
	if told == nil || told.Code != retry.StateUnsupported {
		return r.explainMissing(err)
	}
	there, err := r.readColumn(told)
	switch {
	case err != nil:
		return err
	case !there:
		return r.explainMissing(told)
	case r.HasNewType(r.facts.ColumnFacts):
		return nil
	}
	if err := r.checkRetypable(told); err != nil {
		return err
	}
	if err := r.runSteps(); err != nil {
		return r.undoSteps(err)
	}
	return nil
}

// CheckPossible returns the error with which Run would refuse the statement, or nil. told is the server's refusal.
// Constraints named in freed do not count as dependencies, because they will be gone before Run.
func (r *ColumnRetyper) CheckPossible(told *wire.Error, freed []string) error {
	there, err := r.readColumn(told)
	switch {
	case err != nil:
		return err
	case !there:
		return r.explainMissing(told)
	case r.HasNewType(r.facts.ColumnFacts):
		return nil
	}
	r.facts.depend = slices.DeleteFunc(r.facts.depend, func(what string) bool {
		return slices.ContainsFunc(freed, func(name string) bool { return what == constraintLabel(name) || what == indexLabel(name) })
	})
	return r.checkRetypable(told)
}

// constraintLabel names a constraint that depends on the column, and indexLabel an index that does, for messages.
func constraintLabel(name string) string { return fmt.Sprintf("constraint \"%s\"", name) }
func indexLabel(name string) string      { return fmt.Sprintf("index \"%s\"", name) }

// explainMissing adds to an error the columns that another ALTER COLUMN ... TYPE has left in the table. A server that
// refuses the statement has not checked that the column exists, so explainMissing checks that.
func (r *ColumnRetyper) explainMissing(err error) error {
	told := r.server.RefusalFrom(err)
	if told == nil || told.Code != undefinedColumn && told.Code != retry.StateUnsupported {
		return err
	}
	err = r.leftoverColumnsError(told)
	if told.Code == undefinedColumn || r.server.RefusalFrom(err) != told {
		return err
	}
	err = r.server.Ask(fmt.Sprintf(`SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind = 'r' AND NOT EXISTS`+
		` (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = %s AND NOT a.attisdropped)`, quoteLiteral(r.Table), quoteLiteral(r.Column)), func(v []string) {
		told = &wire.Error{Code: undefinedColumn, Message: fmt.Sprintf("column \"%s\" of relation \"%s\" does not exist", r.Column, firstValue(v))}
	})
	if err != nil && r.server.RefusalFrom(err) == nil {
		return err
	}
	return told
}

// runSteps performs all steps of the change of type, up to the final names.
func (r *ColumnRetyper) runSteps() error {
	if err := r.runStep(r.AddColumnSQL(), r.DropNewSQL()); err != nil {
		return err
	}
	if err := r.copyValues(); err != nil {
		return err
	}
	if err := r.createIndexes(false); err != nil {
		return err
	}
	if err := r.runStep(r.RenameOldSQL(), r.RestoreOldNameSQL()); err != nil {
		return err
	}
	r.from = r.OldColumn
	if r.facts.Default != "" {
		if err := r.runStep(r.SetDefaultSQL(r.facts.Default), ""); err != nil {
			return err
		}
	}
	if err := r.copyValues(); err != nil {
		return err
	}
	late := func() error { return r.createIndexes(true) }
	for _, step := range []func() error{late, r.copyConstraints, r.forceColumnsEqual, r.checkUnchanged} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.swapColumns()
}

// copyConstraints adds to the new column the same constraints that the old column has.
func (r *ColumnRetyper) copyConstraints() error {
	if r.facts.NotNull {
		if err := r.addConstraint(r.NotNullCheck()); err != nil {
			return err
		}
	}
	for i, of := range r.facts.holds {
		if err := r.server.CheckMayContinue(); err != nil {
			return err
		}
		c := r.CopiedConstraint(of.shown, r.Column, r.constraintName(i))
		if c == nil {
			return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("the constraint \"%s\" cannot be made anew", of.name)}
		}
		var err error
		if of.loose {
			err = r.runStep(c.Adds[0].AddNotValidSQL(r.constraintName(i)), "")
		} else {
			err = r.addConstraint(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addConstraint adds a constraint to the new column. The constraint gets a name of Sluice's own.
func (r *ColumnRetyper) addConstraint(c *alter.AddedConstraints) error {
	w := NewConstraintAdder(r.server, c)
	w.own = true
	return w.Run()
}

// forceColumnsEqual adds a CHECK that the old and the new column agree, and makes them agree. Clients cannot write
// either column by name. But an INSERT without a column list may write the old column, and a foreign key may update it.
func (r *ColumnRetyper) forceColumnsEqual() error {
	if err := r.runStep(r.AddEqualityCheckSQL(r.from, r.sealName()), r.DropEqualityCheckSQL(r.sealName())); err != nil {
		return err
	}
	return r.runBatches(r.CopyDifferingSQL)
}

// checkUnchanged returns an error if other sessions have changed the old column's dependencies since Sluice read
// them. For example, Sluice would drop a new index with the column. checkUnchanged itself changes nothing.
func (r *ColumnRetyper) checkUnchanged() error {
	if err := r.server.CheckMayContinue(); err != nil {
		return err
	}
	before := r.facts
	r.facts = retypeFacts{}
	there, err := r.readColumn(nil)
	now := r.facts
	r.facts = before
	if err == nil && !(there && before.isSame(&now)) {
		err = &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\", or what depends on it, was changed while it was given another type", r.Column),
			Hint: "Send the statement again."}
	}
	return err
}

// runStep sends sql, the statement of a step. First it records undo, the statement that undoes the step, because the
// result is unknown after a lost connection.
func (r *ColumnRetyper) runStep(sql, undo string) error {
	if err := r.server.CheckMayContinue(); err != nil {
		return err
	}
	if undo != "" {
		r.undo = append([]string{undo}, r.undo...)
	}
	err := r.server.Ask(sql, nil)
	if err != nil && undo != "" && r.server.ChangedNothing(err) {
		r.undo = r.undo[1:]
	}
	return err
}

// copyValues copies the values of the old column to the new one, until none differs. ClearChangedSQL goes first,
// because a unique value may have moved to another row since it was copied.
func (r *ColumnRetyper) copyValues() error {
	for _, update := range []func(from string, key []string, rows int) string{r.ClearChangedSQL, r.BackfillSQL} {
		if err := r.runBatches(update); err != nil {
			return err
		}
	}
	return nil
}

// runBatches repeats an UPDATE in batches until no row is left to change.
func (r *ColumnRetyper) runBatches(update func(from string, key []string, rows int) string) error {
	n, err := r.server.UpdateInBatches(r.Table, func(key []string, rows int) string { return update(r.from, key, rows) })
	r.filled += n
	return err
}

// indexName returns the temporary name of the i-th index of the new column.
func (r *ColumnRetyper) indexName(i int) string { return r.NewColumn + "_" + strconv.Itoa(i) }

// constraintName returns the temporary name of the i-th constraint of the new column.
func (r *ColumnRetyper) constraintName(i int) string { return r.indexName(len(r.facts.indexes) + i) }

// sealName returns the name of the CHECK that both columns agree.
func (r *ColumnRetyper) sealName() string { return r.NewColumn + "_s" }

// swapColumns performs the steps that cannot be undone: it drops the old column, and gives the new column and its
// indexes the final names. swapColumns warns about an index that cannot be renamed.
func (r *ColumnRetyper) swapColumns() error {
	undo := r.undo
	r.undo, r.left = nil, []string{r.DropOldSQL(), r.RenameNewSQL()}
	var names []string // of indexes and constraints
	for i := range r.facts.indexes {
		names = append(names, r.facts.indexes[i].Name)
		r.left = append(r.left, r.RenameIndexSQL(r.facts.schema, r.indexName(i), &r.facts.indexes[i].ColumnIndex))
	}
	for i, of := range r.facts.holds {
		names = append(names, of.name)
		r.left = append(r.left, r.RenameConstraintSQL(r.constraintName(i), of.name))
	}
	for step := 0; len(r.left) > 0; step++ {
		err := r.sendUntilDone(r.left[0])
		switch {
		case err == nil:
		case step == 0 && r.server.ChangedNothing(err): // for example a view that was created meanwhile
			r.undo, r.left = undo, nil
			return err
		case step < 2 || r.server.RefusalFrom(err) == nil:
			return err
		default:
			what := "index"
			if step-2 >= len(r.facts.indexes) {
				what = "constraint"
			}
			r.addWarning(fmt.Sprintf("the %s \"%s\" is now \"%s\"", what, names[step-2], r.indexName(step-2)), r.server.RefusalFrom(err).Message, "To give it its name: "+r.left[0]+".")
		}
		r.left = r.left[1:]
	}
	detail := fmt.Sprintf("DSQL changes no type: another column has taken its place, with %d values.", r.filled)
	if r.facts.NotNull {
		detail += " NOT NULL is a CHECK, whose errors have the code 23514."
	}
	r.addWarning(fmt.Sprintf("column \"%s\" is the last of its table now", r.Column), detail, "Name the columns in SELECT and INSERT.")
	return nil
}

// sendUntilDone sends a statement. After a conflict, or after an interruption before the server got the statement,
// sendUntilDone sends it again.
func (r *ColumnRetyper) sendUntilDone(sql string) (err error) {
	for range mostTries {
		err = r.server.Ask(sql, nil)
		if told := r.server.RefusalFrom(err); err == nil || !r.server.ChangedNothing(err) || told != nil && told.Code != retry.StateConflict {
			return err
		}
		r.server.ConsumeCancel(err)
	}
	return err
}

// mostTries bounds the attempts to send a statement that must succeed.
const mostTries = 5

// addWarning adds a WARNING for the client, which gets the WARNING before the tag.
func (r *ColumnRetyper) addWarning(message, detail, hint string) {
	warning := &wire.Error{Code: "01000", Message: message, Detail: detail, Hint: hint}
	r.Notices = append(r.Notices, warning.AppendNotice(nil, "WARNING"))
}

// undoSteps undoes the finished steps, the last first. undoSteps returns why, the reason of the failure, or the error
// of a lost server. undoSteps stops at a step that cannot be undone, because the new column may be the only one with
// the values.
func (r *ColumnRetyper) undoSteps(why error) error {
	if !r.server.ChangedNothing(why) {
		return why
	}
	r.server.ConsumeCancel(why)
	for len(r.undo) > 0 {
		err := r.server.Ask(r.undo[0], nil)
		if told := r.server.RefusalFrom(err); err != nil && (told == nil || !slices.Contains(notThere, told.Code) || len(r.undo) > 1) {
			if told != nil {
				err = why
			}
			return err
		}
		r.undo = r.undo[1:]
	}
	return r.withOwnNames(why)
}

// withOwnNames replaces temporary names in an error by the names that the client knows.
func (r *ColumnRetyper) withOwnNames(why error) error {
	told := r.server.RefusalFrom(why)
	if told == nil || told.Fatal {
		return why
	}
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Constraint, &with.Column} {
		for i, of := range slices.Backward(r.facts.holds) { // of _1 and _10 the longer one first
			*text = strings.ReplaceAll(*text, r.constraintName(i), of.name)
		}
		for i := range slices.Backward(r.facts.indexes) {
			*text = strings.ReplaceAll(*text, r.indexName(i), r.facts.indexes[i].Name)
		}
		for _, name := range []string{r.NewColumn, r.OldColumn} {
			*text = strings.ReplaceAll(*text, name, r.Column)
		}
	}
	return &with
}

// WithPartialResult adds to an error the columns that the failed statement has left, and the statements that remove or
// finish them.
func (r *ColumnRetyper) WithPartialResult(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || len(r.undo)+len(r.left) == 0 {
		return err
	}
	with, what, steps := *told, "The column is being given another type by \"%s\" and \"%s\".", r.undo
	with.Hint = "Take it back, each step that is done (\\d shows the columns): "
	if len(r.left) > 0 {
		steps = r.left
		with.Hint = "All values are in \"" + r.NewColumn + "\". Send what is not done yet, in this order: "
	}
	with.Detail = strings.TrimSpace(told.Detail + " " + fmt.Sprintf(what, r.NewColumn, r.OldColumn))
	with.Hint += strings.Join(steps, "; ") + "."
	return &with
}
