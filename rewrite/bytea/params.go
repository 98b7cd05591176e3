package bytea

import "github.com/sluice-proxy/sluice/rewrite/parse"

// A parameter without a declared type gets its type from the first expression that needs one. Sluice's conversion to
// digits needs a type, and PostgreSQL reads it earlier than the comparison or assignment that the client wrote. A
// parameter that also occurs elsewhere could then be bytea instead of text.

// paramChecker finds parameters that would get another type by a conversion to hexadecimal digits.
type paramChecker struct {
	// repeats means that at least one parameter occurs more than once in the statement.
	repeats  bool
	columns  *columnResolver
	problems *diagnostics
}

// repeatsParameter reports whether at least one parameter occurs more than once in a statement.
func repeatsParameter(tokens *parse.TokenList) bool {
	seen := map[string]bool{}
	for i := range tokens.Tokens {
		if tokens.Tokens[i].Kind != parse.ParamToken {
			continue
		}
		number := string(tokens.Lexeme(i))
		if seen[number] {
			return true
		}
		seen[number] = true
	}
	return false
}

// keepsParamTypes reports whether all parameters keep their types when some items become hexadecimal digits. items are
// in the order in which the server reads them. digits says which items become digits.
func (p *paramChecker) keepsParamTypes(s *scope, items []parse.TreeNode, digits []bool) bool {
	if !p.repeats {
		return true
	}
	last := map[int]int{} // for each parameter, the last item that needs its type
	for i, n := range items {
		if n.NodeContent().Is("ParamRef") && i < len(digits) && digits[i] {
			continue
		}
		p.visitTypedParams(s, n, func(number int) { last[number] = i })
	}
	for i, n := range items {
		if param := n.NodeContent(); param.Is("ParamRef") && i < len(digits) && digits[i] && last[param.Integer("number")] > i {
			return false
		}
	}
	return true
}

// checkQueryParamTypes refuses a query if the conversion to hexadecimal digits could change the type of a parameter.
func (p *paramChecker) checkQueryParamTypes(s *scope, query parse.TreeNode, digits []bool) {
	var items []parse.TreeNode
	for target := range query.List("target_list") {
		items = append(items, target.WrappedNode("val"))
	}
	for _, field := range []string{"where_clause", "having_clause", "limit_offset", "limit_count"} {
		items = append(items, query.WrappedNode(field))
	}
	for _, field := range []string{"sort_clause", "group_clause", "distinct_clause", "window_clause"} {
		items = append(items, query.WrappedNodes(field)...)
	}
	if !p.keepsParamTypes(s, items, digits) {
		p.refuseParamTypeChange()
	}
}

// checkAssignedParamTypes refuses assignments if the conversion to hexadecimal digits could change the type of a
// parameter. node is an UPDATE or an ON CONFLICT clause.
func (p *paramChecker) checkAssignedParamTypes(s *scope, target columnView, node parse.TreeNode) {
	if !p.repeats {
		return
	}
	var items []parse.TreeNode
	var digits []bool
	var source parse.TreeNode // the source of an assignment to several columns, which is in the first target
	for _, n := range node.WrappedNodes("target_list") {
		res := n.NodeContent()
		val := res.WrappedNode("val")
		if several := val.NodeContent(); several.Is(parse.MultiAssign) {
			if several.Integer("colno") == 1 {
				source = several.WrappedNode("source")
			}
			if row := source.NodeContent(); !row.Is("RowExpr") {
				val = source
			} else if i := several.Integer("colno") - 1; i >= 0 && i < len(row.Values("args")) {
				val = row.WrappedNodes("args")[i]
			}
		}
		items, digits = append(items, val), append(digits, isMappedTarget(target, res.Text("name")))
	}
	if !p.keepsParamTypes(s, items, digits) {
		p.refuseParamTypeChange()
	}
}

// isMappedTarget reports whether name is a mapped column (bytea stored as text) of the target table.
func isMappedTarget(target columnView, name string) bool {
	for _, c := range target.items[0].columns {
		if c.name == name && c.mapped {
			return true
		}
	}
	return false
}

// visitTypedParams calls found for each parameter in n that may get another type than bytea from n.
func (p *paramChecker) visitTypedParams(s *scope, n parse.TreeNode, found func(number int)) {
	node := n.NodeContent()
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
		op, left, right := node.Names("name"), node.WrappedNode("lexpr"), node.WrappedNode("rexpr")
		if len(op) == 1 && digitSafeOperators[op[0]] && (p.columns.isMappedRef(s, left) && right.NodeContent().Is("ParamRef") || p.columns.isMappedRef(s, right) && left.NodeContent().Is("ParamRef")) {
			return
		}
	}
	for child := range node.Children() {
		p.visitTypedParams(s, child, found)
	}
}

// refuseParamTypeChange refuses the statement, because the conversion to hexadecimal digits could change the type of a
// parameter.
func (p *paramChecker) refuseParamTypeChange() {
	if p.problems.refusal == nil {
		p.problems.refusal = NewRefusalError("A parameter becomes a mapped column and stands in another place too, which may give it another type.")
		p.problems.refusal.Hint = "Write the type behind the parameter where it becomes the column, as in $1::bytea."
	}
}
