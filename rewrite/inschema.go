package rewrite

import (
	"bytes"
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// usualSchema is the SQL constant by which schema tools select the tables of their database.
const usualSchema = "'public'"

// AdaptToSchema adapts sql for a session whose database is mapped to a schema. In queries of nothing but
// information_schema, it replaces 'public' in `table_schema = 'public'` by the schema. changed is false if it returns
// sql unchanged.
func (p *Planner) AdaptToSchema(sql []byte, schema string) (own []byte, changed bool) {
	if !bytes.Contains(sql, []byte(usualSchema)) || !bytes.Contains(bytes.ToLower(sql), []byte("information_schema")) || p.config.checkLimits(sql) != parse.Fits {
		return sql, false
	}
	text := string(sql)
	tree, ok := p.parseGuarded(text, false)
	if !ok {
		return sql, false
	}
	literal := "'" + strings.ReplaceAll(schema, "'", "''") + "'"
	constant, ok := p.parseGuarded("SELECT "+literal, false)
	if !ok {
		return sql, false
	}
	target := constant.Child("stmts").Child("stmt").Child("target_list").Values("val")
	_, parts := p.draftPlan(text, tree)
	var edits []parse.Edit
	meant := parse.TreeChanges{}
	for i := range parts {
		part := &parts[i]
		other := func(table string) bool { return !strings.HasPrefix(table, "information_schema.") }
		if !part.node.Is("SelectStmt") || slices.ContainsFunc(part.st.Tables, other) {
			continue
		}
		for expr, side := range publicSchemaComparisons(part.node) {
			at := expr.Child(side).Integer("location")
			if strings.HasPrefix(text[at:], usualSchema) { // otherwise the text spells the constant differently
				edits = append(edits, parse.Edit{Start: at, End: at + len(usualSchema), Text: literal})
				meant.Set(expr, side, target...)
			}
		}
	}
	if len(edits) == 0 {
		return sql, false
	}
	made, ok := parse.Apply(text, edits)
	if !ok || !p.hasIntendedMeaning(made, tree, meant, false) {
		p.unverified.Add(1)
		return sql, false
	}
	return []byte(made), true
}

// publicSchemaComparisons yields each comparison table_schema = 'public' in m. side is the field that contains the
// constant.
func publicSchemaComparisons(m parse.TreeNode) func(yield func(expr parse.TreeNode, side string) bool) {
	return func(yield func(parse.TreeNode, string) bool) { yieldComparisons(m, yield) }
}

func yieldComparisons(m parse.TreeNode, yield func(parse.TreeNode, string) bool) bool {
	if m.Is("A_Expr") && m.Integer("kind") == int(parse.AEXPR_OP) && slices.Equal(m.Names("name"), []string{"="}) {
		for _, sides := range [2][2]string{{"lexpr", "rexpr"}, {"rexpr", "lexpr"}} {
			column, constant := m.Child(sides[0]), m.Child(sides[1])
			if !column.Is("ColumnRef") || !constant.Is("A_Const") || constant.Child("sval").Text("sval") != "public" {
				continue
			}
			if names := column.Names("fields"); len(names) > 0 && names[len(names)-1] == "table_schema" && !yield(m, sides[1]) {
				return false
			}
		}
	}
	for child := range m.Children() {
		if !yieldComparisons(child, yield) {
			return false
		}
	}
	return true
}
