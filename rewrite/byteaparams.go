package rewrite

import pg_query "github.com/pganalyze/pg_query_go/v6"

// A parameter whose type the client has not said gets it from the first expression that needs
// one. Where it becomes a column by itself, PostgreSQL reads what stands beside it first; the
// call that makes digits of it needs its type at once. So a parameter that stands there and
// again in what follows could be read as bytea where PostgreSQL reads text, or fails.

// again reports whether some parameter stands in the text more than once.
func (m *mapper) again() bool {
	seen := map[string]bool{}
	for i := range m.ph.tokens {
		if m.ph.tokens[i].kind != paramToken {
			continue
		}
		number := string(m.ph.lexeme(i))
		if seen[number] {
			return true
		}
		seen[number] = true
	}
	return false
}

// settled reports whether no parameter among items, which are in the order in which the server
// reads them, gets another type because some items become digits.
func (m *mapper) settled(s *scope, items []message, digits []bool) bool {
	if !m.repeats {
		return true
	}
	last := map[int]int{} // by parameter, the last item that needs a type for it
	for i, n := range items {
		if n.kind().is("ParamRef") && i < len(digits) && digits[i] {
			continue
		}
		m.needsType(s, n, func(number int) { last[number] = i })
	}
	for i, n := range items {
		if p := n.kind(); p.is("ParamRef") && i < len(digits) && digits[i] && last[p.integer("number")] > i {
			return false
		}
	}
	return true
}

// settledQuery refuses a query that returns such a parameter.
func (m *mapper) settledQuery(s *scope, query message, digits []bool) {
	var items []message
	for target := range query.list("target_list") {
		items = append(items, target.node("val"))
	}
	for _, field := range []string{"where_clause", "having_clause", "limit_offset", "limit_count"} {
		items = append(items, query.node(field))
	}
	for _, field := range []string{"sort_clause", "group_clause", "distinct_clause", "window_clause"} {
		items = append(items, query.wrapped(field)...)
	}
	if !m.settled(s, items, digits) {
		m.unsettled()
	}
}

// settledSets refuses an assignment of such a parameter. They stand in an UPDATE or ON CONFLICT.
func (m *mapper) settledSets(s *scope, target view, node message) {
	if !m.repeats {
		return
	}
	var items []message
	var digits []bool
	var source message // of several columns: the first of them has it
	for _, n := range node.wrapped("target_list") {
		res := n.kind()
		val := res.node("val")
		if several := val.kind(); several.is(multiAssign) {
			if several.integer("colno") == 1 {
				source = several.node("source")
			}
			if row := source.kind(); !row.is("RowExpr") {
				val = source
			} else if i := several.integer("colno") - 1; i >= 0 && i < len(row.values("args")) {
				val = row.wrapped("args")[i]
			}
		}
		items, digits = append(items, val), append(digits, mapsNamed(target, res.text("name")))
	}
	if !m.settled(s, items, digits) {
		m.unsettled()
	}
}

// mapsNamed reports whether a name is that of a mapped column.
func mapsNamed(target view, name string) bool {
	for _, c := range target.items[0].columns {
		if c.name == name && c.mapped {
			return true
		}
	}
	return false
}

// needsType tells of the parameters in an expression that may get a type there other than bytea.
func (m *mapper) needsType(s *scope, n message, found func(number int)) {
	node := n.kind()
	switch {
	case node.shape == nil:
		return
	case node.is("ParamRef"):
		found(node.integer("number"))
		return
	case node.is("TypeCast") && node.child("arg").is("ParamRef") && isBytea(node.child("type_name")):
		return
	case node.is("SelectStmt"):
		s = nil
	case s != nil && node.is("A_Expr") && pg_query.A_Expr_Kind(node.integer("kind")) == pg_query.A_Expr_Kind_AEXPR_OP:
		op, left, right := node.names("name"), node.node("lexpr"), node.node("rexpr")
		if len(op) == 1 && orders[op[0]] && (m.isMapped(s, left) && right.kind().is("ParamRef") || m.isMapped(s, right) && left.kind().is("ParamRef")) {
			return
		}
	}
	for child := range node.nodes() {
		m.needsType(s, child, found)
	}
}

func (m *mapper) isMapped(s *scope, n message) bool {
	_, ok := m.bare(s, n)
	return ok
}

// unsettled refuses a statement that writes such a parameter.
func (m *mapper) unsettled() {
	if m.refusal == nil {
		m.refusal = errUnmapped("A parameter becomes a mapped column and stands in another place too, which may give it another type.")
		m.refusal.Hint = "Write the type behind the parameter where it becomes the column, as in $1::bytea."
	}
}
