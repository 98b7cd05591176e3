package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

const opExpr = int(parse.AEXPR_OP)

// orders are the operators that give the same result for hexadecimal digits as for the bytes.
var orders = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

// compare rewrites a comparison with a mapped column to a comparison of hexadecimal digits, so that an index
// can serve it. It returns false, without a change, if the column must be read as bytea instead.
func (m *mapper) compare(s *scope, node parse.Message) bool {
	op := node.Names("name")
	at := m.token(node)
	if len(op) != 1 || at < 0 {
		return false
	}
	left, right := node.Node("lexpr"), node.Node("rexpr")
	switch parse.A_Expr_Kind(node.Integer("kind")) {
	case parse.AEXPR_OP:
		if !orders[op[0]] {
			return false
		}
		if left.Kind().Is("RowExpr") && right.Kind().Is("RowExpr") {
			return m.rows(s, left.Kind(), []parse.Message{right.Kind()})
		}
		return m.sides(s, left, right, at-1, at+1)
	case parse.AEXPR_DISTINCT:
		return m.sides(s, left, right, at-1, at+3)
	case parse.AEXPR_NOT_DISTINCT:
		return m.sides(s, left, right, at-1, at+4)
	case parse.AEXPR_IN:
		return m.in(s, left, right.Kind(), at)
	case parse.AEXPR_OP_ANY, parse.AEXPR_OP_ALL:
		return orders[op[0]] && m.array(s, left, right, at+2)
	case parse.AEXPR_BETWEEN, parse.AEXPR_NOT_BETWEEN,
		parse.AEXPR_BETWEEN_SYM, parse.AEXPR_NOT_BETWEEN_SYM:
		return m.between(s, left, right.Kind().Wrapped("items"), at)
	}
	return false
}

// sides rewrites both sides of a comparison. The left side ends at token end, and the right one begins at token
// begin.
func (m *mapper) sides(s *scope, left, right parse.Message, end, begin int) bool {
	l, isLeft := m.bare(s, left)
	r, isRight := m.bare(s, right)
	switch {
	case isLeft && isRight:
		m.renameRef(left.Kind(), l)
		m.renameRef(right.Kind(), r)
		return true
	case isLeft:
		last := m.end(right.Kind(), begin)
		if last < 0 {
			return false
		}
		m.renameRef(left.Kind(), l)
		m.value(s, right, begin, last)
		return true
	case isRight:
		first := m.begin(left.Kind(), end)
		if first < 0 {
			return false
		}
		m.value(s, left, first, end)
		m.renameRef(right.Kind(), r)
		return true
	}
	return false
}

