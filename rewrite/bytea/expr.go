package bytea

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// exprMapper rewrites expressions. It converts mapped columns (bytea stored as text), and values for mapped columns.
type exprMapper struct {
	draft       *draft
	by          *Conversion
	columns     *columnResolver
	comparisons comparisonPlanner
	queries     subqueryMapper
	// readAllAsBytea means that the statement converts every mapped column to bytea, and compares no hexadecimal
	// digits. The server then uses no index, but Sluice need not find the first and last tokens of operands.
	readAllAsBytea bool
}

// subqueryMapper rewrites the queries within expressions and FROM. Names in a query may mean columns of the scope
// outer. Columns for which wanted is true return hexadecimal digits. Only a plain SELECT can do so.
type subqueryMapper interface {
	rewriteQuery(node parse.TreeNode, outer *scope, wanted []bool) queryColumns
}

// rewriteExpr rewrites an expression so that it reads mapped columns (bytea stored as text) as bytea.
func (m *exprMapper) rewriteExpr(s *scope, n parse.TreeNode) {
	node := n.NodeContent()
	switch node.TypeName() {
	case "":
	case "ColumnRef":
		if c, ok := m.columns.resolveColumn(s, node); ok {
			m.convertRef(n, node, c)
		}
	case "A_Expr":
		if m.readAllAsBytea || !m.rewriteComparison(s, node) {
			m.rewriteChildren(s, node)
		}
	case "NullTest":
		if c, ok := m.columns.bareMappedColumn(s, node.WrappedNode("arg")); ok {
			m.renameRef(node.Child("arg"), c)
		} else {
			m.rewriteChildren(s, node)
		}
	case "SubLink":
		m.rewriteSubLink(s, node)
	case "FuncCall":
		m.rewriteCall(s, node)
	case "GroupingFunc":
		for _, arg := range node.WrappedNodes("args") {
			m.rewriteOrderedKey(s, arg)
		}
	case "A_Indirection":
		if !m.rewriteRowField(s, n, node) {
			m.rewriteChildren(s, node)
		}
	case "RowExpr":
		m.rewriteRow(s, node)
	case "BoolExpr", "BooleanTest", "CaseExpr", "CaseWhen", "CoalesceExpr", "MinMaxExpr", "TypeCast", "A_ArrayExpr",
		"A_Indices", "CollateClause", "NamedArgExpr", "List", "SQLValueFunction",
		"ParamRef", "A_Const", "SetToDefault", "CurrentOfExpr", "String", "A_Star":
		m.rewriteChildren(s, node)
	default:
		m.draft.recordUnknownNode(node)
	}
}

// rewriteComparison rewrites a comparison with a mapped column (bytea stored as text) to a comparison of hexadecimal
// digits. If the comparison must compare bytea instead, rewriteComparison returns false and changes nothing.
func (m *exprMapper) rewriteComparison(s *scope, node parse.TreeNode) bool {
	var few [3]operand
	operands := m.comparisons.plan(few[:0], s, node)
	for _, o := range operands {
		switch o.form {
		case digitValue:
			m.convertValue(s, o.node, o.first, o.last)
		case mappedColumn:
			m.renameRef(o.node.NodeContent(), o.column)
		case byteaValue:
			m.rewriteExpr(s, o.node)
		case digitArray:
			m.arrayToDigits(o.node, o.first, o.last)
		case digitQuery:
			m.queries.rewriteQuery(o.node, s, oneColumn)
		}
	}
	return len(operands) > 0
}

// arrayToDigits replaces an array constant or parameter by an array of hexadecimal digits. A NULL array and NULL
// elements remain NULL.
func (m *exprMapper) arrayToDigits(n parse.TreeNode, first, last int) {
	if last < first {
		m.draft.recordPositionLost()
		return
	}
	text := string(m.draft.Text[m.draft.Tokens[first].Start:m.draft.Tokens[last].End])
	array := text
	if isUntyped(n.NodeContent()) {
		// COALESCE gives the parameter or constant its type. A cast to bytea[] would also accept arrays of other types.
		array = "COALESCE(" + text + ", NULL::pg_catalog.bytea[])"
	}
	made := "CASE WHEN " + array + " IS NULL THEN NULL ELSE ARRAY(SELECT " + m.by.HexSQL("v") + " FROM pg_catalog.unnest(" + array + ") AS u (v)) END"
	m.draft.replaceTokens(first, last, made)
	for target := range m.draft.parseSQL("SELECT " + made).List("target_list") {
		m.draft.meant.ReplaceContent(n, target.WrappedNode("val"))
	}
}

