package bytea

import (
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// rewriteInsert rewrites an INSERT for mapped columns (bytea stored as text), and returns its result columns.
func (m *queryMapper) rewriteInsert(node parse.TreeNode, outer *scope) queryColumns {
	s := &scope{outer: outer}
	m.from.addCTEs(s, node.Child("with_clause"))
	target := m.columns.resolveRelation(node.Child("relation"))
	wanted := m.rewriteInsertColumns(target, node)
	switch query := node.Child("select_stmt"); {
	case query.Shape == nil:
	case query.Has("values_lists") && !query.Has("with_clause", "sort_clause", "limit_offset", "limit_count", "locking_clause"):
		m.insertValues(s, node, query, wanted)
	default:
		m.insertQuery(s, node, query, wanted)
	}
	m.rewriteOnConflict(s, target, node.Child("on_conflict_clause"))
	within := &scope{columnView: target, outer: outer, ctes: s.ctes}
	_, made := m.selects.rewriteTargets(within, node, "returning_list", nil)
	return made
}

// rewriteInsertColumns rewrites the column list of an INSERT. wanted says, for each target column, whether it is mapped
// (bytea stored as text).
func (m *queryMapper) rewriteInsertColumns(target columnView, node parse.TreeNode) (wanted []bool) {
	if !node.Has("cols") {
		for _, c := range target.items[0].columns {
			wanted = append(wanted, c.mapped)
		}
		return wanted
	}
	for res := range node.List("cols") {
		wanted = append(wanted, m.rewriteTargetColumn(target, res))
	}
	return wanted
}

// rewriteTargetColumn rewrites a target column's name, and reports whether the column is mapped (bytea stored as text).
func (m *queryMapper) rewriteTargetColumn(target columnView, res parse.TreeNode) bool {
	name := res.Text("name")
	for _, c := range target.items[0].columns {
		if c.name != name || !c.mapped {
			continue
		}
		if res.Has("indirection") {
			m.draft.refuse("A part of a mapped column is written to.")
		}
		m.draft.renameField(res, "name", m.draft.tokenOf(res), c.server)
		return true
	}
	return false
}

func anyTrue(wanted []bool) bool {
	for _, w := range wanted {
		if w {
			return true
		}
	}
	return false
}

// insertValues rewrites the VALUES of an INSERT. Values for mapped columns (bytea stored as text) become digits.
func (m *queryMapper) insertValues(s *scope, node, query parse.TreeNode, wanted []bool) {
	within := &scope{outer: s}
	open := m.insertQueryStart(node)
	for m.draft.IsPunct(open, '(') {
		open++
	}
	open++ // after VALUES
	for row := range query.List("values_lists") {
		items := row.WrappedNodes("items")
		var spans [][2]int
		if anyTrue(wanted) {
			if spans = m.draft.itemSpans(open, len(items)); spans == nil {
				m.draft.recordPositionLost()
				return
			}
			open = m.draft.matchingParen(open) + 2
		}
		if !m.params.keepsParamTypes(within, items, wanted) {
			m.params.refuseParamTypeChange()
			return
		}
		for i, n := range items {
			if i < len(wanted) && wanted[i] {
				m.exprs.convertValue(within, n, spans[i][0], spans[i][1])
			} else {
				m.exprs.rewriteExpr(within, n)
			}
		}
	}
}

// insertQueryStart returns the first token of an INSERT's query, which follows the table, its columns and OVERRIDING.
// It returns -1 if it does not find the query.
func (m *queryMapper) insertQueryStart(node parse.TreeNode) int {
	i := m.draft.qualifiedNameEnd(m.draft.tokenOf(node.Child("relation")))
	if i < 0 {
		return -1
	}
	if i++; m.draft.IsKeyword(i, "as") {
		i += 2
	}
	if node.Has("cols") {
		if i = m.draft.matchingParen(i); i < 0 {
			return -1
		}
		i++
	}
	if m.draft.IsKeyword(i, "overriding") {
		i += 3
	}
	return i
}

// insertQuery rewrites the query of an INSERT ... SELECT. Result columns with wanted true become hexadecimal digits.
func (m *queryMapper) insertQuery(s *scope, node, query parse.TreeNode, wanted []bool) {
	if !anyTrue(wanted) {
		m.rewriteQuery(query, s, nil)
		return
	}
	head := m.insertQueryStart(node)
	if isPlainSelect(query) && !query.Has("sort_clause") && !m.draft.IsPunct(head, '(') && !windowUsesConstant(query) {
		m.selects.rewriteSelect(query, s, wanted)
		return
	}
	m.wrapInsertQuery(s, node, query, head, wanted)
}

// wrapInsertQuery makes the query of an INSERT a subquery of another query. The other query converts result columns to
// hexadecimal digits.
func (m *queryMapper) wrapInsertQuery(s *scope, node, query parse.TreeNode, head int, wanted []bool) {
	end := m.insertQueryEnd(head)
	if end < 0 {
		m.draft.recordPositionLost()
		return
	}
	var names, targets []string
	place := len(m.draft.edits)
	if query.Is("SelectStmt") && query.Integer("op") <= 1 && !query.Has("values_lists") {
		m.selects.constants = collectConstantRefs(query, wanted)
	}
	made := m.rewriteQuery(query, s, nil)
	if made.unknown {
		m.draft.refuse("The columns that the query of the INSERT returns are not known.")
		return
	}
	for i := range made.names {
		name := "c" + strconv.Itoa(i+1)
		names = append(names, name)
		if i < len(wanted) && wanted[i] && !made.digits[i] {
			name = m.by.HexSQL(name)
		}
		targets = append(targets, name)
	}
	open := "SELECT " + strings.Join(targets, ", ") + " FROM ("
	close := ") AS sluice (" + strings.Join(names, ", ") + ")"
	at := int(m.draft.Tokens[head].Start)
	m.draft.edits = append(m.draft.edits[:place:place], append([]parse.Edit{{Start: at, End: at, Text: open}}, m.draft.edits[place:]...)...)
	m.draft.insertAfter(end, close)
	outer := m.draft.parseSQL(open + "SELECT" + close)
	for _, from := range outer.WrappedNodes("from_clause") {
		m.draft.meant.ReplaceContent(from.NodeContent().WrappedNode("subquery"), node.WrappedNode("select_stmt"))
	}
	m.draft.meant.Set(node.WrappedNode("select_stmt"), "select_stmt", parse.Value{Bytes: outer.Wire})
}

// insertQueryEnd returns the last token of an INSERT's query that begins at token i, or -1 if it does not find the end.
func (m *queryMapper) insertQueryEnd(i int) int {
	if i < 0 {
		return -1
	}
	for ; i < len(m.draft.Tokens); i++ {
		switch {
		case m.draft.IsPunct(i, '('):
			if i = m.draft.matchingParen(i); i < 0 {
				return -1
			}
		case m.draft.IsPunct(i, ')'), m.draft.IsPunct(i, ';'), m.draft.AreKeywords(i, "on", "conflict"), m.draft.IsKeyword(i, "returning"):
			return i - 1
		}
	}
	return i - 1
}

// rewriteOnConflict rewrites the ON CONFLICT clause of an INSERT, for mapped columns (bytea stored as text).
func (m *queryMapper) rewriteOnConflict(s *scope, target columnView, clause parse.TreeNode) {
	if clause.Shape == nil {
		return
	}
	own := &scope{columnView: target, outer: s.outer, ctes: s.ctes}
	if infer := clause.Child("infer"); infer.Shape != nil {
		m.rewriteConflictTarget(own, target, infer)
	}
	excluded := &fromItem{name: "excluded", unknown: target.unknown}
	excluded.columns = append(excluded.columns, target.items[0].columns...)
	for i := range excluded.columns {
		excluded.columns[i].of = excluded
	}
	both := &scope{columnView: target.union(excluded.asView()), outer: s.outer, ctes: s.ctes}
	m.rewriteAssignments(both, target, clause)
	if where := clause.WrappedNode("where_clause"); where.Shape != nil {
		m.exprs.rewriteExpr(both, where)
	}
}

// rewriteConflictTarget rewrites the columns and the condition in ON CONFLICT by which the server chooses an index.
func (m *queryMapper) rewriteConflictTarget(s *scope, target columnView, infer parse.TreeNode) {
	elements := infer.WrappedNodes("index_elems")
	if len(elements) > 0 {
		spans := m.draft.itemSpans(m.draft.tokenOf(infer), len(elements))
		if spans == nil {
			m.draft.recordPositionLost()
			return
		}
		for i, n := range elements {
			element := n.NodeContent()
			for _, c := range target.items[0].columns {
				if c.mapped && c.name == element.Text("name") {
					if element.Has("opclass") {
						m.draft.refuse("ON CONFLICT names the operator class of a mapped column.")
					}
					m.draft.renameField(element, "name", spans[i][0], c.server)
				}
			}
			if expr := element.WrappedNode("expr"); expr.Shape != nil {
				m.exprs.rewriteOrderedKey(s, expr)
			}
		}
	}
	if where := infer.WrappedNode("where_clause"); where.Shape != nil {
		m.exprs.rewriteExpr(s, where)
	}
}
