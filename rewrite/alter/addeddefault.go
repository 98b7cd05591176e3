package alter

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Sluice adds a column with a DEFAULT in several statements. The column has a temporary name until all rows have the
// default.

// AddColumnDefaultKey is the configuration key that enables Rules.Backfill.
const AddColumnDefaultKey = "ddl.add_column_default"

// BackfillPolicy is the value of AddColumnDefaultKey that enables Rules.Backfill.
const BackfillPolicy = "backfill"

// completeAddColumn completes the Alteration of an ADD COLUMN with a constant DEFAULT, which may have other
// constraints. It returns nil if Sluice cannot carry out the command.
func (a *Alteration) completeAddColumn(cmd parse.TreeNode, reader *constraintReader, at int, constraints bool) *Alteration {
	column, ph := cmd.Child("def"), reader.ph
	if RefusedFeature(cmd) != finding.AddColumn || !isPlainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists, a.kind = column.Text("colname"), cmd.Flag("missing_ok"), column.Child("type_name")
	spans, until, ok := reader.constraintSpans(column, a.Column, len(ph.Tokens)-1)
	if !ok {
		return nil
	}
	a.Type = ph.TextBetween(at+1, until)
	null := false
	var others []constraintSpan
	for _, span := range spans {
		switch parse.ConstrType(span.constraint.Integer("contype")) {
		case parse.CONSTR_NOTNULL:
			a.NotNull = true
			if reader.notNull {
				others = append(others, span)
			}
		case parse.CONSTR_NULL:
			null = true
		case parse.CONSTR_DEFAULT:
			if a.Default != "" || !ph.IsKeyword(span.first, "default") || !isTimelessConstant(span.constraint.Child("raw_expr")) {
				return nil
			}
			a.Default = ph.TextBetween(span.first+1, span.last+1)
		default:
			others = append(others, span)
		}
	}
	if a.Default == "" || null && a.NotNull || len(a.Column) > maxAddedColumnName || len(others) > 0 && !(constraints && a.setHeldConstraints(reader, others)) {
		return nil
	}
	return a
}

// isPlainColumn reports whether a column definition has no collation, storage, compression or foreign-table option.
func isPlainColumn(column parse.TreeNode) bool {
	return column.Child("coll_clause").Shape == nil && column.Text("storage_name") == "" && column.Text("compression") == "" && column.Child("fdwoptions").Shape == nil
}

// setHeldConstraints sets Held to the constraints in spans. Sluice adds them before the column gets its final name, and
// other sessions write the column only after that. The result is false if Sluice cannot add a constraint.
func (a *Alteration) setHeldConstraints(reader *constraintReader, spans []constraintSpan) bool {
	var adds []AddedConstraint
	for _, span := range spans {
		a.heldText += " " + reader.ph.TextBetween(span.first, span.last+1)
	}
	for _, span := range spans {
		n := len(adds)
		if parse.ConstraintIs(span.constraint, parse.CONSTR_NOTNULL) {
			adds = append(adds, newNotNullCheck(a.table, a.relation, a.TemporaryName()))
		} else if span.column = a.TemporaryName(); !reader.addConstraint(&adds, span) {
			return false
		}
		hold := &adds[n]
		if hold.Kind == Check && !a.renameInCheck(hold, span, reader.ph) {
			return false
		}
		if hold.Kind != Check {
			hold.nameColumns = a.Column
		}
	}
	a.Held = &AddedConstraints{Table: a.Table, Relation: a.relation, Adds: adds, table: a.table}
	a.Held.sortAdditions()
	return true
}

// renameInCheck sets hold's definition to the client's CHECK, with the column's temporary name in place of its final
// name. It returns false if the CHECK refers to the column by more than a plain name.
func (a *Alteration) renameInCheck(hold *AddedConstraint, span constraintSpan, ph *parse.TokenList) bool {
	var edits []parse.Edit
	refs := parse.AppendColumnRefs(span.constraint.Child("raw_expr"), nil)
	slices.SortFunc(refs, func(a, b parse.TreeNode) int { return a.Integer("location") - b.Integer("location") })
	for _, ref := range refs {
		names := ref.Names("fields")
		i := ph.TokenAt(ref.Integer("location"))
		switch {
		case i < 0 || len(names) != len(ref.Values("fields")):
			return false
		case len(names) == 1 && names[0] == a.Column:
			edits = append(edits, parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: parse.QuoteIdent(a.TemporaryName())})
		case names[len(names)-1] == a.Column:
			return false
		}
	}
	first := span.first
	if ph.IsKeyword(first, "constraint") {
		first += 2
	}
	from, to := int(ph.Tokens[first].Start), int(ph.Tokens[span.last].End)
	hold.body = ""
	for _, e := range edits {
		hold.body += string(ph.Text[from:e.Start]) + e.Text
		from = e.End
	}
	hold.body += string(ph.Text[from:to])
	return true
}

