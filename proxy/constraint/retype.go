package constraint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file performs ALTER TABLE ... ALTER COLUMN ... TYPE (rewrite.Retyping) by the steps that DSQL has, each in its
// own transaction:
//
//	look     read the column and its dependencies (retypefacts.go)
//	Add      a column of the new type, under a name that no other such statement uses
//	Fill     its values, in batches; others write the old column meanwhile
//	indexes  like those of the old column, under temporary names
//	Leave    rename the old column: nobody can write it afterwards
//	Clear,   values that others have written since
//	Fill
//	indexes  that need the column's values (rewrite.Likeness)
//	NotNull  a CHECK
//	Held     CHECKs and foreign keys like those of the old column, NOT VALID if those are
//	Seal     a CHECK that both columns agree
//	Settle   values that others have written by position since
//	look     has a dependency of the old column changed?
//	DropWas  drop the old column with its indexes
//	Arrive   rename the new column and its indexes to the final names
//
// Between Leave and Arrive other clients get 42703 for the column. Between Seal and DropWas, which also drops the seal,
// an INSERT or COPY without column names is refused (23514). Its value for the old column would otherwise be lost. At
// least one of the two columns has all values at any time.
//
// Up to DropWas a failure is undone. After DropWas the error lists the missing statements. An interrupted statement
// leaves its columns. Another statement does not continue with them, because the first may still be running. Its error
// names the columns.

// Retype is a running ALTER TABLE ... ALTER COLUMN ... TYPE.
type Retype struct {
	*rewrite.Retyping
	Notices [][]byte // sent to the client before the tag

	server Server
	facts  facts
	from   string   // the old column's current name
	filled int      // number of copied values
	undo   []string // statements that undo the finished steps, the last first
	left   []string // statements that are missing after DropWas
}

// NewRetype returns a Retype that executes st.
func NewRetype(server Server, st *rewrite.Alteration) *Retype {
	return &Retype{server: server, Retyping: st.Apart(fmt.Sprintf("%08x", rand.Uint32())), from: st.Column}
}

// Run sends the ALTER TABLE to the server, and performs it in steps if the server refuses it.
func (r *Retype) Run() error {
	err := r.server.Ask(r.Text, nil)
	told := r.server.Refused(err)
	if told == nil || told.Code != retry.StateUnsupported {
		return r.missing(err)
	}
	there, err := r.look(told)
	switch {
	case err != nil:
		return err
	case !there:
		return r.missing(told)
	case r.Same(r.facts.ColumnFacts):
		return nil
	}
	if err := r.mayRetype(told); err != nil {
		return err
	}
	if err := r.steps(); err != nil {
		return r.takeBack(err)
	}
	return nil
}

// May returns the error with which Run would refuse the statement, or nil. told is the server's refusal. Constraints
// named in freed do not count as dependencies, because they will be gone before Run.
func (r *Retype) May(told *wire.Error, freed []string) error {
	there, err := r.look(told)
	switch {
	case err != nil:
		return err
	case !there:
		return r.missing(told)
	case r.Same(r.facts.ColumnFacts):
		return nil
	}
	r.facts.depend = slices.DeleteFunc(r.facts.depend, func(what string) bool {
		return slices.ContainsFunc(freed, func(name string) bool { return what == dependsBy(name) || what == dependsIn(name) })
	})
	return r.mayRetype(told)
}

// dependsBy names a constraint that depends on the column, and dependsIn an index that does, for messages.
func dependsBy(name string) string { return fmt.Sprintf("constraint \"%s\"", name) }
func dependsIn(name string) string { return fmt.Sprintf("index \"%s\"", name) }

// missing adds to an error the columns that another ALTER COLUMN ... TYPE has left in the table. A server that refuses
// the statement has not checked that the column exists, so missing checks that.
func (r *Retype) missing(err error) error {
	told := r.server.Refused(err)
	if told == nil || told.Code != undefinedColumn && told.Code != retry.StateUnsupported {
		return err
	}
	err = r.leftBehind(told)
	if told.Code == undefinedColumn || r.server.Refused(err) != told {
		return err
	}
	err = r.server.Ask(fmt.Sprintf(`SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind = 'r' AND NOT EXISTS`+
		` (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = %s AND NOT a.attisdropped)`, literal(r.Table), literal(r.Column)), func(v []string) {
		told = &wire.Error{Code: undefinedColumn, Message: fmt.Sprintf("column \"%s\" of relation \"%s\" does not exist", r.Column, firstOf(v))}
	})
	if err != nil && r.server.Refused(err) == nil {
		return err
	}
	return told
}

