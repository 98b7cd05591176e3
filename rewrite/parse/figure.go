package parse

import (
	"strings"
)

// FigureColumnName returns the name that PostgreSQL gives to a result column without an alias. leaf is the column
// reference, field reference or call from which the name comes. If the name comes from anything else, leaf is absent. n
// is a Node that wraps the column's expression.
func FigureColumnName(n TreeNode) (name string, leaf TreeNode) {
	name, leaf, _ = FigureNodeName(n.NodeContent())
	if name == "" {
		name = "?column?"
	}
	return name, leaf
}

// exprKindNames maps kinds of expressions to the column names that PostgreSQL gives them.
var exprKindNames = map[string]string{"A_ArrayExpr": "array", "RowExpr": "row", "CoalesceExpr": "coalesce", "GroupingFunc": "grouping"}

// FigureNodeName returns the name and leaf of FigureColumnName. node is an expression without a Node around it. sure is
// how strongly PostgreSQL prefers the name: 0 without a name, 1 for a type's name or case, and 2 for any other name.
func FigureNodeName(node TreeNode) (name string, leaf TreeNode, sure int) {
	switch node.TypeName() {
	case "ColumnRef":
		names := node.Names("fields")
		if len(names) == 0 {
			return "", TreeNode{}, 0
		}
		return names[len(names)-1], node, 2
	case "A_Indirection":
		if names := node.Names("indirection"); len(names) > 0 {
			return names[len(names)-1], node, 2
		}
		return FigureNodeName(node.Child("arg"))
	case "FuncCall":
		names := node.Names("funcname")
		return names[len(names)-1], node, 2
	case "A_Expr":
		if A_Expr_Kind(node.Integer("kind")) == AEXPR_NULLIF {
			return "nullif", TreeNode{}, 2
		}
	case "TypeCast":
		if name, leaf, sure = FigureNodeName(node.Child("arg")); sure > 1 {
			return name, leaf, sure
		}
		if names := node.Child("type_name").Names("names"); len(names) > 0 {
			return names[len(names)-1], TreeNode{}, 1
		}
	case "CollateClause":
		return FigureNodeName(node.Child("arg"))
	case "CaseExpr":
		if name, leaf, sure = FigureNodeName(node.Child("defresult")); sure > 1 {
			return name, leaf, sure
		}
		return "case", TreeNode{}, 1
	case "MinMaxExpr":
		if MinMaxOp(node.Integer("op")) == IS_LEAST {
			return "least", TreeNode{}, 2
		}
		return "greatest", TreeNode{}, 2
	case "SubLink":
		return figureSublinkName(node)
	case "SQLValueFunction": // CURRENT_TIMESTAMP(3) gives the same name as CURRENT_TIMESTAMP
		op := SQLValueFunctionOp(node.Integer("op")).String()
		return strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(op, "SVFOP_")), "_n"), TreeNode{}, 2
	}
	if name := exprKindNames[node.TypeName()]; name != "" {
		return name, TreeNode{}, 2
	}
	return "", TreeNode{}, 0
}

// figureSublinkName returns the name that PostgreSQL gives to a result column that is a subquery. The name may be that
// of a mapped column (bytea stored as text).
func figureSublinkName(node TreeNode) (string, TreeNode, int) {
	switch SubLinkType(node.Integer("sub_link_type")) {
	case EXISTS_SUBLINK:
		return "exists", TreeNode{}, 2
	case ARRAY_SUBLINK:
		return "array", TreeNode{}, 2
	case EXPR_SUBLINK:
		query := node.Child("subselect")
		for query.Child("larg").Shape != nil {
			query = query.Child("larg")
		}
		if query.Has("values_lists") {
			return "column1", TreeNode{}, 2
		}
		for target := range query.List("target_list") {
			if name := target.Text("name"); name != "" {
				return name, TreeNode{}, 2
			}
			name, _, sure := FigureNodeName(target.Child("val"))
			return name, TreeNode{}, sure
		}
	}
	return "", TreeNode{}, 0
}
