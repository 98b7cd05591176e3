package rewrite

import "strings"

// update maps UPDATE.
func (m *mapper) update(node message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.child("with_clause"))
	target := m.relation(node.child("relation"))
	s.view = target
	m.from(s, node.wrapped("from_clause"))
	m.sets(s, target, node)
	return m.where(s, node)
}

// delete maps DELETE.
func (m *mapper) delete(node message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.child("with_clause"))
	s.view = m.relation(node.child("relation"))
	m.from(s, node.wrapped("using_clause"))
	return m.where(s, node)
}

// where maps the condition of an UPDATE or DELETE, and what it returns.
func (m *mapper) where(s *scope, node message) outputs {
	if where := node.node("where_clause"); where.shape != nil {
		m.expr(s, where)
	}
	_, made := m.targets(s, node, "returning_list", nil)
	return made
}

// sets maps the assignments of an UPDATE or of ON CONFLICT DO UPDATE.
func (m *mapper) sets(s *scope, target view, node message) {
	m.settledSets(s, target, node)
	all := node.wrapped("target_list")
	for i := 0; i < len(all); i++ {
		res := all[i].kind()
		val := res.node("val")
		if several := val.kind(); several.is(multiAssign) {
			n := max(1, min(several.integer("ncolumns"), len(all)-i))
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

// setSeveral maps an assignment to several columns. The first of them has its source.
func (m *mapper) setSeveral(s *scope, target view, group []message) {
	var wanted []bool
	for _, n := range group {
		wanted = append(wanted, m.assigned(target, n.kind()))
	}
	m.source(s, group[0].kind().child("val").node("source"), wanted)
}

// source maps what several columns are assigned of.
func (m *mapper) source(s *scope, n message, wanted []bool) {
	node := n.kind()
	switch {
	case !anyOf(wanted):
		m.expr(s, n)
	case node.is("RowExpr"):
		items, spans := node.wrapped("args"), m.rowItems(node)
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
	case node.is("SubLink") && m.fits(node.child("subselect"), wanted):
		m.selects(node.child("subselect"), &scope{outer: s}, wanted)
	default:
		m.cannot("The source of an assignment to several columns is not rewritten: assign the mapped column alone.")
	}
}

// copyTo maps COPY: what it reads is a query over the table's columns.
func (m *mapper) copyTo(node message) {
	if query := node.child("query"); query.shape != nil {
		m.statement(query)
		return
	}
	if node.flag("is_from") {
		if m.refusal = errUnmapped("COPY writes to the columns as they are stored."); m.refusal != nil {
			m.refusal.Hint = "Write the rows by INSERT."
		}
		return
	}
	relation := node.child("relation")
	from := m.relation(relation)
	columns := from.columns
	if node.has("attlist") {
		columns = nil
		for _, name := range node.names("attlist") {
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
	if node.has("attlist") {
		last = m.pair(last + 1)
	}
	text := m.r.conversion().naturally(relation, columns)
	m.edit(first, last, "("+text+")")
	tree, err := parseTree(text)
	if err != nil {
		m.lost()
		return
	}
	m.meant.set(node, "relation")
	m.meant.set(node, "attlist")
	m.meant.set(node, "query", tree.child("stmts").values("stmt")...)
}

// naturally is a query for columns of a table as clients know them.
func (by *conversion) naturally(relation message, columns []attribute) string {
	var all []string
	for _, c := range columns {
		if c.mapped {
			all = append(all, by.bytea(written(c.server))+" AS "+written(c.name))
		} else {
			all = append(all, inQuotes(c.server))
		}
	}
	from := inQuotes(relation.text("relname"))
	if schema := relation.text("schemaname"); schema != "" {
		from = inQuotes(schema) + "." + from
	}
	if !relation.flag("inh") {
		from = "ONLY " + from
	}
	return "SELECT " + strings.Join(all, ", ") + " FROM " + from
}
