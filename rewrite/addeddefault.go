package rewrite

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// A column that is added with a DEFAULT: what of it can be carried out, and the statements that
// do so. The column has a name for the time being until its rows have the default.

// AddColumnDefaultKey is the configuration key of Rules.Backfill.
const AddColumnDefaultKey = "ddl.add_column_default"

// backfillPolicy is the value that sets it.
const backfillPolicy = "backfill"

// adds reads ADD [COLUMN] [IF NOT EXISTS] name type DEFAULT constant, with other constraints or
// not, in any order.
func (a *Alteration) adds(cmd parse.Message, reader *constraintReader, at int, constraints bool) *Alteration {
	column, ph := cmd.Child("def"), reader.ph
	if refusedAlter(cmd) != AddColumn || !plainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists, a.kind = column.Text("colname"), cmd.Flag("missing_ok"), column.Child("type_name")
	spans, until, ok := reader.spans(column, a.Column, len(ph.Tokens)-1)
	if !ok {
		return nil
	}
	a.Type = ph.Span(at+1, until)
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
			if a.Default != "" || !ph.Word(span.first, "default") || !isFixed(span.constraint.Child("raw_expr")) {
				return nil
			}
			a.Default = ph.Span(span.first+1, span.last+1)
		default:
			others = append(others, span)
		}
	}
	if a.Default == "" || null && a.NotNull || len(a.Column) > maxAdded || len(others) > 0 && !(constraints && a.holds(reader, others)) {
		return nil
	}
	return a
}

// plainColumn reports a column without a collation and the like.
func plainColumn(column parse.Message) bool {
	return column.Child("coll_clause").Shape == nil && column.Text("storage_name") == "" && column.Text("compression") == "" && column.Child("fdwoptions").Shape == nil
}

// holds reads what the column is held to besides. The constraints are added while it has its name
// for the time being, by which they call it: nobody else can have written it then.
func (a *Alteration) holds(reader *constraintReader, spans []constraintSpan) bool {
	var adds []Addition
	for _, span := range spans {
		a.besides += " " + reader.ph.Span(span.first, span.last+1)
	}
	for _, span := range spans {
		n := len(adds)
		if parse.ConstraintIs(span.constraint, parse.CONSTR_NOTNULL) {
			adds = append(adds, holdsNotNull(a.table, a.relation, a.Adding()))
		} else if span.column = a.Adding(); !reader.add(&adds, span) {
			return false
		}
		hold := &adds[n]
		if hold.Kind == Check && !a.names(hold, span, reader.ph) {
			return false
		}
		if hold.Kind != Check {
			hold.second = a.Column
		}
	}
	a.Held = &Constraints{Table: a.Table, Relation: a.relation, Adds: adds, table: a.table}
	a.Held.sort()
	return true
}

// names has a CHECK call the column by its name for the time being.
func (a *Alteration) names(hold *Addition, span constraintSpan, ph *parse.Phrase) bool {
	var edits []parse.Edit
	refs := columnRefs(span.constraint.Child("raw_expr"), nil)
	slices.SortFunc(refs, func(a, b parse.Message) int { return a.Integer("location") - b.Integer("location") })
	for _, ref := range refs {
		names := ref.Names("fields")
		i := ph.At(ref.Integer("location"))
		switch {
		case i < 0 || len(names) != len(ref.Values("fields")):
			return false
		case len(names) == 1 && names[0] == a.Column:
			edits = append(edits, parse.Edit{Start: int(ph.Tokens[i].Start), End: int(ph.Tokens[i].End), Text: parse.Identifier(a.Adding())})
		case names[len(names)-1] == a.Column:
			return false
		}
	}
	first := span.first
	if ph.Word(first, "constraint") {
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

// columnRefs are the references to columns in an expression.
func columnRefs(expr parse.Message, refs []parse.Message) []parse.Message {
	if expr.Is("ColumnRef") {
		return append(refs, expr)
	}
	for child := range expr.Nodes() {
		refs = columnRefs(child, refs)
	}
	return refs
}

// isFixed reports a constant that is not NULL, with casts or not, and means the same whenever
// it is read.
func isFixed(m parse.Message) bool {
	for m.Is("TypeCast") {
		m = m.Child("arg")
	}
	return m.Is("A_Const") && !m.Flag("isnull") && isLasting(m)
}

// verified reports whether the statements that are made of the pieces mean what the client's
// says of type and default.
func (a *Alteration) verified() bool {
	if a.Own != nil {
		return a.ownVerified()
	}
	client, err := parse.Tree(a.Text)
	if err != nil {
		return false
	}
	was := client.Child("stmts").Child("stmt").Child("cmds").Child("def")
	add, err := parse.Tree(a.Add())
	if err != nil {
		return false
	}
	column := add.Child("stmts").Child("stmt").Child("cmds").Child("def")
	if column.Child("constraints").Shape != nil || !(parse.Intents{}).Equal(was.Child("type_name"), column.Child("type_name")) {
		return false
	}
	set, err := parse.Tree(a.SetDefault())
	if err != nil || len(set.Values("stmts")) != 1 {
		return false
	}
	value := set.Child("stmts").Child("stmt").Child("cmds").Child("def")
	for constraint := range was.List("constraints") {
		if parse.ConstraintIs(constraint, parse.CONSTR_DEFAULT) {
			return (parse.Intents{}).Equal(constraint.Child("raw_expr"), value)
		}
	}
	return false
}

// maxAdded bounds the name of a column that is added under another one first.
const maxAdded = parse.MaxName - len(addingSuffix) - 8

// addingSuffix stands between the name of a column and a number of its type and default,
// and what it is held to, while its rows do not have the default yet. By this name a statement finds what another
// like it has left behind.
const addingSuffix = "__adding_"

// Adding is the name that the column has until its rows have the default.
func (a *Alteration) Adding() string {
	h := fnv.New32a()
	by := a.Default
	if a.Own != nil { // its name is not known yet
		by = "serial" + a.Own.options
	}
	h.Write([]byte(cmp.Or(a.declared, a.Type) + "\x00" + by))
	if a.besides != "" {
		h.Write([]byte("\x00" + a.besides))
	}
	return fmt.Sprintf("%s%s%08x", a.Column, addingSuffix, h.Sum32())
}

// Add adds it under its name for the time being.
func (a *Alteration) Add() string {
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, parse.Identifier(a.Adding()), a.Type)
}

// SetDefault gives rows to come the default.
func (a *Alteration) SetDefault() string {
	return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, parse.Identifier(a.Adding()), a.Default)
}

// Fill gives the default to so many rows that do not have it, in the order of the table's
// key, or to all where that has no columns.
func (a *Alteration) Fill(key []string, rows int) string {
	name := parse.Identifier(a.Adding())
	if len(key) == 0 {
		return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE %s IS NULL", a.table, name, name)
	}
	columns := make([]string, len(key))
	for i, column := range key {
		columns[i] = parse.Identifier(column)
	}
	list := strings.Join(columns, ", ")
	return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE (%s) IN (SELECT %s FROM %s WHERE %s IS NULL ORDER BY %s LIMIT %d)",
		a.table, name, list, list, a.table, name, list, rows)
}

// Rename gives the column its name.
func (a *Alteration) Rename() string {
	return fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, parse.Identifier(a.Adding()), a.column)
}

// Undo drops the column while it has not got its name.
func (a *Alteration) Undo() string {
	return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, parse.Identifier(a.Adding()))
}
