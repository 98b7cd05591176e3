package ddl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/alter"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// This file runs ALTER TABLE ... ADD COLUMN with a default, which DSQL may refuse, in steps (alter.Alteration). The
// server gets the statement itself first. If the server accepts the statement, nothing is left to do. If the server
// refuses the statement (0A000), nothing has changed, and only then Sluice reads the catalog. So a new ability of DSQL
// is used at once.
//
// The column is added under a temporary name, and gets its own name once all rows have the default. So no statement
// sees it half filled. If the statement fails in between, the client can send it again, and it resumes. Each step is a
// transaction:
//
//	lookUpColumn      reads the catalog: does the column exist, or a temporary one of an earlier attempt?
//	checkFillable     reads the catalog: can batches fill the rows?
//	AddColumnSQL      adds the column under its temporary name, without a constraint
//	SetDefaultSQL     sets the default for new rows; after a lasting error, such as a wrong type, drops the column
//	BackfillSQL       sets the default in existing rows, in batches; after a lasting error, drops the column
//	addConstraints    adds the column's constraints (package constraint)
//	RenameSQL         gives the column its name
//
// An error after AddColumnSQL names the column that exists, and the number of rows with the default. A lost backend
// leaves only the current step in doubt: sent again, the statement finds the column under either name.

// columnAddition is a running ALTER TABLE ... ADD COLUMN.
type columnAddition struct {
	*alter.Alteration
	server          Server
	notices         [][]byte
	drawn           *constraint.ColumnSequence
	temporaryExists bool // the column may exist under its temporary name
	filledRows      int  // rows that this statement has filled
	// hasNotNullCheck is set if a CHECK takes the place of NOT NULL.
	hasNotNullCheck bool
}

// Run sends the statement to the server. If the server refuses it, Run carries it out by several other statements.
func (a *columnAddition) Run() error {
	err := a.runSQL(a.Text, nil)
	told := a.server.RefusalFrom(err)
	if told == nil || told.Code != retry.StateUnsupported && (a.Own == nil || told.Code != unknownType) {
		return err
	}
	return a.addInSteps()
}

// runSQL sends one statement, which commits at once, and calls row with each row of the result. A nil row drops the
// rows.
func (a *columnAddition) runSQL(sql string, row func(values []string)) error {
	return a.server.Ask(sql, row)
}

// addInSteps adds a column with a default, in steps. If two clients add the same column at once, the second client
// finds the temporary column and resumes. If it finds the finished column, it gets PostgreSQL's error that the column
// exists.
func (a *columnAddition) addInSteps() error {
	resumes, err := a.lookUpColumn()
	if err == nil && len(a.notices) == 0 {
		err = a.checkFillable()
	}
	if err != nil || len(a.notices) > 0 {
		return err
	}
	if err := a.createSequence(); err != nil {
		return err
	}
	if resumes, err = a.addTemporaryColumn(resumes); err != nil {
		return err
	}
	// A column that this call has added is unknown to other clients, and can be dropped.
	if err := a.applyDefault(); err != nil {
		if over, exists := a.isFinishedByOther(err); over {
			return exists
		}
		a.undoDefault(err, resumes)
		return err
	}
	if err := a.fillExistingRows(); err != nil {
		if over, exists := a.isFinishedByOther(err); over {
			return exists
		}
		return a.handleFillError(err)
	}
	if err := a.addConstraints(); err != nil {
		return err
	}
	err = a.runSQL(a.RenameSQL(), nil)
	// Another client may have renamed the column first, or added one of the same name. In both cases Sluice drops the
	// temporary column of this statement.
	if told := a.server.RefusalFrom(err); told != nil && (told.Code == undefinedColumn || told.Code == duplicateColumn) {
		a.temporaryExists = told.Code == duplicateColumn && a.runSQL(a.DropColumnSQL(), nil) != nil
		return a.errColumnExists("42701")
	}
	if err != nil {
		return err
	}
	if a.NotNull && !a.hasNotNullCheck {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is added without NOT NULL, which DSQL refuses", a.Column),
			Detail: fmt.Sprintf("It has its default, which %d rows were given.", a.filledRows), Hint: "To hold it to that: " + a.NotNullHint() + "."}
		a.notices = append(a.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return nil
}

// addTemporaryColumn adds the temporary column without its default. resumes reports whether the column existed.
func (a *columnAddition) addTemporaryColumn(resumed bool) (resumes bool, err error) {
	a.temporaryExists = true
	err = a.runSQL(a.AddColumnSQL(), nil)
	told := a.server.RefusalFrom(err)
	switch {
	case err == nil:
		return resumed, nil
	case told == nil || told.Code != duplicateColumn:
		a.temporaryExists = told == nil || resumed
		a.dropUnusedSequence(err)
		return resumed, err
	case a.drawn != nil && a.drawn.DescribeRemaining() != "": // that column would have two sequences
		a.dropUnusedSequence(err)
		a.temporaryExists = false
		return resumed, a.errColumnBeingAdded()
	}
	return true, nil
}

// errColumnBeingAdded returns the error for a serial column that another statement is adding. Sluice does not know the
// name of that column's sequence.
func (a *columnAddition) errColumnBeingAdded() *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\" is being added by another statement", a.Column),
		Detail: fmt.Sprintf("It is there as \"%s\", and owns no sequence yet.", a.TemporaryName()),
		Hint:   "If no statement is at it any more, drop it, and send this one again: " + a.DropColumnSQL() + "."}
}

