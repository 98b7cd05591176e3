package bytea

import (
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// selectedColumn is a result column of a query that selectMapper rewrites.
type selectedColumn struct {
	name   string
	mapped bool // the column is only a reference to the mapped column in the field column
	column itemColumn
}

// selectMapper rewrites SELECT, VALUES and set operations, and the lists of result columns.
type selectMapper struct {
	draft   *draft
	by      *Conversion
	columns *columnResolver
	params  *paramChecker
	exprs   *exprMapper
	from    *fromMapper
	// table is the index of the token TABLE in a query of the form TABLE t, or -1 in other queries.
	table int
	// constants says what the query of an INSERT ... SELECT refers to. It is nil for other statements.
	constants *constantRefs
}

// rewriteSelect rewrites a SELECT, VALUES or set operation for mapped columns (bytea stored as text). If wanted is true
// for a column, the column returns hexadecimal digits. Only a plain SELECT can do so.
func (m *selectMapper) rewriteSelect(node parse.TreeNode, outer *scope, wanted []bool) queryColumns {
	s := &scope{outer: outer}
	m.from.addCTEs(s, node.Child("with_clause"))
	for _, field := range []string{"limit_offset", "limit_count"} {
		if n := node.WrappedNode(field); n.Shape != nil {
			m.exprs.rewriteExpr(&scope{outer: s.outer, ctes: s.ctes}, n)
		}
	}
	if left := node.Child("larg"); left.Shape != nil {
		made := m.rewriteSelect(left, s, nil)
		m.rewriteSelect(node.Child("rarg"), s, nil)
		return made
	}
	if node.Has("values_lists") {
		return m.rewriteValues(s, node)
	}
	m.from.addFromItems(s, node.WrappedNodes("from_clause"))
	m.table = m.tableKeywordToken(node)
	out, made := m.rewriteTargets(s, node, "target_list", wanted)
	for _, field := range []string{"where_clause", "having_clause"} {
		if n := node.WrappedNode(field); n.Shape != nil {
			m.exprs.rewriteExpr(s, n)
		}
	}
	for w := range node.List("window_clause") {
		m.exprs.rewriteWindow(s, w)
	}
	for _, n := range node.WrappedNodes("group_clause") {
		m.rewriteGroupKey(s, n, out, made.unknown)
	}
	plainDistinct := false
	for _, n := range node.WrappedNodes("distinct_clause") {
		if n.NodeContent().Shape == nil {
			plainDistinct = true
		} else {
			m.rewriteOutputSortKey(s, n, out, made.unknown)
		}
	}
	for sort := range node.List("sort_clause") {
		switch by := sort.WrappedNode("node"); {
		case plainDistinct:
			if !m.refersToOutput(by, out) {
				m.exprs.rewriteExpr(s, by)
			}
		case sort.Has("use_op"):
			if !m.refersToOutput(by, out) {
				m.exprs.rewriteExpr(s, by)
			}
		default:
			m.rewriteOutputSortKey(s, by, out, made.unknown)
		}
	}
	return made
}

// tableKeywordToken returns the index of the token TABLE in a query of the form TABLE t, or -1 for other queries.
func (m *selectMapper) tableKeywordToken(node parse.TreeNode) int {
	target := node.Child("target_list")
	if target.Shape == nil || !isStar(target.Child("val")) {
		return -1
	}
	i := m.draft.tokenOf(target.Child("val"))
	from := node.Child("from_clause")
	if i >= 0 || !from.Is("RangeVar") {
		return -1
	}
	if i = m.draft.tokenOf(from) - 1; m.draft.IsKeyword(i, "only") {
		i--
	}
	if !m.draft.IsKeyword(i, "table") {
		return -1
	}
	return i
}

// rewriteValues rewrites the expressions of a VALUES query, for mapped columns (bytea stored as text).
func (m *selectMapper) rewriteValues(s *scope, node parse.TreeNode) queryColumns {
	var made queryColumns
	for row := range node.List("values_lists") {
		for i, n := range row.WrappedNodes("items") {
			m.exprs.rewriteExpr(s, n)
			if i == len(made.names) {
				made.names = append(made.names, "column"+strconv.Itoa(i+1))
			}
		}
	}
	return made
}

// rewriteTargets rewrites a query's result columns. If wanted is true for a column, the column returns hexadecimal
// digits.
func (m *selectMapper) rewriteTargets(s *scope, node parse.TreeNode, field string, wanted []bool) ([]selectedColumn, queryColumns) {
	var out []selectedColumn
	var list []parse.Value
	made := queryColumns{digits: map[int]bool{}}
	spelt := false
	all, digits := node.Values(field), make([]bool, len(node.Values(field)))
	for i, n := range node.WrappedNodes(field) {
		target := n.NodeContent()
		val := target.WrappedNode("val")
		if isStar(val.NodeContent()) {
			columns, known := s.resolveStar(val.NodeContent())
			made.unknown = made.unknown || !known
			if text := m.expandStar(s, val.NodeContent(), columns, len(out), wanted); text != "" {
				spelt = true
				list = append(list, m.draft.parseSQL("SELECT "+text).Values("target_list")...)
			} else {
				list = append(list, all[i])
			}
			for _, c := range columns {
				out = append(out, selectedColumn{name: c.name, mapped: c.mapped, column: c})
			}
			continue
		}
		list = append(list, all[i])
		o := selectedColumn{name: target.Text("name")}
		o.column, o.mapped = m.columns.bareMappedColumn(s, val)
		leaf := parse.TreeNode{}
		if o.name == "" {
			o.name, leaf = parse.FigureColumnName(val)
		}
		digits[i] = m.constants.isUnreferencedConstant(s, node, val.NodeContent(), len(out), o.name)
		if digits[i] {
			made.digits[len(out)] = true
		}
		if digits[i] = digits[i] || len(out) < len(wanted) && wanted[len(out)]; digits[i] {
			end := m.draft.targetEnd(target)
			m.exprs.convertValue(s, val, m.draft.tokenOf(target), end)
			if target.Text("name") == "" && node.Has("sort_clause") {
				m.draft.insertAfter(end, " AS "+parse.QuoteIdentIfNeeded(o.name))
				m.draft.meant.Set(target, "name", parse.Value{Bytes: []byte(o.name)})
			}
		} else {
			m.exprs.rewriteExpr(s, val)
			m.addColumnAlias(s, target, leaf)
		}
		out = append(out, o)
	}
	if spelt {
		m.draft.meant.Set(node, field, list...)
	}
	for _, o := range out {
		made.names = append(made.names, o.name)
	}
	if anyTrue(digits) {
		m.params.checkQueryParamTypes(s, node, digits)
	}
	return out, made
}

// addColumnAlias adds an alias to a result column that takes its name from a mapped column (bytea stored as text). The
// mapped column has another name on the server.
func (m *selectMapper) addColumnAlias(s *scope, target, leaf parse.TreeNode) {
	var c itemColumn
	switch {
	case leaf.Is("ColumnRef"):
		c, _ = m.columns.resolveColumn(s, leaf)
	case leaf.Is("A_Indirection"):
		c, _ = s.resolveRowField(leaf)
	}
	if c.mapped {
		m.draft.insertAfter(m.draft.targetEnd(target), " AS "+parse.QuoteIdentIfNeeded(c.name))
		m.draft.meant.Set(target, "name", parse.Value{Bytes: []byte(c.name)})
	}
}

// expandStar replaces a star by its columns if a column is mapped (bytea stored as text) or wanted as digits. It
// returns the SQL of the columns, or "" if the star stays. before is the number of result columns before the star.
func (m *selectMapper) expandStar(s *scope, ref parse.TreeNode, columns []itemColumn, before int, wanted []bool) string {
	needed := anyMapped(columns)
	for i := before; i < len(wanted); i++ {
		needed = needed || wanted[i]
	}
	if !needed {
		return ""
	}
	if _, known := s.resolveStar(ref); !known {
		m.draft.recordUnconvertible("A star stands for columns that are not known.")
		return ""
	}
	var all []string
	seen := map[string]bool{}
	for i, c := range columns {
		if name := c.sqlName(); seen[name] || c.of == nil && len(s.columnIndexes(c.name)) > 1 {
			m.draft.recordUnconvertible("A star stands for several columns of one name.")
		} else {
			seen[name] = true
		}
		digits := before+i < len(wanted) && wanted[before+i]
		text := c.sqlName()
		switch {
		case c.mapped && !digits:
			text = m.by.ByteaSQL(text) + " AS " + parse.QuoteIdentIfNeeded(c.name)
		case digits && !c.mapped:
			text = m.by.HexSQL(text)
		}
		all = append(all, text)
	}
	text := strings.Join(all, ", ")
	if at := m.draft.tokenOf(ref); at < 0 && m.table >= 0 {
		m.draft.replaceTokens(m.table, m.table, "SELECT "+text+" FROM")
	} else {
		m.draft.replaceTokens(at, m.draft.qualifiedNameEnd(at), text)
	}
	return text
}

// sqlName returns SQL that means the column at any place of the query.
func (c itemColumn) sqlName() string {
	name := parse.QuoteIdentIfNeeded(c.server)
	if c.of != nil && c.of.name != "" {
		return parse.QuoteIdent(c.of.name) + "." + name // after a dot, a keyword is read as a name
	}
	if !c.mapped {
		return parse.QuoteIdent(c.server)
	}
	return name
}

// outputIndex returns the index of the result column that n means by its unqualified name or its number. The result is
// -1 if n means none, and -2 if n means several.
func outputIndex(n parse.TreeNode, out []selectedColumn) int {
	node := n.NodeContent()
	if node.Is("A_Const") && node.Child("ival").Shape != nil {
		if i := node.Child("ival").Integer("ival") - 1; i >= 0 && i < len(out) {
			return i
		}
		return -1
	}
	if !node.Is("ColumnRef") {
		return -1
	}
	names := node.Names("fields")
	if len(names) != 1 {
		return -1
	}
	found := -1
	for i, o := range out {
		if o.name == names[0] {
			if found >= 0 {
				return -2
			}
			found = i
		}
	}
	return found
}

// refersToOutput reports whether a sort key is a constant, or the name or number of a result column.
func (m *selectMapper) refersToOutput(n parse.TreeNode, out []selectedColumn) bool {
	return n.NodeContent().Is("A_Const") || outputIndex(n, out) != -1
}

// rewriteOutputSortKey rewrites a sort key of a query. In ORDER BY, a name without a table means a result column first.
func (m *selectMapper) rewriteOutputSortKey(s *scope, n parse.TreeNode, out []selectedColumn, unknown bool) {
	constant := n.NodeContent().Is("A_Const")
	i := outputIndex(n, out)
	switch {
	case constant && unknown, i == -2:
	case i >= 0:
		m.replaceOutputRef(n, out[i])
	case constant:
	default:
		m.exprs.rewriteOrderedKey(s, n)
	}
}

// replaceOutputRef replaces the name or number of a result column by the column's expression, if that is only a mapped
// column (bytea stored as text).
func (m *selectMapper) replaceOutputRef(n parse.TreeNode, o selectedColumn) {
	if !o.mapped {
		return
	}
	at := m.draft.tokenOf(n.NodeContent())
	m.draft.replaceTokens(at, at, o.column.sqlName())
	for target := range m.draft.parseSQL("SELECT " + o.column.sqlName()).List("target_list") {
		m.draft.meant.ReplaceContent(n, target.WrappedNode("val"))
	}
}

// rewriteGroupKey rewrites a GROUP BY key. In GROUP BY, a name without a table means a column of FROM first.
func (m *selectMapper) rewriteGroupKey(s *scope, n parse.TreeNode, out []selectedColumn, unknown bool) {
	node := n.NodeContent()
	switch {
	case node.Is("GroupingSet"):
		for _, within := range node.WrappedNodes("content") {
			m.rewriteGroupKey(s, within, out, unknown)
		}
		return
	case node.Is("RowExpr"):
		for _, element := range node.WrappedNodes("args") {
			m.exprs.rewriteOrderedKey(s, element)
		}
		return
	case node.Is("ColumnRef"):
		if names := node.Names("fields"); len(names) == 1 && len(s.columnIndexes(names[0])) > 0 {
			m.exprs.rewriteOrderedKey(s, n)
			return
		}
	}
	m.rewriteOutputSortKey(s, n, out, unknown)
}

// canReturnDigits reports whether a query can return hexadecimal digits in all columns for which wanted is true.
func canReturnDigits(spans *spanFinder, query parse.TreeNode, wanted []bool) bool {
	if !isPlainSelect(query) {
		return false
	}
	targets := query.WrappedNodes("target_list")
	if len(targets) != len(wanted) || len(targets) > 1 && sortsByOutput(query) {
		return false
	}
	for i, n := range targets {
		target := n.NodeContent()
		value := target.Child("val")
		if isStar(value) || wanted[i] && (isUntyped(value) || spans.targetEnd(target) < 0) {
			return false
		}
	}
	return true
}

// isPlainSelect reports whether a query is a single SELECT without DISTINCT and GROUP BY.
func isPlainSelect(query parse.TreeNode) bool {
	return query.Is("SelectStmt") && query.Integer("op") <= 1 && len(query.Values("distinct_clause")) == 0 && !query.Has("values_lists", "group_clause")
}

// sortsByOutput reports whether a query may sort by the name or number of a result column.
func sortsByOutput(query parse.TreeNode) bool {
	for sort := range query.List("sort_clause") {
		if by := sort.Child("node"); by.Is("A_Const") || by.Is("ColumnRef") && len(by.Values("fields")) == 1 {
			return true
		}
	}
	return false
}

// isStar reports whether a result expression is * or table.*.
func isStar(value parse.TreeNode) bool {
	star := false
	if value.Is("ColumnRef") {
		for field := range value.List("fields") {
			star = field.Is("A_Star")
		}
	}
	return star
}
