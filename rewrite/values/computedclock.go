package values

import (
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A computed text may be a word for the time when it is cast, as in `('no' || 'w')::timestamptz`. Every
// expression that may compute a text therefore counts as a clock. Constants and values of parameters are
// checked by their bytes (parse.TimeText).

// recordMakers are functions that convert a text to values of any type.
var recordMakers = parse.WordSet("json_populate_record json_populate_recordset json_to_record json_to_recordset jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset")

// computes reports whether a node may read the clock from a text that is not a constant.
func (v *surveyor) computes(m parse.Message) bool {
	switch m.Name() {
	case "TypeCast":
		return parse.ReadsClock(m.Child("type_name")) && v.computed(m.Child("arg"), 0)
	case "FuncCall":
		names := m.Names("funcname")
		last := names[len(names)-1]
		return recordMakers[last] || parse.ClockTypes[last] && len(m.Values("args")) == 1 && v.computed(m.Child("args"), 0)
	case "JsonTable", "JsonFuncExpr", "JsonOutput", "RangeTableFunc", "RangeTableFuncCol":
		return true
	case "RangeFunction":
		for column := range m.List("coldeflist") {
			if parse.ReadsClock(column.Child("type_name")) {
				return true
			}
		}
	}
	return false
}

// computed reports whether an expression may be a text that is not a constant.
func (v *surveyor) computed(m parse.Message, depth int) bool {
	any := func(field string) bool { return v.anyComputed(m, field, depth+1) }
	if depth > maxDepth {
		return true
	}
	switch m.Name() {
	case "A_Const", "ParamRef", "SetToDefault", "SQLValueFunction":
		return false
	case "ColumnRef":
		return !v.timeColumn(m)
	case "TypeCast": // A value of another type is no text, and of a text the operand decides
		names := m.Child("type_name").Names("names")
		by, known := parse.TypeReaders(names[len(names)-1])
		return !(known && by != 0) && any("arg")
	case "CollateClause", "NamedArgExpr":
		return any("arg")
	case "CoalesceExpr", "MinMaxExpr":
		return any("args")
	case "A_ArrayExpr":
		return any("elements")
	case "CaseExpr":
		for when := range m.List("args") {
			if v.computed(when.Child("result"), depth+1) {
				return true
			}
		}
		return any("defresult")
	case "FuncCall":
		return !makesTime(m)
	case "A_Expr":
		return !addsTimes(m)
	}
	return true
}

// anyComputed reports whether a node in a list field may be a text that is not a constant.
func (v *surveyor) anyComputed(m parse.Message, field string, depth int) bool {
	for child := range m.List(field) {
		if v.computed(child, depth) {
			return true
		}
	}
	return false
}

// makesTime reports whether a call is of a builtin function that returns a time and not a text.
func makesTime(call parse.Message) bool {
	names := call.Names("funcname")
	last := names[len(names)-1]
	own := len(names) == 1 || names[0] == "pg_catalog"
	return own && (parse.TimeMakers[last] || parse.ClockTypes[last] && len(call.Values("args")) == 1)
}

// addsTimes reports whether an expression is + or -, which do not return text.
func addsTimes(expr parse.Message) bool {
	names := expr.Names("name")
	plain := parse.A_Expr_Kind(expr.Integer("kind")) == parse.AEXPR_OP
	return plain && len(names) == 1 && (names[0] == "+" || names[0] == "-")
}

// timeColumn reports whether a column reference certainly has a time type. All relations of the statement with
// a column of the name must have it as a time. The statement must have no other source of column names.
func (v *surveyor) timeColumn(ref parse.Message) bool {
	names := ref.Names("fields")
	if len(names) == 0 || len(names) != len(ref.Values("fields")) {
		return false
	}
	found := false
	for _, columns := range v.columns() {
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

// columns returns the columns of each relation in the statement; nil for an unknown one.
func (v *surveyor) columns() [][]schema.Column {
	if v.known == nil {
		v.known = v.columnsOf(v.root, 0, [][]schema.Column{{}})
	}
	return v.known
}

func (v *surveyor) columnsOf(m parse.Message, depth int, all [][]schema.Column) [][]schema.Column {
	switch m.Name() {
	case "RangeSubselect", "RangeFunction", "RangeTableFunc", "JsonTable", "CommonTableExpr":
		return append(all, nil)
	case "RangeVar":
		r, known := v.names.Find(m.Text("schemaname"), m.Text("relname"))
		if !known || r == nil || r.View || m.Child("alias").Has("colnames") {
			return append(all, nil)
		}
		return append(all, r.Columns)
	}
	if depth > maxDepth {
		return append(all, nil)
	}
	for child := range m.Nodes() {
		all = v.columnsOf(child, depth+1, all)
	}
	return all
}
