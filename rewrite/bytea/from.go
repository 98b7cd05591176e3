package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// from adds the items of FROM, or of USING in a DELETE, to a scope.
func (m *mapper) from(s *scope, items []parse.Message) {
	for _, n := range items {
		s.view = s.and(m.fromItem(s, s.view, n))
	}
}

// fromItem returns the view of one item of FROM. beside is the view that LATERAL may refer to.
func (m *mapper) fromItem(s *scope, beside view, n parse.Message) view {
	node := n.Kind()
	switch node.Name() {
	case "RangeVar":
		if node.Text("schemaname") == "" {
			if cte, ok := s.common(node.Text("relname")); ok {
				return cte.item(cte.name).called(node.Child("alias")).view()
			}
		}
		return m.relation(node)
	case "RangeSubselect":
		around := &scope{outer: s.outer, ctes: s.ctes}
		if node.Flag("lateral") {
			around.view = beside
		}
		return m.query(node.Child("subquery"), around).item("").called(node.Child("alias")).view()
	case "RangeFunction":
		return m.function(s, beside, node)
	case "JoinExpr":
		return m.join(s, beside, node)
	case "RangeTableSample":
		v := m.fromItem(s, beside, node.Node("relation"))
		if v.maps() {
			m.refuse("TABLESAMPLE over a mapped table is not rewritten.")
		}
		return v
	}
	m.unreadable(&scope{view: beside, outer: s.outer, ctes: s.ctes}, node)
	it := &item{unknown: true}
	return it.called(node.Child("alias")).view()
}

// oneColumn are functions of pg_catalog that return one column for each call.
var oneColumn = []string{"unnest", "generate_series", "generate_subscripts", "regexp_split_to_table", "string_to_table",
	"json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text",
	"json_object_keys", "jsonb_object_keys", "regexp_matches"}

// function returns the view of a function in FROM. The columns of functions with several are unknown.
func (m *mapper) function(s *scope, beside view, node parse.Message) view {
	around := &scope{view: beside, outer: s.outer, ctes: s.ctes}
	it := &item{unknown: true}
	calls := 0
	for _, list := range node.Wrapped("functions") {
		for _, f := range list.Kind().Wrapped("items") {
			if call := f.Kind(); call.Is("FuncCall") {
				calls++
				names := call.Names("funcname")
				it.name = names[len(names)-1]
				it.unknown = calls > 1 || !slices.Contains(oneColumn, it.name)
			}
			if f.Kind().Shape != nil {
				m.expr(around, f)
			}
		}
	}
	for column := range node.List("coldeflist") {
		it.columns = append(it.columns, columnNamed(column.Text("colname")))
		it.unknown = false
	}
	alias := node.Child("alias")
	if alias.Shape != nil {
		it.name = alias.Text("aliasname")
	}
	if !it.unknown && len(it.columns) == 0 {
		it.columns = append(it.columns, columnNamed(it.name))
		if node.Flag("ordinality") {
			it.columns = append(it.columns, columnNamed("ordinality"))
		}
	}
	return it.called(alias).view()
}

func columnNamed(name string) attribute { return attribute{name: name, server: name} }

// join returns the view of a join. The join's condition refers to its two sides.
func (m *mapper) join(s *scope, beside view, node parse.Message) view {
	left := m.fromItem(s, beside, node.Node("larg"))
	right := m.fromItem(s, beside.and(left), node.Node("rarg"))
	both := left.and(right)
	if quals := node.Node("quals"); quals.Shape != nil {
		m.expr(&scope{view: both, outer: s.outer, ctes: s.ctes}, quals)
	}
	using := node.Names("using_clause")
	if node.Flag("is_natural") {
		using = m.naturally(left, right)
	}
	if len(using) > 0 {
		both.columns = m.merged(left, right, using, m.usingNames(node, left, right))
	}
	if alias := node.Child("alias"); alias.Shape != nil {
		return m.joinAlias(both, alias)
	}
	if node.Child("join_using_alias").Shape != nil && both.maps() {
		m.cannot("JOIN USING with an alias is not rewritten.")
	}
	return both
}

// naturally returns the names of the columns that NATURAL JOIN merges.
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

// merged returns the columns of a join that merges some. A merged column must not be mapped, unless both sides
// have the same name on the server. same maps column names to that name.
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

// usingNames rewrites the names in JOIN USING that both sides have mapped. It returns their names on the server.
func (m *mapper) usingNames(node parse.Message, left, right view) map[string]string {
	if !node.Child("rarg").Is("RangeVar") || node.Flag("is_natural") {
		return nil
	}
	i := m.lastOf(m.token(node.Child("rarg"))) + 1
	for i > 0 && i < len(m.ph.Tokens) && !m.ph.Word(i, "using") {
		if m.ph.Punct(i, '(') && m.pair(i) > 0 {
			i = m.pair(i)
		}
		i++
	}
	names := node.Wrapped("using_clause")
	spans := m.items(i+1, len(names))
	if spans == nil {
		return nil
	}
	same := map[string]string{}
	for j, n := range names {
		name := n.Kind().Text("sval")
		l, inLeft := onlyMapped(left, name)
		r, inRight := onlyMapped(right, name)
		if inLeft && inRight && l.server == r.server {
			same[name] = l.server
			if l.server != name {
				m.rename(n.Kind(), "sval", spans[j][0], l.server)
			}
		}
	}
	return same
}

// onlyMapped returns the mapped column with a name, if no other column has the name.
func onlyMapped(v view, name string) (found attribute, ok bool) {
	n := 0
	for _, c := range v.columns {
		if c.name == name {
			found, n = c, n+1
		}
	}
	return found, n == 1 && found.mapped
}

// joinAlias returns the view of a join with an alias, which hides the names inside.
func (m *mapper) joinAlias(both view, alias parse.Message) view {
	if both.maps() {
		m.cannot("A join with an alias over a mapped table is not rewritten.")
	}
	it := &item{unknown: both.unknown}
	for _, c := range both.columns {
		it.columns = append(it.columns, columnNamed(c.name))
	}
	return it.called(alias).view()
}

// with adds WITH queries to a scope.
func (m *mapper) with(s *scope, clause parse.Message) {
	if clause.Shape == nil {
		return
	}
	for cte := range clause.List("ctes") {
		name := cte.Text("ctename")
		names := cte.Names("aliascolnames")
		query := cte.Child("ctequery")
		around := s
		if clause.Flag("recursive") {
			seen := outputs{names: names, unknown: len(names) == 0}
			if query.Is("SelectStmt") && len(names) == 0 {
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
		if cte.Child("search_clause").Shape != nil || cte.Child("cycle_clause").Shape != nil {
			made.unknown = true
		}
		s.ctes = append(s.ctes, commonTable{name, made})
	}
}

// leftNames returns the result columns of a recursive query, by its first SELECT.
func leftNames(query parse.Message) outputs {
	for query.Child("larg").Shape != nil {
		query = query.Child("larg")
	}
	var o outputs
	for target := range query.List("target_list") {
		name := target.Text("name")
		if name == "" {
			if val := target.Node("val"); isStar(val.Kind()) {
				return outputs{unknown: true}
			}
			name, _ = parse.Figure(target.Node("val"))
		}
		o.names = append(o.names, name)
	}
	if len(o.names) == 0 {
		o.unknown = true
	}
	return o
}
