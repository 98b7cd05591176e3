package bytea

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// expr rewrites an expression. Mapped columns in it are read as bytea.
func (m *mapper) expr(s *scope, n parse.Message) {
	node := n.Kind()
	switch node.Name() {
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
		if c, ok := m.bare(s, node.Node("arg")); ok {
			m.renameRef(node.Child("arg"), c)
		} else {
			m.children(s, node)
		}
	case "SubLink":
		m.subLink(s, node)
	case "FuncCall":
		m.call(s, node)
	case "GroupingFunc":
		for _, arg := range node.Wrapped("args") {
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

// children rewrites the expressions in the fields of a node.
func (m *mapper) children(s *scope, node parse.Message) {
	for number, v := range node.Each() {
		if int(number) >= len(node.Shape.Fields) {
			continue
		}
		switch f := node.Shape.Fields[number]; {
		case f.Shape == nil, f.Shape.Name == "TypeName":
		case f.Shape.Name == "Node":
			m.expr(s, parse.Message{Shape: f.Shape, Wire: v.Bytes})
		case node.Is("A_Const"):
		default:
			m.unreadable(s, parse.Message{Shape: f.Shape, Wire: v.Bytes})
		}
	}
}

// row rewrites a row expression. A star in it is replaced by the columns.
func (m *mapper) row(s *scope, node parse.Message) {
	var list []parse.Value
	all, spelt := node.Values("args"), false
	for i, n := range node.Wrapped("args") {
		if columns := m.starOf(s, n.Kind()); mapsAny(columns) {
			var texts []string
			for _, c := range columns {
				text := c.written()
				if c.mapped {
					text = m.r.By.Bytea(text)
				}
				texts = append(texts, text)
			}
			text := strings.Join(texts, ", ")
			at := m.token(n.Kind())
			m.edit(at, m.lastOf(at), text)
			for target := range m.parsed("SELECT " + text).List("target_list") {
				list = append(list, target.Values("val")...)
			}
			spelt = true
			continue
		}
		list = append(list, all[i])
		m.expr(s, n)
	}
	if spelt {
		m.meant.Set(node, "args", list...)
	}
}

// starOf returns the columns of a star. It returns none if some are unknown, and for any other node.
func (m *mapper) starOf(s *scope, node parse.Message) []attribute {
	if !isStar(node) {
		return nil
	}
	columns, known := m.starred(s, node)
	if !known {
		return nil
	}
	return columns
}

// fieldOf rewrites a field of a whole row, as in (t).k. It returns false for any other expression.
func (m *mapper) fieldOf(s *scope, n, node parse.Message) bool {
	c, ok := m.rowField(s, node)
	if ok && c.mapped {
		m.readField(n, node, node.Child("indirection"), c)
	}
	return ok
}

// rowField returns the column that a field of a whole row is.
func (m *mapper) rowField(s *scope, node parse.Message) (attribute, bool) {
	row, field := node.Child("arg"), node.Child("indirection")
	if !row.Is("ColumnRef") || !field.Is("String") || len(node.Values("indirection")) != 1 {
		return attribute{}, false
	}
	names := row.Names("fields")
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
		if c.name == field.Text("sval") {
			return c, true
		}
	}
	return attribute{}, false
}

// readField converts (t).k of a mapped column to bytea.
func (m *mapper) readField(n, node, field parse.Message, c attribute) {
	first := m.token(node.Child("arg"))
	last := first + 1
	for m.ph.Punct(last, ')') {
		first = m.pair(last)
		last++
	}
	by := m.r.By
	m.before(first, by.toBytea.open)
	if c.name != c.server {
		m.rename(field, "sval", last+1, c.server)
	}
	m.behind(last+1, by.toBytea.close)
	m.meant.Convert(n, by.unhexed())
}

// unreadable refuses a node of an unknown kind if it may read a column.
func (m *mapper) unreadable(s *scope, node parse.Message) {
	if reads(node) {
		m.cannot("An expression of the kind " + node.Name() + " is not rewritten.")
	}
}

// reads reports whether a tree contains a column reference or a query.
func reads(node parse.Message) bool {
	if node.Shape == nil {
		return false
	}
	switch node.Name() {
	case "ColumnRef", "RangeVar", "SelectStmt":
		return true
	}
	for child := range node.Nodes() {
		if child.Shape != nil && reads(child) {
			return true
		}
	}
	return false
}

// bare returns the mapped column if an expression is only a reference to one.
func (m *mapper) bare(s *scope, n parse.Message) (attribute, bool) {
	ref := n.Kind()
	if !ref.Is("ColumnRef") {
		return attribute{}, false
	}
	return m.column(s, ref)
}

// read converts a reference to a mapped column to bytea.
func (m *mapper) read(n, ref parse.Message, c attribute) {
	at, by := m.token(ref), m.r.By
	m.before(at, by.toBytea.open)
	m.renameRef(ref, c)
	m.behind(m.lastOf(at), by.toBytea.close)
	m.meant.Convert(n, by.unhexed())
}

// lastOf returns the last token of the qualified name that begins at token i.
func (m *mapper) lastOf(i int) int {
	if i < 0 {
		return -1
	}
	return m.ph.Qualified(i) - 1
}

// renameRef replaces the name in a reference by the server's.
func (m *mapper) renameRef(ref parse.Message, c attribute) {
	if c.name == c.server {
		return
	}
	var last parse.Message
	for last = range ref.List("fields") {
	}
	m.rename(last, "sval", m.lastOf(m.token(ref)), c.server)
}

// value converts a bytea value to hexadecimal digits, between the tokens first and last. The value is written
// to a mapped column or compared with one.
func (m *mapper) value(s *scope, n parse.Message, first, last int) {
	if n.Kind().Is("SetToDefault") {
		return
	}
	if c, ok := m.bare(s, n); ok {
		m.renameRef(n.Kind(), c)
		return
	}
	by := m.r.By
	m.before(first, by.toHex.open)
	m.expr(s, n)
	m.behind(last, by.toHex.close)
	m.meant.Convert(n, by.hexed())
}

// subLink rewrites a query within an expression.
func (m *mapper) subLink(s *scope, node parse.Message) {
	test, query := node.Node("testexpr"), node.Child("subselect")
	if test.Shape == nil {
		m.query(query, s)
		return
	}
	wanted, any := m.wantedBy(s, test)
	operator := node.Names("oper_name")
	if m.plainly || !any || len(operator) > 1 || len(operator) == 1 && !orders[operator[0]] || !m.fits(query, wanted) {
		m.expr(s, test)
		m.query(query, s)
		return
	}
	if c, ok := m.bare(s, test); ok {
		m.renameRef(test.Kind(), c)
	} else {
		for _, element := range test.Kind().Wrapped("args") {
			m.ordered(s, element)
		}
	}
	m.selects(query, &scope{outer: s}, wanted)
}

// wantedBy reports which columns of a query an expression compares with mapped columns.
func (m *mapper) wantedBy(s *scope, test parse.Message) (wanted []bool, any bool) {
	all := []parse.Message{test}
	if row := test.Kind(); row.Is("RowExpr") {
		all = row.Wrapped("args")
	}
	for _, n := range all {
		_, ok := m.bare(s, n)
		wanted, any = append(wanted, ok), any || ok
	}
	return wanted, any
}

// fits reports whether a query can return hexadecimal digits for the columns wanted.
func (m *mapper) fits(query parse.Message, wanted []bool) bool {
	if !oneSelect(query) {
		return false
	}
	targets := query.Wrapped("target_list")
	if len(targets) != len(wanted) || len(targets) > 1 && sortsOutput(query) {
		return false
	}
	for i, n := range targets {
		target := n.Kind()
		value := target.Child("val")
		if isStar(value) || wanted[i] && (isUntyped(value) || m.targetEnd(target) < 0) {
			return false
		}
	}
	return true
}

// oneSelect reports whether a query is a single SELECT without DISTINCT and GROUP BY.
func oneSelect(query parse.Message) bool {
	return query.Is("SelectStmt") && query.Integer("op") <= 1 && len(query.Values("distinct_clause")) == 0 && !query.Has("values_lists", "group_clause")
}

// sortsOutput reports whether a query may be sorted by the name or number of a result column.
func sortsOutput(query parse.Message) bool {
	for sort := range query.List("sort_clause") {
		if by := sort.Child("node"); by.Is("A_Const") || by.Is("ColumnRef") && len(by.Values("fields")) == 1 {
			return true
		}
	}
	return false
}

// isUntyped reports whether a value gets its type from its context.
func isUntyped(value parse.Message) bool { return value.Is("A_Const") || value.Is("ParamRef") }

// isStar reports whether a result expression is * or table.*.
func isStar(value parse.Message) bool {
	star := false
	if value.Is("ColumnRef") {
		for field := range value.List("fields") {
			star = field.Is("A_Star")
		}
	}
	return star
}

// call rewrites a function call.
func (m *mapper) call(s *scope, node parse.Message) {
	for _, arg := range node.Wrapped("args") {
		m.expr(s, arg)
	}
	for sort := range node.List("agg_order") {
		if by := sort.Node("node"); node.Flag("agg_distinct") || node.Flag("agg_within_group") {
			m.expr(s, by)
		} else {
			m.sorted(s, sort)
		}
	}
	if filter := node.Node("agg_filter"); filter.Shape != nil {
		m.expr(s, filter)
	}
	m.window(s, node.Child("over"))
}

// window rewrites the keys and offsets of a window.
func (m *mapper) window(s *scope, node parse.Message) {
	if node.Shape == nil {
		return
	}
	for _, n := range node.Wrapped("partition_clause") {
		m.ordered(s, n)
	}
	for sort := range node.List("order_clause") {
		m.sorted(s, sort)
	}
	for _, field := range []string{"start_offset", "end_offset"} {
		if n := node.Node(field); n.Shape != nil {
			m.expr(s, n)
		}
	}
}

// sorted rewrites a sort key that cannot be the name of a result column.
func (m *mapper) sorted(s *scope, sort parse.Message) {
	if sort.Has("use_op") {
		m.expr(s, sort.Node("node"))
		return
	}
	m.ordered(s, sort.Node("node"))
}

// ordered rewrites a key by which rows are sorted, grouped or compared. Hexadecimal digits sort as their bytes do.
func (m *mapper) ordered(s *scope, n parse.Message) {
	if c, ok := m.bare(s, n); ok {
		m.renameRef(n.Kind(), c)
		return
	}
	m.expr(s, n)
}
