package values

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// When Sluice repeats a transaction, the new transaction has another time. Sluice replaces it by the time that the
// client got from the first run, in statements and in defaults of columns.

// IsExactTxTime reports whether time, a Column.Time, is the transaction time unchanged: with time zone and all digits.
func IsExactTxTime(time string) bool {
	switch kind, expression, _ := strings.Cut(time, " "); expression {
	case "now()", "CURRENT_TIMESTAMP", "transaction_timestamp()":
		return kind == instantType
	}
	return false
}

// instantType is the type timestamptz without a precision, in the form that schema.TimeOfDefault expects.
const instantType = "1184/-1"

// ExactTxTimeKind is the Column.Time of a column that holds the exact transaction time (IsExactTxTime).
const ExactTxTimeKind = instantType + " now()"

// DefaultAtInstant returns an SQL expression for the value that a column's default has at an instant. time is the
// Column.Time. instant is an SQL expression. Like the default, the expression depends on the session's settings.
func DefaultAtInstant(time, instant string) string {
	_, expression, _ := strings.Cut(time, " ")
	ph := parse.LexTokens([]byte(expression), 0, len(expression))
	var edits []parse.Edit
	for i := 0; i < len(ph.Tokens); i++ {
		if e, last := txTimeEdit(&ph, i, instant); last >= 0 {
			edits, i = append(edits, e), last
		}
	}
	return parse.EditedText(expression, edits)
}

// txTimeEdit returns the edit that replaces an expression for the transaction's time, such as now(), by an instant. The
// expression begins at token i and ends at token last. If the tokens are no expression for the time, last is -1.
func txTimeEdit(p *parse.TokenList, i int, instant string) (e parse.Edit, last int) {
	name := strings.ToLower(string(p.Lexeme(i)))
	if p.IsPunct(i+1, '(') && (name == `"now"` || name == `"transaction_timestamp"`) && name == string(p.Lexeme(i)) {
		name = strings.Trim(name, `"`)
	}
	as, timed := txTimeTypes[name]
	if !timed {
		return e, -1
	}
	last = i
	switch {
	case !p.IsPunct(i+1, '('):
	case p.IsPunct(i+2, ')'): // now()
		last = i + 2
	case p.IsPunct(i+3, ')'): // CURRENT_TIMESTAMP(3)
		last = i + 3
		as += string(p.Text[p.Tokens[i+1].Start:p.Tokens[i+3].End])
	}
	return parse.Edit{Start: int(p.Tokens[i].Start), End: int(p.Tokens[last].End), Text: "((" + instant + ")::timestamptz)::" + as}, last
}

// txTimeTypes maps words that mean the transaction's time to the SQL types of their values.
var txTimeTypes = map[string]string{"now": "timestamptz", "transaction_timestamp": "timestamptz", "current_timestamp": "timestamptz",
	"current_time": "timetz", "current_date": "date", "localtimestamp": "timestamp", "localtime": "time"}

// ReplaceTxTime returns the statement with instant in place of expressions for the transaction's time, such as now().
// instant returns the SQL of the time. The result is "" if the text does not contain the time, or locks rows. It is
// also "" if a result column would get another name.
func ReplaceTxTime(p *rewrite.Planner, sql string, instant func() string) string {
	if !containsWord(sql, parse.TxTimeWords, false) {
		return ""
	}
	statements := p.StatementTrees(sql)
	if len(statements) != 1 {
		return ""
	}
	switch statements[0].TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return ""
	}
	a := txTimeReplacer{ph: parse.LexTokens([]byte(sql), 0, len(sql)), instant: instant}
	a.visit(statements[0], 0)
	if a.failed || len(a.edits) == 0 {
		return ""
	}
	return parse.EditedText(sql, a.edits)
}

// txTimeReplacer replaces expressions for the transaction's time in one statement.
type txTimeReplacer struct {
	ph      parse.TokenList
	pairs   []int32 // the pairs of parentheses in ph; nil until itemEnd needs them
	instant func() string
	edits   []parse.Edit
	failed  bool // the statement cannot be rewritten with the same meaning
}

func (a *txTimeReplacer) visit(m parse.TreeNode, depth int) {
	if a.failed = a.failed || depth > maxDepth; a.failed {
		return
	}
	named := ""
	switch m.TypeName() {
	case "FuncCall", "SQLValueFunction":
		if !isTxTimeExpr(m) {
			break
		}
		word, last := a.txTimeTokens(m)
		if a.failed = last < 0; !a.failed {
			e, _ := txTimeEdit(&a.ph, word, a.instant())
			e.Start, e.Text = m.Integer("location"), "("+e.Text+")" // SQL allows some casts only in parentheses
			a.edits = append(a.edits, e)
		}
		return
	case "RangeFunction": // in FROM, the function's name becomes the name of its column
		a.failed = a.containsTxTime(m, depth)
		return
	case "SelectStmt":
		named = "target_list"
		if a.failed = m.Has("locking_clause"); a.failed { // Sluice may send a locking query in another form
			return
		}
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		named = "returning_list"
	}
	if named != "" {
		for target := range m.List(named) {
			a.addTargetAlias(target)
		}
	}
	for child := range m.Children() {
		a.visit(child, depth+1)
	}
}

