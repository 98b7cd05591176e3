package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// derive replaces mapped tables in a query that only reads by derived tables with the clients' columns. The
// result is correct for every query, but no index over a mapped column can serve it. why is the reason for the
// refusal of other statements.
func (m *mapper) derive(node parse.Message, why string) {
	query := node
	for slices.Contains([]string{"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CopyStmt", "CreateTableAsStmt"}, query.Name()) {
		query = query.Child("query")
	}
	if !query.Is("SelectStmt") || writes(query) {
		m.refuse(why)
		return
	}
	hidden := map[string]bool{}
	commonNames(query, hidden)
	m.aliases, m.wholes = map[string]bool{}, map[string]bool{}
	aliasNames(query, m.aliases)
	wholeRows(query, m.wholes)
	m.deriveIn(query, hidden)
}

// writes reports whether a query changes data or locks rows.
func writes(node parse.Message) bool {
	switch node.Name() {
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "LockingClause", "IntoClause":
		return true
	}
	for child := range node.Nodes() {
		if child.Shape != nil && writes(child) {
			return true
		}
	}
	return false
}

// commonNames adds the names of a query's WITH queries to names.
func commonNames(node parse.Message, names map[string]bool) {
	if node.Is("CommonTableExpr") {
		names[node.Text("ctename")] = true
	}
	for child := range node.Nodes() {
		if child.Shape != nil {
			commonNames(child, names)
		}
	}
}

// aliasNames collects the aliases in a query.
func aliasNames(node parse.Message, names map[string]bool) {
	if node.Is("Alias") {
		names[node.Text("aliasname")] = true
	}
	for child := range node.Nodes() {
		if child.Shape != nil {
			aliasNames(child, names)
		}
	}
}

// rowTypeOf is the function that returns a row's type. The row type of a derived table has no name.
const rowTypeOf = "pg_typeof"

// wholeRows collects names by which an expression may read a table's whole row. An argument of pg_typeof is
// added a second time, with rowTypeOf before it.
func wholeRows(node parse.Message, names map[string]bool) {
	for number, v := range node.Each() {
		if int(number) >= len(node.Shape.Fields) || node.Shape.Fields[number].Shape == nil {
			continue
		}
		child := parse.Message{Shape: node.Shape.Fields[number].Shape, Wire: v.Bytes}
		if child.Is("Node") {
			child = child.Kind()
		}
		if child.Shape == nil {
			continue
		}
		if !child.Is("ColumnRef") {
			wholeRows(child, names)
			if child.Is("FuncCall") && parse.FunctionOf(child) == rowTypeOf {
				asked := map[string]bool{}
				wholeRows(child, asked)
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

// deriveIn replaces the mapped tables in a tree by derived tables.
func (m *mapper) deriveIn(node parse.Message, hidden map[string]bool) {
	for number, v := range node.Each() {
		if int(number) >= len(node.Shape.Fields) || node.Shape.Fields[number].Shape == nil {
			continue
		}
		n := parse.Message{Shape: node.Shape.Fields[number].Shape, Wire: v.Bytes}
		inner := n
		if n.Is("Node") {
			inner = n.Kind()
		}
		switch {
		case inner.Shape == nil:
		case inner.Is("RangeVar") && n.Is("Node"):
			m.deriveTable(n, inner, hidden)
		case inner.Is("ColumnRef"):
			m.deriveName(inner)
		case inner.Is("A_Indirection") && inner.Child("arg").Is("SubLink") && inner.Child("indirection").Is("String"):
			m.refuse("A field of a query's row is read.")
		default:
			m.deriveIn(inner, hidden)
		}
	}
}

// deriveTable replaces one table by a derived table, if it has mapped columns.
func (m *mapper) deriveTable(n, node parse.Message, hidden map[string]bool) {
	name := node.Text("relname")
	unqualified := node.Text("schemaname") == ""
	rel, known := m.r.Names.Find(node.Text("schemaname"), name)
	if known && (rel == nil || !rel.Maps()) {
		return
	}
	if !known || unqualified && hidden[name] {
		m.refuse("Nobody can tell which table the name " + parse.Written(name) + " stands for.")
		return
	}
	var columns []attribute
	for _, c := range rel.Columns {
		columns = append(columns, attribute{name: c.Name, server: c.Physical(), mapped: c.Mapped})
	}
	at := m.token(node)
	first := at
	if m.ph.Word(at-1, "only") {
		first--
	}
	text, as := m.r.By.naturally(node, columns), ""
	alias := node.Values("alias")
	if len(alias) == 0 {
		as = " AS " + parse.Identifier(name)
	}
	// A row of a table has the table's column names, but a row of a derived table has those of its alias.
	renamed := false
	if len(alias) > 0 {
		name, renamed = node.Child("alias").Text("aliasname"), len(node.Child("alias").Values("colnames")) > 0
	}
	if m.wholes[rowTypeOf+name] || renamed && m.wholes[name] {
		m.refuse("The whole row of " + parse.Written(name) + " is read, by its type or by names of columns that it has beside its own.")
		return
	}
	m.edit(first, m.lastOf(at), "("+text+")"+as)
	for _, from := range m.parsed("SELECT FROM (" + text + ") AS " + parse.Identifier(name)).Wrapped("from_clause") {
		m.meant.Replace(n, from)
		if len(alias) > 0 {
			m.meant.Set(from.Kind(), "alias", alias...)
		}
	}
}

// deriveName removes the schema from a reference to a column of a derived table.
func (m *mapper) deriveName(ref parse.Message) {
	fields, names := ref.Values("fields"), ref.Names("fields")
	if len(fields) != 3 || len(names) < 2 {
		return
	}
	if rel, _ := m.r.Names.Find(names[0], names[1]); rel == nil || !rel.Maps() {
		return
	}
	if m.aliases[names[1]] { // without the schema, the name could mean the alias
		m.refuse("Nobody can tell which table the name " + parse.Written(names[1]) + " stands for.")
		return
	}
	at := m.token(ref)
	m.edit(at, at+1, "")
	m.meant.Set(ref, "fields", fields[1:]...)
}
