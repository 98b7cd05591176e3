package rewrite

import pg_query "github.com/pganalyze/pg_query_go/v6"

// A text that is computed may be a word for the time when it is cast: ('no' || 'w')::timestamptz. Whatever cannot be
// known to be constant, or to be no text, is taken for a clock. Constants are looked at by their bytes (clockText),
// and so are the values of parameters (TimeText).

// settledTypes are types whose input reads no clock, beside those of readers.
var settledTypes = wordSet("interval regclass regtype regproc regprocedure regnamespace regrole xid tid void record tsvector tsquery")

// readsClock reports whether the input of a type may read the clock: of dates and times, of arrays and ranges of
// these, and of types that nobody knows.
func readsClock(typ message) bool {
	names := typ.names("names")
	if len(names) == 0 || len(names) > 1 && names[0] != "pg_catalog" {
		return true
	}
	last := names[len(names)-1]
	by, known := readers[last]
	return !settledTypes[last] && (!known || by != 0)
}

// clockTypes are the types that are called like a function: date(x).
var clockTypes = wordSet("date time timetz timestamp timestamptz daterange tsrange tstzrange datemultirange tsmultirange tstzmultirange")

// timeMakers are functions that return a time, and no text.
var timeMakers = wordSet(`date_trunc date_bin date_add date_subtract to_timestamp to_date make_date make_time make_timestamp make_timestamptz timezone
	now transaction_timestamp statement_timestamp clock_timestamp extract date_part justify_days justify_hours justify_interval make_interval age isfinite`)

// recordMakers are functions that read values of any type out of a text.
var recordMakers = wordSet("json_populate_record json_populate_recordset json_to_record json_to_recordset jsonb_populate_record jsonb_populate_recordset jsonb_to_record jsonb_to_recordset")

// computes reports whether a node of a statement may read the clock out of a text that is no constant.
func (v *surveyor) computes(m message) bool {
	switch m.name() {
	case "TypeCast":
		return readsClock(m.child("type_name")) && v.computed(m.child("arg"), 0)
	case "FuncCall":
		names := m.names("funcname")
		last := names[len(names)-1]
		return recordMakers[last] || clockTypes[last] && len(m.values("args")) == 1 && v.computed(m.child("args"), 0)
	case "JsonTable", "JsonFuncExpr", "JsonOutput", "RangeTableFunc", "RangeTableFuncCol":
		return true
	case "RangeFunction":
		for column := range m.list("coldeflist") {
			if readsClock(column.child("type_name")) {
				return true
			}
		}
	}
	return false
}

// computed reports whether an expression may be a text that is no constant.
func (v *surveyor) computed(m message, depth int) bool {
	any := func(field string) bool { return v.anyComputed(m, field, depth+1) }
	if depth > deepest {
		return true
	}
	switch m.name() {
	case "A_Const", "ParamRef", "SetToDefault", "SQLValueFunction":
		return false
	case "ColumnRef":
		return !v.timeColumn(m)
	case "TypeCast": // of another type it is no text, and of a text the constant is what counts
		names := m.child("type_name").names("names")
		by, known := readers[names[len(names)-1]]
		return !(known && by != 0) && any("arg")
	case "CollateClause", "NamedArgExpr":
		return any("arg")
	case "CoalesceExpr", "MinMaxExpr":
		return any("args")
	case "A_ArrayExpr":
		return any("elements")
	case "CaseExpr":
		for when := range m.list("args") {
			if v.computed(when.child("result"), depth+1) {
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

// anyComputed reports whether a node of a list field is computed.
func (v *surveyor) anyComputed(m message, field string, depth int) bool {
	for child := range m.list(field) {
		if v.computed(child, depth) {
			return true
		}
	}
	return false
}

// makesTime reports a call of a function of PostgreSQL's own that returns a time and no text.
func makesTime(call message) bool {
	names := call.names("funcname")
	last := names[len(names)-1]
	own := len(names) == 1 || names[0] == "pg_catalog"
	return own && (timeMakers[last] || clockTypes[last] && len(call.values("args")) == 1)
}

// addsTimes reports an operator that no text has.
func addsTimes(expr message) bool {
	names := expr.names("name")
	plain := pg_query.A_Expr_Kind(expr.integer("kind")) == pg_query.A_Expr_Kind_AEXPR_OP
	return plain && len(names) == 1 && (names[0] == "+" || names[0] == "-")
}

// timeColumn reports whether a reference is to a column of a time: every relation of the statement that has one of
// the name has it so, and nothing else of the statement has names of columns.
func (v *surveyor) timeColumn(ref message) bool {
	names := ref.names("fields")
	if len(names) == 0 || len(names) != len(ref.values("fields")) {
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

// columns are those of each relation in the statement; nil for what nobody knows.
func (v *surveyor) columns() [][]Column {
	if v.known == nil {
		v.known = v.columnsOf(v.root, 0, [][]Column{{}})
	}
	return v.known
}

func (v *surveyor) columnsOf(m message, depth int, all [][]Column) [][]Column {
	switch m.name() {
	case "RangeSubselect", "RangeFunction", "RangeTableFunc", "JsonTable", "CommonTableExpr":
		return append(all, nil)
	case "RangeVar":
		r, known := v.names.find(m.text("schemaname"), m.text("relname"))
		if !known || r == nil || r.View || m.child("alias").has("colnames") {
			return append(all, nil)
		}
		return append(all, r.Columns)
	}
	if depth > deepest {
		return append(all, nil)
	}
	for child := range m.nodes() {
		all = v.columnsOf(child, depth+1, all)
	}
	return all
}