// rows rewrites a comparison of rows, one element of the rows after the other.
func (m *mapper) rows(s *scope, left parse.Message, others []parse.Message) bool {
	all := append([]parse.Message{left}, others...)
	elements, spans := make([][]parse.Message, len(all)), make([][][2]int, len(all))
	for i, row := range all {
		if !row.Is("RowExpr") {
			return false
		}
		elements[i] = row.Wrapped("args")
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
	if !mapped || !m.keepsTypes(s, slices.Concat(elements...), slices.Repeat(digits, len(all))) {
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

// rowItems returns the first and last token of each element of a row.
func (m *mapper) rowItems(row parse.Message) [][2]int {
	at := m.token(row)
	if !m.ph.Punct(at, '(') {
		at++
	}
	return m.items(at, len(row.Values("args")))
}

// in rewrites IN or NOT IN with a list. at is the token of the operator.
func (m *mapper) in(s *scope, left, list parse.Message, at int) bool {
	if m.ph.Word(at, "not") {
		at++
	}
	items := list.Wrapped("items")
	if left.Kind().Is("RowExpr") {
		var rows []parse.Message
		for _, n := range items {
			rows = append(rows, n.Kind())
		}
		return len(rows) > 0 && m.rowsIn(s, left.Kind(), rows)
	}
	c, ok := m.bare(s, left)
	spans := m.items(at+1, len(items))
	if !ok || spans == nil || !m.keepsTypes(s, items, allTrue(len(items))) {
		return false
	}
	m.renameRef(left.Kind(), c)
	for i, n := range items {
		m.value(s, n, spans[i][0], spans[i][1])
	}
	return true
}

// rowsIn rewrites a row before IN, if the row contains a mapped column.
func (m *mapper) rowsIn(s *scope, left parse.Message, rows []parse.Message) bool {
	for _, n := range left.Wrapped("args") {
		if _, ok := m.bare(s, n); ok {
			return m.rows(s, left, rows)
		}
	}
	return false
}

// between rewrites BETWEEN with a mapped column; at is the token BETWEEN.
func (m *mapper) between(s *scope, left parse.Message, bounds []parse.Message, at int) bool {
	c, ok := m.bare(s, left)
	if !ok || len(bounds) != 2 {
		return false
	}
	if m.ph.Word(at, "not") {
		at++
	}
	if m.ph.Word(at+1, "symmetric") || m.ph.Word(at+1, "asymmetric") {
		at++
	}
	low := m.end(bounds[0].Kind(), at+1)
	if low < 0 || !m.ph.Word(low+1, "and") {
		return false
	}
	high := m.end(bounds[1].Kind(), low+2)
	if high < 0 {
		return false
	}
	m.renameRef(left.Kind(), c)
	m.value(s, bounds[0], at+1, low)
	m.value(s, bounds[1], low+2, high)
	return true
}

// array rewrites a comparison with ANY or ALL of an array. open is the parenthesis around the array.
func (m *mapper) array(s *scope, left, right parse.Message, open int) bool {
	c, ok := m.bare(s, left)
	if !ok || !m.ph.Punct(open, '(') || m.pair(open) < 0 {
		return false
	}
	array := right.Kind()
	switch {
	case array.Is("A_ArrayExpr"):
		elements := array.Wrapped("elements")
		spans := m.items(m.token(array)+1, len(elements))
		if spans == nil || !typed(elements) || !m.keepsTypes(s, elements, allTrue(len(elements))) {
			return false
		}
		m.renameRef(left.Kind(), c)
		for i, n := range elements {
			m.value(s, n, spans[i][0], spans[i][1])
		}
		return true
	case array.Is("SubLink"):
		query := array.Child("subselect")
		if parse.SubLinkType(array.Integer("sub_link_type")) != parse.ARRAY_SUBLINK || !m.fits(query, []bool{true}) {
			return false
		}
		m.renameRef(left.Kind(), c)
		m.selects(query, &scope{outer: s}, []bool{true})
		return true
	case isUntyped(array), array.Is("TypeCast") && isUntyped(array.Child("arg")) && isByteaArray(array.Child("type_name")):
		m.renameRef(left.Kind(), c)
		m.digitsOf(right, open+1, m.pair(open)-1)
		return true
	}
	return false
}

// typed reports whether an array has the type of one of its elements. An array of literals only is text[],
// which cannot be compared with bytea.
func typed(elements []parse.Message) bool {
	some := false
	for _, n := range elements {
		if n.Kind().Is("A_ArrayExpr") {
			return false
		}
		some = some || !isUntyped(n.Kind())
	}
	return some
}

func allTrue(n int) []bool { return slices.Repeat([]bool{true}, n) }

// isByteaArray reports whether a type is bytea[].
func isByteaArray(kind parse.Message) bool {
	names := kind.Names("names")
	return len(names) > 0 && names[len(names)-1] == "bytea" && kind.Has("array_bounds")
}

// digitsOf replaces an array constant or parameter by an array of hexadecimal digits. A NULL array and NULL
// elements stay NULL.
func (m *mapper) digitsOf(n parse.Message, first, last int) {
	if last < first {
		m.lost()
		return
	}
	text := string(m.ph.Text[m.ph.Tokens[first].Start:m.ph.Tokens[last].End])
	array := text
	if isUntyped(n.Kind()) {
		// A cast to bytea[] would also accept other types.
		array = "COALESCE(" + text + ", NULL::pg_catalog.bytea[])"
	}
	made := "CASE WHEN " + array + " IS NULL THEN NULL ELSE ARRAY(SELECT " + m.r.By.Hex("v") + " FROM pg_catalog.unnest(" + array + ") AS u (v)) END"
	m.edit(first, last, made)
	for target := range m.parsed("SELECT " + made).List("target_list") {
		m.meant.Replace(n, target.Node("val"))
	}
}