// isTimelessConstant reports whether m is a constant other than NULL whose value does not depend on the time. m may be
// cast.
func isTimelessConstant(m parse.TreeNode) bool {
	for m.Is("TypeCast") {
		m = m.Child("arg")
	}
	return m.Is("A_Const") && !m.Flag("isnull") && !parse.ContainsTimeWord([]byte(m.Child("sval").Text("sval")))
}

// verifiesSteps reports whether the statements that Sluice would run give the column the client's type and default.
func (a *Alteration) verifiesSteps() bool {
	if a.Own != nil {
		return a.verifiesSerialSteps()
	}
	client, err := parse.Tree(a.Text)
	if err != nil {
		return false
	}
	was := client.Child("stmts").Child("stmt").Child("cmds").Child("def")
	add, err := parse.Tree(a.AddColumnSQL())
	if err != nil {
		return false
	}
	column := add.Child("stmts").Child("stmt").Child("cmds").Child("def")
	if column.Child("constraints").Shape != nil || !(parse.TreeChanges{}).Equal(was.Child("type_name"), column.Child("type_name")) {
		return false
	}
	set, err := parse.Tree(a.SetDefaultSQL())
	if err != nil || len(set.Values("stmts")) != 1 {
		return false
	}
	value := set.Child("stmts").Child("stmt").Child("cmds").Child("def")
	for constraint := range was.List("constraints") {
		if parse.ConstraintIs(constraint, parse.CONSTR_DEFAULT) {
			return (parse.TreeChanges{}).Equal(constraint.Child("raw_expr"), value)
		}
	}
	return false
}

// maxAddedColumnName is the greatest length in bytes of a column name that leaves room for the suffix of TemporaryName.
const maxAddedColumnName = parse.MaxName - len(addingSuffix) - 8

// addingSuffix is part of an added column's temporary name. After it comes a hash of the column's type, default and
// constraints. If a client repeats an interrupted statement, Sluice finds the column of the first attempt by the hash.
const addingSuffix = "__adding_"

// TemporaryName returns the name that an added column has until all rows have the default. It contains addingSuffix.
func (a *Alteration) TemporaryName() string {
	h := fnv.New32a()
	by := a.Default
	if a.Own != nil { // the name of a serial column's sequence is not known yet
		by = "serial" + a.Own.Options
	}
	h.Write([]byte(cmp.Or(a.declared, a.Type) + "\x00" + by))
	if a.heldText != "" {
		h.Write([]byte("\x00" + a.heldText))
	}
	return fmt.Sprintf("%s%s%08x", a.Column, addingSuffix, h.Sum32())
}

// AddColumnSQL returns the statement that adds the column under its temporary name.
func (a *Alteration) AddColumnSQL() string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, parse.QuoteIdent(a.TemporaryName()), a.Type)
}

// SetDefaultSQL returns the statement that sets the added column's default for new rows.
func (a *Alteration) SetDefaultSQL() string {
	return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, parse.QuoteIdent(a.TemporaryName()), a.Default)
}

// BackfillSQL returns the UPDATE that gives the default to rows whose added column is NULL. It changes at most rows
// rows, in the order of key. If key is empty, it changes all rows.
func (a *Alteration) BackfillSQL(key []string, rows int) string {
	name := parse.QuoteIdent(a.TemporaryName())
	if len(key) == 0 {
		return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE %s IS NULL", a.table, name, name)
	}
	columns := make([]string, len(key))
	for i, column := range key {
		columns[i] = parse.QuoteIdent(column)
	}
	list := strings.Join(columns, ", ")
	return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE (%s) IN (SELECT %s FROM %s WHERE %s IS NULL ORDER BY %s LIMIT %d)",
		a.table, name, list, list, a.table, name, list, rows)
}

// RenameSQL returns the statement that gives the added column its final name.
func (a *Alteration) RenameSQL() string {
	return fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, parse.QuoteIdent(a.TemporaryName()), a.column)
}

// DropColumnSQL returns the statement that drops the added column before it has its final name.
func (a *Alteration) DropColumnSQL() string {
	return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, parse.QuoteIdent(a.TemporaryName()))
}
