package rewrite

import (
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// figure is the name that PostgreSQL gives a column of a query that has none in the text, and
// the reference to a column, or to a field, or the call that the name is from, if it is.
func figure(n message) (name string, leaf message) {
	name, leaf, _ = figured(n.kind())
	if name == "" {
		name = "?column?"
	}
	return name, leaf
}

// figuredAs are the names of expressions of some kinds.
var figuredAs = map[string]string{"A_ArrayExpr": "array", "RowExpr": "row", "CoalesceExpr": "coalesce", "GroupingFunc": "grouping"}

// figured is figure with how sure PostgreSQL is of the name: 0 for not at all, 1 for a type's
// name or "case".
func figured(node message) (name string, leaf message, sure int) {
	switch node.name() {
	case "ColumnRef":
		names := node.names("fields")
		if len(names) == 0 {
			return "", message{}, 0
		}
		return names[len(names)-1], node, 2
	case "A_Indirection":
		if names := node.names("indirection"); len(names) > 0 {
			return names[len(names)-1], node, 2
		}
		return figured(node.child("arg"))
	case "FuncCall":
		names := node.names("funcname")
		return names[len(names)-1], node, 2
	case "A_Expr":
		if pg_query.A_Expr_Kind(node.integer("kind")) == pg_query.A_Expr_Kind_AEXPR_NULLIF {
			return "nullif", message{}, 2
		}
	case "TypeCast":
		if name, leaf, sure = figured(node.child("arg")); sure > 1 {
			return name, leaf, sure
		}
		if names := node.child("type_name").names("names"); len(names) > 0 {
			return names[len(names)-1], message{}, 1
		}
	case "CollateClause":
		return figured(node.child("arg"))
	case "CaseExpr":
		if name, leaf, sure = figured(node.child("defresult")); sure > 1 {
			return name, leaf, sure
		}
		return "case", message{}, 1
	case "MinMaxExpr":
		if pg_query.MinMaxOp(node.integer("op")) == pg_query.MinMaxOp_IS_LEAST {
			return "least", message{}, 2
		}
		return "greatest", message{}, 2
	case "SubLink":
		return figuredQuery(node)
	case "SQLValueFunction": // CURRENT_TIMESTAMP(3) is called as CURRENT_TIMESTAMP is
		op := pg_query.SQLValueFunctionOp(node.integer("op")).String()
		return strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(op, "SVFOP_")), "_n"), message{}, 2
	}
	if name := figuredAs[node.name()]; name != "" {
		return name, message{}, 2
	}
	return "", message{}, 0
}

// figuredQuery is the name of a query in an expression. A mapped column within is named there.
func figuredQuery(node message) (string, message, int) {
	switch pg_query.SubLinkType(node.integer("sub_link_type")) {
	case pg_query.SubLinkType_EXISTS_SUBLINK:
		return "exists", message{}, 2
	case pg_query.SubLinkType_ARRAY_SUBLINK:
		return "array", message{}, 2
	case pg_query.SubLinkType_EXPR_SUBLINK:
		query := node.child("subselect")
		for query.child("larg").shape != nil {
			query = query.child("larg")
		}
		if query.has("values_lists") {
			return "column1", message{}, 2
		}
		for target := range query.list("target_list") {
			if name := target.text("name"); name != "" {
				return name, message{}, 2
			}
			name, _, sure := figured(target.child("val"))
			return name, message{}, sure
		}
	}
	return "", message{}, 0
}
