package rewrite

import "slices"

// derive writes a statement that only reads over queries in the place of tables with mapped
// columns, which have these as clients know them. It is right whatever the statement does with
// them, but no index over a mapped column serves it. why says what cannot be said otherwise.
func (m *mapper) derive(node message, why string) {
	query := node
	for slices.Contains([]string{"ExplainStmt", "PrepareStmt", "DeclareCursorStmt", "ViewStmt", "CopyStmt", "CreateTableAsStmt"}, query.name()) {
		query = query.child("query")
	}
	if !query.is("SelectStmt") || writes(query) {
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
func writes(node message) bool {
	switch node.name() {
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt", "LockingClause", "IntoClause":
		return true
	}
	for child := range node.nodes() {
		if child.shape != nil && writes(child) {
			return true
		}
	}
	return false
}

// commonNames gathers the names of the queries of WITH.
func commonNames(node message, names map[string]bool) {
	if node.is("CommonTableExpr") {
		names[node.text("ctename")] = true
	}
	for child := range node.nodes() {
		if child.shape != nil {
			commonNames(child, names)
		}
	}
}

// aliasNames gathers the aliases of a query.
func aliasNames(node message, names map[string]bool) {
	if node.is("Alias") {
		names[node.text("aliasname")] = true
	}
	for child := range node.nodes() {
		if child.shape != nil {
			aliasNames(child, names)
		}
	}
}

// rowTypeOf is the function that tells the type of a row, which is none of a query's.
const rowTypeOf = "pg_typeof"

// wholeRows gathers the names by which an expression may read the row of a table whole; those
// that pg_typeof does stand with its own before them.
func wholeRows(node message, names map[string]bool) {
	for number, v := range node.each() {
		if int(number) >= len(node.shape.fields) || node.shape.fields[number].shape == nil {
			continue
		}
		child := message{node.shape.fields[number].shape, v.bytes}
		if child.is("Node") {
			child = child.kind()
		}
		if child.shape == nil {
			continue
		}
		if !child.is("ColumnRef") {
			wholeRows(child, names)
			if child.is("FuncCall") && functionOf(child) == rowTypeOf {
				asked := map[string]bool{}
				wholeRows(child, asked)
				for name := range asked {
					names[rowTypeOf+name] = true
				}
			}
			continue
		}
		switch path := child.names("fields"); {
		case len(path) == 1 && len(child.values("fields")) == 1:
			names[path[0]] = true
		case len(path) > 0 && len(path) < len(child.values("fields")) && !node.is("ResTarget"): // t.* within an expression
			names[path[len(path)-1]] = true
		}
	}
}

// deriveIn puts queries in the place of the mapped tables of a tree.
func (m *mapper) deriveIn(node message, hidden map[string]bool) {
	for number, v := range node.each() {
		if int(number) >= len(node.shape.fields) || node.shape.fields[number].shape == nil {
			continue
		}
		n := message{node.shape.fields[number].shape, v.bytes}
		inner := n
		if n.is("Node") {
			inner = n.kind()
		}
		switch {
		case inner.shape == nil:
		case inner.is("RangeVar") && n.is("Node"):
			m.deriveTable(n, inner, hidden)
		case inner.is("ColumnRef"):
			m.deriveName(inner)
		case inner.is("A_Indirection") && inner.child("arg").is("SubLink") && inner.child("indirection").is("String"):
			m.refuse("A field of a query's row is read.")
		default:
			m.deriveIn(inner, hidden)
		}
	}
}

// deriveTable puts a query in the place of one table, if that has mapped columns.
func (m *mapper) deriveTable(n, node message, hidden map[string]bool) {
	name := node.text("relname")
	unqualified := node.text("schemaname") == ""
	rel, known := m.r.names.find(node.text("schemaname"), name)
	if known && (rel == nil || !rel.Maps()) {
		return
	}
	if !known || unqualified && hidden[name] {
		m.refuse("Nobody can tell which table the name " + written(name) + " stands for.")
		return
	}
	var columns []attribute
	for _, c := range rel.Columns {
		columns = append(columns, attribute{name: c.Name, server: c.Physical(), mapped: c.Mapped})
	}
	at := m.token(node)
	first := at
	if m.ph.word(at-1, "only") {
		first--
	}
	text, as := m.r.conversion().naturally(node, columns), ""
	alias := node.values("alias")
	if len(alias) == 0 {
		as = " AS " + inQuotes(name)
	}
	// A row of the table has its own names of columns, and a row of the query those of the alias.
	renamed := false
	if len(alias) > 0 {
		name, renamed = node.child("alias").text("aliasname"), len(node.child("alias").values("colnames")) > 0
	}
	if m.wholes[rowTypeOf+name] || renamed && m.wholes[name] {
		m.refuse("The whole row of " + written(name) + " is read, by its type or by names of columns that it has beside its own.")
		return
	}
	m.edit(first, m.lastOf(at), "("+text+")"+as)
	for _, from := range m.parsed("SELECT FROM (" + text + ") AS " + inQuotes(name)).wrapped("from_clause") {
		m.meant.replace(n, from)
		if len(alias) > 0 {
			m.meant.set(from.kind(), "alias", alias...)
		}
	}
}

// deriveName takes the schema from a name of a column of a table that is a query now.
func (m *mapper) deriveName(ref message) {
	fields, names := ref.values("fields"), ref.names("fields")
	if len(fields) != 3 || len(names) < 2 {
		return
	}
	if rel, _ := m.r.names.find(names[0], names[1]); rel == nil || !rel.Maps() {
		return
	}
	if m.aliases[names[1]] { // without its schema the name could mean what has the alias
		m.refuse("Nobody can tell which table the name " + written(names[1]) + " stands for.")
		return
	}
	at := m.token(ref)
	m.edit(at, at+1, "")
	m.meant.set(ref, "fields", fields[1:]...)
}
