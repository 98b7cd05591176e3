package rewrite

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

const opExpr = int(pg_query.A_Expr_Kind_AEXPR_OP)

// orders are the operators under which digits compare as the bytes that they stand for.
var orders = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

// compare maps a comparison with a mapped column, so that an index over it serves. It reports
// false where it has changed nothing: then the column is to be read as bytea.
func (m *mapper) compare(s *scope, node message) bool {
	op := node.names("name")
	at := m.token(node)
	if len(op) != 1 || at < 0 {
		return false
	}
	left, right := node.node("lexpr"), node.node("rexpr")
	switch pg_query.A_Expr_Kind(node.integer("kind")) {
	case pg_query.A_Expr_Kind_AEXPR_OP:
		if !orders[op[0]] {
			return false
		}
		if left.kind().is("RowExpr") && right.kind().is("RowExpr") {
			return m.rows(s, left.kind(), []message{right.kind()})
		}
		return m.sides(s, left, right, at-1, at+1)
	case pg_query.A_Expr_Kind_AEXPR_DISTINCT:
		return m.sides(s, left, right, at-1, at+3)
	case pg_query.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		return m.sides(s, left, right, at-1, at+4)
	case pg_query.A_Expr_Kind_AEXPR_IN:
		return m.in(s, left, right.kind(), at)
	case pg_query.A_Expr_Kind_AEXPR_OP_ANY, pg_query.A_Expr_Kind_AEXPR_OP_ALL:
		return orders[op[0]] && m.array(s, left, right, at+2)
	case pg_query.A_Expr_Kind_AEXPR_BETWEEN, pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN,
		pg_query.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		return m.between(s, left, right.kind().wrapped("items"), at)
	}
	return false
}

// sides maps both sides of a comparison: the left one ends at a token, and the right one
// begins at another.
func (m *mapper) sides(s *scope, left, right message, end, begin int) bool {
	l, isLeft := m.bare(s, left)
	r, isRight := m.bare(s, right)
	switch {
	case isLeft && isRight:
		m.renameRef(left.kind(), l)
		m.renameRef(right.kind(), r)
		return true
	case isLeft:
		last := m.end(right.kind(), begin)
		if last < 0 {
			return false
		}
		m.renameRef(left.kind(), l)
		m.value(s, right, begin, last)
		return true
	case isRight:
		first := m.begin(left.kind(), end)
		if first < 0 {
			return false
		}
		m.value(s, left, first, end)
		m.renameRef(right.kind(), r)
		return true
	}
	return false
}

// rows maps a comparison of a row with others, element by element.
func (m *mapper) rows(s *scope, left message, others []message) bool {
	all := append([]message{left}, others...)
	elements, spans := make([][]message, len(all)), make([][][2]int, len(all))
	for i, row := range all {
		if !row.is("RowExpr") {
			return false
		}
		elements[i] = row.wrapped("args")
		spans[i] = m.rowItems(row)
		if len(elements[i]) != len(elements[0]) || spans[i] == nil {
			return false
		}
	}
	mapped := false
	digits := make([]bool, len(elements[0]))
	for i := range digits {
		_, isLeft := m.bare(s, elements[0][i])
		isRight := false
		if len(others) == 1 {
			_, isRight = m.bare(s, elements[1][i])
		}
		digits[i] = isLeft || isRight
		mapped = mapped || digits[i]
	}
	if !mapped || !m.settled(s, slices.Concat(elements...), slices.Repeat(digits, len(all))) {
		return false
	}
	for i := range all {
		for j, n := range elements[i] {
			if digits[j] {
				m.value(s, n, spans[i][j][0], spans[i][j][1])
			} else {
				m.expr(s, n)
			}
		}
	}
	return true
}

// rowItems are the places of a row's elements.
func (m *mapper) rowItems(row message) [][2]int {
	at := m.token(row)
	if !m.ph.punct(at, '(') {
		at++
	}
	return m.items(at, len(row.values("args")))
}

// in maps IN and NOT IN with a list, whose operator stands at a token.
func (m *mapper) in(s *scope, left, list message, at int) bool {
	if m.ph.word(at, "not") {
		at++
	}
	items := list.wrapped("items")
	if left.kind().is("RowExpr") {
		var rows []message
		for _, n := range items {
			rows = append(rows, n.kind())
		}
		return len(rows) > 0 && m.rowsIn(s, left.kind(), rows)
	}
	c, ok := m.bare(s, left)
	spans := m.items(at+1, len(items))
	if !ok || spans == nil || !m.settled(s, items, allTrue(len(items))) {
		return false
	}
	m.renameRef(left.kind(), c)
	for i, n := range items {
		m.value(s, n, spans[i][0], spans[i][1])
	}
	return true
}

