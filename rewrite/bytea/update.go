package bytea

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// rewriteUpdate rewrites an UPDATE for mapped columns (bytea stored as text), and returns its result columns.
func (m *queryMapper) rewriteUpdate(node parse.TreeNode, outer *scope) queryColumns {
	s := &scope{outer: outer}
	m.from.addCTEs(s, node.Child("with_clause"))
	target := m.columns.resolveRelation(node.Child("relation"))
	s.columnView = target
	m.from.addFromItems(s, node.WrappedNodes("from_clause"))
	m.rewriteAssignments(s, target, node)
	return m.rewriteWhereAndReturning(s, node)
}

// rewriteDelete rewrites a DELETE for mapped columns (bytea stored as text), and returns its result columns.
func (m *queryMapper) rewriteDelete(node parse.TreeNode, outer *scope) queryColumns {
	s := &scope{outer: outer}
	m.from.addCTEs(s, node.Child("with_clause"))
	s.columnView = m.columns.resolveRelation(node.Child("relation"))
	m.from.addFromItems(s, node.WrappedNodes("using_clause"))
	return m.rewriteWhereAndReturning(s, node)
}

// rewriteWhereAndReturning rewrites WHERE and RETURNING of an UPDATE or DELETE, for mapped bytea columns.
func (m *queryMapper) rewriteWhereAndReturning(s *scope, node parse.TreeNode) queryColumns {
	if where := node.WrappedNode("where_clause"); where.Shape != nil {
		m.exprs.rewriteExpr(s, where)
	}
	_, made := m.selects.rewriteTargets(s, node, "returning_list", nil)
	return made
}

// rewriteAssignments rewrites the assignments of an UPDATE or ON CONFLICT DO UPDATE, for mapped bytea columns.
func (m *queryMapper) rewriteAssignments(s *scope, target columnView, node parse.TreeNode) {
	m.params.checkAssignedParamTypes(s, target, node)
	all := node.WrappedNodes("target_list")
	for i := 0; i < len(all); i++ {
		res := all[i].NodeContent()
		val := res.WrappedNode("val")
		if several := val.NodeContent(); several.Is(parse.MultiAssign) {
			n := max(1, min(several.Integer("ncolumns"), len(all)-i))
			m.rewriteMultiAssign(s, target, all[i:i+n])
			i += n - 1
			continue
		}
		if !m.rewriteTargetColumn(target, res) {
			m.exprs.rewriteExpr(s, val)
			continue
		}
		first := m.draft.tokenOf(res) + 2
		m.exprs.convertValue(s, val, first, m.draft.itemEnd(first))
	}
}

// rewriteMultiAssign rewrites an assignment to several columns, as in SET (a, b) = (1, 2). Only the node of the first
// column contains the source, here (1, 2).
func (m *queryMapper) rewriteMultiAssign(s *scope, target columnView, group []parse.TreeNode) {
	var wanted []bool
	for _, n := range group {
		wanted = append(wanted, m.rewriteTargetColumn(target, n.NodeContent()))
	}
	m.rewriteMultiSource(s, group[0].NodeContent().Child("val").WrappedNode("source"), wanted)
}

// rewriteMultiSource rewrites the source in SET (a, b) = source. Values of columns with wanted true become digits.
func (m *queryMapper) rewriteMultiSource(s *scope, n parse.TreeNode, wanted []bool) {
	node := n.NodeContent()
	switch {
	case !anyTrue(wanted):
		m.exprs.rewriteExpr(s, n)
	case node.Is("RowExpr"):
		items, spans := node.WrappedNodes("args"), m.draft.rowItemSpans(node)
		if spans == nil {
			m.draft.recordPositionLost()
			return
		}
		for i, item := range items {
			if i < len(wanted) && wanted[i] {
				m.exprs.convertValue(s, item, spans[i][0], spans[i][1])
			} else {
				m.exprs.rewriteExpr(s, item)
			}
		}
	case node.Is("SubLink") && canReturnDigits(&m.draft.spanFinder, node.Child("subselect"), wanted):
		m.selects.rewriteSelect(node.Child("subselect"), s, wanted)
	default:
		m.draft.recordUnconvertible("The source of an assignment to several columns is not rewritten: assign the mapped column alone.")
	}
}

// rewriteCopyTo rewrites a COPY TO. In place of a table with mapped bytea columns, it writes a query of the columns.
func (m *queryMapper) rewriteCopyTo(node parse.TreeNode) {
	if query := node.Child("query"); query.Shape != nil {
		m.rewriteStatement(query)
		return
	}
	if node.Flag("is_from") {
		if m.draft.refusal = NewRefusalError("COPY writes to the columns as they are stored."); m.draft.refusal != nil {
			m.draft.refusal.Hint = "Write the rows by INSERT."
		}
		return
	}
	relation := node.Child("relation")
	from := m.columns.resolveRelation(relation)
	columns := from.columns
	if node.Has("attlist") {
		columns = nil
		for _, name := range node.Names("attlist") {
			c := unmappedColumn(name)
			for _, known := range from.columns {
				if known.name == name {
					c = known
				}
			}
			columns = append(columns, c)
		}
	}
	first := m.draft.tokenOf(relation)
	last := m.draft.qualifiedNameEnd(first)
	if node.Has("attlist") {
		last = m.draft.matchingParen(last + 1)
	}
	text := m.by.clientColumnsQuery(relation, columns)
	m.draft.replaceTokens(first, last, "("+text+")")
	tree, err := parse.Tree(text)
	if err != nil {
		m.draft.recordPositionLost()
		return
	}
	m.draft.meant.Set(node, "relation")
	m.draft.meant.Set(node, "attlist")
	m.draft.meant.Set(node, "query", tree.Child("stmts").Values("stmt")...)
}

// clientColumnsQuery returns a query for columns of a table, which have the names and types that clients know.
func (by *Conversion) clientColumnsQuery(relation parse.TreeNode, columns []itemColumn) string {
	var all []string
	for _, c := range columns {
		if c.mapped {
			all = append(all, by.ByteaSQL(parse.QuoteIdentIfNeeded(c.server))+" AS "+parse.QuoteIdentIfNeeded(c.name))
		} else {
			all = append(all, parse.QuoteIdent(c.server))
		}
	}
	from := parse.QuoteIdent(relation.Text("relname"))
	if schema := relation.Text("schemaname"); schema != "" {
		from = parse.QuoteIdent(schema) + "." + from
	}
	if !relation.Flag("inh") {
		from = "ONLY " + from
	}
	return "SELECT " + strings.Join(all, ", ") + " FROM " + from
}
