package parse

import (
	"strings"
)

// Figure returns the name that PostgreSQL gives to a result column without an alias. leaf is the column reference,
// field reference or call that supplies the name; it is absent for any other name. n is a Node.
func Figure(n Message) (name string, leaf Message) {
	name, leaf, _ = Figured(n.Kind())
	if name == "" {
		name = "?column?"
	}
	return name, leaf
}

// figuredAs maps kinds of expressions to the column names that PostgreSQL gives them.
var figuredAs = map[string]string{"A_ArrayExpr": "array", "RowExpr": "row", "CoalesceExpr": "coalesce", "GroupingFunc": "grouping"}

// Figured returns the name of Figure, for the content of a Node. sure is PostgreSQL's confidence in the name: 0 for
// none, 1 for the name of a type, or case, and 2 for any other.
func Figured(node Message) (name string, leaf Message, sure int) {
	switch node.Name() {
	case "ColumnRef":
		names := node.Names("fields")
		if len(names) == 0 {
			return "", Message{}, 0
		}
		return names[len(names)-1], node, 2
	case "A_Indirection":
		if names := node.Names("indirection"); len(names) > 0 {
			return names[len(names)-1], node, 2
		}
		return Figured(node.Child("arg"))
	case "FuncCall":
		names := node.Names("funcname")
		return names[len(names)-1], node, 2
	case "A_Expr":
		if A_Expr_Kind(node.Integer("kind")) == AEXPR_NULLIF {
			return "nullif", Message{}, 2
		}
	case "TypeCast":
		if name, leaf, sure = Figured(node.Child("arg")); sure > 1 {
			return name, leaf, sure
		}
		if names := node.Child("type_name").Names("names"); len(names) > 0 {
			return names[len(names)-1], Message{}, 1
		}
	case "CollateClause":
		return Figured(node.Child("arg"))
	case "CaseExpr":
		if name, leaf, sure = Figured(node.Child("defresult")); sure > 1 {
			return name, leaf, sure
		}
		return "case", Message{}, 1
	case "MinMaxExpr":
		if MinMaxOp(node.Integer("op")) == IS_LEAST {
			return "least", Message{}, 2
		}
		return "greatest", Message{}, 2
	case "SubLink":
		return figuredQuery(node)
	case "SQLValueFunction": // CURRENT_TIMESTAMP(3) has the name of CURRENT_TIMESTAMP
		op := SQLValueFunctionOp(node.Integer("op")).String()
		return strings.TrimSuffix(strings.ToLower(strings.TrimPrefix(op, "SVFOP_")), "_n"), Message{}, 2
	}
	if name := figuredAs[node.Name()]; name != "" {
		return name, Message{}, 2
	}
	return "", Message{}, 0
}

// figuredQuery returns the name that PostgreSQL gives to a subquery in an expression. The name may be that of a mapped
// column.
func figuredQuery(node Message) (string, Message, int) {
	switch SubLinkType(node.Integer("sub_link_type")) {
	case EXISTS_SUBLINK:
		return "exists", Message{}, 2
	case ARRAY_SUBLINK:
		return "array", Message{}, 2
	case EXPR_SUBLINK:
		query := node.Child("subselect")
		for query.Child("larg").Shape != nil {
			query = query.Child("larg")
		}
		if query.Has("values_lists") {
			return "column1", Message{}, 2
		}
		for target := range query.List("target_list") {
			if name := target.Text("name"); name != "" {
				return name, Message{}, 2
			}
			name, _, sure := Figured(target.Child("val"))
			return name, Message{}, sure
		}
	}
	return "", Message{}, 0
}
