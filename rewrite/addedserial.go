package rewrite

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A serial column, or an identity BY DEFAULT, that ALTER TABLE adds: the column of its type is added as one
// with a DEFAULT is (addeddefault.go), with a default that draws from a sequence of its own.

// addsSerial reads ADD [COLUMN] [IF NOT EXISTS] name serial, or of an integer type with an identity BY DEFAULT.
func (r *rewriter) addsSerial(a *Alteration, cmd parse.Message, reader *constraintReader, at int) *Alteration {
	column, ph := cmd.Child("def"), reader.ph
	if r.rules.SerialForm == SerialIdentity || !plainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists = column.Text("colname"), cmd.Flag("missing_ok")
	spans, until, ok := reader.spans(column, a.Column, len(ph.Tokens)-1)
	if !ok || len(a.Column) > maxAdded {
		return nil
	}
	options := ""
	of, isSerial := serialOf(column)
	if !isSerial {
		if of, options, ok = identityAdded(column, spans, ph); !ok {
			return nil
		}
	}
	own := &OwnedSequence{Column: a.Column}
	if own.options, ok = r.optionsOfOwn("AS " + of + " " + options); !ok {
		return nil
	}
	a.Type = of
	if !isSerial {
		a.Type = ph.Span(at+1, until)
	}
	a.Own, a.NotNull, a.kind, a.Default = own, true, columnOf(of).Child("type_name"), "nextval"
	var others []constraintSpan
	holdsNull := false
	for _, span := range spans {
		switch parse.ConstrType(span.constraint.Integer("contype")) {
		case parse.CONSTR_IDENTITY:
		case parse.CONSTR_NULL, parse.CONSTR_DEFAULT: // PostgreSQL refuses it too
			return nil
		case parse.CONSTR_NOTNULL:
			if reader.notNull {
				others, holdsNull = append(others, span), true
			}
		default:
			others = append(others, span)
		}
	}
	if len(others) > 0 && !(r.rules.Constraints && a.holds(reader, others)) {
		return nil
	}
	if reader.notNull && !holdsNull {
		a.holdsNumbers()
	}
	return a
}

// holdsNumbers holds the column to NOT NULL, which a serial column is without saying so.
func (a *Alteration) holdsNumbers() {
	if a.Held == nil {
		a.Held = &Constraints{Table: a.Table, Relation: a.relation, table: a.table}
	}
	hold := holdsNotNull(a.table, a.relation, a.Adding())
	hold.second = a.Column
	a.Held.Adds = append(a.Held.Adds, hold)
	a.Held.sort()
}

// identityAdded is the type of a column with an identity BY DEFAULT, and the options of its sequence.
func identityAdded(column parse.Message, spans []constraintSpan, ph *parse.Phrase) (of, options string, ok bool) {
	kind := column.Child("type_name")
	bits, small := narrowOf(kind)
	switch {
	case parse.IsType(kind, "int8"):
		of = "bigint"
	case !small:
		return "", "", false
	default:
		of = map[narrow]string{32: "integer", 16: "smallint"}[bits]
	}
	i := slices.IndexFunc(spans, func(s constraintSpan) bool { return parse.ConstraintIs(s.constraint, parse.CONSTR_IDENTITY) })
	if i < 0 || spans[i].constraint.Text("generated_when") != "d" {
		return "", "", false
	}
	for option := range spans[i].constraint.List("options") {
		if name := option.Text("defname"); name == "as" || name == "sequence_name" || name == "owned_by" {
			return "", "", false
		}
	}
	at := ph.Next(spans[i].first, "identity")
	if at < 0 || at > spans[i].last {
		return "", "", false
	}
	if at < spans[i].last {
		options = ph.Span(at+2, spans[i].last)
	}
	return of, options, true
}

// ownVerified reports whether the statements that are made mean the type, and a default.
func (a *Alteration) ownVerified() bool {
	add, err := parse.Tree(a.Add())
	if err != nil || len(add.Values("stmts")) != 1 {
		return false
	}
	column := add.Child("stmts").Child("stmt").Child("cmds").Child("def")
	if column.Text("colname") != a.Adding() || column.Child("constraints").Shape != nil || !(parse.Intents{}).Equal(column.Child("type_name"), a.kind) {
		return false
	}
	set, err := parse.Tree(a.Drawing("s").SetDefault())
	return err == nil && len(set.Values("stmts")) == 1
}

// Drawing is the statement with a default that draws from a sequence, whose name is SQL.
func (a *Alteration) Drawing(name string) *Alteration {
	drawing := *a
	drawing.Default = "nextval(" + parse.Literal(name) + "::regclass)"
	return &drawing
}

// OnTable is the table as the statements name it, as SQL.
func (a *Alteration) OnTable() string { return a.table }
