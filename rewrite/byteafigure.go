package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// figure is the name that PostgreSQL gives a column of a query that has none in the text, and
// the reference to a column, or to a field, or the call that the name is from, if it is.
func figure(n parse.Message) (name string, leaf parse.Message) {
	name, leaf, _ = figured(n.Kind())
	if name == "" {
		name = "?column?"
	}
	return name, leaf
}

// figuredAs are the names of expressions of some kinds.
var figuredAs = map[string]string{"A_ArrayExpr": "array", "RowExpr": "row", "CoalesceExpr": "coalesce", "GroupingFunc": "grouping"}

// figured is figure with how sure PostgreSQL is of the name: 0 for not at all, 1 for a type's
// name or "case".
func figured(node parse.Message) (name string, leaf parse.Message, sure int) {
	switch node.Name() {
	case "ColumnRef":
		names := node.Names("fields")
		if len(names) == 0 {
			return "", parse.Message{}, 0
		}
		return names[len(names)-1], node, 2
	case "A_Indirection":
		if names := node.Names("indirection"); len(names) > 0 {
			return names[len(names)-1], node, 2
		}
		return figured(node.Child("arg"))
	case "FuncCall":
		names := node.Names("funcname")
		return names[len(names)-1], node, 2
	case "A_Expr":
		if parse.A_Expr_Kind(node.Integer("kind")) == parse.AEXPR_NULLIF {
			return "nullif", parse.Message{}, 2
		}
	case "TypeCast":
		if name, leaf, sure = figured(node.Child("arg")); sure > 1 {
			return name, leaf, sure
		}
		if names := node.Child("type_name").Names("names"); len(names) > 0 {
			return names[len(names)-1], parse.Message{}, 1
		}
	case "CollateClause":
		return figured(node.Child("arg"))
	case "CaseExpr":
		if name, leaf, sure = figured(node.Child("defresult")); sure > 1 {
			return name, leaf, sure
		}
		return "case", parse.Message{}, 1
	case "MinMaxExpr":
		if parse.MinMaxOp(node.Integer("op")) == parse.IS_LEAST {
			return "least", parse.Message{}, 2
		}
		return "greatest", parse.Message{}, 2
	case "SubLink":
		return figuredQuery(node)
	case "SQLValueFunction": // CURRENT_TIMESTAMP(3) is called as CURRENT_TIMESTAMP is
		op := parse.SQLValueFunctionOp(node.Integer("op")).String()
		return strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(op, "SVFOP_")), "_n"), parse.Message{}, 2
	}
	if name := figuredAs[node.Name()]; name != "" {
		return name, parse.Message{}, 2
	}
	return "", parse.Message{}, 0
}

// figuredQuery is the name of a query in an expression. A mapped column within is named there.
func figuredQuery(node parse.Message) (string, parse.Message, int) {
	switch parse.SubLinkType(node.Integer("sub_link_type")) {
	case parse.EXISTS_SUBLINK:
		return "exists", parse.Message{}, 2
	case parse.ARRAY_SUBLINK:
		return "array", parse.Message{}, 2
	case parse.EXPR_SUBLINK:
		query := node.Child("subselect")
		for query.Child("larg").Shape != nil {
			query = query.Child("larg")
		}
		if query.Has("values_lists") {
			return "column1", parse.Message{}, 2
		}
		for target := range query.List("target_list") {
			if name := target.Text("name"); name != "" {
				return name, parse.Message{}, 2
			}
			name, _, sure := figured(target.Child("val"))
			return name, parse.Message{}, sure
		}
	}
	return "", parse.Message{}, 0
}