// addTargetAlias adds an alias to a result column that takes its name from an expression for the time, such as now(). A
// column that takes its name from another function needs no alias.
func (a *txTimeReplacer) addTargetAlias(target parse.TreeNode) {
	val := target.Child("val")
	switch {
	case a.failed, target.Text("name") != "":
	case isTxTimeExpr(val), (val.Is("TypeCast") || val.Is("CollateClause") || val.Is("CaseExpr")) && a.containsTxTime(val, 0):
		end := a.itemEnd(target.Integer("location"))
		if a.failed = end < 0; !a.failed {
			name, _ := parse.FigureColumnName(val)
			a.edits = append(a.edits, parse.Edit{Start: end, End: end, Text: " AS " + parse.QuoteIdent(name)})
		}
	case val.Is("FuncCall"), val.Is("A_Expr"), val.Is("BoolExpr"), val.Is("NullTest"), val.Is("CoalesceExpr"), val.Is("SubLink"):
	default:
		a.failed = a.containsTxTime(val, 0)
	}
}

// itemEnd returns the end offset of the list item that begins at an offset. The item ends before a comma, the next
// clause, or the end of the text. The result is -1 if the end is unclear.
func (a *txTimeReplacer) itemEnd(start int) int {
	first := a.ph.TokenAt(start)
	if a.pairs == nil {
		a.pairs = a.ph.BracketPairs()
	}
	for i := first; i >= 0; i++ {
		switch {
		case i == len(a.ph.Tokens), a.ph.IsPunct(i, ','), a.ph.IsPunct(i, ')'), a.ph.IsPunct(i, ';'),
			a.ph.Tokens[i].Kind == parse.WordToken && clauseWords[strings.ToLower(string(a.ph.Lexeme(i)))] && !a.ph.IsKeyword(i-1, "distinct") && !a.ph.IsKeyword(i-1, "within"):
			if i == first {
				return -1
			}
			return int(a.ph.Tokens[i-1].End)
		case a.ph.IsPunct(i, '('), a.ph.IsPunct(i, '['):
			if i = int(a.pairs[i]); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// clauseWords are reserved words that may follow the result list of a query.
var clauseWords = parse.WordSet("from where group having window union intersect except order limit offset fetch for into")

// txTimeTokens returns the first and last token of a node that means the transaction's time. last is -1 if the end is
// unclear.
func (a *txTimeReplacer) txTimeTokens(m parse.TreeNode) (word, last int) {
	word = a.ph.TokenAt(m.Integer("location"))
	if word >= 0 && m.Is("FuncCall") {
		word = a.ph.AfterQualifiedName(word) - 1
	}
	_, last = txTimeEdit(&a.ph, word, "")
	return word, last
}

// containsTxTime reports whether a node contains an expression for the transaction's time, such as now().
func (a *txTimeReplacer) containsTxTime(m parse.TreeNode, depth int) bool {
	if isTxTimeExpr(m) || depth > maxDepth {
		return true
	}
	for child := range m.Children() {
		if a.containsTxTime(child, depth+1) {
			return true
		}
	}
	return false
}

// isTxTimeExpr reports whether a node is an expression for the transaction's time, such as now().
func isTxTimeExpr(m parse.TreeNode) bool {
	switch m.TypeName() {
	case "SQLValueFunction":
		return parse.SQLValueFunctionOp(m.Integer("op")) <= parse.SVFOP_LOCALTIMESTAMP_N
	case "FuncCall":
		names := m.Names("funcname")
		if last := names[len(names)-1]; last != "now" && last != "transaction_timestamp" || m.Has("over", "agg_filter", "args") {
			return false
		}
		return len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog"
	}
	return false
}

// MayReturnTxTime reports whether a text may contain current_timestamp, transaction_timestamp or now(). It is fast
// enough to check every statement, and has false positives.
func MayReturnTxTime(sql []byte) bool {
	for at := 0; ; at++ { // finds current_timestamp and transaction_timestamp
		i := bytes.IndexByte(sql[at:], '_')
		if i < 0 {
			break
		}
		const behind = "timestamp"
		if at += i; at+len(behind) < len(sql) && parse.IsWord(sql[at+1:at+1+len(behind)], behind) {
			return true
		}
	}
	for at := 0; ; at++ { // finds now(), "now" () and now/* */()
		i := bytes.IndexByte(sql[at:], '(')
		if i < 0 {
			return false
		}
		at += i
		if before := bytes.TrimRight(sql[:at], " \t\n\v\f\r\""); bytes.HasSuffix(before, []byte("*/")) || len(before) >= 3 && parse.IsWord(before[len(before)-3:], "now") {
			return true
		}
	}
}

// TxTimeColumns returns the indexes, from 0, of result columns whose value is exactly the transaction's time. The text
// must have one statement. Columns after a star are not included, because their indexes are unknown.
func TxTimeColumns(p *rewrite.Planner, sql string) (columns []int) {
	statements := p.StatementTrees(sql)
	if len(statements) != 1 {
		return nil
	}
	list := "returning_list"
	switch statements[0].TypeName() {
	case "SelectStmt": // a set operation has no target list
		list = "target_list"
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return nil
	}
	at := 0
	for target := range statements[0].List(list) {
		val := target.Child("val")
		if mayBeSeveralColumns(val, 0) {
			return columns
		}
		if isTxTimeExpr(val) && (!val.Is("SQLValueFunction") || parse.SQLValueFunctionOp(val.Integer("op")) == parse.SVFOP_CURRENT_TIMESTAMP) {
			columns = append(columns, at)
		}
		at++
	}
	return columns
}

// mayBeSeveralColumns reports whether an expression in a result list, for example a star, may give several columns.
func mayBeSeveralColumns(m parse.TreeNode, depth int) bool {
	if m.Is("A_Star") || depth > maxDepth {
		return true
	}
	if !m.Is("ColumnRef") && !m.Is("A_Indirection") {
		return false
	}
	for child := range m.Children() {
		if mayBeSeveralColumns(child, depth+1) {
			return true
		}
	}
	return false
}
