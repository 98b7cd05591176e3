package rewrite

import (
	"bytes"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// usualSchema is the constant by which schema tools ask for the tables of their database.
const usualSchema = "'public'"

// InSchema is sql for a session whose database is a schema: where a query over
// information_schema, and nothing else, compares table_schema with the constant 'public', it
// asks for that schema. Any other text is returned as it is, and changed is false.
func (p *Planner) InSchema(sql []byte, schema string) (own []byte, changed bool) {
	if !bytes.Contains(sql, []byte(usualSchema)) || !bytes.Contains(bytes.ToLower(sql), []byte("information_schema")) || p.config.guard(sql) != fits {
		return sql, false
	}
	text := string(sql)
	tree, ok := p.read(text, false)
	if !ok {
		return sql, false
	}
	literal := "'" + strings.ReplaceAll(schema, "'", "''") + "'"
	constant, ok := p.read("SELECT "+literal, false)
	if !ok {
		return sql, false
	}
	target := constant.child("stmts").child("stmt").child("target_list").values("val")
	_, parts := p.draft(text, tree)
	var edits []edit
	meant := intents{}
	for i := range parts {
		part := &parts[i]
		other := func(table string) bool { return !strings.HasPrefix(table, "information_schema.") }
		if !part.node.is("SelectStmt") || slices.ContainsFunc(part.st.Tables, other) {
			continue
		}
		for expr, side := range comparisons(part.node) {
			at := expr.child(side).integer("location")
			if strings.HasPrefix(text[at:], usualSchema) { // else it is written in another way
				edits = append(edits, edit{at, at + len(usualSchema), literal})
				meant.set(expr, side, target...)
			}
		}
	}
	if len(edits) == 0 {
		return sql, false
	}
	made, ok := applyEdits(text, edits)
	if !ok || !p.verified(made, tree, meant, false) {
		p.unverified.Add(1)
		return sql, false
	}
	return []byte(made), true
}

// comparisons yields each comparison by = of a column table_schema with the constant public
// that is in m, with the field in which the constant stands.
func comparisons(m message) func(yield func(expr message, side string) bool) {
	return func(yield func(message, string) bool) { yieldComparisons(m, yield) }
}

func yieldComparisons(m message, yield func(message, string) bool) bool {
	if m.is("A_Expr") && m.integer("kind") == int(pg_query.A_Expr_Kind_AEXPR_OP) && slices.Equal(m.names("name"), []string{"="}) {
		for _, sides := range [2][2]string{{"lexpr", "rexpr"}, {"rexpr", "lexpr"}} {
			column, constant := m.child(sides[0]), m.child(sides[1])
			if !column.is("ColumnRef") || !constant.is("A_Const") || constant.child("sval").text("sval") != "public" {
				continue
			}
			if names := column.names("fields"); len(names) > 0 && names[len(names)-1] == "table_schema" && !yield(m, sides[1]) {
				return false
			}
		}
	}
	for child := range m.nodes() {
		if !yieldComparisons(child, yield) {
			return false
		}
	}
	return true
}
