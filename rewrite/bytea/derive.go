package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// tableDeriver replaces tables with mapped columns (bytea stored as text) by subqueries that return bytea columns.
type tableDeriver struct {
	draft draft
	names *schema.NameResolver
	by    *Conversion
	// ctes are the names of all WITH queries in the query. aliases are all aliases in it.
	ctes, aliases map[string]bool
	// wholes are names by which the query may read a whole row of a table.
	wholes map[string]bool
}

// useDerivedTables returns the draft of a statement in which subqueries replace the mapped tables. The draft is correct
// for every statement that only reads, but the server can use no index over a mapped column (bytea stored as text). For
// all other statements, the draft has a refusal with the reason why.
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

// collectCTENames adds to names the names of all WITH queries under node.
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

// collectAliases adds to names the aliases of all FROM items under node.
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

// rowTypeOf is the function that returns the type of a row. A row of a subquery has no named type.
const rowTypeOf = "pg_typeof"

// collectWholeRowNames adds to names the names by which expressions may read a table's whole row. For a name in an
// argument of pg_typeof, it also adds the name with rowTypeOf before it.
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
		case len(path) > 0 && len(path) < len(child.Values("fields")) && !node.Is("ResTarget"): // the expression t.*
			names[path[len(path)-1]] = true
		}
	}
}

// deriveTablesIn replaces the tables under node that have mapped columns (bytea stored as text) by subqueries.
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

// deriveTable replaces one table of a query by a subquery if the table has mapped columns (bytea stored as text).
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
	// A row of a table has the table's column names. A row of a subquery has the column names of the subquery's alias.
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

// dropSchemaFromRef removes the schema from a reference to a column of a table that a subquery has replaced.
func (t *tableDeriver) dropSchemaFromRef(ref parse.TreeNode) {
	fields, names := ref.Values("fields"), ref.Names("fields")
	if len(fields) != 3 || len(names) < 2 {
		return
	}
	if rel, _ := t.names.FindRelation(names[0], names[1]); rel == nil || !rel.HasMapped() {
		return
	}
	if t.aliases[names[1]] { // without its schema, the table's name could mean the alias
		t.draft.refuse("Nobody can tell which table the name " + parse.QuoteIdentIfNeeded(names[1]) + " stands for.")
		return
	}
	at := t.draft.tokenOf(ref)
	t.draft.replaceTokens(at, at+1, "")
	t.draft.meant.Set(ref, "fields", fields[1:]...)
}
