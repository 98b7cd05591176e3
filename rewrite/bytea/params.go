package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// A parameter without a declared type gets its type from the first expression that needs one. A conversion to
// digits needs a type earlier than PostgreSQL's own evaluation would. A parameter that occurs there and again
// later could then be bytea instead of text.

// repeatsParameter reports whether a parameter occurs more than once in the text.
func (m *mapper) repeatsParameter() bool {
	seen := map[string]bool{}
	for i := range m.ph.Tokens {
		if m.ph.Tokens[i].Kind != parse.ParamToken {
			continue
		}
		number := string(m.ph.Lexeme(i))
		if seen[number] {
			return true
		}
		seen[number] = true
	}
	return false
}

// keepsTypes reports whether no parameter gets another type because some items are converted to hexadecimal
// digits. items are in the order in which the server reads them.
func (m *mapper) keepsTypes(s *scope, items []parse.Message, digits []bool) bool {
	if !m.repeats {
		return true
	}
	last := map[int]int{} // by parameter: the last item that needs its type
	for i, n := range items {
		if n.Kind().Is("ParamRef") && i < len(digits) && digits[i] {
			continue
		}
		m.needsType(s, n, func(number int) { last[number] = i })
	}
	for i, n := range items {
		if p := n.Kind(); p.Is("ParamRef") && i < len(digits) && digits[i] && last[p.Integer("number")] > i {
			return false
		}
	}
	return true
}

// checkTypesOfQuery refuses a query in which the conversion to hexadecimal digits could change the type of a parameter.
func (m *mapper) checkTypesOfQuery(s *scope, query parse.Message, digits []bool) {
	var items []parse.Message
	for target := range query.List("target_list") {
		items = append(items, target.Node("val"))
	}
	for _, field := range []string{"where_clause", "having_clause", "limit_offset", "limit_count"} {
		items = append(items, query.Node(field))
	}
	for _, field := range []string{"sort_clause", "group_clause", "distinct_clause", "window_clause"} {
		items = append(items, query.Wrapped(field)...)
	}
	if !m.keepsTypes(s, items, digits) {
		m.refuseParameter()
	}
}

// checkTypesOfSets refuses assignments in which the conversion to hexadecimal digits could change the type of a
// parameter. node is an UPDATE or ON CONFLICT clause.
func (m *mapper) checkTypesOfSets(s *scope, target view, node parse.Message) {
	if !m.repeats {
		return
	}
	var items []parse.Message
	var digits []bool
	var source parse.Message // of an assignment to several columns; the first one has it
	for _, n := range node.Wrapped("target_list") {
		res := n.Kind()
		val := res.Node("val")
		if several := val.Kind(); several.Is(parse.MultiAssign) {
			if several.Integer("colno") == 1 {
				source = several.Node("source")
			}
			if row := source.Kind(); !row.Is("RowExpr") {
				val = source
			} else if i := several.Integer("colno") - 1; i >= 0 && i < len(row.Values("args")) {
				val = row.Wrapped("args")[i]
			}
		}
		items, digits = append(items, val), append(digits, mapsNamed(target, res.Text("name")))
	}
	if !m.keepsTypes(s, items, digits) {
		m.refuseParameter()
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

// needsType calls found for each parameter in an expression that may get another type than bytea there.
func (m *mapper) needsType(s *scope, n parse.Message, found func(number int)) {
	node := n.Kind()
	switch {
	case node.Shape == nil:
		return
	case node.Is("ParamRef"):
		found(node.Integer("number"))
		return
	case node.Is("TypeCast") && node.Child("arg").Is("ParamRef") && isBytea(node.Child("type_name")):
		return
	case node.Is("SelectStmt"):
		s = nil
	case s != nil && node.Is("A_Expr") && parse.A_Expr_Kind(node.Integer("kind")) == parse.AEXPR_OP:
		op, left, right := node.Names("name"), node.Node("lexpr"), node.Node("rexpr")
		if len(op) == 1 && orders[op[0]] && (m.isMapped(s, left) && right.Kind().Is("ParamRef") || m.isMapped(s, right) && left.Kind().Is("ParamRef")) {
			return
		}
	}
	for child := range node.Nodes() {
		m.needsType(s, child, found)
	}
}

func (m *mapper) isMapped(s *scope, n parse.Message) bool {
	_, ok := m.bare(s, n)
	return ok
}

// refuseParameter refuses a statement in which the conversion to hexadecimal digits could change the type of a
// parameter.
func (m *mapper) refuseParameter() {
	if m.refusal == nil {
		m.refusal = RefusedFor("A parameter becomes a mapped column and stands in another place too, which may give it another type.")
		m.refusal.Hint = "Write the type behind the parameter where it becomes the column, as in $1::bytea."
	}
}
