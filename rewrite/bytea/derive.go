package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableDeriver replaces tables with mapped columns (bytea stored as text) by derived tables with bytea columns.
type tableDeriver struct {
	draft draft
	names *schema.NameResolver
	by    *Conversion
	// ctes are the names of the query's WITH queries, and aliases its aliases.
	ctes, aliases map[string]bool
	// wholes are names by which the query may read whole rows.
	wholes map[string]bool
}

// useDerivedTables returns the draft of a statement whose mapped tables are derived tables, if the statement only
// reads. The result is correct for every query, but no index over a mapped column (bytea stored as text) can serve
// it. why is the reason for the refusal of other statements.
func (m *Mapping) useDerivedTables(node parse.TreeNode, start, end int, why string) *draft {
	t := &tableDeriver{draft: m.newDraft(start, end), names: m.Names, by: m.By,
		ctes: map[string]bool{}, aliases: map[string]bool{}, wholes: map[string]bool{}}
	query := node
	for slices.Contains([]string{"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CopyStmt", "CreateTableAsStmt"}, query.TypeName()) {
		query = query.Child("query")
	}
	if !query.Is("SelectStmt") || writesOrLocks(query) {
		t.draft.refuse(why)
		return &t.draft
	}
	collectCTENames(query, t.ctes)
	collectAliases(query, t.aliases)
	collectWholeRowNames(query, t.wholes)
	t.deriveTablesIn(query)
	return &t.draft
}

// writesOrLocks reports whether a query changes data or locks rows.
func writesOrLocks(node parse.TreeNode) bool {
	switch node.TypeName() {
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "LockingClause", "IntoClause":
		return true
	}
	for child := range node.Children() {
		if child.Shape != nil && writesOrLocks(child) {
			return true
		}
	}
	return false
}

// collectCTENames adds the names of a query's WITH queries to names.
func collectCTENames(node parse.TreeNode, names map[string]bool) {
	if node.Is("CommonTableExpr") {
		names[node.Text("ctename")] = true
	}
	for child := range node.Children() {
		if child.Shape != nil {
			collectCTENames(child, names)
		}
	}
}

// collectAliases adds the aliases of tables and other FROM items in a query to names.
func collectAliases(node parse.TreeNode, names map[string]bool) {
	if node.Is("Alias") {
		names[node.Text("aliasname")] = true
	}
	for child := range node.Children() {
		if child.Shape != nil {
			collectAliases(child, names)
		}
	}
}

// rowTypeOf is the function that returns a row's type, which has no name for a derived table.
const rowTypeOf = "pg_typeof"

// collectWholeRowNames adds to names the names by which an expression may read a table's whole row. A name in an
// argument of pg_typeof is also added with rowTypeOf before it.
func collectWholeRowNames(node parse.TreeNode, names map[string]bool) {
	for number, v := range node.EachField() {
		if int(number) >= len(node.Shape.Fields) || node.Shape.Fields[number].Shape == nil {
			continue
		}
		child := parse.TreeNode{Shape: node.Shape.Fields[number].Shape, Wire: v.Bytes}
		if child.Is("Node") {
			child = child.NodeContent()
		}
		if child.Shape == nil {
			continue
		}
		if !child.Is("ColumnRef") {
			collectWholeRowNames(child, names)
			if child.Is("FuncCall") && parse.CalledFunction(child) == rowTypeOf {
				asked := map[string]bool{}
				collectWholeRowNames(child, asked)
				for name := range asked {
					names[rowTypeOf+name] = true
				}
			}
			continue
		}
		switch path := child.Names("fields"); {
		case len(path) == 1 && len(child.Values("fields")) == 1:
			names[path[0]] = true
		case len(path) > 0 && len(path) < len(child.Values("fields")) && !node.Is("ResTarget"): // t.* within an expression
			names[path[len(path)-1]] = true
		}
	}
}

