package rewrite

import "slices"

// from reads the items of FROM, or USING of a DELETE, into a scope.
func (m *mapper) from(s *scope, items []message) {
	for _, n := range items {
		s.view = s.and(m.fromItem(s, s.view, n))
	}
}

// fromItem reads one item; beside is what LATERAL sees.
func (m *mapper) fromItem(s *scope, beside view, n message) view {
	node := n.kind()
	switch node.name() {
	case "RangeVar":
		if node.text("schemaname") == "" {
			if cte, ok := s.common(node.text("relname")); ok {
				return cte.item(cte.name).called(node.child("alias")).view()
			}
		}
		return m.relation(node)
	case "RangeSubselect":
		around := &scope{outer: s.outer, ctes: s.ctes}
		if node.flag("lateral") {
			around.view = beside
		}
		return m.query(node.child("subquery"), around).item("").called(node.child("alias")).view()
	case "RangeFunction":
		return m.function(s, beside, node)
	case "JoinExpr":
		return m.join(s, beside, node)
	case "RangeTableSample":
		v := m.fromItem(s, beside, node.node("relation"))
		if v.maps() {
			m.refuse("TABLESAMPLE over a mapped table is not rewritten.")
		}
		return v
	}
	m.unreadable(&scope{view: beside, outer: s.outer, ctes: s.ctes}, node)
	it := &item{unknown: true}
	return it.called(node.child("alias")).view()
}

// oneColumn are functions of pg_catalog whose result is one column for each call.
var oneColumn = []string{"unnest", "generate_series", "generate_subscripts", "regexp_split_to_table", "string_to_table",
	"json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text",
	"json_object_keys", "jsonb_object_keys", "regexp_matches"}

// function reads a function in FROM. Of those with several columns nobody knows the names.
func (m *mapper) function(s *scope, beside view, node message) view {
	around := &scope{view: beside, outer: s.outer, ctes: s.ctes}
	it := &item{unknown: true}
	calls := 0
	for _, list := range node.wrapped("functions") {
		for _, f := range list.kind().wrapped("items") {
			if call := f.kind(); call.is("FuncCall") {
				calls++
				names := call.names("funcname")
				it.name = names[len(names)-1]
				it.unknown = calls > 1 || !slices.Contains(oneColumn, it.name)
			}
			if f.kind().shape != nil {
				m.expr(around, f)
			}
		}
	}
	for column := range node.list("coldeflist") {
		it.columns = append(it.columns, columnNamed(column.text("colname")))
		it.unknown = false
	}
	alias := node.child("alias")
	if alias.shape != nil {
		it.name = alias.text("aliasname")
	}
	if !it.unknown && len(it.columns) == 0 {
		it.columns = append(it.columns, columnNamed(it.name))
		if node.flag("ordinality") {
			it.columns = append(it.columns, columnNamed("ordinality"))
		}
	}
	return it.called(alias).view()
}

func columnNamed(name string) attribute { return attribute{name: name, server: name} }

// join reads a join. Its condition sees its own two sides.
func (m *mapper) join(s *scope, beside view, node message) view {
	left := m.fromItem(s, beside, node.node("larg"))
	right := m.fromItem(s, beside.and(left), node.node("rarg"))
	both := left.and(right)
	if quals := node.node("quals"); quals.shape != nil {
		m.expr(&scope{view: both, outer: s.outer, ctes: s.ctes}, quals)
	}
	using := node.names("using_clause")
	if node.flag("is_natural") {
		using = m.naturally(left, right)
	}
	if len(using) > 0 {
		both.columns = m.merged(left, right, using, m.usingNames(node, left, right))
	}
	if alias := node.child("alias"); alias.shape != nil {
		return m.joinAlias(both, alias)
	}
	if node.child("join_using_alias").shape != nil && both.maps() {
		m.cannot("JOIN USING with an alias is not rewritten.")
	}
	return both
}

// naturally are the columns that NATURAL JOIN merges.
func (m *mapper) naturally(left, right view) (names []string) {
	if (left.unknown || right.unknown) && (left.maps() || right.maps()) {
		m.cannot("NATURAL JOIN of a table whose columns are not known is not rewritten.")
	}
	for _, l := range left.columns {
		if slices.ContainsFunc(right.columns, func(c attribute) bool { return c.name == l.name }) {
			names = append(names, l.name)
		}
	}
	return names
}

