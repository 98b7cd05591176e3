package rewrite

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// A column that is added with a DEFAULT: what of it can be carried out, and the statements that
// do so. The column has a name for the time being until its rows have the default.

// AddColumnDefaultKey is the configuration key of Rules.Backfill.
const AddColumnDefaultKey = "ddl.add_column_default"

// backfillPolicy is the value that sets it.
const backfillPolicy = "backfill"

// adds reads ADD [COLUMN] [IF NOT EXISTS] name type DEFAULT constant, with other constraints or
// not, in any order.
func (a *Alteration) adds(cmd message, reader *constraintReader, at int, constraints bool) *Alteration {
	column, ph := cmd.child("def"), reader.ph
	if refusedAlter(cmd) != AddColumn || !plainColumn(column) {
		return nil
	}
	a.Column, a.IfNotExists, a.kind = column.text("colname"), cmd.flag("missing_ok"), column.child("type_name")
	spans, until, ok := reader.spans(column, a.Column, len(ph.tokens)-1)
	if !ok {
		return nil
	}
	a.Type = ph.span(at+1, until)
	null := false
	var others []constraintSpan
	for _, span := range spans {
		switch pg_query.ConstrType(span.constraint.integer("contype")) {
		case pg_query.ConstrType_CONSTR_NOTNULL:
			a.NotNull = true
			if reader.notNull {
				others = append(others, span)
			}
		case pg_query.ConstrType_CONSTR_NULL:
			null = true
		case pg_query.ConstrType_CONSTR_DEFAULT:
			if a.Default != "" || !ph.word(span.first, "default") || !isFixed(span.constraint.child("raw_expr")) {
				return nil
			}
			a.Default = ph.span(span.first+1, span.last+1)
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
func plainColumn(column message) bool {
	return column.child("coll_clause").shape == nil && column.text("storage_name") == "" && column.text("compression") == "" && column.child("fdwoptions").shape == nil
}

// holds reads what the column is held to besides. The constraints are added while it has its name
// for the time being, by which they call it: nobody else can have written it then.
func (a *Alteration) holds(reader *constraintReader, spans []constraintSpan) bool {
	var adds []Addition
	for _, span := range spans {
		a.besides += " " + reader.ph.span(span.first, span.last+1)
	}
	for _, span := range spans {
		n := len(adds)
		if constraintIs(span.constraint, pg_query.ConstrType_CONSTR_NOTNULL) {
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
func (a *Alteration) names(hold *Addition, span constraintSpan, ph *phrase) bool {
	var edits []edit
	refs := columnRefs(span.constraint.child("raw_expr"), nil)
	slices.SortFunc(refs, func(a, b message) int { return a.integer("location") - b.integer("location") })
	for _, ref := range refs {
		names := ref.names("fields")
		i := ph.at(ref.integer("location"))
		switch {
		case i < 0 || len(names) != len(ref.values("fields")):
			return false
		case len(names) == 1 && names[0] == a.Column:
			edits = append(edits, edit{int(ph.tokens[i].start), int(ph.tokens[i].end), identifier(a.Adding())})
		case names[len(names)-1] == a.Column:
			return false
		}
	}
	first := span.first
	if ph.word(first, "constraint") {
		first += 2
	}
	from, to := int(ph.tokens[first].start), int(ph.tokens[span.last].end)
	hold.body = ""
	for _, e := range edits {
		hold.body += string(ph.text[from:e.start]) + e.text
		from = e.end
	}
	hold.body += string(ph.text[from:to])
	return true
}

// columnRefs are the references to columns in an expression.
func columnRefs(expr message, refs []message) []message {
	if expr.is("ColumnRef") {
		return append(refs, expr)
	}
	for child := range expr.nodes() {
		refs = columnRefs(child, refs)
	}
	return refs
}

// isFixed reports a constant that is not NULL, with casts or not, and means the same whenever
// it is read.
func isFixed(m message) bool {
	for m.is("TypeCast") {
		m = m.child("arg")
	}
	return m.is("A_Const") && !m.flag("isnull") && isLasting(m)
}

// verified reports whether the statements that are made of the pieces mean what the client's
// says of type and default.
func (a *Alteration) verified() bool {
	if a.Own != nil {
		return a.ownVerified()
	}
	client, err := parseTree(a.Text)
	if err != nil {
		return false
	}
	was := client.child("stmts").child("stmt").child("cmds").child("def")
	add, err := parseTree(a.Add())
	if err != nil {
		return false
	}
	column := add.child("stmts").child("stmt").child("cmds").child("def")
	if column.child("constraints").shape != nil || !(intents{}).equal(was.child("type_name"), column.child("type_name")) {
		return false
	}
	set, err := parseTree(a.SetDefault())
	if err != nil || len(set.values("stmts")) != 1 {
		return false
	}
	value := set.child("stmts").child("stmt").child("cmds").child("def")
	for constraint := range was.list("constraints") {
		if constraintIs(constraint, pg_query.ConstrType_CONSTR_DEFAULT) {
			return (intents{}).equal(constraint.child("raw_expr"), value)
		}
	}
	return false
}

// maxAdded bounds the name of a column that is added under another one first.
const maxAdded = maxName - len(addingSuffix) - 8

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
	return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", a.table, identifier(a.Adding()), a.Type)
}

// SetDefault gives rows to come the default.
func (a *Alteration) SetDefault() string {
	return fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT %s", a.table, identifier(a.Adding()), a.Default)
}

// Fill gives the default to so many rows that do not have it, in the order of the table's
// key, or to all where that has no columns.
func (a *Alteration) Fill(key []string, rows int) string {
	name := identifier(a.Adding())
	if len(key) == 0 {
		return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE %s IS NULL", a.table, name, name)
	}
	columns := make([]string, len(key))
	for i, column := range key {
		columns[i] = identifier(column)
	}
	list := strings.Join(columns, ", ")
	return fmt.Sprintf("UPDATE %s SET %s = DEFAULT WHERE (%s) IN (SELECT %s FROM %s WHERE %s IS NULL ORDER BY %s LIMIT %d)",
		a.table, name, list, list, a.table, name, list, rows)
}

// Rename gives the column its name.
func (a *Alteration) Rename() string {
	return fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", a.table, identifier(a.Adding()), a.column)
}

// Undo drops the column while it has not got its name.
func (a *Alteration) Undo() string {
	return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", a.table, identifier(a.Adding()))
}
