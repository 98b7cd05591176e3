package rewrite

import (
	"strconv"
	"strings"
)

// insert maps INSERT.
func (m *mapper) insert(node message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.child("with_clause"))
	target := m.relation(node.child("relation"))
	wanted := m.columns(target, node)
	switch query := node.child("select_stmt"); {
	case query.shape == nil:
	case query.has("values_lists") && !query.has("with_clause", "sort_clause", "limit_offset", "limit_count", "locking_clause"):
		m.insertValues(s, node, query, wanted)
	default:
		m.insertQuery(s, node, query, wanted)
	}
	m.conflict(s, target, node.child("on_conflict_clause"))
	within := &scope{view: target, outer: outer, ctes: s.ctes}
	_, made := m.targets(within, node, "returning_list", nil)
	return made
}

// columns maps the list of columns of an INSERT, and tells which are mapped.
func (m *mapper) columns(target view, node message) (wanted []bool) {
	if !node.has("cols") {
		for _, c := range target.items[0].columns {
			wanted = append(wanted, c.mapped)
		}
		return wanted
	}
	for res := range node.list("cols") {
		wanted = append(wanted, m.assigned(target, res))
	}
	return wanted
}

// assigned maps the name of a column that is written to, and tells whether it is mapped.
func (m *mapper) assigned(target view, res message) bool {
	name := res.text("name")
	for _, c := range target.items[0].columns {
		if c.name != name || !c.mapped {
			continue
		}
		if res.has("indirection") {
			m.refuse("A part of a mapped column is written to.")
		}
		m.rename(res, "name", m.token(res), c.server)
		return true
	}
	return false
}

func anyOf(wanted []bool) bool {
	for _, w := range wanted {
		if w {
			return true
		}
	}
	return false
}

// insertValues maps the VALUES of an INSERT.
func (m *mapper) insertValues(s *scope, node, query message, wanted []bool) {
	within := &scope{outer: s}
	open := m.head(node)
	for m.ph.punct(open, '(') {
		open++
	}
	open++ // VALUES
	for row := range query.list("values_lists") {
		items := row.wrapped("items")
		var spans [][2]int
		if anyOf(wanted) {
			if spans = m.items(open, len(items)); spans == nil {
				m.lost()
				return
			}
			open = m.pair(open) + 2
		}
		if !m.settled(within, items, wanted) {
			m.unsettled()
			return
		}
		for i, n := range items {
			if i < len(wanted) && wanted[i] {
				m.value(within, n, spans[i][0], spans[i][1])
			} else {
				m.expr(within, n)
			}
		}
	}
}

// head is the first token behind the table, the columns and OVERRIDING of an INSERT: there its
// query begins; -1 where that was not found.
func (m *mapper) head(node message) int {
	i := m.lastOf(m.token(node.child("relation")))
	if i < 0 {
		return -1
	}
	if i++; m.ph.word(i, "as") {
		i += 2
	}
	if node.has("cols") {
		if i = m.pair(i); i < 0 {
			return -1
		}
		i++
	}
	if m.ph.word(i, "overriding") {
		i += 3
	}
	return i
}

// insertQuery maps the query of an INSERT.
func (m *mapper) insertQuery(s *scope, node, query message, wanted []bool) {
	if !anyOf(wanted) {
		m.query(query, s)
		return
	}
	head := m.head(node)
	if oneSelect(query) && !query.has("sort_clause") && !m.ph.punct(head, '(') && !ordersConstant(query) {
		m.selects(query, &scope{outer: s}, wanted)
		return
	}
	m.around(s, node, query, head, wanted)
}

// around writes another query around that of an INSERT, which makes digits of what it returns.
func (m *mapper) around(s *scope, node, query message, head int, wanted []bool) {
	end := m.queryEnd(head)
	if end < 0 {
		m.lost()
		return
	}
	var names, targets []string
	place := len(m.edits)
	if query.is("SelectStmt") && query.integer("op") <= 1 && !query.has("values_lists") {
		m.constants = constantsOf(query, wanted)
	}
	made := m.query(query, s)
	if made.unknown {
		m.refuse("The columns that the query of the INSERT returns are not known.")
		return
	}
	for i := range made.names {
		name := "c" + strconv.Itoa(i+1)
		names = append(names, name)
		if i < len(wanted) && wanted[i] && !made.digits[i] {
			name = m.r.conversion().hex(name)
		}
		targets = append(targets, name)
	}
	open := "SELECT " + strings.Join(targets, ", ") + " FROM ("
	close := ") AS sluice (" + strings.Join(names, ", ") + ")"
	at := int(m.ph.tokens[head].start)
	m.edits = append(m.edits[:place:place], append([]edit{{at, at, open}}, m.edits[place:]...)...)
	m.behind(end, close)
	outer := m.parsed(open + "SELECT" + close)
	for _, from := range outer.wrapped("from_clause") {
		m.meant.replace(from.kind().node("subquery"), node.node("select_stmt"))
	}
	m.meant.set(node.node("select_stmt"), "select_stmt", value{bytes: outer.wire})
}

// queryEnd is the last token of the query of an INSERT that begins at token i.
func (m *mapper) queryEnd(i int) int {
	if i < 0 {
		return -1
	}
	for ; i < len(m.ph.tokens); i++ {
		switch {
		case m.ph.punct(i, '('):
			if i = m.pair(i); i < 0 {
				return -1
			}
		case m.ph.punct(i, ')'), m.ph.punct(i, ';'), m.ph.words(i, "on", "conflict"), m.ph.word(i, "returning"):
			return i - 1
		}
	}
	return i - 1
}

// conflict maps ON CONFLICT.
func (m *mapper) conflict(s *scope, target view, clause message) {
	if clause.shape == nil {
		return
	}
	own := &scope{view: target, outer: s.outer, ctes: s.ctes}
	if infer := clause.child("infer"); infer.shape != nil {
		m.inferred(own, target, infer)
	}
	excluded := &item{name: "excluded", unknown: target.unknown}
	excluded.columns = append(excluded.columns, target.items[0].columns...)
	for i := range excluded.columns {
		excluded.columns[i].of = excluded
	}
	both := &scope{view: target.and(excluded.view()), outer: s.outer, ctes: s.ctes}
	m.sets(both, target, clause)
	if where := clause.node("where_clause"); where.shape != nil {
		m.expr(both, where)
	}
}

// inferred maps what an index is found by.
func (m *mapper) inferred(s *scope, target view, infer message) {
	elements := infer.wrapped("index_elems")
	if len(elements) > 0 {
		spans := m.items(m.token(infer), len(elements))
		if spans == nil {
			m.lost()
			return
		}
		for i, n := range elements {
			element := n.kind()
			for _, c := range target.items[0].columns {
				if c.mapped && c.name == element.text("name") {
					if element.has("opclass") {
						m.refuse("ON CONFLICT names the operator class of a mapped column.")
					}
					m.rename(element, "name", spans[i][0], c.server)
				}
			}
			if expr := element.node("expr"); expr.shape != nil {
				m.ordered(s, expr)
			}
		}
	}
	if where := infer.node("where_clause"); where.shape != nil {
		m.expr(s, where)
	}
}
