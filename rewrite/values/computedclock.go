package values

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// In a cast, a computed text may turn out to be a word for the time, as in `('no' || 'w')::timestamptz`. Therefore an
// expression that may compute a text counts as reading the clock. For constants and parameters, their bytes decide
// (parse.MayReadAsNow).

// recordFuncs are functions that convert a JSON text to values of any types.
var recordFuncs = parse.WordSet("json_populate_record json_populate_recordset json_to_record json_to_recordset jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset")

// mayComputeTime reports whether a node may read the clock because it converts a text that is not a constant.
func (v *effectScanner) mayComputeTime(m parse.TreeNode) bool {
	switch m.TypeName() {
	case "TypeCast":
		return parse.TypeNodeReadsClock(m.Child("type_name")) && v.mayBeComputedText(m.Child("arg"), 0)
	case "FuncCall":
		names := m.Names("funcname")
		last := names[len(names)-1]
		return recordFuncs[last] || parse.ClockTypes[last] && len(m.Values("args")) == 1 && v.mayBeComputedText(m.Child("args"), 0)
	case "JsonTable", "JsonFuncExpr", "JsonOutput", "RangeTableFunc", "RangeTableFuncCol":
		return true
	case "RangeFunction":
		for column := range m.List("coldeflist") {
			if parse.TypeNodeReadsClock(column.Child("type_name")) {
				return true
			}
		}
	}
	return false
}

// mayBeComputedText reports whether the value of an expression may be a text that is not a constant.
func (v *effectScanner) mayBeComputedText(m parse.TreeNode, depth int) bool {
	any := func(field string) bool { return v.anyComputedText(m, field, depth+1) }
	if depth > maxDepth {
		return true
	}
	switch m.TypeName() {
	case "A_Const", "ParamRef", "SetToDefault", "SQLValueFunction":
		return false
	case "ColumnRef":
		return !v.isTimeColumn(m)
	case "TypeCast": // a cast to a type of times gives no text; for any other cast, the operand decides
		names := m.Child("type_name").Names("names")
		by, known := parse.InputSettingsOfType(names[len(names)-1])
		return !(known && by != 0) && any("arg")
	case "CollateClause", "NamedArgExpr":
		return any("arg")
	case "CoalesceExpr", "MinMaxExpr":
		return any("args")
	case "A_ArrayExpr":
		return any("elements")
	case "CaseExpr":
		for when := range m.List("args") {
			if v.mayBeComputedText(when.Child("result"), depth+1) {
				return true
			}
		}
		return any("defresult")
	case "FuncCall":
		return !isTimeFunctionCall(m)
	case "A_Expr":
		return !isPlusOrMinus(m)
	}
	return true
}

// anyComputedText reports whether at least one node in the list field may be a text that is not a constant.
func (v *effectScanner) anyComputedText(m parse.TreeNode, field string, depth int) bool {
	for child := range m.List(field) {
		if v.mayBeComputedText(child, depth) {
			return true
		}
	}
	return false
}

// isTimeFunctionCall reports whether a call is of a builtin function for times that never returns a text.
func isTimeFunctionCall(call parse.TreeNode) bool {
	names := call.Names("funcname")
	last := names[len(names)-1]
	own := len(names) == 1 || names[0] == "pg_catalog"
	return own && (parse.TimeFuncs[last] || parse.ClockTypes[last] && len(call.Values("args")) == 1)
}

// isPlusOrMinus reports whether an expression is an operation with + or -. Neither operation returns a text.
func isPlusOrMinus(expr parse.TreeNode) bool {
	names := expr.Names("name")
	plain := parse.A_Expr_Kind(expr.Integer("kind")) == parse.AEXPR_OP
	return plain && len(names) == 1 && (names[0] == "+" || names[0] == "-")
}

// isTimeColumn reports whether a column reference certainly has a time type. Every relation of the statement that has a
// column of the name must have it with a time type. The statement must have no other source of column names.
func (v *effectScanner) isTimeColumn(ref parse.TreeNode) bool {
	names := ref.Names("fields")
	if len(names) == 0 || len(names) != len(ref.Values("fields")) {
		return false
	}
	found := false
	for _, columns := range v.statementColumns() {
		if columns == nil {
			return false
		}
		for _, c := range columns {
			if c.Name == names[len(names)-1] {
				if c.Kind == "" {
					return false
				}
				found = true
			}
		}
	}
	return found
}

// statementColumns returns the columns of each relation in the statement. An unknown relation gives nil.
func (v *effectScanner) statementColumns() [][]schema.Column {
	if v.known == nil {
		v.known = v.collectColumns(v.root, 0, [][]schema.Column{{}})
	}
	return v.known
}

func (v *effectScanner) collectColumns(m parse.TreeNode, depth int, all [][]schema.Column) [][]schema.Column {
	switch m.TypeName() {
	case "RangeSubselect", "RangeFunction", "RangeTableFunc", "JsonTable", "CommonTableExpr":
		return append(all, nil)
	case "RangeVar":
		r, known := v.names.FindRelation(m.Text("schemaname"), m.Text("relname"))
		if !known || r == nil || r.View || m.Child("alias").Has("colnames") {
			return append(all, nil)
		}
		return append(all, r.Columns)
	}
	if depth > maxDepth {
		return append(all, nil)
	}
	for child := range m.Children() {
		all = v.collectColumns(child, depth+1, all)
	}
	return all
}
