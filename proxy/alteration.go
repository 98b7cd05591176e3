package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// ALTER TABLE that the server may refuse and that is carried out otherwise then
// (rewrite.Alteration; carried.go has what it shares with other statements).
//
// The statement itself goes first. A server that takes it has done all that there is to do;
// one that refuses it (0A000) has done nothing, and only then the catalog is asked. So what a
// cluster learns is used at once, and what is answered here was looked at, not remembered.
//
// A column is added under another name, gets its default, and then its own name, when all
// rows have the default: no statement sees it half filled by its name, and a statement that
// failed in the middle is sent once more, and goes on where it was. The steps, each a
// transaction of its own:
//
//	look        is there such a column, or one that another such statement has left?
//	Add         the column, without a constraint, under its name for the time being
//	SetDefault  for rows to come; a default that is none of the type's fails here, and Undo
//	            leaves nothing behind
//	Fill        the rows that are there, in batches; of a default that the column cannot hold, Undo
//	Held        the constraints that it is added with (package constraint)
//	Rename      the column has its name
//
// An error behind Add says which column stands, and how many rows this statement has given
// the default. A lost backend is an unknown outcome of the step that was under way, and none
// of those before it: sent again, the statement finds the column under either name.

// alteration is an ALTER TABLE of one command, in a turn of its session that has sent its
// backend nothing else.
type alteration struct {
	*rewrite.Alteration
	s       *session
	notices [][]byte
	drawn   *constraint.Drawn
	stands  bool // the column may be there under its name for the time being
	filled  int  // rows that this statement has given the default
	// holdsNotNull: a CHECK stands for NOT NULL.
	holdsNotNull bool
}

// Run has the server carry the statement out, or does it otherwise where the server refuses:
// a server that takes it, as DSQL may one day, is never second-guessed.
func (a *alteration) Run() error {
	err := a.ask(a.Text, nil)
	told := refused(err)
	if told == nil || told.Code != retry.StateUnsupported && (a.Own == nil || told.Code != unknownType) {
		return err
	}
	return a.add()
}

// ask sends one statement, which commits at once, and gives its rows to row; nil for a
// statement whose rows nobody wants.
func (a *alteration) ask(sql string, row func(payload []byte)) error {
	if row == nil {
		row = func([]byte) {}
	}
	return a.s.askWhole(wire.AppendStrings(nil, wire.Query, sql), row)
}

// literal is a text as SQL has it, where standard_conforming_strings is on, as it is on every
// backend of kind dsql.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// add adds a column with a default. Two clients that do so at once share the work: whoever
// comes second finds the column under its name for the time being, or, at the end, that it
// exists, which is what PostgreSQL would have told it.
func (a *alteration) add() error {
	resumes, err := a.look()
	if err != nil || len(a.notices) > 0 {
		return err
	}
	if err := a.draws(); err != nil {
		return err
	}
	if resumes, err = a.adds(resumes); err != nil {
		return err
	}
	// Nobody else knows of a column that has just been made: it can be taken back.
	if err := a.defaults(); err != nil {
		if over, exists := a.overtaken(err); over {
			return exists
		}
		if refused(err) != nil && !resumes && a.ask(a.Undo(), nil) == nil {
			a.stands = false
			a.undrawn(err)
		}
		return err
	}
	if err := a.fill(); err != nil {
		if over, exists := a.overtaken(err); over {
			return exists
		}
		return a.unfilled(err)
	}
	if err := a.hold(); err != nil {
		return err
	}
	err = a.ask(a.Rename(), nil)
	// Another client may have come to the end first, or have added a column of the name: this one is taken back then.
	if told := refused(err); told != nil && (told.Code == undefinedColumn || told.Code == duplicateColumn) {
		a.stands = told.Code == duplicateColumn && a.ask(a.Undo(), nil) != nil
		return a.errExists("42701")
	}
	if err != nil {
		return err
	}
	if a.NotNull && !a.holdsNotNull {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is added without NOT NULL, which DSQL refuses", a.Column),
			Detail: fmt.Sprintf("It has its default, which %d rows were given.", a.filled), Hint: "To hold it to that: " + a.NotNullHint() + "."}
		a.notices = append(a.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return nil
}

// adds adds the column without its default. resumes: it was there already.
func (a *alteration) adds(resumed bool) (resumes bool, err error) {
	a.stands = true
	err = a.ask(a.Add(), nil)
	told := refused(err)
	switch {
	case err == nil:
		return resumed, nil
	case told == nil || told.Code != duplicateColumn:
		a.stands = told == nil || resumed
		a.undrawn(err)
		return resumed, err
	case a.drawn != nil && a.drawn.Left() != "": // that column would draw from two sequences
		a.undrawn(err)
		a.stands = false
		return resumed, a.errBeingAdded()
	}
	return true, nil
}

// errBeingAdded refuses a serial column that another statement is adding, or has begun to add: its
// sequence is not known.
func (a *alteration) errBeingAdded() *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\" is being added by another statement", a.Column),
		Detail: fmt.Sprintf("It is there as \"%s\", and owns no sequence yet.", a.Adding()),
		Hint:   "If no statement is at it any more, drop it, and send this one again: " + a.Undo() + "."}
}