// steps performs all steps of the change of type, up to the final names.
func (r *Retype) steps() error {
	if err := r.do(r.Add(), r.DropMade()); err != nil {
		return err
	}
	if err := r.fill(); err != nil {
		return err
	}
	if err := r.indexEach(false); err != nil {
		return err
	}
	if err := r.do(r.Leave(), r.Return()); err != nil {
		return err
	}
	r.from = r.Was
	if r.facts.Default != "" {
		if err := r.do(r.SetDefault(r.facts.Default), ""); err != nil {
			return err
		}
	}
	if err := r.fill(); err != nil {
		return err
	}
	late := func() error { return r.indexEach(true) }
	for _, step := range []func() error{late, r.hold, r.seal, r.unchanged} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.finish()
}

// hold adds constraints like those of the old column to the new column.
func (r *Retype) hold() error {
	if r.facts.NotNull {
		if err := r.adds(r.NotNull()); err != nil {
			return err
		}
	}
	for i, of := range r.facts.holds {
		if err := r.server.More(); err != nil {
			return err
		}
		c := r.Held(of.shown, r.Column, r.holdName(i))
		if c == nil {
			return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("the constraint \"%s\" cannot be made anew", of.name)}
		}
		var err error
		if of.loose {
			err = r.do(c.Adds[0].NotValid(r.holdName(i)), "")
		} else {
			err = r.adds(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// adds adds a constraint to the new column. The constraint gets a name of Sluice's own.
func (r *Retype) adds(c *rewrite.Constraints) error {
	w := New(r.server, c)
	w.own = true
	return w.Run()
}

// seal adds a CHECK that the old and the new column agree, and makes them agree. Clients cannot write either column by
// name. But an INSERT without a column list may write the old column, and a foreign key may update it.
func (r *Retype) seal() error {
	if err := r.do(r.Seal(r.from, r.sealName()), r.Unseal(r.sealName())); err != nil {
		return err
	}
	return r.batches(r.Settle)
}

// unchanged returns an error if other sessions have changed the old column's dependencies meanwhile, for example by a
// new index. The new dependency would be dropped with the column. unchanged itself changes nothing.
func (r *Retype) unchanged() error {
	if err := r.server.More(); err != nil {
		return err
	}
	before := r.facts
	r.facts = facts{}
	there, err := r.look(nil)
	now := r.facts
	r.facts = before
	if err == nil && !(there && before.same(&now)) {
		err = &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\", or what depends on it, was changed while it was given another type", r.Column),
			Hint: "Send the statement again."}
	}
	return err
}

// do sends a statement of a step. The statement that undoes the step is recorded first, because the result is unknown
// after a lost connection.
func (r *Retype) do(sql, undo string) error {
	if err := r.server.More(); err != nil {
		return err
	}
	if undo != "" {
		r.undo = append([]string{undo}, r.undo...)
	}
	err := r.server.Ask(sql, nil)
	if err != nil && undo != "" && r.server.Undone(err) {
		r.undo = r.undo[1:]
	}
	return err
}

// fill copies the values of the old column to the new one, until none differs. Clear goes first, because a unique value
// may have moved to another row since it was copied.
func (r *Retype) fill() error {
	for _, update := range []func(from string, key []string, rows int) string{r.Clear, r.Fill} {
		if err := r.batches(update); err != nil {
			return err
		}
	}
	return nil
}

// batches repeats an UPDATE in batches until no row is left.
func (r *Retype) batches(update func(from string, key []string, rows int) string) error {
	n, err := r.server.Batches(r.Table, func(key []string, rows int) string { return update(r.from, key, rows) })
	r.filled += n
	return err
}

// indexName returns the temporary name of the i-th index of the new column.
func (r *Retype) indexName(i int) string { return r.Made + "_" + strconv.Itoa(i) }

// holdName returns the temporary name of the i-th constraint of the new column.
func (r *Retype) holdName(i int) string { return r.indexName(len(r.facts.indexes) + i) }

// sealName returns the name of the CHECK that both columns agree.
func (r *Retype) sealName() string { return r.Made + "_s" }

// finish performs the steps that cannot be undone: it drops the old column, and gives the new column and its indexes
// the final names. finish warns about an index that cannot be renamed.
func (r *Retype) finish() error {
	undo := r.undo
	r.undo, r.left = nil, []string{r.DropWas(), r.Arrive()}
	var names []string // of indexes and constraints
	for i := range r.facts.indexes {
		names = append(names, r.facts.indexes[i].Name)
		r.left = append(r.left, r.NameIndex(r.facts.schema, r.indexName(i), &r.facts.indexes[i].ColumnIndex))
	}
	for i, of := range r.facts.holds {
		names = append(names, of.name)
		r.left = append(r.left, r.NameHeld(r.holdName(i), of.name))
	}
	for step := 0; len(r.left) > 0; step++ {
		err := r.insist(r.left[0])
		switch {
		case err == nil:
		case step == 0 && r.server.Undone(err): // for example a view that was created meanwhile
			r.undo, r.left = undo, nil
			return err
		case step < 2 || r.server.Refused(err) == nil:
			return err
		default:
			what := "index"
			if step-2 >= len(r.facts.indexes) {
				what = "constraint"
			}
			r.warn(fmt.Sprintf("the %s \"%s\" is now \"%s\"", what, names[step-2], r.indexName(step-2)), r.server.Refused(err).Message, "To give it its name: "+r.left[0]+".")
		}
		r.left = r.left[1:]
	}
	detail := fmt.Sprintf("DSQL changes no type: another column has taken its place, with %d values.", r.filled)
	if r.facts.NotNull {
		detail += " NOT NULL is a CHECK, whose errors have the code 23514."
	}
	r.warn(fmt.Sprintf("column \"%s\" is the last of its table now", r.Column), detail, "Name the columns in SELECT and INSERT.")
	return nil
}

// insist sends a statement. After a conflict, or after an interruption before the server got the statement, insist
// sends it again.
func (r *Retype) insist(sql string) (err error) {
	for range mostTries {
		err = r.server.Ask(sql, nil)
		if told := r.server.Refused(err); err == nil || !r.server.Undone(err) || told != nil && told.Code != retry.StateConflict {
			return err
		}
		r.server.Heed(err)
	}
	return err
}

// mostTries bounds the attempts to send a statement that must succeed.
const mostTries = 5

// warn adds a WARNING for the client, which gets it before the tag.
func (r *Retype) warn(message, detail, hint string) {
	warning := &wire.Error{Code: "01000", Message: message, Detail: detail, Hint: hint}
	r.Notices = append(r.Notices, warning.AppendNotice(nil, "WARNING"))
}

// takeBack undoes the finished steps, the last first. takeBack returns why, the reason of the failure, or the error of
// a lost server. It stops at a step that cannot be undone, because the new column may be the only one with the values.
func (r *Retype) takeBack(why error) error {
	if !r.server.Undone(why) {
		return why
	}
	r.server.Heed(why)
	for len(r.undo) > 0 {
		err := r.server.Ask(r.undo[0], nil)
		if told := r.server.Refused(err); err != nil && (told == nil || !slices.Contains(notThere, told.Code) || len(r.undo) > 1) {
			if told != nil {
				err = why
			}
			return err
		}
		r.undo = r.undo[1:]
	}
	return r.named(why)
}

// named replaces temporary names in an error by the names that the client knows.
func (r *Retype) named(why error) error {
	told := r.server.Refused(why)
	if told == nil || told.Fatal {
		return why
	}
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Constraint, &with.Column} {
		for i, of := range slices.Backward(r.facts.holds) { // of _1 and _10 the longer one first
			*text = strings.ReplaceAll(*text, r.holdName(i), of.name)
		}
		for i := range slices.Backward(r.facts.indexes) {
			*text = strings.ReplaceAll(*text, r.indexName(i), r.facts.indexes[i].Name)
		}
		for _, name := range []string{r.Made, r.Was} {
			*text = strings.ReplaceAll(*text, name, r.Column)
		}
	}
	return &with
}

// Partly adds to an error the columns that the failed statement has left, and the statements that remove or finish
// them.
func (r *Retype) Partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal || len(r.undo)+len(r.left) == 0 {
		return err
	}
	with, what, steps := *told, "The column is being given another type by \"%s\" and \"%s\".", r.undo
	with.Hint = "Take it back, each step that is done (\\d shows the columns): "
	if len(r.left) > 0 {
		steps = r.left
		with.Hint = "All values are in \"" + r.Made + "\". Send what is not done yet, in this order: "
	}
	with.Detail = strings.TrimSpace(told.Detail + " " + fmt.Sprintf(what, r.Made, r.Was))
	with.Hint += strings.Join(steps, "; ") + "."
	return &with
}
