package rewrite

import "strings"

// expr maps an expression: it reads mapped columns as the bytea that they stand for.
func (m *mapper) expr(s *scope, n message) {
	node := n.kind()
	switch node.name() {
	case "":
	case "ColumnRef":
		if c, ok := m.column(s, node); ok {
			m.read(n, node, c)
		}
	case "A_Expr":
		if m.plainly || !m.compare(s, node) {
			m.children(s, node)
		}
	case "NullTest":
		if c, ok := m.bare(s, node.node("arg")); ok {
			m.renameRef(node.child("arg"), c)
		} else {
			m.children(s, node)
		}
	case "SubLink":
		m.subLink(s, node)
	case "FuncCall":
		m.call(s, node)
	case "GroupingFunc":
		for _, arg := range node.wrapped("args") {
			m.ordered(s, arg)
		}
	case "A_Indirection":
		if !m.fieldOf(s, n, node) {
			m.children(s, node)
		}
	case "RowExpr":
		m.row(s, node)
	case "BoolExpr", "BooleanTest", "CaseExpr", "CaseWhen", "CoalesceExpr", "MinMaxExpr", "TypeCast", "A_ArrayExpr",
		"A_Indices", "CollateClause", "NamedArgExpr", "List", "SQLValueFunction",
		"ParamRef", "A_Const", "SetToDefault", "CurrentOfExpr", "String", "A_Star":
		m.children(s, node)
	default:
		m.unreadable(s, node)
	}
}

// children maps the expressions that a node of a known kind holds.
func (m *mapper) children(s *scope, node message) {
	for number, v := range node.each() {
		if int(number) >= len(node.shape.fields) {
			continue
		}
		switch f := node.shape.fields[number]; {
		case f.shape == nil, f.shape.name == "TypeName":
		case f.shape.name == "Node":
			m.expr(s, message{f.shape, v.bytes})
		case node.is("A_Const"):
		default:
			m.unreadable(s, message{f.shape, v.bytes})
		}
	}
}

// row maps a row. A star in it stands for its columns.
func (m *mapper) row(s *scope, node message) {
	var list []value
	all, spelt := node.values("args"), false
	for i, n := range node.wrapped("args") {
		if columns := m.starOf(s, n.kind()); mapsAny(columns) {
			var texts []string
			for _, c := range columns {
				text := c.written()
				if c.mapped {
					text = m.r.conversion().bytea(text)
				}
				texts = append(texts, text)
			}
			text := strings.Join(texts, ", ")
			at := m.token(n.kind())
			m.edit(at, m.lastOf(at), text)
			for target := range m.parsed("SELECT " + text).list("target_list") {
				list = append(list, target.values("val")...)
			}
			spelt = true
			continue
		}
		list = append(list, all[i])
		m.expr(s, n)
	}
	if spelt {
		m.meant.set(node, "args", list...)
	}
}

// starOf are the columns that a star stands for; none where there may be others, and for
// anything else.
func (m *mapper) starOf(s *scope, node message) []attribute {
	if !isStar(node) {
		return nil
	}
	columns, known := m.starred(s, node)
	if !known {
		return nil
	}
	return columns
}

// fieldOf maps a field of a whole row, as in (t).k. It reports false for any other.
func (m *mapper) fieldOf(s *scope, n, node message) bool {
	c, ok := m.rowField(s, node)
	if ok && c.mapped {
		m.readField(n, node, node.child("indirection"), c)
	}
	return ok
}

// rowField finds the column that is a field of a whole row.
func (m *mapper) rowField(s *scope, node message) (attribute, bool) {
	row, field := node.child("arg"), node.child("indirection")
	if !row.is("ColumnRef") || !field.is("String") || len(node.values("indirection")) != 1 {
		return attribute{}, false
	}
	names := row.names("fields")
	if len(names) != 1 {
		return attribute{}, false
	}
	for level := s; level != nil; level = level.outer {
		if len(level.named(names[0])) > 0 {
			return attribute{}, false
		}
	}
	it := s.item("", names[0])
	if it == nil {
		return attribute{}, false
	}
	for _, c := range it.columns {
		if c.name == field.text("sval") {
			return c, true
		}
	}
	return attribute{}, false
}

// readField has (t).k read a mapped column as bytea.
func (m *mapper) readField(n, node, field message, c attribute) {
	first := m.token(node.child("arg"))
	last := first + 1
	for m.ph.punct(last, ')') {
		first = m.pair(last)
		last++
	}
	by := m.r.conversion()
	m.before(first, by.toBytea.open)
	if c.name != c.server {
		m.rename(field, "sval", last+1, c.server)
	}
	m.behind(last+1, by.toBytea.close)
	m.meant.convert(n, by.unhexed())
}

// unreadable refuses a node of a kind that is not known here, if it may read a column.
func (m *mapper) unreadable(s *scope, node message) {
	if reads(node) {
		m.cannot("An expression of the kind " + node.name() + " is not rewritten.")
	}
}

// reads reports whether a tree holds a name of a column or a query.
func reads(node message) bool {
	if node.shape == nil {
		return false
	}
	switch node.name() {
	case "ColumnRef", "RangeVar", "SelectStmt":
		return true
	}
	for child := range node.nodes() {
		if child.shape != nil && reads(child) {
			return true
		}
	}
	return false
}

// bare reports which mapped column an expression is, and nothing else.
func (m *mapper) bare(s *scope, n message) (attribute, bool) {
	ref := n.kind()
	if !ref.is("ColumnRef") {
		return attribute{}, false
	}
	return m.column(s, ref)
}