// merged are the columns of a join of which some are merged. Those must not be mapped, but
// where both sides have the same name at the server.
func (m *mapper) merged(left, right view, using []string, same map[string]string) []attribute {
	set := make(map[string]bool, len(using))
	var all, rest []attribute
	for _, name := range using {
		set[name] = true
		if server := same[name]; server != "" {
			all = append(all, attribute{name: name, server: server, mapped: true})
		} else {
			all = append(all, columnNamed(name))
		}
	}
	for _, c := range slices.Concat(left.columns, right.columns) {
		switch {
		case !set[c.name]:
			rest = append(rest, c)
		case c.mapped && same[c.name] == "":
			m.cannot("A join merges a mapped column with another.")
		}
	}
	return append(all, rest...)
}

// usingNames maps the names in USING of a join with a table that both sides have mapped, and
// tells how the server names them.
func (m *mapper) usingNames(node message, left, right view) map[string]string {
	if !node.child("rarg").is("RangeVar") || node.flag("is_natural") {
		return nil
	}
	i := m.lastOf(m.token(node.child("rarg"))) + 1
	for i > 0 && i < len(m.ph.tokens) && !m.ph.word(i, "using") {
		if m.ph.punct(i, '(') && m.pair(i) > 0 {
			i = m.pair(i)
		}
		i++
	}
	names := node.wrapped("using_clause")
	spans := m.items(i+1, len(names))
	if spans == nil {
		return nil
	}
	same := map[string]string{}
	for j, n := range names {
		name := n.kind().text("sval")
		l, inLeft := onlyMapped(left, name)
		r, inRight := onlyMapped(right, name)
		if inLeft && inRight && l.server == r.server {
			same[name] = l.server
			if l.server != name {
				m.rename(n.kind(), "sval", spans[j][0], l.server)
			}
		}
	}
	return same
}

// onlyMapped is the mapped column of a name where no other has it.
func onlyMapped(v view, name string) (found attribute, ok bool) {
	n := 0
	for _, c := range v.columns {
		if c.name == name {
			found, n = c, n+1
		}
	}
	return found, n == 1 && found.mapped
}

// joinAlias is a join that has a name of its own: what is in it has none any more.
func (m *mapper) joinAlias(both view, alias message) view {
	if both.maps() {
		m.cannot("A join with an alias over a mapped table is not rewritten.")
	}
	it := &item{unknown: both.unknown}
	for _, c := range both.columns {
		it.columns = append(it.columns, columnNamed(c.name))
	}
	return it.called(alias).view()
}

// with reads the queries of WITH into a scope.
func (m *mapper) with(s *scope, clause message) {
	if clause.shape == nil {
		return
	}
	for cte := range clause.list("ctes") {
		name := cte.text("ctename")
		names := cte.names("aliascolnames")
		query := cte.child("ctequery")
		around := s
		if clause.flag("recursive") {
			seen := outputs{names: names, unknown: len(names) == 0}
			if query.is("SelectStmt") && len(names) == 0 {
				seen = leftNames(query)
			}
			around = &scope{outer: s, ctes: []commonTable{{name, seen}}}
		}
		made := m.query(query, around)
		for i, n := range names {
			if i < len(made.names) {
				made.names[i] = n
			} else {
				made.names = append(made.names, n)
			}
		}
		if cte.child("search_clause").shape != nil || cte.child("cycle_clause").shape != nil {
			made.unknown = true
		}
		s.ctes = append(s.ctes, commonTable{name, made})
	}
}

// leftNames are the names of a recursive query's columns, as its first SELECT has them.
func leftNames(query message) outputs {
	for query.child("larg").shape != nil {
		query = query.child("larg")
	}
	var o outputs
	for target := range query.list("target_list") {
		name := target.text("name")
		if name == "" {
			if val := target.node("val"); isStar(val.kind()) {
				return outputs{unknown: true}
			}
			name, _ = figure(target.node("val"))
		}
		o.names = append(o.names, name)
	}
	if len(o.names) == 0 {
		o.unknown = true
	}
	return o
}