// rowsIn maps a row that is looked for in a list: what is mapped in the row decides.
func (m *mapper) rowsIn(s *scope, left message, rows []message) bool {
	for _, n := range left.wrapped("args") {
		if _, ok := m.bare(s, n); ok {
			return m.rows(s, left, rows)
		}
	}
	return false
}

// between maps BETWEEN, which stands at a token.
func (m *mapper) between(s *scope, left message, bounds []message, at int) bool {
	c, ok := m.bare(s, left)
	if !ok || len(bounds) != 2 {
		return false
	}
	if m.ph.word(at, "not") {
		at++
	}
	if m.ph.word(at+1, "symmetric") || m.ph.word(at+1, "asymmetric") {
		at++
	}
	low := m.end(bounds[0].kind(), at+1)
	if low < 0 || !m.ph.word(low+1, "and") {
		return false
	}
	high := m.end(bounds[1].kind(), low+2)
	if high < 0 {
		return false
	}
	m.renameRef(left.kind(), c)
	m.value(s, bounds[0], at+1, low)
	m.value(s, bounds[1], low+2, high)
	return true
}

// array maps a comparison with ANY or ALL of an array in the parenthesis at token open.
func (m *mapper) array(s *scope, left, right message, open int) bool {
	c, ok := m.bare(s, left)
	if !ok || !m.ph.punct(open, '(') || m.pair(open) < 0 {
		return false
	}
	array := right.kind()
	switch {
	case array.is("A_ArrayExpr"):
		elements := array.wrapped("elements")
		spans := m.items(m.token(array)+1, len(elements))
		if spans == nil || !typed(elements) || !m.settled(s, elements, allTrue(len(elements))) {
			return false
		}
		m.renameRef(left.kind(), c)
		for i, n := range elements {
			m.value(s, n, spans[i][0], spans[i][1])
		}
		return true
	case array.is("SubLink"):
		query := array.child("subselect")
		if pg_query.SubLinkType(array.integer("sub_link_type")) != pg_query.SubLinkType_ARRAY_SUBLINK || !m.fits(query, []bool{true}) {
			return false
		}
		m.renameRef(left.kind(), c)
		m.selects(query, &scope{outer: s}, []bool{true})
		return true
	case isUntyped(array), array.is("TypeCast") && isUntyped(array.child("arg")) && isByteaArray(array.child("type_name")):
		m.renameRef(left.kind(), c)
		m.digitsOf(right, open+1, m.pair(open)-1)
		return true
	}
	return false
}

// typed reports whether an array of these elements has the type of one of them: one of
// literals alone is text[], which no bytea compares with.
func typed(elements []message) bool {
	some := false
	for _, n := range elements {
		if n.kind().is("A_ArrayExpr") {
			return false
		}
		some = some || !isUntyped(n.kind())
	}
	return some
}

func allTrue(n int) []bool { return slices.Repeat([]bool{true}, n) }

// isByteaArray reports whether a type is bytea[].
func isByteaArray(kind message) bool {
	names := kind.names("names")
	return len(names) > 0 && names[len(names)-1] == "bytea" && kind.has("array_bounds")
}

// digitsOf makes an array of digits of a constant or parameter from token first to last. An
// array that is NULL stays so, and so does an element.
func (m *mapper) digitsOf(n message, first, last int) {
	if last < first {
		m.lost()
		return
	}
	text := string(m.ph.text[m.ph.tokens[first].start:m.ph.tokens[last].end])
	array := text
	if isUntyped(n.kind()) {
		// No cast: that converts what is of another type.
		array = "COALESCE(" + text + ", NULL::pg_catalog.bytea[])"
	}
	made := "CASE WHEN " + array + " IS NULL THEN NULL ELSE ARRAY(SELECT " + m.r.conversion().hex("v") + " FROM pg_catalog.unnest(" + array + ") AS u (v)) END"
	m.edit(first, last, made)
	for target := range m.parsed("SELECT " + made).list("target_list") {
		m.meant.replace(n, target.node("val"))
	}
}