// draws makes the sequence that the default of a serial column draws from.
func (a *alteration) draws() error {
	if a.Own == nil {
		return nil
	}
	a.drawn = constraint.NewDrawn(asked{a.s}, a.Own, a.Table)
	name, err := a.drawn.Make(a.Adding())
	if err == nil {
		a.Alteration = a.Drawing(name)
	}
	return err
}

// defaults gives the column its default, and the sequence of a serial column to it.
func (a *alteration) defaults() error {
	if err := a.ask(a.SetDefault(), nil); err != nil || a.drawn == nil {
		return err
	}
	return a.drawn.Own(a.OnTable(), a.Adding())
}

// overtaken reports whether a step has failed with err because another client has brought the column to its end
// meanwhile: it has no such name any more (42703), and its own. The error is PostgreSQL's of a column that is there.
func (a *alteration) overtaken(err error) (bool, error) {
	if told := refused(err); told == nil || told.Code != undefinedColumn {
		return false, nil
	}
	_, looked := a.look()
	if looked == nil && len(a.notices) == 0 {
		return false, nil
	}
	a.stands = looked != nil && refused(looked) == nil
	a.undrawn(err) // refused where the default of the column draws from it
	return true, looked
}

// unfilled is the error of fill. A default that the column cannot hold (classes 22 and 23) would fail each INSERT of
// others that leaves the column out, and this statement whenever it is sent again: the column is taken back.
func (a *alteration) unfilled(err error) error {
	told := refused(err)
	if told == nil || !strings.HasPrefix(told.Code, "22") && !strings.HasPrefix(told.Code, "23") || a.ask(a.Undo(), nil) != nil {
		return err
	}
	a.stands = false
	a.undrawn(err)
	return a.named(told)
}

// undrawn drops the sequence of a column that is not there, where the server has answered.
func (a *alteration) undrawn(err error) {
	if a.drawn != nil && refused(err) != nil {
		a.drawn.Undo()
	}
}

// hold adds the constraints of the column, which nobody knows yet: what others insert meanwhile has
// the default, and so nobody is told of a constraint that may not come to be. Where its rows are
// against one, nothing of it is to stay, as in PostgreSQL. Behind a lost backend the column stands
// under its name for the time being, and a statement that is sent again finds its constraints.
func (a *alteration) hold() error {
	if a.Held == nil {
		return nil
	}
	work := constraint.New(asked{a.s}, a.Held)
	err := work.Carry()
	if over, exists := a.overtaken(err); over {
		return exists
	}
	if told := refused(err); told != nil {
		if a.ask(a.Undo(), nil) == nil {
			a.stands = false
		}
		return a.named(told)
	}
	for i := range a.Held.Adds {
		a.holdsNotNull = a.holdsNotNull || a.Held.Adds[i].Kind == rewrite.NotNull
	}
	if err == nil && a.holdsNotNull {
		warning := &wire.Error{Code: "01000", Message: fmt.Sprintf("column \"%s\" is held to NOT NULL by a CHECK", a.Column),
			Detail: "DSQL refuses SET NOT NULL. The error of a NULL is that of a CHECK (23514), and the catalog shows the column as nullable."}
		a.notices = append(a.notices, warning.AppendNotice(nil, "WARNING"))
	}
	return err
}

