package bytea

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// update rewrites an UPDATE, and returns its result columns.
func (m *mapper) update(node parse.Message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.Child("with_clause"))
	target := m.relation(node.Child("relation"))
	s.view = target
	m.from(s, node.Wrapped("from_clause"))
	m.sets(s, target, node)
	return m.where(s, node)
}

// delete rewrites a DELETE, and returns its result columns.
func (m *mapper) delete(node parse.Message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.Child("with_clause"))
	s.view = m.relation(node.Child("relation"))
	m.from(s, node.Wrapped("using_clause"))
	return m.where(s, node)
}

// where rewrites the condition and the RETURNING of an UPDATE or DELETE.
func (m *mapper) where(s *scope, node parse.Message) outputs {
	if where := node.Node("where_clause"); where.Shape != nil {
		m.expr(s, where)
	}
	_, made := m.targets(s, node, "returning_list", nil)
	return made
}

// sets rewrites the assignments of an UPDATE or of ON CONFLICT DO UPDATE.
func (m *mapper) sets(s *scope, target view, node parse.Message) {
	m.checkTypesOfSets(s, target, node)
	all := node.Wrapped("target_list")
	for i := 0; i < len(all); i++ {
		res := all[i].Kind()
		val := res.Node("val")
		if several := val.Kind(); several.Is(parse.MultiAssign) {
			n := max(1, min(several.Integer("ncolumns"), len(all)-i))
			m.setSeveral(s, target, all[i:i+n])
			i += n - 1
			continue
		}
		if !m.assigned(target, res) {
			m.expr(s, val)
			continue
		}
		first := m.token(res) + 2
		m.value(s, val, first, m.itemEnd(first))
	}
}

// setSeveral rewrites an assignment to several columns, as in SET (a, b) = (1, 2). The first column's node has the
// source.
func (m *mapper) setSeveral(s *scope, target view, group []parse.Message) {
	var wanted []bool
	for _, n := range group {
		wanted = append(wanted, m.assigned(target, n.Kind()))
	}
	m.source(s, group[0].Kind().Child("val").Node("source"), wanted)
}

// source rewrites the source of an assignment to several columns.
func (m *mapper) source(s *scope, n parse.Message, wanted []bool) {
	node := n.Kind()
	switch {
	case !anyOf(wanted):
		m.expr(s, n)
	case node.Is("RowExpr"):
		items, spans := node.Wrapped("args"), m.rowItems(node)
		if spans == nil {
			m.lost()
			return
		}
		for i, item := range items {
			if i < len(wanted) && wanted[i] {
				m.value(s, item, spans[i][0], spans[i][1])
			} else {
				m.expr(s, item)
			}
		}
	case node.Is("SubLink") && m.fits(node.Child("subselect"), wanted):
		m.selects(node.Child("subselect"), &scope{outer: s}, wanted)
	default:
		m.cannot("The source of an assignment to several columns is not rewritten: assign the mapped column alone.")
	}
}

// copyTo rewrites a COPY TO. A table is replaced by a query of its columns.
func (m *mapper) copyTo(node parse.Message) {
	if query := node.Child("query"); query.Shape != nil {
		m.statement(query)
		return
	}
	if node.Flag("is_from") {
		if m.refusal = RefusedFor("COPY writes to the columns as they are stored."); m.refusal != nil {
			m.refusal.Hint = "Write the rows by INSERT."
		}
		return
	}
	relation := node.Child("relation")
	from := m.relation(relation)
	columns := from.columns
	if node.Has("attlist") {
		columns = nil
		for _, name := range node.Names("attlist") {
			c := columnNamed(name)
			for _, known := range from.columns {
				if known.name == name {
					c = known
				}
			}
			columns = append(columns, c)
		}
	}
	first := m.token(relation)
	last := m.lastOf(first)
	if node.Has("attlist") {
		last = m.pair(last + 1)
	}
	text := m.r.By.naturally(relation, columns)
	m.edit(first, last, "("+text+")")
	tree, err := parse.Tree(text)
	if err != nil {
		m.lost()
		return
	}
	m.meant.Set(node, "relation")
	m.meant.Set(node, "attlist")
	m.meant.Set(node, "query", tree.Child("stmts").Values("stmt")...)
}

// naturally returns a query for columns of a table with the clients' names and types.
func (by *Conversion) naturally(relation parse.Message, columns []attribute) string {
	var all []string
	for _, c := range columns {
		if c.mapped {
			all = append(all, by.Bytea(parse.Written(c.server))+" AS "+parse.Written(c.name))
		} else {
			all = append(all, parse.Identifier(c.server))
		}
	}
	from := parse.Identifier(relation.Text("relname"))
	if schema := relation.Text("schemaname"); schema != "" {
		from = parse.Identifier(schema) + "." + from
	}
	if !relation.Flag("inh") {
		from = "ONLY " + from
	}
	return "SELECT " + strings.Join(all, ", ") + " FROM " + from
}
