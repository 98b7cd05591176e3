package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

const opExpr = int(parse.AEXPR_OP)

// digitSafeOperators are the comparison operators whose result for two byte strings equals their result for the
// strings' hexadecimal digits.
var digitSafeOperators = map[string]bool{"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true}

// comparisonPlanner decides which comparisons with mapped columns (bytea stored as text) become comparisons of
// hexadecimal digits. An index over the digits can serve these. comparisonPlanner only decides, and changes nothing.
type comparisonPlanner struct {
	spans   *spanFinder
	columns *columnResolver
	params  *paramChecker
}

// operand is one side of a comparison. It says how exprMapper makes hexadecimal digits of that side.
type operand struct {
	node        parse.TreeNode
	form        operandForm
	column      itemColumn // the column of a mappedColumn
	first, last int        // the first and last token of a digitValue or digitArray
}

// operandForm says how exprMapper rewrites an operand for a comparison of hexadecimal digits.
type operandForm int

const (
	digitValue   operandForm = iota // a bytea value, which the server converts to digits
	mappedColumn                    // only a reference to a mapped column (bytea stored as text)
	byteaValue                      // an expression whose mapped columns the server converts to bytea
	digitArray                      // an array constant or parameter, whose elements the server converts to digits
	digitQuery                      // a query of one column, which returns digits
)

// plan appends the operands of a comparison to buffer, in the order of the text. It returns nil if the comparison must
// compare bytea instead of hexadecimal digits.
func (p *comparisonPlanner) plan(buffer []operand, s *scope, node parse.TreeNode) []operand {
	op := node.Names("name")
	at := p.spans.tokenOf(node)
	if len(op) != 1 || at < 0 {
		return nil
	}
	left, right := node.WrappedNode("lexpr"), node.WrappedNode("rexpr")
	switch parse.A_Expr_Kind(node.Integer("kind")) {
	case parse.AEXPR_OP:
		if !digitSafeOperators[op[0]] {
			return nil
		}
		if left.NodeContent().Is("RowExpr") && right.NodeContent().Is("RowExpr") {
			return p.planRows(s, left.NodeContent(), []parse.TreeNode{right.NodeContent()})
		}
		return p.planSides(buffer, s, left, right, at-1, at+1)
	case parse.AEXPR_DISTINCT:
		return p.planSides(buffer, s, left, right, at-1, at+3)
	case parse.AEXPR_NOT_DISTINCT:
		return p.planSides(buffer, s, left, right, at-1, at+4)
	case parse.AEXPR_IN:
		return p.planIn(buffer, s, left, right.NodeContent(), at)
	case parse.AEXPR_OP_ANY, parse.AEXPR_OP_ALL:
		if !digitSafeOperators[op[0]] {
			return nil
		}
		return p.planArray(buffer, s, left, right, at+2)
	case parse.AEXPR_BETWEEN, parse.AEXPR_NOT_BETWEEN,
		parse.AEXPR_BETWEEN_SYM, parse.AEXPR_NOT_BETWEEN_SYM:
		return p.planBetween(buffer, s, left, right.NodeContent().WrappedNodes("items"), at)
	}
	return nil
}

// planSides plans a comparison of two sides. The left side ends at token end, and the right side begins at token begin.
func (p *comparisonPlanner) planSides(buffer []operand, s *scope, left, right parse.TreeNode, end, begin int) []operand {
	l, isLeft := p.mappedOperand(s, left)
	r, isRight := p.mappedOperand(s, right)
	switch {
	case isLeft && isRight:
		return append(buffer, l, r)
	case isLeft:
		if last := p.spans.exprEnd(right.NodeContent(), begin); last >= 0 {
			return append(buffer, l, operand{node: right, first: begin, last: last})
		}
	case isRight:
		if first := p.spans.exprBegin(left.NodeContent(), end); first >= 0 {
			return append(buffer, operand{node: left, first: first, last: end}, r)
		}
	}
	return nil
}

// mappedOperand returns n as an operand if n is only a reference to a mapped column (bytea stored as text). Otherwise
// ok is false.
func (p *comparisonPlanner) mappedOperand(s *scope, n parse.TreeNode) (o operand, ok bool) {
	c, ok := p.columns.bareMappedColumn(s, n)
	return operand{node: n, form: mappedColumn, column: c}, ok
}

// planRows plans a comparison of rows. It plans one element of the rows after the other.
func (p *comparisonPlanner) planRows(s *scope, left parse.TreeNode, others []parse.TreeNode) []operand {
	all := append([]parse.TreeNode{left}, others...)
	elements, spans := make([][]parse.TreeNode, len(all)), make([][][2]int, len(all))
	for i, row := range all {
		if !row.Is("RowExpr") {
			return nil
		}
		elements[i] = row.WrappedNodes("args")
		spans[i] = p.spans.rowItemSpans(row)
		if len(elements[i]) != len(elements[0]) || spans[i] == nil {
			return nil
		}
	}
	mapped := false
	digits := make([]bool, len(elements[0]))
	for i := range digits {
		isLeft, isRight := p.columns.isMappedRef(s, elements[0][i]), false
		if len(others) == 1 {
			isRight = p.columns.isMappedRef(s, elements[1][i])
		}
		digits[i] = isLeft || isRight
		mapped = mapped || digits[i]
	}
	if !mapped || !p.params.keepsParamTypes(s, slices.Concat(elements...), slices.Repeat(digits, len(all))) {
		return nil
	}
	operands := make([]operand, 0, len(all)*len(digits))
	for i := range all {
		for j, n := range elements[i] {
			form := byteaValue
			if digits[j] {
				form = digitValue
			}
			operands = append(operands, operand{node: n, form: form, first: spans[i][j][0], last: spans[i][j][1]})
		}
	}
	return operands
}

// planIn plans an IN or NOT IN with a list. at is the token IN or NOT.
func (p *comparisonPlanner) planIn(buffer []operand, s *scope, left, list parse.TreeNode, at int) []operand {
	if p.spans.IsKeyword(at, "not") {
		at++
	}
	items := list.WrappedNodes("items")
	if left.NodeContent().Is("RowExpr") {
		return p.planRowIn(s, left.NodeContent(), items)
	}
	column, ok := p.mappedOperand(s, left)
	if !ok {
		return nil
	}
	return p.planItems(buffer, s, column, items, p.spans.itemSpans(at+1, len(items)))
}

// planItems plans a comparison of a mapped column (bytea stored as text) with each item of a list.
func (p *comparisonPlanner) planItems(buffer []operand, s *scope, column operand, items []parse.TreeNode, spans [][2]int) []operand {
	if spans == nil || !p.params.keepsParamTypes(s, items, allTrue(len(items))) {
		return nil
	}
	operands := append(slices.Grow(buffer, 1+len(items)), column)
	for i, n := range items {
		operands = append(operands, operand{node: n, first: spans[i][0], last: spans[i][1]})
	}
	return operands
}

// planRowIn plans an IN or NOT IN of a row that contains a mapped column (bytea stored as text).
func (p *comparisonPlanner) planRowIn(s *scope, left parse.TreeNode, items []parse.TreeNode) []operand {
	var rows []parse.TreeNode
	for _, n := range items {
		rows = append(rows, n.NodeContent())
	}
	if len(rows) == 0 {
		return nil
	}
	for _, n := range left.WrappedNodes("args") {
		if p.columns.isMappedRef(s, n) {
			return p.planRows(s, left, rows)
		}
	}
	return nil
}

// planBetween plans a BETWEEN of a mapped column (bytea stored as text). at is the token BETWEEN.
func (p *comparisonPlanner) planBetween(buffer []operand, s *scope, left parse.TreeNode, bounds []parse.TreeNode, at int) []operand {
	column, ok := p.mappedOperand(s, left)
	if !ok || len(bounds) != 2 {
		return nil
	}
	if p.spans.IsKeyword(at, "not") {
		at++
	}
	if p.spans.IsKeyword(at+1, "symmetric") || p.spans.IsKeyword(at+1, "asymmetric") {
		at++
	}
	low := p.spans.exprEnd(bounds[0].NodeContent(), at+1)
	if low < 0 || !p.spans.IsKeyword(low+1, "and") {
		return nil
	}
	high := p.spans.exprEnd(bounds[1].NodeContent(), low+2)
	if high < 0 {
		return nil
	}
	return append(buffer, column, operand{node: bounds[0], first: at + 1, last: low}, operand{node: bounds[1], first: low + 2, last: high})
}

// planArray plans a comparison of a mapped column (bytea stored as text) with ANY or ALL of an array. open is the token
// of the parenthesis around the array.
func (p *comparisonPlanner) planArray(buffer []operand, s *scope, left, right parse.TreeNode, open int) []operand {
	column, ok := p.mappedOperand(s, left)
	if !ok || !p.spans.IsPunct(open, '(') || p.spans.matchingParen(open) < 0 {
		return nil
	}
	array := right.NodeContent()
	switch {
	case array.Is("A_ArrayExpr"):
		elements := array.WrappedNodes("elements")
		if !hasTypedElement(elements) {
			return nil
		}
		return p.planItems(buffer, s, column, elements, p.spans.itemSpans(p.spans.tokenOf(array)+1, len(elements)))
	case array.Is("SubLink"):
		query := array.Child("subselect")
		if parse.SubLinkType(array.Integer("sub_link_type")) != parse.ARRAY_SUBLINK || !canReturnDigits(p.spans, query, oneColumn) {
			return nil
		}
		return append(buffer, column, operand{node: query, form: digitQuery})
	case isUntyped(array), array.Is("TypeCast") && isUntyped(array.Child("arg")) && isByteaArray(array.Child("type_name")):
		return append(buffer, column, operand{node: right, form: digitArray, first: open + 1, last: p.spans.matchingParen(open) - 1})
	}
	return nil
}

// oneColumn says that a query of one column must return hexadecimal digits.
var oneColumn = []bool{true}

// hasTypedElement reports whether an element gives an array its type. An array of only literals has the type text[],
// which PostgreSQL cannot compare with bytea.
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
