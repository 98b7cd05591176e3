package bytea

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// fromMapper rewrites FROM and WITH clauses, and adds the tables and queries in them to a scope.
type fromMapper struct {
	draft   *draft
	columns *columnResolver
	exprs   *exprMapper
	queries subqueryMapper
}

// addFromItems adds to a scope the items of FROM, or of USING in a DELETE.
func (m *fromMapper) addFromItems(s *scope, items []parse.TreeNode) {
	for _, n := range items {
		s.columnView = s.union(m.resolveFromItem(s, s.columnView, n))
	}
}

// resolveFromItem returns the columns of one item of FROM. beside has the columns of the items before it, to which a
// LATERAL item may refer.
func (m *fromMapper) resolveFromItem(s *scope, beside columnView, n parse.TreeNode) columnView {
	node := n.NodeContent()
	switch node.TypeName() {
	case "RangeVar":
		if node.Text("schemaname") == "" {
			if cte, ok := s.findCTE(node.Text("relname")); ok {
				return cte.asItem(cte.name).applyAlias(node.Child("alias")).asView()
			}
		}
		return m.columns.resolveRelation(node)
	case "RangeSubselect":
		around := &scope{outer: s.outer, ctes: s.ctes}
		if node.Flag("lateral") {
			around.columnView = beside
		}
		return m.queries.rewriteQuery(node.Child("subquery"), around, nil).asItem("").applyAlias(node.Child("alias")).asView()
	case "RangeFunction":
		return m.resolveFromFunction(s, beside, node)
	case "JoinExpr":
		return m.resolveJoin(s, beside, node)
	case "RangeTableSample":
		v := m.resolveFromItem(s, beside, node.WrappedNode("relation"))
		if v.hasMapped() {
			m.draft.refuse("TABLESAMPLE over a mapped table is not rewritten.")
		}
		return v
	}
	m.draft.recordUnknownNode(node)
	it := &fromItem{unknown: true}
	return it.applyAlias(node.Child("alias")).asView()
}

// oneColumnFuncs are functions of pg_catalog that return one column if a FROM item calls them.
var oneColumnFuncs = []string{"unnest", "generate_series", "generate_subscripts", "regexp_split_to_table", "string_to_table",
	"json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text",
	"json_object_keys", "jsonb_object_keys", "regexp_matches"}

// resolveFromFunction returns the columns of a function in FROM. For a function that may return several columns, the
// columns are unknown.
func (m *fromMapper) resolveFromFunction(s *scope, beside columnView, node parse.TreeNode) columnView {
	around := &scope{columnView: beside, outer: s.outer, ctes: s.ctes}
	it := &fromItem{unknown: true}
	calls := 0
	for _, list := range node.WrappedNodes("functions") {
		for _, f := range list.NodeContent().WrappedNodes("items") {
			if call := f.NodeContent(); call.Is("FuncCall") {
				calls++
				names := call.Names("funcname")
				it.name = names[len(names)-1]
				it.unknown = calls > 1 || !slices.Contains(oneColumnFuncs, it.name)
			}
			if f.NodeContent().Shape != nil {
				m.exprs.rewriteExpr(around, f)
			}
		}
	}
	for column := range node.List("coldeflist") {
		it.columns = append(it.columns, unmappedColumn(column.Text("colname")))
		it.unknown = false
	}
	alias := node.Child("alias")
	if alias.Shape != nil {
		it.name = alias.Text("aliasname")
	}
	if !it.unknown && len(it.columns) == 0 {
		it.columns = append(it.columns, unmappedColumn(it.name))
		if node.Flag("ordinality") {
			it.columns = append(it.columns, unmappedColumn("ordinality"))
		}
	}
	return it.applyAlias(alias).asView()
}

func unmappedColumn(name string) itemColumn { return itemColumn{name: name, server: name} }

// resolveJoin returns the columns of a join. It also rewrites the join's condition, which refers to the join's two
// sides.
func (m *fromMapper) resolveJoin(s *scope, beside columnView, node parse.TreeNode) columnView {
	left := m.resolveFromItem(s, beside, node.WrappedNode("larg"))
	right := m.resolveFromItem(s, beside.union(left), node.WrappedNode("rarg"))
	both := left.union(right)
	if quals := node.WrappedNode("quals"); quals.Shape != nil {
		m.exprs.rewriteExpr(&scope{columnView: both, outer: s.outer, ctes: s.ctes}, quals)
	}
	using := node.Names("using_clause")
	if node.Flag("is_natural") {
		using = m.naturalJoinColumns(left, right)
	}
	if len(using) > 0 {
		both.columns = m.mergedColumns(left, right, using, m.rewriteUsing(node, left, right))
	}
	if alias := node.Child("alias"); alias.Shape != nil {
		return m.aliasJoin(both, alias)
	}
	if node.Child("join_using_alias").Shape != nil && both.hasMapped() {
		m.draft.recordUnconvertible("JOIN USING with an alias is not rewritten.")
	}
	return both
}