// createSequence creates the sequence of a serial column.
func (a *columnAddition) createSequence() error {
	if a.Own == nil {
		return nil
	}
	a.drawn = constraint.NewColumnSequence(a.server, a.Own, a.Table)
	name, err := a.drawn.Create(a.TemporaryName())
	if err == nil {
		a.Alteration = a.WithSequence(name)
	}
	return err
}

// applyDefault sets the column's default. A serial column also becomes the owner of its sequence.
func (a *columnAddition) applyDefault() error {
	if err := a.runSQL(a.SetDefaultSQL(), nil); err != nil || a.drawn == nil {
		return err
	}
	return a.drawn.SetOwner(a.TableSQL(), a.TemporaryName())
}

// isFinishedByOther reports whether err means that another client has finished the column meanwhile. The temporary name
// is gone (42703) and the final one exists. The returned error is PostgreSQL's for an existing column.
func (a *columnAddition) isFinishedByOther(err error) (bool, error) {
	if told := a.server.RefusalFrom(err); told == nil || told.Code != undefinedColumn {
		return false, nil
	}
	_, looked := a.lookUpColumn()
	if looked == nil && len(a.notices) == 0 {
		return false, nil
	}
	a.temporaryExists = looked != nil && a.server.RefusalFrom(looked) == nil
	a.dropUnusedSequence(err) // the server refuses to drop a sequence in use
	return true, looked
}

// undoDefault drops the temporary column after an error of applyDefault. A column that another statement may be adding
// is dropped only if that statement would get the same error.
func (a *columnAddition) undoDefault(err error, resumes bool) {
	if told := a.server.RefusalFrom(err); told != nil && (!resumes || isLasting(told)) && a.runSQL(a.DropColumnSQL(), nil) == nil {
		a.temporaryExists = false
		a.dropUnusedSequence(err)
	}
}

// checkFillable returns an error, before the first step, if no UPDATE can give the default to the table's rows.
func (a *columnAddition) checkFillable() error {
	lacks, err := constraint.LacksBatches(a.server, a.Table)
	if err == nil && lacks {
		err = a.errUnfillable()
	}
	return err
}

// errUnfillable returns the error for a table whose rows are too many for one transaction and for batches.
func (a *columnAddition) errUnfillable() *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("the rows of the table cannot be given the default of column \"%s\" in batches", a.Column),
		Detail: constraint.NoBatches, Hint: a.AddStepsHint() + " Choose the rows of each UPDATE by other columns."}
}

// handleFillError returns the client's error after fillExistingRows has failed with err. If the error would come
// again, it drops the column, which might fail INSERTs of other clients that leave the column out.
func (a *columnAddition) handleFillError(err error) error {
	told := a.server.RefusalFrom(err)
	if told == nil || !isLasting(told) || a.runSQL(a.DropColumnSQL(), nil) != nil {
		return err
	}
	a.temporaryExists = false
	a.dropUnusedSequence(err)
	if rewrite.IsSizeLimitError(told.Code, []byte(told.Message)) {
		return a.errUnfillable()
	}
	return a.withFinalColumnName(told)
}

// isLasting reports whether a statement that failed with an error would fail again. Conflicts, and errors of a server
// that is overloaded, cancelled or broken, do not last.
func isLasting(told *wire.Error) bool {
	return !slices.Contains([]string{"08", "40", "53", "55", "57", "58", "XX"}, told.Code[:min(2, len(told.Code))])
}

// dropUnusedSequence drops the sequence of a column that does not exist, if err is the server's answer.
func (a *columnAddition) dropUnusedSequence(err error) {
	if a.drawn != nil && a.server.RefusalFrom(err) != nil {
		a.drawn.DropUnowned()
	}
}