// read has a reference read a mapped column as bytea.
func (m *mapper) read(n, ref message, c attribute) {
	at, by := m.token(ref), m.r.conversion()
	m.before(at, by.toBytea.open)
	m.renameRef(ref, c)
	m.behind(m.lastOf(at), by.toBytea.close)
	m.meant.convert(n, by.unhexed())
}

// lastOf is the last token of a name with as many dots as it has, which begins at token i.
func (m *mapper) lastOf(i int) int {
	if i < 0 {
		return -1
	}
	return m.ph.qualified(i) - 1
}

// renameRef gives a reference the name that the server has.
func (m *mapper) renameRef(ref message, c attribute) {
	if c.name == c.server {
		return
	}
	var last message
	for last = range ref.list("fields") {
	}
	m.rename(last, "sval", m.lastOf(m.token(ref)), c.server)
}

// value makes the bytea that stands from token first to token last digits: what is written to
// a mapped column or compared with it.
func (m *mapper) value(s *scope, n message, first, last int) {
	if n.kind().is("SetToDefault") {
		return
	}
	if c, ok := m.bare(s, n); ok {
		m.renameRef(n.kind(), c)
		return
	}
	by := m.r.conversion()
	m.before(first, by.toHex.open)
	m.expr(s, n)
	m.behind(last, by.toHex.close)
	m.meant.convert(n, by.hexed())
}

// subLink maps a query within an expression.
func (m *mapper) subLink(s *scope, node message) {
	test, query := node.node("testexpr"), node.child("subselect")
	if test.shape == nil {
		m.query(query, s)
		return
	}
	wanted, any := m.wantedBy(s, test)
	operator := node.names("oper_name")
	if m.plainly || !any || len(operator) > 1 || len(operator) == 1 && !orders[operator[0]] || !m.fits(query, wanted) {
		m.expr(s, test)
		m.query(query, s)
		return
	}
	if c, ok := m.bare(s, test); ok {
		m.renameRef(test.kind(), c)
	} else {
		for _, element := range test.kind().wrapped("args") {
			m.ordered(s, element)
		}
	}
	m.selects(query, &scope{outer: s}, wanted)
}

// wantedBy tells which columns of a query an expression compares with mapped ones.
func (m *mapper) wantedBy(s *scope, test message) (wanted []bool, any bool) {
	all := []message{test}
	if row := test.kind(); row.is("RowExpr") {
		all = row.wrapped("args")
	}
	for _, n := range all {
		_, ok := m.bare(s, n)
		wanted, any = append(wanted, ok), any || ok
	}
	return wanted, any
}

// fits reports whether a query can return digits in the place of the columns wanted.
func (m *mapper) fits(query message, wanted []bool) bool {
	if !oneSelect(query) {
		return false
	}
	targets := query.wrapped("target_list")
	if len(targets) != len(wanted) || len(targets) > 1 && sortsOutput(query) {
		return false
	}
	for i, n := range targets {
		target := n.kind()
		value := target.child("val")
		if isStar(value) || wanted[i] && (isUntyped(value) || m.targetEnd(target) < 0) {
			return false
		}
	}
	return true
}

// oneSelect reports whether a query is one SELECT whose columns are what its targets say.
func oneSelect(query message) bool {
	return query.is("SelectStmt") && query.integer("op") <= 1 && len(query.values("distinct_clause")) == 0 && !query.has("values_lists", "group_clause")
}

// sortsOutput reports whether a query may be sorted by the name or number of a column that it
// returns.
func sortsOutput(query message) bool {
	for sort := range query.list("sort_clause") {
		if by := sort.child("node"); by.is("A_Const") || by.is("ColumnRef") && len(by.values("fields")) == 1 {
			return true
		}
	}
	return false
}

// isUntyped reports whether the type of a value depends on where it stands.
func isUntyped(value message) bool { return value.is("A_Const") || value.is("ParamRef") }

// isStar reports whether a target is a star, with a table or without.
func isStar(value message) bool {
	star := false
	if value.is("ColumnRef") {
		for field := range value.list("fields") {
			star = field.is("A_Star")
		}
	}
	return star
}

// call maps the call of a function.
func (m *mapper) call(s *scope, node message) {
	for _, arg := range node.wrapped("args") {
		m.expr(s, arg)
	}
	for sort := range node.list("agg_order") {
		if by := sort.node("node"); node.flag("agg_distinct") || node.flag("agg_within_group") {
			m.expr(s, by)
		} else {
			m.sorted(s, sort)
		}
	}
	if filter := node.node("agg_filter"); filter.shape != nil {
		m.expr(s, filter)
	}
	m.window(s, node.child("over"))
}

// window maps what a window function sees.
func (m *mapper) window(s *scope, node message) {
	if node.shape == nil {
		return
	}
	for _, n := range node.wrapped("partition_clause") {
		m.ordered(s, n)
	}
	for sort := range node.list("order_clause") {
		m.sorted(s, sort)
	}
	for _, field := range []string{"start_offset", "end_offset"} {
		if n := node.node(field); n.shape != nil {
			m.expr(s, n)
		}
	}
}

// sorted maps a sort key that no name of an output column can be.
func (m *mapper) sorted(s *scope, sort message) {
	if sort.has("use_op") {
		m.expr(s, sort.node("node"))
		return
	}
	m.ordered(s, sort.node("node"))
}

// ordered maps what rows are sorted, grouped or told apart by: digits have the order of the
// bytes that they stand for.
func (m *mapper) ordered(s *scope, n message) {
	if c, ok := m.bare(s, n); ok {
		m.renameRef(n.kind(), c)
		return
	}
	m.expr(s, n)
}