// deriveTablesIn replaces the tables in a tree that have mapped columns (bytea stored as text) by derived tables.
func (t *tableDeriver) deriveTablesIn(node parse.TreeNode) {
	for number, v := range node.EachField() {
		if int(number) >= len(node.Shape.Fields) || node.Shape.Fields[number].Shape == nil {
			continue
		}
		n := parse.TreeNode{Shape: node.Shape.Fields[number].Shape, Wire: v.Bytes}
		inner := n
		if n.Is("Node") {
			inner = n.NodeContent()
		}
		switch {
		case inner.Shape == nil:
		case inner.Is("RangeVar") && n.Is("Node"):
			t.deriveTable(n, inner)
		case inner.Is("ColumnRef"):
			t.dropSchemaFromRef(inner)
		case inner.Is("A_Indirection") && inner.Child("arg").Is("SubLink") && inner.Child("indirection").Is("String"):
			t.draft.refuse("A field of a query's row is read.")
		default:
			t.deriveTablesIn(inner)
		}
	}
}

// deriveTable replaces one table of a query by a derived table, if the table has mapped bytea columns.
func (t *tableDeriver) deriveTable(n, node parse.TreeNode) {
	name := node.Text("relname")
	unqualified := node.Text("schemaname") == ""
	rel, known := t.names.FindRelation(node.Text("schemaname"), name)
	if known && (rel == nil || !rel.HasMapped()) {
		return
	}
	if !known || unqualified && t.ctes[name] {
		t.draft.refuse("Nobody can tell which table the name " + parse.QuoteIdentIfNeeded(name) + " stands for.")
		return
	}
	var columns []itemColumn
	for _, c := range rel.Columns {
		columns = append(columns, itemColumn{name: c.Name, server: c.ServerName(), mapped: c.Mapped})
	}
	at := t.draft.tokenOf(node)
	first := at
	if t.draft.IsKeyword(at-1, "only") {
		first--
	}
	text, as := t.by.clientColumnsQuery(node, columns), ""
	alias := node.Values("alias")
	if len(alias) == 0 {
		as = " AS " + parse.QuoteIdent(name)
	}
	// A row of a table has the table's column names, but a row of a derived table has the column names of its alias.
	renamed := false
	if len(alias) > 0 {
		name, renamed = node.Child("alias").Text("aliasname"), len(node.Child("alias").Values("colnames")) > 0
	}
	if t.wholes[rowTypeOf+name] || renamed && t.wholes[name] {
		t.draft.refuse("The whole row of " + parse.QuoteIdentIfNeeded(name) + " is read, by its type or by names of columns that it has beside its own.")
		return
	}
	t.draft.replaceTokens(first, t.draft.qualifiedNameEnd(at), "("+text+")"+as)
	for _, from := range t.draft.parseSQL("SELECT FROM (" + text + ") AS " + parse.QuoteIdent(name)).WrappedNodes("from_clause") {
		t.draft.meant.ReplaceContent(n, from)
		if len(alias) > 0 {
			t.draft.meant.Set(from.NodeContent(), "alias", alias...)
		}
	}
}

// dropSchemaFromRef removes the schema from a reference to a column of a derived table.
func (t *tableDeriver) dropSchemaFromRef(ref parse.TreeNode) {
	fields, names := ref.Values("fields"), ref.Names("fields")
	if len(fields) != 3 || len(names) < 2 {
		return
	}
	if rel, _ := t.names.FindRelation(names[0], names[1]); rel == nil || !rel.HasMapped() {
		return
	}
	if t.aliases[names[1]] { // without the schema, the name could mean the alias
		t.draft.refuse("Nobody can tell which table the name " + parse.QuoteIdentIfNeeded(names[1]) + " stands for.")
		return
	}
	at := t.draft.tokenOf(ref)
	t.draft.replaceTokens(at, at+1, "")
	t.draft.meant.Set(ref, "fields", fields[1:]...)
}