// addConstraints adds the column's constraints before the column has its final name. Rows that other clients insert
// meanwhile have the default. If existing rows violate a constraint the column is dropped, as in PostgreSQL. After a
// lost backend the temporary column stays, and the statement can be sent again.
func (a *columnAddition) addConstraints() error {
	if a.Held == nil {
		return nil
	}
	work := constraint.NewConstraintAdder(a.server, a.Held)
	err := work.RunInSteps()
	if over, exists := a.isFinishedByOther(err); over {
		return exists
	}
	if told := a.server.RefusalFrom(err); told != nil {
		if a.runSQL(a.DropColumnSQL(), nil) == nil {
			a.temporaryExists = false
		}
		return a.withFinalColumnName(told)
	}
	for i := range a.Held.Adds {
		a.hasNotNullCheck = a.hasNotNullCheck || a.Held.Adds[i].Kind == alter.NotNull
	}
	if err == nil && a.hasNotNullCheck {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is held to NOT NULL by a CHECK", a.Column),
			Detail: "DSQL refuses SET NOT NULL. The error of a NULL is that of a CHECK (23514), and the catalog shows the column as nullable."}
		a.notices = append(a.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return err
}

// withFinalColumnName replaces the temporary name in an error with the column's own name, as PostgreSQL's error would
// have it.
func (a *columnAddition) withFinalColumnName(told *wire.Error) *wire.Error {
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Column, &with.Constraint} {
		*text = strings.ReplaceAll(*text, a.TemporaryName(), a.Column)
	}
	return &with
}

// These are the SQLSTATEs of an existing column, an unknown column and an unknown type.
const (
	duplicateColumn = "42701"
	undefinedColumn = "42703"
	unknownType     = "42704"
)

// errColumnExists returns PostgreSQL's error or notice that the column exists.
func (a *columnAddition) errColumnExists(code string) *wire.Error {
	table := a.Table[strings.LastIndex(a.Table, `"."`)+1:]
	message := fmt.Sprintf("column \"%s\" of relation \"%s\" already exists", a.Column, strings.ReplaceAll(strings.Trim(table, `".`), `""`, `"`))
	if a.IfNotExists {
		message += ", skipping"
	}
	return &wire.Error{Code: code, Message: message}
}

// lookUpColumn reads the table's columns from the catalog. If the column exists, lookUpColumn returns PostgreSQL's
// error, or appends the notice of IF NOT EXISTS. resumes reports whether an earlier statement has left the temporary
// column.
//
// Another session may add a column afterwards, which the next step finds (42701). A mapped column (bytea stored as
// text) counts by its name for clients.
func (a *columnAddition) lookUpColumn() (resumes bool, err error) {
	var columns []string
	err = a.runSQL(`SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = `+parse.QuoteLiteral(a.Table)+`::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped`,
		func(values []string) { columns = append(columns, values...) })
	if err != nil {
		return false, err
	}
	// A temporary column with another type or default is not resumed, because its filled rows would have wrong values.
	adding := a.TemporaryName()
	stem := adding[:len(adding)-8]
	other := slices.IndexFunc(columns, func(c string) bool { return c != adding && len(c) == len(adding) && strings.HasPrefix(c, stem) })
	switch {
	case slices.Contains(columns, a.Column), slices.Contains(columns, a.Column+schema.MappedSuffix):
		if !a.IfNotExists {
			return false, a.errColumnExists(duplicateColumn)
		}
		a.notices = append(a.notices, a.errColumnExists(duplicateColumn).AppendNotice(nil, "NOTICE"))
	case other >= 0:
		return false, &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\" is being added with another type or default", a.Column),
			Detail: fmt.Sprintf("The column \"%s\" is of a statement that has not come to its end.", columns[other]),
			Hint:   "Send that statement again, which goes on where it was; or drop the column."}
	}
	return slices.Contains(columns, adding), nil
}

// fillExistingRows sets the default in all rows without it, in batches. New rows have it already.
func (a *columnAddition) fillExistingRows() error {
	n, err := a.server.UpdateInBatches(a.Table, a.BackfillSQL)
	a.filledRows += n
	return err
}

// WithPartialResult adds to an error what remains in the database. The error names the temporary column even if its
// existence is unknown (08007). Sending the statement again is right in both cases.
func (a *columnAddition) WithPartialResult(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal {
		return err
	}
	with := *told
	if a.drawn != nil && a.drawn.DescribeRemaining() != "" {
		with.Detail = strings.TrimSpace(with.Detail + " " + a.drawn.DescribeRemaining())
	}
	switch {
	case !a.temporaryExists && with.Detail == told.Detail:
		return err // nothing is left
	case !a.temporaryExists:
		return &with
	}
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s The column stands as \"%s\", and this statement has given the default to %d rows.", with.Detail, a.TemporaryName(), a.filledRows))
	with.Hint = "Send the statement again: it goes on from there. Or give it up: " + a.DropColumnSQL() + "."
	return &with
}
