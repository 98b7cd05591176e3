package alter

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Sluice adds a serial or identity column as it adds a column with a DEFAULT (addeddefault.go). The default is the next
// value of a sequence that the column owns.

// completeAddSerial completes the Alteration of an ADD COLUMN with a serial type, or with an identity BY DEFAULT. It
// returns nil if Sluice cannot carry out the command.
func (d *Draft) completeAddSerial(a *Alteration, cmd parse.TreeNode, reader *constraintReader, at int) *Alteration {
	column, ph := cmd.Child("def"), reader.ph
	if !d.Rules.Sequences || !isPlainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists = column.Text("colname"), cmd.Flag("missing_ok")
	spans, until, ok := reader.constraintSpans(column, a.Column, len(ph.Tokens)-1)
	if !ok || len(a.Column) > maxAddedColumnName {
		return nil
	}
	options := ""
	of, isSerial := parse.SerialType(column)
	if !isSerial {
		if of, options, ok = identityTypeAndOptions(column, spans, ph); !ok {
			return nil
		}
	}
	own := &OwnedSequence{Column: a.Column}
	if own.Options, ok = d.SequenceOptions("AS " + of + " " + options); !ok {
		return nil
	}
	a.Type = of
	if !isSerial {
		a.Type = ph.TextBetween(at+1, until)
	}
	a.Own, a.NotNull, a.kind, a.Default = own, true, parse.ColumnTree(of).Child("type_name"), "nextval"
	var others []constraintSpan
	holdsNull := false
	for _, span := range spans {
		switch parse.ConstrType(span.constraint.Integer("contype")) {
		case parse.CONSTR_IDENTITY:
		case parse.CONSTR_NULL, parse.CONSTR_DEFAULT: // PostgreSQL refuses this DEFAULT as well
			return nil
		case parse.CONSTR_NOTNULL:
			if reader.notNull {
				others, holdsNull = append(others, span), true
			}
		default:
			others = append(others, span)
		}
	}
	if len(others) > 0 && !(d.Rules.Constraints && a.setHeldConstraints(reader, others)) {
		return nil
	}
	if reader.notNull && !holdsNull {
		a.addNotNullCheck()
	}
	return a
}

// addNotNullCheck adds to Held the CHECK that represents NOT NULL. A serial column is NOT NULL even if the text does
// not say so.
func (a *Alteration) addNotNullCheck() {
	if a.Held == nil {
		a.Held = &AddedConstraints{Table: a.Table, Relation: a.relation, table: a.table}
	}
	hold := newNotNullCheck(a.table, a.relation, a.TemporaryName())
	hold.nameColumns = a.Column
	a.Held.Adds = append(a.Held.Adds, hold)
	a.Held.sortAdditions()
}

// identityTypeAndOptions returns the integer type and the sequence options of an added identity that is BY DEFAULT.
func identityTypeAndOptions(column parse.TreeNode, spans []constraintSpan, ph *parse.TokenList) (of, options string, ok bool) {
	kind := column.Child("type_name")
	switch {
	case parse.IsType(kind, "int8"):
		of = "bigint"
	case parse.IsType(kind, "int4"):
		of = "integer"
	case parse.IsType(kind, "int2"):
		of = "smallint"
	default:
		return "", "", false
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
	at := ph.NextKeyword(spans[i].first, "identity")
	if at < 0 || at > spans[i].last {
		return "", "", false
	}
	if at < spans[i].last {
		options = ph.TextBetween(at+2, spans[i].last)
	}
	return of, options, true
}

// verifiesSerialSteps reports whether the statements that add the column can be parsed and give it the client's type.
func (a *Alteration) verifiesSerialSteps() bool {
	add, err := parse.Tree(a.AddColumnSQL())
	if err != nil || len(add.Values("stmts")) != 1 {
		return false
	}
	column := add.Child("stmts").Child("stmt").Child("cmds").Child("def")
	if column.Text("colname") != a.TemporaryName() || column.Child("constraints").Shape != nil || !(parse.TreeChanges{}).Equal(column.Child("type_name"), a.kind) {
		return false
	}
	set, err := parse.Tree(a.WithSequence("s").SetDefaultSQL())
	return err == nil && len(set.Values("stmts")) == 1
}

// WithSequence returns a copy of the Alteration whose default is the next value of a sequence. name is SQL.
func (a *Alteration) WithSequence(name string) *Alteration {
	drawing := *a
	drawing.Default = "nextval(" + parse.QuoteLiteral(name) + "::regclass)"
	return &drawing
}

// TableSQL returns the SQL name of the altered table, as the client's statement writes it.
func (a *Alteration) TableSQL() string { return a.table }

// AddPrecision adds digits, a precision, to a column of type numeric without one. It reports whether the column has
// that type. The caller then changes Text.
func (a *Alteration) AddPrecision(digits string) bool {
	if !parse.IsType(a.kind, "numeric") {
		return false
	}
	a.declared = a.Type
	a.Type += digits
	a.kind = parse.ColumnTree("numeric" + digits).Child("type_name")
	return true
}