// rewriteChildren rewrites the expressions in all fields of a node, for mapped columns (bytea stored as text).
func (m *exprMapper) rewriteChildren(s *scope, node parse.TreeNode) {
	for number, v := range node.EachField() {
		if int(number) >= len(node.Shape.Fields) {
			continue
		}
		switch f := node.Shape.Fields[number]; {
		case f.Shape == nil, f.Shape.Name == "TypeName":
		case f.Shape.Name == "Node":
			m.rewriteExpr(s, parse.TreeNode{Shape: f.Shape, Wire: v.Bytes})
		case node.Is("A_Const"):
		default:
			m.draft.recordUnknownNode(parse.TreeNode{Shape: f.Shape, Wire: v.Bytes})
		}
	}
}

// rewriteRow rewrites a row expression. If a star in it means a mapped column, it replaces the star by the columns.
func (m *exprMapper) rewriteRow(s *scope, node parse.TreeNode) {
	var list []parse.Value
	all, spelt := node.Values("args"), false
	for i, n := range node.WrappedNodes("args") {
		if columns := s.knownStarColumns(n.NodeContent()); anyMapped(columns) {
			var texts []string
			for _, c := range columns {
				text := c.sqlName()
				if c.mapped {
					text = m.by.ByteaSQL(text)
				}
				texts = append(texts, text)
			}
			text := strings.Join(texts, ", ")
			at := m.draft.tokenOf(n.NodeContent())
			m.draft.replaceTokens(at, m.draft.qualifiedNameEnd(at), text)
			for target := range m.draft.parseSQL("SELECT " + text).List("target_list") {
				list = append(list, target.Values("val")...)
			}
			spelt = true
			continue
		}
		list = append(list, all[i])
		m.rewriteExpr(s, n)
	}
	if spelt {
		m.draft.meant.Set(node, "args", list...)
	}
}

// rewriteRowField rewrites an expression that is a field of a whole row, as in (t).k. It returns false for any other
// expression.
func (m *exprMapper) rewriteRowField(s *scope, n, node parse.TreeNode) bool {
	c, ok := s.resolveRowField(node)
	if ok && c.mapped {
		m.convertRowField(n, node, node.Child("indirection"), c)
	}
	return ok
}

// convertRowField converts the expression (t).k, for a mapped column k (bytea stored as text), to bytea.
func (m *exprMapper) convertRowField(n, node, field parse.TreeNode, c itemColumn) {
	first := m.draft.tokenOf(node.Child("arg"))
	last := first + 1
	for m.draft.IsPunct(last, ')') {
		first = m.draft.matchingParen(last)
		last++
	}
	by := m.by
	m.draft.insertBefore(first, by.toBytea.open)
	if c.name != c.server {
		m.draft.renameField(field, "sval", last+1, c.server)
	}
	m.draft.insertAfter(last+1, by.toBytea.close)
	m.draft.meant.WrapInSample(n, by.byteaTree())
}

// convertRef converts a reference to a mapped column (bytea stored as text) to bytea.
func (m *exprMapper) convertRef(n, ref parse.TreeNode, c itemColumn) {
	at, by := m.draft.tokenOf(ref), m.by
	m.draft.insertBefore(at, by.toBytea.open)
	m.renameRef(ref, c)
	m.draft.insertAfter(m.draft.qualifiedNameEnd(at), by.toBytea.close)
	m.draft.meant.WrapInSample(n, by.byteaTree())
}

// renameRef replaces a mapped column (bytea stored as text) in a reference by the column's name on the server.
func (m *exprMapper) renameRef(ref parse.TreeNode, c itemColumn) {
	if c.name == c.server {
		return
	}
	var last parse.TreeNode
	for last = range ref.List("fields") {
	}
	m.draft.renameField(last, "sval", m.draft.qualifiedNameEnd(m.draft.tokenOf(ref)), c.server)
}

// convertValue converts a bytea value, between the tokens first and last, to hexadecimal digits. The client's statement
// writes the value to a mapped column (bytea stored as text), or compares it with one.
func (m *exprMapper) convertValue(s *scope, n parse.TreeNode, first, last int) {
	if n.NodeContent().Is("SetToDefault") {
		return
	}
	if c, ok := m.columns.bareMappedColumn(s, n); ok {
		m.renameRef(n.NodeContent(), c)
		return
	}
	by := m.by
	m.draft.insertBefore(first, by.toHex.open)
	m.rewriteExpr(s, n)
	m.draft.insertAfter(last, by.toHex.close)
	m.draft.meant.WrapInSample(n, by.hexTree())
}

