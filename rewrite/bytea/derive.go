package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// useDerivedTables replaces mapped tables in a query by derived tables with the clients' columns, if the query only
// reads. The result is correct for every query, but no index over a mapped column can serve it. why is the reason for
// the refusal of other statements.
func (m *queryMapper) useDerivedTables(node parse.TreeNode, why string) {
	query := node
	for slices.Contains([]string{"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CopyStmt", "CreateTableAsStmt"}, query.TypeName()) {
		query = query.Child("query")
	}
	if !query.Is("SelectStmt") || writesOrLocks(query) {
		m.refuse(why)
		return
	}
	hidden := map[string]bool{}
	collectCTENames(query, hidden)
	m.aliases, m.wholes = map[string]bool{}, map[string]bool{}
	collectAliases(query, m.aliases)
	collectWholeRowNames(query, m.wholes)
	m.deriveTablesIn(query, hidden)
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

// rowTypeOf is the name of the function that returns a row's type. The row type of a derived table has no name.
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

// deriveTablesIn replaces the mapped tables in a tree by derived tables.
func (m *queryMapper) deriveTablesIn(node parse.TreeNode, hidden map[string]bool) {
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
			m.deriveTable(n, inner, hidden)
		case inner.Is("ColumnRef"):
			m.dropSchemaFromRef(inner)
		case inner.Is("A_Indirection") && inner.Child("arg").Is("SubLink") && inner.Child("indirection").Is("String"):
			m.refuse("A field of a query's row is read.")
		default:
			m.deriveTablesIn(inner, hidden)
		}
	}
}

// deriveTable replaces one table of a query by a derived table, if the table has mapped columns.
func (m *queryMapper) deriveTable(n, node parse.TreeNode, hidden map[string]bool) {
	name := node.Text("relname")
	unqualified := node.Text("schemaname") == ""
	rel, known := m.r.Names.FindRelation(node.Text("schemaname"), name)
	if known && (rel == nil || !rel.HasMapped()) {
		return
	}
	if !known || unqualified && hidden[name] {
		m.refuse("Nobody can tell which table the name " + parse.QuoteIdentIfNeeded(name) + " stands for.")
		return
	}
	var columns []itemColumn
	for _, c := range rel.Columns {
		columns = append(columns, itemColumn{name: c.Name, server: c.ServerName(), mapped: c.Mapped})
	}
	at := m.tokenOf(node)
	first := at
	if m.ph.IsKeyword(at-1, "only") {
		first--
	}
	text, as := m.r.By.clientColumnsQuery(node, columns), ""
	alias := node.Values("alias")
	if len(alias) == 0 {
		as = " AS " + parse.QuoteIdent(name)
	}
	// A row of a table has the table's column names, but a row of a derived table has the column names of its alias.
	renamed := false
	if len(alias) > 0 {
		name, renamed = node.Child("alias").Text("aliasname"), len(node.Child("alias").Values("colnames")) > 0
	}
	if m.wholes[rowTypeOf+name] || renamed && m.wholes[name] {
		m.refuse("The whole row of " + parse.QuoteIdentIfNeeded(name) + " is read, by its type or by names of columns that it has beside its own.")
		return
	}
	m.replaceTokens(first, m.qualifiedNameEnd(at), "("+text+")"+as)
	for _, from := range m.parseSQL("SELECT FROM (" + text + ") AS " + parse.QuoteIdent(name)).WrappedNodes("from_clause") {
		m.meant.ReplaceContent(n, from)
		if len(alias) > 0 {
			m.meant.Set(from.NodeContent(), "alias", alias...)
		}
	}
}

// dropSchemaFromRef removes the schema from a reference to a column of a derived table.
func (m *queryMapper) dropSchemaFromRef(ref parse.TreeNode) {
	fields, names := ref.Values("fields"), ref.Names("fields")
	if len(fields) != 3 || len(names) < 2 {
		return
	}
	if rel, _ := m.r.Names.FindRelation(names[0], names[1]); rel == nil || !rel.HasMapped() {
		return
	}
	if m.aliases[names[1]] { // without the schema, the name could mean the alias
		m.refuse("Nobody can tell which table the name " + parse.QuoteIdentIfNeeded(names[1]) + " stands for.")
		return
	}
	at := m.tokenOf(ref)
	m.replaceTokens(at, at+1, "")
	m.meant.Set(ref, "fields", fields[1:]...)
}
