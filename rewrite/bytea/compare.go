package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

const opExpr = int(parse.AEXPR_OP)

// digitSafeOperators are the comparison operators that give the same result for the hexadecimal digits of bytes as for
// the bytes.
var digitSafeOperators = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

// rewriteComparison rewrites a comparison with a mapped column to a comparison of hexadecimal digits, so that an index
// can serve it. rewriteComparison returns false, without a change, if the column must be read as bytea instead.
func (m *queryMapper) rewriteComparison(s *scope, node parse.TreeNode) bool {
	op := node.Names("name")
	at := m.draft.tokenOf(node)
	if len(op) != 1 || at < 0 {
		return false
	}
	left, right := node.WrappedNode("lexpr"), node.WrappedNode("rexpr")
	switch parse.A_Expr_Kind(node.Integer("kind")) {
	case parse.AEXPR_OP:
		if !digitSafeOperators[op[0]] {
			return false
		}
		if left.NodeContent().Is("RowExpr") && right.NodeContent().Is("RowExpr") {
			return m.rewriteRowComparison(s, left.NodeContent(), []parse.TreeNode{right.NodeContent()})
		}
		return m.rewriteSides(s, left, right, at-1, at+1)
	case parse.AEXPR_DISTINCT:
		return m.rewriteSides(s, left, right, at-1, at+3)
	case parse.AEXPR_NOT_DISTINCT:
		return m.rewriteSides(s, left, right, at-1, at+4)
	case parse.AEXPR_IN:
		return m.rewriteIn(s, left, right.NodeContent(), at)
	case parse.AEXPR_OP_ANY, parse.AEXPR_OP_ALL:
		return digitSafeOperators[op[0]] && m.rewriteArrayComparison(s, left, right, at+2)
	case parse.AEXPR_BETWEEN, parse.AEXPR_NOT_BETWEEN,
		parse.AEXPR_BETWEEN_SYM, parse.AEXPR_NOT_BETWEEN_SYM:
		return m.rewriteBetween(s, left, right.NodeContent().WrappedNodes("items"), at)
	}
	return false
}

// rewriteSides rewrites the two sides of a comparison with a mapped column. The left side ends at token end, and the
// right side begins at token begin.
func (m *queryMapper) rewriteSides(s *scope, left, right parse.TreeNode, end, begin int) bool {
	l, isLeft := m.columns.bareMappedColumn(s, left)
	r, isRight := m.columns.bareMappedColumn(s, right)
	switch {
	case isLeft && isRight:
		m.renameRef(left.NodeContent(), l)
		m.renameRef(right.NodeContent(), r)
		return true
	case isLeft:
		last := m.draft.exprEnd(right.NodeContent(), begin)
		if last < 0 {
			return false
		}
		m.renameRef(left.NodeContent(), l)
		m.convertValue(s, right, begin, last)
		return true
	case isRight:
		first := m.draft.exprBegin(left.NodeContent(), end)
		if first < 0 {
			return false
		}
		m.convertValue(s, left, first, end)
		m.renameRef(right.NodeContent(), r)
		return true
	}
	return false
}

// rewriteRowComparison rewrites a comparison of rows with a mapped column, one element of the rows after the other.
func (m *queryMapper) rewriteRowComparison(s *scope, left parse.TreeNode, others []parse.TreeNode) bool {
	all := append([]parse.TreeNode{left}, others...)
	elements, spans := make([][]parse.TreeNode, len(all)), make([][][2]int, len(all))
	for i, row := range all {
		if !row.Is("RowExpr") {
			return false
		}
		elements[i] = row.WrappedNodes("args")
		spans[i] = m.draft.rowItemSpans(row)
		if len(elements[i]) != len(elements[0]) || spans[i] == nil {
			return false
		}
	}
	mapped := false
	digits := make([]bool, len(elements[0]))
	for i := range digits {
		_, isLeft := m.columns.bareMappedColumn(s, elements[0][i])
		isRight := false
		if len(others) == 1 {
			_, isRight = m.columns.bareMappedColumn(s, elements[1][i])
		}
		digits[i] = isLeft || isRight
		mapped = mapped || digits[i]
	}
	if !mapped || !m.params.keepsParamTypes(s, slices.Concat(elements...), slices.Repeat(digits, len(all))) {
		return false
	}
	for i := range all {
		for j, n := range elements[i] {
			if digits[j] {
				m.convertValue(s, n, spans[i][j][0], spans[i][j][1])
			} else {
				m.rewriteExpr(s, n)
			}
		}
	}
	return true
}

// rewriteIn rewrites an IN or NOT IN with a list, if a mapped column is compared. at is the token of the operator.
func (m *queryMapper) rewriteIn(s *scope, left, list parse.TreeNode, at int) bool {
	if m.draft.IsKeyword(at, "not") {
		at++
	}
	items := list.WrappedNodes("items")
	if left.NodeContent().Is("RowExpr") {
		var rows []parse.TreeNode
		for _, n := range items {
			rows = append(rows, n.NodeContent())
		}
		return len(rows) > 0 && m.rewriteRowIn(s, left.NodeContent(), rows)
	}
	c, ok := m.columns.bareMappedColumn(s, left)
	spans := m.draft.itemSpans(at+1, len(items))
	if !ok || spans == nil || !m.params.keepsParamTypes(s, items, allTrue(len(items))) {
		return false
	}
	m.renameRef(left.NodeContent(), c)
	for i, n := range items {
		m.convertValue(s, n, spans[i][0], spans[i][1])
	}
	return true
}

