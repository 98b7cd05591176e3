package rewrite

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// A serial column, or an identity BY DEFAULT, that ALTER TABLE adds: the column of its type is added as one
// with a DEFAULT is (addeddefault.go), with a default that draws from a sequence of its own.

// addsSerial reads ADD [COLUMN] [IF NOT EXISTS] name serial, or of an integer type with an identity BY DEFAULT.
func (r *rewriter) addsSerial(a *Alteration, cmd message, reader *constraintReader, at int) *Alteration {
	column, ph := cmd.child("def"), reader.ph
	if r.rules.SerialForm == SerialIdentity || !plainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists = column.text("colname"), cmd.flag("missing_ok")
	spans, until, ok := reader.spans(column, a.Column, len(ph.tokens)-1)
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
		a.Type = ph.span(at+1, until)
	}
	a.Own, a.NotNull, a.kind, a.Default = own, true, columnOf(of).child("type_name"), "nextval"
	var others []constraintSpan
	holdsNull := false
	for _, span := range spans {
		switch pg_query.ConstrType(span.constraint.integer("contype")) {
		case pg_query.ConstrType_CONSTR_IDENTITY:
		case pg_query.ConstrType_CONSTR_NULL, pg_query.ConstrType_CONSTR_DEFAULT: // PostgreSQL refuses it too
			return nil
		case pg_query.ConstrType_CONSTR_NOTNULL:
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
func identityAdded(column message, spans []constraintSpan, ph *phrase) (of, options string, ok bool) {
	kind := column.child("type_name")
	bits, small := narrowOf(kind)
	switch {
	case isType(kind, "int8"):
		of = "bigint"
	case !small:
		return "", "", false
	default:
		of = map[narrow]string{32: "integer", 16: "smallint"}[bits]
	}
	i := slices.IndexFunc(spans, func(s constraintSpan) bool { return constraintIs(s.constraint, pg_query.ConstrType_CONSTR_IDENTITY) })
	if i < 0 || spans[i].constraint.text("generated_when") != "d" {
		return "", "", false
	}
	for option := range spans[i].constraint.list("options") {
		if name := option.text("defname"); name == "as" || name == "sequence_name" || name == "owned_by" {
			return "", "", false
		}
	}
	at := ph.next(spans[i].first, "identity")
	if at < 0 || at > spans[i].last {
		return "", "", false
	}
	if at < spans[i].last {
		options = ph.span(at+2, spans[i].last)
	}
	return of, options, true
}

// ownVerified reports whether the statements that are made mean the type, and a default.
func (a *Alteration) ownVerified() bool {
	add, err := parseTree(a.Add())
	if err != nil || len(add.values("stmts")) != 1 {
		return false
	}
	column := add.child("stmts").child("stmt").child("cmds").child("def")
	if column.text("colname") != a.Adding() || column.child("constraints").shape != nil || !(intents{}).equal(column.child("type_name"), a.kind) {
		return false
	}
	set, err := parseTree(a.Drawing("s").SetDefault())
	return err == nil && len(set.values("stmts")) == 1
}

// Drawing is the statement with a default that draws from a sequence, whose name is SQL.
func (a *Alteration) Drawing(name string) *Alteration {
	drawing := *a
	drawing.Default = "nextval(" + literal(name) + "::regclass)"
	return &drawing
}

// OnTable is the table as the statements name it, as SQL.
func (a *Alteration) OnTable() string { return a.table }
