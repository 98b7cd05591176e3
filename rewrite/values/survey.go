package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A repeated transaction gets the values of its first run. The values are valid only if no other part of the
// transaction depends on the clock or changes sequences.

// Survey lists the effects of a text on values that an earlier run of it got.
type Survey struct {
	// Time means that the text may read the clock, which has advanced since.
	Time bool
	// Numbers means that the text may set a sequence back or create one.
	Numbers bool
	// Views means that the text reads a user's view, which may call any function. Views of the server call no
	// user function.
	Views bool
}

// Or returns the union of two surveys.
func (s Survey) Or(t Survey) Survey {
	return Survey{Time: s.Time || t.Time, Numbers: s.Numbers || t.Numbers, Views: s.Views || t.Views}
}

// all is the survey of a text with unknown effects.
var all = Survey{Time: true, Numbers: true, Views: true}

// SurveyOf returns the effects of a text. A text that cannot be read, or calls an unknown function, has all
// effects.
func SurveyOf(p *rewrite.Planner, sql string, names *schema.Names) Survey {
	statements := p.Statements(sql)
	if names == nil || len(statements) == 0 && !blank(sql) {
		return all
	}
	s := Survey{Time: saysWord(sql, parse.Clocks, true)}
	for _, node := range statements {
		switch node.Name() {
		case "SelectStmt", "UpdateStmt", "DeleteStmt", "InsertStmt", "MergeStmt":
			v := surveyor{names: names, withs: withs(node, 0, nil), root: node, Survey: s}
			v.visit(node, 0)
			s = v.Survey
		case "TransactionStmt", "VariableSetStmt", "VariableShowStmt", "FetchStmt", "ClosePortalStmt":
		default:
			return all
		}
	}
	return s
}

// saysWord reports whether a text contains one of words, or a constant that means the current time. With
// defaults, the word DEFAULT counts, too.
func saysWord(sql string, words map[string]bool, defaults bool) bool {
	var small [parse.MaxWord + 1]byte
	was, kind := parse.EndToken, parse.EndToken
	for l := (parse.Lexer{Text: []byte(sql), UTF8: true}); ; was = kind {
		switch kind = l.Next(); kind {
		case parse.EndToken:
			return false
		case parse.BadToken:
			return true
		case parse.WordToken:
			if words[string(parse.Fold(small[:0], l.Lexeme()))] || defaults && parse.IsWord(l.Lexeme(), "default") {
				return true
			}
		case parse.StringToken:
			if was == parse.StringToken || parse.TimeText(l.Lexeme()) { // adjacent string constants form one constant
				return true
			}
		}
	}
}

// blank reports whether a text has no token.
func blank(sql string) bool {
	l := parse.Lexer{Text: []byte(sql), UTF8: true}
	return l.Next() == parse.EndToken
}

// maxDepth is the maximum depth of a tree in a survey. A deeper text has all effects.
const maxDepth = 200

type surveyor struct {
	names   *schema.Names
	fills   bool          // the statement inserts, so that defaults of its relations may run
	updates bool          // the statement is an UPDATE
	withs   []string      // the names of the statement's WITH queries
	root    parse.Message // the statement
	known   [][]schema.Column
	Survey
}

// withs appends the names of the WITH queries in a node. The queries themselves are visited separately.
func withs(m parse.Message, depth int, names []string) []string {
	if depth > maxDepth {
		return names
	}
	if m.Is("CommonTableExpr") {
		names = append(names, m.Text("ctename"))
	}
	for child := range m.Nodes() {
		names = withs(child, depth+1, names)
	}
	return names
}

func (v *surveyor) visit(m parse.Message, depth int) {
	if depth > maxDepth {
		v.Survey = all
		return
	}
	v.Time = v.Time || v.computes(m)
	switch m.Name() {
	case "InsertStmt", "MergeStmt":
		v.fills = true
	case "UpdateStmt":
		v.updates = true
	case "RangeVar":
		v.relation(m)
	case "FuncCall":
		names := m.Names("funcname")
		last := names[len(names)-1]
		if known := parse.RoleNamed(last)&parse.Harmless != 0 || parse.Drawers[last]; !known || len(names) > 1 && names[0] != "pg_catalog" {
			v.Survey = all
		}
	case "SetToDefault": // in an UPDATE an unknown default runs
		v.Numbers = v.Numbers || v.updates
	}
	for child := range m.Nodes() {
		v.visit(child, depth+1)
	}
}

// relation adds the effects of reading or filling a relation.
func (v *surveyor) relation(m parse.Message) {
	r, known := v.names.Find(m.Text("schemaname"), m.Text("relname"))
	switch {
	case r == nil && known && m.Text("schemaname") == "" && slices.Contains(v.withs, m.Text("relname")):
	case r == nil, !known:
		v.Time, v.Numbers = true, v.Numbers || v.fills
	case r.View:
		v.Time, v.Views = true, v.Views || !schema.IsSystem(r.Schema)
	case v.fills:
		for _, c := range r.Columns {
			v.Time = v.Time || c.Fill >= schema.Clock
			v.Numbers = v.Numbers || c.Fill == schema.Unclear
		}
	}
}