// naturalJoinColumns returns the names of the columns that a NATURAL JOIN of left and right merges.
func (m *fromMapper) naturalJoinColumns(left, right columnView) (names []string) {
	if (left.unknown || right.unknown) && (left.hasMapped() || right.hasMapped()) {
		m.draft.recordUnconvertible("NATURAL JOIN of a table whose columns are not known is not rewritten.")
	}
	for _, l := range left.columns {
		if slices.ContainsFunc(right.columns, func(c itemColumn) bool { return c.name == l.name }) {
			names = append(names, l.name)
		}
	}
	return names
}

// mergedColumns returns the columns of a join that merges the columns named in using. same maps a name to its server
// name if it means a mapped column (bytea stored as text) on the two sides. No other merged column may be mapped.
func (m *fromMapper) mergedColumns(left, right columnView, using []string, same map[string]string) []itemColumn {
	set := make(map[string]bool, len(using))
	var all, rest []itemColumn
	for _, name := range using {
		set[name] = true
		if server := same[name]; server != "" {
			all = append(all, itemColumn{name: name, server: server, mapped: true})
		} else {
			all = append(all, unmappedColumn(name))
		}
	}
	for _, c := range slices.Concat(left.columns, right.columns) {
		switch {
		case !set[c.name]:
			rest = append(rest, c)
		case c.mapped && same[c.name] == "":
			m.draft.recordUnconvertible("A join merges a mapped column with another.")
		}
	}
	return append(all, rest...)
}

// rewriteUsing replaces names in JOIN USING that mean mapped columns (bytea stored as text) on the two sides. It
// returns the columns' names on the server.
func (m *fromMapper) rewriteUsing(node parse.TreeNode, left, right columnView) map[string]string {
	if !node.Child("rarg").Is("RangeVar") || node.Flag("is_natural") {
		return nil
	}
	i := m.draft.qualifiedNameEnd(m.draft.tokenOf(node.Child("rarg"))) + 1
	for i > 0 && i < len(m.draft.Tokens) && !m.draft.IsKeyword(i, "using") {
		if m.draft.IsPunct(i, '(') && m.draft.matchingParen(i) > 0 {
			i = m.draft.matchingParen(i)
		}
		i++
	}
	names := node.WrappedNodes("using_clause")
	spans := m.draft.itemSpans(i+1, len(names))
	if spans == nil {
		return nil
	}
	same := map[string]string{}
	for j, n := range names {
		name := n.NodeContent().Text("sval")
		l, inLeft := soleMappedColumn(left, name)
		r, inRight := soleMappedColumn(right, name)
		if inLeft && inRight && l.server == r.server {
			same[name] = l.server
			if l.server != name {
				m.draft.renameField(n.NodeContent(), "sval", spans[j][0], l.server)
			}
		}
	}
	return same
}

// soleMappedColumn returns the mapped column (bytea stored as text) of this name. ok is false if the name is ambiguous
// or means no mapped column.
func soleMappedColumn(v columnView, name string) (found itemColumn, ok bool) {
	n := 0
	for _, c := range v.columns {
		if c.name == name {
			found, n = c, n+1
		}
	}
	return found, n == 1 && found.mapped
}

// aliasJoin returns the columns of a join that has an alias. The alias hides the names of the joined tables.
func (m *fromMapper) aliasJoin(both columnView, alias parse.TreeNode) columnView {
	if both.hasMapped() {
		m.draft.recordUnconvertible("A join with an alias over a mapped table is not rewritten.")
	}
	it := &fromItem{unknown: both.unknown}
	for _, c := range both.columns {
		it.columns = append(it.columns, unmappedColumn(c.name))
	}
	return it.applyAlias(alias).asView()
}

// addCTEs adds the WITH queries of a clause to a scope, so that names in the scope can refer to the queries.
func (m *fromMapper) addCTEs(s *scope, clause parse.TreeNode) {
	if clause.Shape == nil {
		return
	}
	for cte := range clause.List("ctes") {
		name := cte.Text("ctename")
		names := cte.Names("aliascolnames")
		query := cte.Child("ctequery")
		around := s
		if clause.Flag("recursive") {
			seen := queryColumns{names: names, unknown: len(names) == 0}
			if query.Is("SelectStmt") && len(names) == 0 {
				seen = recursiveQueryColumns(query)
			}
			around = &scope{outer: s, ctes: []cteTable{{name, seen}}}
		}
		made := m.queries.rewriteQuery(query, around, nil)
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
		s.ctes = append(s.ctes, cteTable{name, made})
	}
}

// recursiveQueryColumns returns the result columns of a recursive query, which are those of its first SELECT.
func recursiveQueryColumns(query parse.TreeNode) queryColumns {
	for query.Child("larg").Shape != nil {
		query = query.Child("larg")
	}
	var o queryColumns
	for target := range query.List("target_list") {
		name := target.Text("name")
		if name == "" {
			if val := target.WrappedNode("val"); isStar(val.NodeContent()) {
				return queryColumns{unknown: true}
			}
			name, _ = parse.FigureColumnName(target.WrappedNode("val"))
		}
		o.names = append(o.names, name)
	}
	if len(o.names) == 0 {
		o.unknown = true
	}
	return o
}
