package bytea

import (
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// insert rewrites an INSERT, and returns its result columns.
func (m *mapper) insert(node parse.Message, outer *scope) outputs {
	s := &scope{outer: outer}
	m.with(s, node.Child("with_clause"))
	target := m.relation(node.Child("relation"))
	wanted := m.columns(target, node)
	switch query := node.Child("select_stmt"); {
	case query.Shape == nil:
	case query.Has("values_lists") && !query.Has("with_clause", "sort_clause", "limit_offset", "limit_count", "locking_clause"):
		m.insertValues(s, node, query, wanted)
	default:
		m.insertQuery(s, node, query, wanted)
	}
	m.conflict(s, target, node.Child("on_conflict_clause"))
	within := &scope{view: target, outer: outer, ctes: s.ctes}
	_, made := m.targets(within, node, "returning_list", nil)
	return made
}

// columns rewrites the column list of an INSERT. wanted reports for each target column whether it is mapped.
func (m *mapper) columns(target view, node parse.Message) (wanted []bool) {
	if !node.Has("cols") {
		for _, c := range target.items[0].columns {
			wanted = append(wanted, c.mapped)
		}
		return wanted
	}
	for res := range node.List("cols") {
		wanted = append(wanted, m.assigned(target, res))
	}
	return wanted
}

// assigned rewrites the name of a target column, and reports whether the column is mapped.
func (m *mapper) assigned(target view, res parse.Message) bool {
	name := res.Text("name")
	for _, c := range target.items[0].columns {
		if c.name != name || !c.mapped {
			continue
		}
		if res.Has("indirection") {
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

// insertValues rewrites the VALUES of an INSERT.
func (m *mapper) insertValues(s *scope, node, query parse.Message, wanted []bool) {
	within := &scope{outer: s}
	open := m.head(node)
	for m.ph.Punct(open, '(') {
		open++
	}
	open++ // after VALUES
	for row := range query.List("values_lists") {
		items := row.Wrapped("items")
		var spans [][2]int
		if anyOf(wanted) {
			if spans = m.items(open, len(items)); spans == nil {
				m.lost()
				return
			}
			open = m.pair(open) + 2
		}
		if !m.keepsTypes(within, items, wanted) {
			m.refuseParameter()
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

// head returns the first token of an INSERT's query, after the table, its columns and OVERRIDING; -1 if it is
// not found.
func (m *mapper) head(node parse.Message) int {
	i := m.lastOf(m.token(node.Child("relation")))
	if i < 0 {
		return -1
	}
	if i++; m.ph.Word(i, "as") {
		i += 2
	}
	if node.Has("cols") {
		if i = m.pair(i); i < 0 {
			return -1
		}
		i++
	}
	if m.ph.Word(i, "overriding") {
		i += 3
	}
	return i
}

// insertQuery rewrites the query of an INSERT.
func (m *mapper) insertQuery(s *scope, node, query parse.Message, wanted []bool) {
	if !anyOf(wanted) {
		m.query(query, s)
		return
	}
	head := m.head(node)
	if oneSelect(query) && !query.Has("sort_clause") && !m.ph.Punct(head, '(') && !ordersConstant(query) {
		m.selects(query, &scope{outer: s}, wanted)
		return
	}
	m.around(s, node, query, head, wanted)
}

// around puts another query around the query of an INSERT, which converts result columns to hexadecimal digits.
func (m *mapper) around(s *scope, node, query parse.Message, head int, wanted []bool) {
	end := m.queryEnd(head)
	if end < 0 {
		m.lost()
		return
	}
	var names, targets []string
	place := len(m.edits)
	if query.Is("SelectStmt") && query.Integer("op") <= 1 && !query.Has("values_lists") {
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
			name = m.r.By.Hex(name)
		}
		targets = append(targets, name)
	}
	open := "SELECT " + strings.Join(targets, ", ") + " FROM ("
	close := ") AS sluice (" + strings.Join(names, ", ") + ")"
	at := int(m.ph.Tokens[head].Start)
	m.edits = append(m.edits[:place:place], append([]parse.Edit{{Start: at, End: at, Text: open}}, m.edits[place:]...)...)
	m.behind(end, close)
	outer := m.parsed(open + "SELECT" + close)
	for _, from := range outer.Wrapped("from_clause") {
		m.meant.Replace(from.Kind().Node("subquery"), node.Node("select_stmt"))
	}
	m.meant.Set(node.Node("select_stmt"), "select_stmt", parse.Value{Bytes: outer.Wire})
}

// queryEnd returns the last token of an INSERT's query, which begins at token i.
func (m *mapper) queryEnd(i int) int {
	if i < 0 {
		return -1
	}
	for ; i < len(m.ph.Tokens); i++ {
		switch {
		case m.ph.Punct(i, '('):
			if i = m.pair(i); i < 0 {
				return -1
			}
		case m.ph.Punct(i, ')'), m.ph.Punct(i, ';'), m.ph.Words(i, "on", "conflict"), m.ph.Word(i, "returning"):
			return i - 1
		}
	}
	return i - 1
}

// conflict rewrites an ON CONFLICT clause.
func (m *mapper) conflict(s *scope, target view, clause parse.Message) {
	if clause.Shape == nil {
		return
	}
	own := &scope{view: target, outer: s.outer, ctes: s.ctes}
	if infer := clause.Child("infer"); infer.Shape != nil {
		m.inferred(own, target, infer)
	}
	excluded := &item{name: "excluded", unknown: target.unknown}
	excluded.columns = append(excluded.columns, target.items[0].columns...)
	for i := range excluded.columns {
		excluded.columns[i].of = excluded
	}
	both := &scope{view: target.and(excluded.view()), outer: s.outer, ctes: s.ctes}
	m.sets(both, target, clause)
	if where := clause.Node("where_clause"); where.Shape != nil {
		m.expr(both, where)
	}
}

// inferred rewrites the columns and the condition by which ON CONFLICT finds an index.
func (m *mapper) inferred(s *scope, target view, infer parse.Message) {
	elements := infer.Wrapped("index_elems")
	if len(elements) > 0 {
		spans := m.items(m.token(infer), len(elements))
		if spans == nil {
			m.lost()
			return
		}
		for i, n := range elements {
			element := n.Kind()
			for _, c := range target.items[0].columns {
				if c.mapped && c.name == element.Text("name") {
					if element.Has("opclass") {
						m.refuse("ON CONFLICT names the operator class of a mapped column.")
					}
					m.rename(element, "name", spans[i][0], c.server)
				}
			}
			if expr := element.Node("expr"); expr.Shape != nil {
				m.ordered(s, expr)
			}
		}
	}
	if where := infer.Node("where_clause"); where.Shape != nil {
		m.expr(s, where)
	}
}