// Observes reports whether the answer of a text depends on data that others may change, or on the transaction's
// time. It does not if the text reads no relation and calls only known functions. An INSERT of constants or
// drawn values does not either, nor does DDL. Without names, defaults are not considered.
func Observes(p *rewrite.Planner, sql string, names *schema.Names) bool {
	statements := p.Statements(sql)
	if len(statements) == 0 {
		return !blank(sql)
	}
	timed := saysWord(sql, parse.Periods, false)
	for _, node := range statements {
		switch node.Name() {
		case "SelectStmt":
			if timed || readsData(node, 0) {
				return true
			}
		case "InsertStmt":
			returning := node.Has("returning_list")
			if node.Has("on_conflict_clause") || returning && (timed || fillsTime(node.Child("relation"), names)) {
				return true
			}
			for _, field := range [...]string{"select_stmt", "with_clause"} {
				if node.Has(field) && readsData(node.Child(field), 0) {
					return true
				}
			}
			for target := range node.List("returning_list") {
				if readsData(target, 0) {
					return true
				}
			}
		case "TransactionStmt", "VariableSetStmt", "VariableShowStmt", "CreateStmt", "IndexStmt", "DropStmt", "AlterTableStmt", "CreateSchemaStmt", "CreateSeqStmt":
		default:
			return true
		}
	}
	return false
}

// fillsTime reports whether a relation has a column whose default is the time.
func fillsTime(relation parse.Message, names *schema.Names) bool {
	if names == nil {
		return false
	}
	r, known := names.Find(relation.Text("schemaname"), relation.Text("relname"))
	return known && r != nil && slices.ContainsFunc(r.Columns, func(c schema.Column) bool { return c.Fill == schema.Clock })
}

// readsData reports whether a node may read data.
func readsData(m parse.Message, depth int) bool {
	if depth > maxDepth || m.Is("RangeVar") || m.Is("FuncCall") && callsUnknown(m) {
		return true
	}
	for child := range m.Nodes() {
		if readsData(child, depth+1) {
			return true
		}
	}
	return false
}

// callsUnknown reports whether a call is of a function that may read data.
func callsUnknown(call parse.Message) bool {
	names := call.Names("funcname")
	last := names[len(names)-1]
	known := parse.RoleNamed(last)&parse.Harmless != 0 || parse.Drawers[last] || parse.Clocks[last] || numbers[last]
	return !known || len(names) > 1 && names[0] != "pg_catalog"
}

// numbers are functions that return or set the state of a sequence.
var numbers = parse.WordSet("currval lastval setval")

// Draws classifies a SELECT whose answer can replace a repeated run. The SELECT must read no table and consist
// of calls that draw values. The result is Clock if one of them is the time, otherwise Drawn. It is Settled for
// any other text.
func Draws(p *rewrite.Planner, sql string) schema.Fill {
	statements := p.Statements(sql)
	if len(statements) != 1 || !statements[0].Is("SelectStmt") {
		return schema.Settled
	}
	node := statements[0]
	if parse.SetOperation(node.Integer("op")) > parse.SETOP_NONE || node.Has("distinct_clause", "into_clause", "from_clause", "where_clause",
		"group_clause", "having_clause", "window_clause", "values_lists", "sort_clause", "limit_offset", "limit_count", "locking_clause", "with_clause") {
		return schema.Settled
	}
	fill := schema.Settled
	for target := range node.List("target_list") {
		drawn := drawOf(target.Child("val"))
		if drawn == schema.Settled {
			return schema.Settled
		}
		fill = max(fill, drawn)
	}
	return fill
}

// drawOf returns what an expression draws; Settled if it is more than one call.
func drawOf(n parse.Message) schema.Fill {
	if n.Is("TypeCast") && parse.IsBuiltinType(n.Child("type_name")) {
		n = n.Child("arg")
	}
	if n.Is("SQLValueFunction") && parse.SQLValueFunctionOp(n.Integer("op")) == parse.SVFOP_CURRENT_TIMESTAMP {
		return schema.Clock
	}
	if !n.Is("FuncCall") || n.Has("agg_order", "agg_filter", "over") {
		return schema.Settled
	}
	names := n.Names("funcname")
	if len(names) == 0 || len(names) > 1 && names[0] != "pg_catalog" {
		return schema.Settled
	}
	for arg := range n.List("args") {
		if arg.Is("TypeCast") {
			arg = arg.Child("arg")
		}
		if !arg.Is("A_Const") && !arg.Is("ParamRef") {
			return schema.Settled
		}
	}
	switch last := names[len(names)-1]; {
	case parse.Drawers[last]:
		return schema.Drawn
	case last == "clock_timestamp", last == "now", last == "transaction_timestamp":
		return schema.Clock
	}
	return schema.Settled
}