// rewriteSubLink rewrites a subquery within an expression, for mapped columns (bytea stored as text).
func (m *exprMapper) rewriteSubLink(s *scope, node parse.TreeNode) {
	test, query := node.WrappedNode("testexpr"), node.Child("subselect")
	if test.Shape == nil {
		m.queries.rewriteQuery(query, s, nil)
		return
	}
	wanted, any := m.wantedColumns(s, test)
	operator := node.Names("oper_name")
	if m.readAllAsBytea || !any || len(operator) > 1 || len(operator) == 1 && !digitSafeOperators[operator[0]] || !canReturnDigits(&m.draft.spanFinder, query, wanted) {
		m.rewriteExpr(s, test)
		m.queries.rewriteQuery(query, s, nil)
		return
	}
	if c, ok := m.columns.bareMappedColumn(s, test); ok {
		m.renameRef(test.NodeContent(), c)
	} else {
		for _, element := range test.NodeContent().WrappedNodes("args") {
			m.rewriteOrderedKey(s, element)
		}
	}
	m.queries.rewriteQuery(query, s, wanted)
}

// wantedColumns says, for each column of a subquery, whether test compares it with a mapped bytea column.
func (m *exprMapper) wantedColumns(s *scope, test parse.TreeNode) (wanted []bool, any bool) {
	all := []parse.TreeNode{test}
	if row := test.NodeContent(); row.Is("RowExpr") {
		all = row.WrappedNodes("args")
	}
	for _, n := range all {
		_, ok := m.columns.bareMappedColumn(s, n)
		wanted, any = append(wanted, ok), any || ok
	}
	return wanted, any
}

// rewriteCall rewrites the arguments and clauses of a function call, for mapped columns (bytea stored as text).
func (m *exprMapper) rewriteCall(s *scope, node parse.TreeNode) {
	for _, arg := range node.WrappedNodes("args") {
		m.rewriteExpr(s, arg)
	}
	for sort := range node.List("agg_order") {
		if by := sort.WrappedNode("node"); node.Flag("agg_distinct") || node.Flag("agg_within_group") {
			m.rewriteExpr(s, by)
		} else {
			m.rewriteSortKey(s, sort)
		}
	}
	if filter := node.WrappedNode("agg_filter"); filter.Shape != nil {
		m.rewriteExpr(s, filter)
	}
	m.rewriteWindow(s, node.Child("over"))
}

// rewriteWindow rewrites the keys and offsets of a window definition, for mapped columns (bytea stored as text).
func (m *exprMapper) rewriteWindow(s *scope, node parse.TreeNode) {
	if node.Shape == nil {
		return
	}
	for _, n := range node.WrappedNodes("partition_clause") {
		m.rewriteOrderedKey(s, n)
	}
	for sort := range node.List("order_clause") {
		m.rewriteSortKey(s, sort)
	}
	for _, field := range []string{"start_offset", "end_offset"} {
		if n := node.WrappedNode(field); n.Shape != nil {
			m.rewriteExpr(s, n)
		}
	}
}

// rewriteSortKey rewrites a sort key where SQL does not allow the name of a result column.
func (m *exprMapper) rewriteSortKey(s *scope, sort parse.TreeNode) {
	if sort.Has("use_op") {
		m.rewriteExpr(s, sort.WrappedNode("node"))
		return
	}
	m.rewriteOrderedKey(s, sort.WrappedNode("node"))
}

// rewriteOrderedKey rewrites a key by which the server sorts, groups or compares rows. A mapped column (bytea stored as
// text) stays unconverted, because hexadecimal digits sort as their bytes do.
func (m *exprMapper) rewriteOrderedKey(s *scope, n parse.TreeNode) {
	if c, ok := m.columns.bareMappedColumn(s, n); ok {
		m.renameRef(n.NodeContent(), c)
		return
	}
	m.rewriteExpr(s, n)
}

// isUntyped reports whether a value gets its type from its context. Constants and parameters do.
func isUntyped(value parse.TreeNode) bool { return value.Is("A_Const") || value.Is("ParamRef") }