// rewriteRowIn rewrites a row before IN, if the row contains a mapped column.
func (m *queryMapper) rewriteRowIn(s *scope, left parse.TreeNode, rows []parse.TreeNode) bool {
	for _, n := range left.WrappedNodes("args") {
		if _, ok := m.columns.bareMappedColumn(s, n); ok {
			return m.rewriteRowComparison(s, left, rows)
		}
	}
	return false
}

// rewriteBetween rewrites a BETWEEN with a mapped column. at is the token BETWEEN.
func (m *queryMapper) rewriteBetween(s *scope, left parse.TreeNode, bounds []parse.TreeNode, at int) bool {
	c, ok := m.columns.bareMappedColumn(s, left)
	if !ok || len(bounds) != 2 {
		return false
	}
	if m.draft.IsKeyword(at, "not") {
		at++
	}
	if m.draft.IsKeyword(at+1, "symmetric") || m.draft.IsKeyword(at+1, "asymmetric") {
		at++
	}
	low := m.draft.exprEnd(bounds[0].NodeContent(), at+1)
	if low < 0 || !m.draft.IsKeyword(low+1, "and") {
		return false
	}
	high := m.draft.exprEnd(bounds[1].NodeContent(), low+2)
	if high < 0 {
		return false
	}
	m.renameRef(left.NodeContent(), c)
	m.convertValue(s, bounds[0], at+1, low)
	m.convertValue(s, bounds[1], low+2, high)
	return true
}

// rewriteArrayComparison rewrites a comparison of a mapped column with ANY or ALL of an array. open is the parenthesis
// around the array.
func (m *queryMapper) rewriteArrayComparison(s *scope, left, right parse.TreeNode, open int) bool {
	c, ok := m.columns.bareMappedColumn(s, left)
	if !ok || !m.draft.IsPunct(open, '(') || m.draft.matchingParen(open) < 0 {
		return false
	}
	array := right.NodeContent()
	switch {
	case array.Is("A_ArrayExpr"):
		elements := array.WrappedNodes("elements")
		spans := m.draft.itemSpans(m.draft.tokenOf(array)+1, len(elements))
		if spans == nil || !hasTypedElement(elements) || !m.params.keepsParamTypes(s, elements, allTrue(len(elements))) {
			return false
		}
		m.renameRef(left.NodeContent(), c)
		for i, n := range elements {
			m.convertValue(s, n, spans[i][0], spans[i][1])
		}
		return true
	case array.Is("SubLink"):
		query := array.Child("subselect")
		if parse.SubLinkType(array.Integer("sub_link_type")) != parse.ARRAY_SUBLINK || !m.canReturnDigits(query, []bool{true}) {
			return false
		}
		m.renameRef(left.NodeContent(), c)
		m.rewriteSelect(query, &scope{outer: s}, []bool{true})
		return true
	case isUntyped(array), array.Is("TypeCast") && isUntyped(array.Child("arg")) && isByteaArray(array.Child("type_name")):
		m.renameRef(left.NodeContent(), c)
		m.arrayToDigits(right, open+1, m.draft.matchingParen(open)-1)
		return true
	}
	return false
}

// hasTypedElement reports whether an array has the type of one of its elements. An array of literals only is text[],
// which cannot be compared with bytea.
func hasTypedElement(elements []parse.TreeNode) bool {
	some := false
	for _, n := range elements {
		if n.NodeContent().Is("A_ArrayExpr") {
			return false
		}
		some = some || !isUntyped(n.NodeContent())
	}
	return some
}

func allTrue(n int) []bool { return slices.Repeat([]bool{true}, n) }

// isByteaArray reports whether a type is bytea[].
func isByteaArray(kind parse.TreeNode) bool {
	names := kind.Names("names")
	return len(names) > 0 && names[len(names)-1] == "bytea" && kind.Has("array_bounds")
}

// arrayToDigits replaces an array constant or parameter by an array of hexadecimal digits. A NULL array and NULL
// elements stay NULL.
func (m *queryMapper) arrayToDigits(n parse.TreeNode, first, last int) {
	if last < first {
		m.draft.recordPositionLost()
		return
	}
	text := string(m.draft.Text[m.draft.Tokens[first].Start:m.draft.Tokens[last].End])
	array := text
	if isUntyped(n.NodeContent()) {
		// COALESCE gives a NULL array its type. A cast to bytea[] would also accept arrays of other types.
		array = "COALESCE(" + text + ", NULL::pg_catalog.bytea[])"
	}
	made := "CASE WHEN " + array + " IS NULL THEN NULL ELSE ARRAY(SELECT " + m.r.By.HexSQL("v") + " FROM pg_catalog.unnest(" + array + ") AS u (v)) END"
	m.draft.replaceTokens(first, last, made)
	for target := range m.draft.parseSQL("SELECT " + made).List("target_list") {
		m.draft.meant.ReplaceContent(n, target.WrappedNode("val"))
	}
}