// named has an error speak of the column by its own name, which is what the client has written, and
// what PostgreSQL would have said.
func (a *alteration) named(told *wire.Error) *wire.Error {
	with := *told
	for _, text := range []*string{&with.Message, &with.Detail, &with.Column, &with.Constraint} {
		*text = strings.ReplaceAll(*text, a.Adding(), a.Column)
	}
	return &with
}

// SQLSTATEs of a column that is there, or is not, and of a type that is not.
const (
	duplicateColumn = "42701"
	undefinedColumn = "42703"
	unknownType     = "42704"
)

// errExists is PostgreSQL's error, or notice, of a column that is there.
func (a *alteration) errExists(code string) *wire.Error {
	table := a.Table[strings.LastIndex(a.Table, `"."`)+1:]
	message := fmt.Sprintf("column \"%s\" of relation \"%s\" already exists", a.Column, strings.ReplaceAll(strings.Trim(table, `".`), `""`, `"`))
	if a.IfNotExists {
		message += ", skipping"
	}
	return &wire.Error{Code: code, Message: message}
}

// look looks for the column: one of the name is PostgreSQL's error or notice. resumes: it is
// there under its name for the time being, as another such statement has left it.
//
// The columns are those of the moment: another session may add one behind it, which the next
// step is told of (42701). A mapped column counts by the name that clients know it by.
func (a *alteration) look() (resumes bool, err error) {
	var columns []string
	err = a.ask(`SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = `+literal(a.Table)+`::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped`,
		func(row []byte) { columns = append(columns, columnsOf(row)...) })
	if err != nil {
		return false, err
	}
	// Of another type or default the rows that are filled would keep what was not asked for.
	adding := a.Adding()
	stem := adding[:len(adding)-8]
	other := slices.IndexFunc(columns, func(c string) bool { return c != adding && len(c) == len(adding) && strings.HasPrefix(c, stem) })
	switch {
	case slices.Contains(columns, a.Column), slices.Contains(columns, a.Column+schema.MappedSuffix):
		if !a.IfNotExists {
			return false, a.errExists(duplicateColumn)
		}
		a.notices = append(a.notices, a.errExists(duplicateColumn).AppendNotice(nil, "NOTICE"))
	case other >= 0:
		return false, &wire.Error{Code: "55000", Message: fmt.Sprintf("column \"%s\" is being added with another type or default", a.Column),
			Detail: fmt.Sprintf("The column \"%s\" is of a statement that has not come to its end.", columns[other]),
			Hint:   "Send that statement again, which goes on where it was; or drop the column."}
	}
	return slices.Contains(columns, adding), nil
}

// fill gives the default to all rows that are without, in batches: rows to come have it already.
func (a *alteration) fill() error {
	n, err := a.s.updateBatches(a.Table, a.Fill)
	a.filled += n
	return err
}

// Partly adds to an error what stands all the same. The column under its name for the time
// being is told even where nobody knows whether it is there (08007): to send the statement
// again is right in both cases.
func (a *alteration) Partly(err error) error {
	told, ok := err.(*wire.Error)
	if !ok || told.Fatal {
		return err
	}
	with := *told
	if a.drawn != nil && a.drawn.Left() != "" {
		with.Detail = strings.TrimSpace(with.Detail + " " + a.drawn.Left())
	}
	switch {
	case !a.stands && with.Detail == told.Detail:
		return err // nothing is left: who ignores such an error may
	case !a.stands:
		return &with
	}
	with.Detail = strings.TrimSpace(fmt.Sprintf("%s The column stands as \"%s\", and this statement has given the default to %d rows.", with.Detail, a.Adding(), a.filled))
	with.Hint = "Send the statement again: it goes on from there. Or give it up: " + a.Undo() + "."
	return &with
}
