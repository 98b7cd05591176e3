package values

import (
	"slices"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// When Sluice repeats a transaction, the values of the first run replace new ones, for example of sequences or the
// clock. These values are valid only if no other part of the transaction depends on the clock or changes sequences.

// Effects lists what an SQL text may do that makes values of a transaction's first run invalid when Sluice repeats it.
type Effects struct {
	// Time means that the text may read the clock, which has advanced since the first run.
	Time bool
	// Numbers means that the text may set a sequence to an earlier number, or create a sequence.
	Numbers bool
	// Views means that the text reads a user's view, which may call any function. Views of the server itself do not
	// count, because they call no user function.
	Views bool
}

// Union returns the Effects that s or t has.
func (s Effects) Union(t Effects) Effects {
	return Effects{Time: s.Time || t.Time, Numbers: s.Numbers || t.Numbers, Views: s.Views || t.Views}
}

// allEffects is the Effects of a text of unknown content: it may read the clock, set sequences back and read views.
var allEffects = Effects{Time: true, Numbers: true, Views: true}

// EffectsOf returns the Effects of the text sql. All effects are set if Sluice cannot read the text, or if the text
// calls a function that Sluice does not know.
func EffectsOf(p *rewrite.Planner, sql string, names *schema.NameResolver) Effects {
	statements := p.StatementTrees(sql)
	if names == nil || len(statements) == 0 && !isBlank(sql) {
		return allEffects
	}
	if len(statements) == 1 && onlyDefines(statements[0]) {
		return Effects{Time: containsWord(sql, nil, false), Numbers: true, Views: true}
	}
	s := Effects{Time: containsWord(sql, parse.ClockWords, true)}
	for _, node := range statements {
		switch node.TypeName() {
		case "SelectStmt", "UpdateStmt", "DeleteStmt", "InsertStmt", "MergeStmt":
			v := effectScanner{names: names, withs: appendCTENames(node, 0, nil), root: node, Effects: s}
			v.visit(node, 0)
			s = v.Effects
		case "TransactionStmt", "VariableSetStmt", "VariableShowStmt", "FetchStmt", "ClosePortalStmt":
		default:
			return allEffects
		}
	}
	return s
}

// onlyDefines reports whether a statement only defines, renames, drops or empties objects. Of these statements, only
// one with a constant such as 'now' in a definition reads the clock.
func onlyDefines(node parse.TreeNode) bool {
	switch node.TypeName() {
	case "CreateStmt":
		return !node.Has("partbound")
	case "ViewStmt", "IndexStmt", "CreateSchemaStmt", "CreateSeqStmt", "AlterSeqStmt", "CreateDomainStmt", "CreateFunctionStmt",
		"DropStmt", "RenameStmt", "CommentStmt", "GrantStmt", "TruncateStmt":
		return true
	case "AlterTableStmt":
		for cmd := range node.List("cmds") {
			if !definingCommands[parse.AlterTableType(cmd.Integer("subtype"))] && !addsPlainColumn(cmd) {
				return false
			}
		}
		return true
	}
	return false
}

// definingCommands are commands of ALTER TABLE that read and write no rows.
var definingCommands = map[parse.AlterTableType]bool{parse.AT_ColumnDefault: true, parse.AT_DropColumn: true, parse.AT_DropConstraint: true, parse.AT_DropNotNull: true}

// addsPlainColumn reports whether a command of ALTER TABLE adds a column of a builtin type without constraints. Another
// type may be a domain, which may have a default.
func addsPlainColumn(cmd parse.TreeNode) bool {
	column := cmd.Child("def")
	return parse.AlterTableType(cmd.Integer("subtype")) == parse.AT_AddColumn && !column.Has("constraints") && parse.IsBuiltinType(column.Child("type_name"))
}

// containsWord reports whether a text contains one of words, or a constant such as 'now' that means the current time.
// defaults says that the word DEFAULT counts, too.
func containsWord(sql string, words map[string]bool, defaults bool) bool {
	var small [parse.MaxWord + 1]byte
	was, kind := parse.EndToken, parse.EndToken
	for l := (parse.Lexer{Text: []byte(sql), UTF8: true}); ; was = kind {
		switch kind = l.Next(); kind {
		case parse.EndToken:
			return false
		case parse.BadToken:
			return true
		case parse.WordToken:
			if words[string(parse.FoldName(small[:0], l.Lexeme()))] || defaults && parse.IsWord(l.Lexeme(), "default") {
				return true
			}
		case parse.QuotedToken:
			if isQuotedCall(&l, words) {
				return true
			}
		case parse.StringToken:
			if was == parse.StringToken || parse.MayReadAsNow(l.Lexeme()) { // adjacent string constants form one constant
				return true
			}
		}
	}
}

// isQuotedCall reports whether the lexer is after a quoted name that may be one of words, and before a parenthesis. A
// name that begins with U& may have escapes, so it counts as any word. The lexer does not move.
func isQuotedCall(l *parse.Lexer, words map[string]bool) bool {
	name, next := l.Lexeme(), *l
	return (name[0] != '"' || words[string(name[1:len(name)-1])]) && next.Next() == parse.PunctToken && next.Lexeme()[0] == '('
}

// isBlank reports whether a text consists only of blanks and comments.
func isBlank(sql string) bool {
	l := parse.Lexer{Text: []byte(sql), UTF8: true}
	return l.Next() == parse.EndToken
}

// maxDepth is the greatest depth to which EffectsOf visits a parse tree. A deeper tree counts as having all effects.
const maxDepth = 200

type effectScanner struct {
	names   *schema.NameResolver
	fills   bool           // the statement inserts, so that the defaults of columns may run
	updates bool           // the statement is an UPDATE
	withs   []string       // the names of the statement's WITH queries
	root    parse.TreeNode // the statement
	known   [][]schema.Column
	Effects
}

// appendCTENames appends to names the names of all WITH queries under the node m.
func appendCTENames(m parse.TreeNode, depth int, names []string) []string {
	if depth > maxDepth {
		return names
	}
	if m.Is("CommonTableExpr") {
		names = append(names, m.Text("ctename"))
	}
	for child := range m.Children() {
		names = appendCTENames(child, depth+1, names)
	}
	return names
}

func (v *effectScanner) visit(m parse.TreeNode, depth int) {
	if depth > maxDepth {
		v.Effects = allEffects
		return
	}
	v.Time = v.Time || v.mayComputeTime(m)
	switch m.TypeName() {
	case "InsertStmt", "MergeStmt":
		v.fills = true
	case "UpdateStmt":
		v.updates = true
	case "RangeVar":
		v.addRelationEffects(m)
	case "FuncCall":
		names := m.Names("funcname")
		last := names[len(names)-1]
		if known := parse.RoleOfLowerWord(last)&parse.Harmless != 0 || parse.UniqueValueFuncs[last]; !known || len(names) > 1 && names[0] != "pg_catalog" {
			v.Effects = allEffects
		}
	case "SetToDefault": // an UPDATE to DEFAULT runs a default that Sluice does not know
		v.Numbers = v.Numbers || v.updates
	}
	for child := range m.Children() {
		v.visit(child, depth+1)
	}
}

// addRelationEffects adds the effects of reading a relation, or of inserting rows into it.
func (v *effectScanner) addRelationEffects(m parse.TreeNode) {
	r, known := v.names.FindRelation(m.Text("schemaname"), m.Text("relname"))
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

// DependsOnData reports whether the answer of a text depends on data that others may change, or on the transaction's
// time. The answer does not if the text reads no relation and calls only known functions. Nor does it for an INSERT of
// constants or generated values, or for DDL. If names is nil, DependsOnData ignores defaults of columns.
func DependsOnData(p *rewrite.Planner, sql string, names *schema.NameResolver) bool {
	statements := p.StatementTrees(sql)
	if len(statements) == 0 {
		return !isBlank(sql)
	}
	timed := containsWord(sql, parse.TxTimeWords, false)
	for _, node := range statements {
		switch node.TypeName() {
		case "SelectStmt":
			if timed || mayReadData(node, 0) {
				return true
			}
		case "InsertStmt":
			returning := node.Has("returning_list")
			if node.Has("on_conflict_clause") || returning && (timed || hasTimeDefault(node.Child("relation"), names)) {
				return true
			}
			for _, field := range [...]string{"select_stmt", "with_clause"} {
				if node.Has(field) && mayReadData(node.Child(field), 0) {
					return true
				}
			}
			for target := range node.List("returning_list") {
				if mayReadData(target, 0) {
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

// hasTimeDefault reports whether a relation has a column whose default is the transaction's time.
func hasTimeDefault(relation parse.TreeNode, names *schema.NameResolver) bool {
	if names == nil {
		return false
	}
	r, known := names.FindRelation(relation.Text("schemaname"), relation.Text("relname"))
	return known && r != nil && slices.ContainsFunc(r.Columns, func(c schema.Column) bool { return c.Fill == schema.Clock })
}

// mayReadData reports whether a node of a parse tree may read data that other sessions may change.
func mayReadData(m parse.TreeNode, depth int) bool {
	if depth > maxDepth || m.Is("RangeVar") || m.Is("FuncCall") && isUnknownCall(m) {
		return true
	}
	for child := range m.Children() {
		if mayReadData(child, depth+1) {
			return true
		}
	}
	return false
}

// isUnknownCall reports whether Sluice does not know the called function, which may then read data.
func isUnknownCall(call parse.TreeNode) bool {
	names := call.Names("funcname")
	last := names[len(names)-1]
	known := parse.RoleOfLowerWord(last)&parse.Harmless != 0 || parse.UniqueValueFuncs[last] || parse.ClockWords[last] || sequenceFuncs[last]
	return !known || len(names) > 1 && names[0] != "pg_catalog"
}

// sequenceFuncs are functions that return or set the state of a sequence.
var sequenceFuncs = parse.WordSet("currval lastval setval")

// ClassifyGenerated says whether, when Sluice repeats a SELECT, the first answer can replace the second. The SELECT
// must read no table, and its values must all be calls that generate values. The result is Clock if one of the values
// is the time, otherwise Drawn. For any other text it is Settled. A text without a word for these calls is not parsed.
func ClassifyGenerated(p *rewrite.Planner, sql string) schema.DefaultKind {
	if !parse.MayGenerateValues([]byte(sql)) {
		return schema.Settled
	}
	statements := p.StatementTrees(sql)
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
		drawn := generatedKind(target.Child("val"))
		if drawn == schema.Settled {
			return schema.Settled
		}
		fill = max(fill, drawn)
	}
	return fill
}

// generatedKind returns the kind of value that a call generates. It returns Settled for any other expression.
func generatedKind(n parse.TreeNode) schema.DefaultKind {
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
	case parse.UniqueValueFuncs[last]:
		return schema.Drawn
	case last == "clock_timestamp", last == "now", last == "transaction_timestamp":
		return schema.Clock
	}
	return schema.Settled
}
