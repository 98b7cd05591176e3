package dialect

import (
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// downgradeSyntax rewrites syntax of PostgreSQL 16 in the tree for PostgreSQL 15: subqueries in FROM without a name,
// SQL/JSON constructors and predicates, any_value. If it changed the tree, it returns the new text and tree, otherwise
// sql and tree.
func downgradeSyntax(sql string, tree *pg.ParseResult) (string, *pg.ParseResult, error) {
	var m syntaxDowngrader
	WalkMessage(tree.ProtoReflect(), m.rewriteNode)
	if !m.changed {
		return sql, tree, nil
	}
	sql, err := pg.Deparse(tree)
	if err != nil {
		return "", nil, fmt.Errorf("deparse: %w", err)
	}
	tree, err = pg.Parse(sql)
	return sql, tree, err
}

type syntaxDowngrader struct {
	changed bool
	unnamed int // subqueries so far
}

// rewriteNode changes one node of the tree before Walk visits the nodes below.
func (m *syntaxDowngrader) rewriteNode(message any) {
	switch n := message.(type) {
	case *pg.RangeSubselect:
		if n.Alias == nil {
			n.Alias = &pg.Alias{Aliasname: m.newSubqueryName()}
		}
	case *pg.FuncCall:
		if functionName(n) == "any_value" && len(n.Funcname) == 1 {
			n.Funcname = append(nameNodes("sys"), n.Funcname...)
			m.changed = true
		}
	case *pg.ResTarget:
		// The expression that replaces the call must not change the output column's name, so the name is set explicitly.
		if name := outputColumnName(n.Val); n.Name == "" && name != "" {
			n.Name = name
		}
	case *pg.Node:
		if by := olderExpression(n); by != nil {
			n.Node = by.Node
			m.changed = true
		}
	}
}

func (m *syntaxDowngrader) newSubqueryName() string {
	m.changed = true
	m.unnamed++
	if m.unnamed == 1 {
		return "unnamed_subquery"
	}
	return fmt.Sprintf("unnamed_subquery_%d", m.unnamed-1)
}

// outputColumnName returns the name that PostgreSQL 16 gives to an output column, "" if it is the same in PostgreSQL
// 15.
func outputColumnName(n *pg.Node) string {
	switch {
	case n.GetJsonObjectConstructor() != nil:
		return "json_object"
	case n.GetJsonArrayConstructor() != nil:
		return "json_array"
	case n.GetJsonObjectAgg() != nil:
		return "json_objectagg"
	case n.GetJsonArrayAgg() != nil:
		return "json_arrayagg"
	case n.GetJsonIsPredicate() != nil:
		return "?column?"
	}
	return ""
}

// olderExpression returns an expression of PostgreSQL 15 that can replace the node n. It returns nil if PostgreSQL 15
// has n itself, or nothing that can replace n.
func olderExpression(n *pg.Node) *pg.Node {
	switch n := n.Node.(type) {
	case *pg.Node_JsonObjectConstructor:
		c := n.JsonObjectConstructor
		if c.AbsentOnNull || c.Unique {
			return nil
		}
		var args []*pg.Node
		for _, e := range c.Exprs {
			pair := e.GetJsonKeyValue()
			args = append(args, pair.Key, pair.Value.RawExpr)
		}
		return castToReturning(functionCall("json_build_object", args...), c.Output)
	case *pg.Node_JsonArrayConstructor:
		c := n.JsonArrayConstructor
		var args []*pg.Node
		for _, e := range c.Exprs {
			args = append(args, e.GetJsonValueExpr().GetRawExpr())
		}
		array := functionCall("json_build_array", args...)
		if c.AbsentOnNull && len(args) > 0 {
			array = functionCall("dsqlsim_present", array)
		}
		return castToReturning(array, c.Output)
	case *pg.Node_JsonObjectAgg:
		a := n.JsonObjectAgg
		if a.AbsentOnNull || a.Unique {
			return nil
		}
		return jsonAggregate(functionCall("json_object_agg", a.Arg.Key, a.Arg.Value.RawExpr), a.Constructor)
	case *pg.Node_JsonArrayAgg:
		a := n.JsonArrayAgg
		agg := jsonAggregate(functionCall("json_agg", a.Arg.RawExpr), a.Constructor)
		if a.AbsentOnNull {
			filterNulls(agg, a.Arg.RawExpr)
		}
		return agg
	case *pg.Node_JsonIsPredicate:
		p := n.JsonIsPredicate
		if p.UniqueKeys {
			return nil
		}
		return functionCall("dsqlsim_is_json", castNode(p.Expr, "text"), stringNode(p.ItemType.String()[len("JS_TYPE_"):]))
	}
	return nil
}

// filterNulls adds to the aggregate call agg a FILTER clause, which leaves out rows where value is null.
func filterNulls(agg, value *pg.Node) {
	f := agg.GetFuncCall()
	if f == nil {
		f = agg.GetTypeCast().Arg.GetFuncCall()
	}
	test := &pg.Node{Node: &pg.Node_NullTest{NullTest: &pg.NullTest{Arg: value, Nulltesttype: pg.NullTestType_IS_NOT_NULL}}}
	if f.AggFilter != nil {
		test = &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{
			Boolop: pg.BoolExprType_AND_EXPR, Args: []*pg.Node{test, f.AggFilter},
		}}}
	}
	f.AggFilter = test
}

func jsonAggregate(n *pg.Node, c *pg.JsonAggConstructor) *pg.Node {
	f := n.GetFuncCall()
	f.AggFilter, f.AggOrder, f.Over = c.AggFilter, c.AggOrder, c.Over
	return castToReturning(n, c.Output)
}

// castToReturning casts an expression to the type of a RETURNING clause.
func castToReturning(n *pg.Node, o *pg.JsonOutput) *pg.Node {
	if o == nil {
		return n
	}
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{Arg: n, TypeName: o.TypeName}}}
}

// functionCall returns a call of a function of PostgreSQL, or of dsqlsim's schema sys.
func functionCall(function string, args ...*pg.Node) *pg.Node {
	schema := "pg_catalog"
	if len(function) > 8 && function[:8] == "dsqlsim_" {
		schema = "sys"
	}
	return &pg.Node{Node: &pg.Node_FuncCall{FuncCall: &pg.FuncCall{
		Funcname: nameNodes(schema, function), Args: args, Funcformat: pg.CoercionForm_COERCE_EXPLICIT_CALL,
	}}}
}

func castNode(n *pg.Node, to string) *pg.Node {
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{
		Arg: n, TypeName: &pg.TypeName{Names: nameNodes("pg_catalog", to), Typemod: -1},
	}}}
}

func stringNode(s string) *pg.Node { return pg.MakeAConstStrNode(s, -1) }

func nameNodes(parts ...string) []*pg.Node {
	var list []*pg.Node
	for _, p := range parts {
		list = append(list, pg.MakeStrNode(p))
	}
	return list
}
