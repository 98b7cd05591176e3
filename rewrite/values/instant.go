package values

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// When a transaction is repeated, the time that its client got before replaces the time of the new transaction.
// The replacement applies to texts and to defaults of columns.

// Instant reports whether a column of this Time holds the exact transaction time, with time zone and all
// digits.
func Instant(time string) bool {
	switch kind, expression, _ := strings.Cut(time, " "); expression {
	case "now()", "CURRENT_TIMESTAMP", "transaction_timestamp()":
		return kind == instantType
	}
	return false
}

// instantType is timestamptz without a precision, in the form that schema.TimeOf expects.
const instantType = "1184/-1"

// InstantKind is the Time of a column that holds the exact transaction time (Instant).
const InstantKind = instantType + " now()"

// AtTime returns the expression of a column's Time at an instant. instant is an SQL expression. The result
// depends on the session's settings, as the default does.
func AtTime(time, instant string) string {
	_, expression, _ := strings.Cut(time, " ")
	ph := parse.LexPhrase([]byte(expression), 0, len(expression))
	var edits []parse.Edit
	for i := 0; i < len(ph.Tokens); i++ {
		if e, last := period(&ph, i, instant); last >= 0 {
			edits, i = append(edits, e), last
		}
	}
	return parse.Edited(expression, edits)
}

// period replaces an expression for the transaction's time, which begins at token i, by an instant. last is the
// expression's last token, or -1 if there is none.
func period(p *parse.Phrase, i int, instant string) (e parse.Edit, last int) {
	as, timed := periodTypes[strings.ToLower(string(p.Lexeme(i)))]
	if !timed || p.Tokens[i].Kind != parse.WordToken {
		return e, -1
	}
	last = i
	switch {
	case !p.Punct(i+1, '('):
	case p.Punct(i+2, ')'): // now()
		last = i + 2
	case p.Punct(i+3, ')'): // CURRENT_TIMESTAMP(3)
		last = i + 3
		as += string(p.Text[p.Tokens[i+1].Start:p.Tokens[i+3].End])
	}
	return parse.Edit{Start: int(p.Tokens[i].Start), End: int(p.Tokens[last].End), Text: "((" + instant + ")::timestamptz)::" + as}, last
}

// periodTypes maps expressions for the transaction's time to their types.
var periodTypes = map[string]string{"now": "timestamptz", "transaction_timestamp": "timestamptz", "current_timestamp": "timestamptz",
	"current_time": "timetz", "current_date": "date", "localtimestamp": "timestamp", "localtime": "time"}

// AtInstant returns a statement with the expressions for its transaction's time replaced. instant returns the
// SQL of the time. The result is "" if the text does not contain the time, or locks rows. It is also "" if a
// result column would get another name.
func AtInstant(p *rewrite.Planner, sql string, instant func() string) string {
	if !saysWord(sql, parse.Periods, false) {
		return ""
	}
	statements := p.Statements(sql)
	if len(statements) != 1 {
		return ""
	}
	switch statements[0].Name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return ""
	}
	a := instants{ph: parse.LexPhrase([]byte(sql), 0, len(sql)), instant: instant}
	a.visit(statements[0], 0)
	if a.lost || len(a.edits) == 0 {
		return ""
	}
	return parse.Edited(sql, a.edits)
}

// instants replaces expressions for the transaction's time in one statement.
type instants struct {
	ph      parse.Phrase
	pairs   []int32 // matching parentheses of ph; nil until first needed
	instant func() string
	edits   []parse.Edit
	lost    bool // the statement cannot be changed
}

func (a *instants) visit(m parse.Message, depth int) {
	if a.lost = a.lost || depth > maxDepth; a.lost {
		return
	}
	named := ""
	switch m.Name() {
	case "FuncCall", "SQLValueFunction":
		if !isPeriod(m) {
			break
		}
		word, last := a.token(m)
		if a.lost = last < 0; !a.lost {
			e, _ := period(&a.ph, word, a.instant())
			e.Start, e.Text = m.Integer("location"), "("+e.Text+")" // some places take a cast only in parentheses
			a.edits = append(a.edits, e)
		}
		return
	case "RangeFunction": // a function in FROM names its column
		a.lost = a.within(m, depth)
		return
	case "SelectStmt":
		named = "target_list"
		if a.lost = m.Has("locking_clause"); a.lost { // the statement may be sent in another form
			return
		}
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		named = "returning_list"
	}
	if named != "" {
		for target := range m.List(named) {
			a.target(target)
		}
	}
	for child := range m.Nodes() {
		a.visit(child, depth+1)
	}
}

// target adds an alias to a result column whose name would come from the expression for the time. A column that has its
// name from its outermost function needs no alias.
func (a *instants) target(target parse.Message) {
	val := target.Child("val")
	switch {
	case a.lost, target.Text("name") != "":
	case isPeriod(val), (val.Is("TypeCast") || val.Is("CollateClause") || val.Is("CaseExpr")) && a.within(val, 0):
		end := a.itemEnd(target.Integer("location"))
		if a.lost = end < 0; !a.lost {
			name, _ := parse.Figure(val)
			a.edits = append(a.edits, parse.Edit{Start: end, End: end, Text: " AS " + parse.Identifier(name)})
		}
	case val.Is("FuncCall"), val.Is("A_Expr"), val.Is("BoolExpr"), val.Is("NullTest"), val.Is("CoalesceExpr"), val.Is("SubLink"):
	default:
		a.lost = a.within(val, 0)
	}
}

// itemEnd returns the end offset of a list item that begins at an offset. The item ends before a comma, the
// next clause, or the end. The result is -1 if the end is unclear.
func (a *instants) itemEnd(start int) int {
	first := a.ph.At(start)
	if a.pairs == nil {
		a.pairs = a.ph.Pairs()
	}
	for i := first; i >= 0; i++ {
		switch {
		case i == len(a.ph.Tokens), a.ph.Punct(i, ','), a.ph.Punct(i, ')'), a.ph.Punct(i, ';'),
			a.ph.Tokens[i].Kind == parse.WordToken && clauses[strings.ToLower(string(a.ph.Lexeme(i)))] && !a.ph.Word(i-1, "distinct") && !a.ph.Word(i-1, "within"):
			if i == first {
				return -1
			}
			return int(a.ph.Tokens[i-1].End)
		case a.ph.Punct(i, '('), a.ph.Punct(i, '['):
			if i = int(a.pairs[i]); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// clauses are reserved words that may follow the result list of a query.
var clauses = parse.WordSet("from where group having window union intersect except order limit offset fetch for into")

// token returns the first and last token of a node that is the transaction's time. last is -1 if the end is
// unclear.
func (a *instants) token(m parse.Message) (word, last int) {
	word = a.ph.At(m.Integer("location"))
	if word >= 0 && m.Is("FuncCall") {
		word = a.ph.Qualified(word) - 1
	}
	_, last = period(&a.ph, word, "")
	return word, last
}

// within reports whether a node contains the transaction's time.
func (a *instants) within(m parse.Message, depth int) bool {
	if isPeriod(m) || depth > maxDepth {
		return true
	}
	for child := range m.Nodes() {
		if a.within(child, depth+1) {
			return true
		}
	}
	return false
}

// isPeriod reports whether a node is an expression for the transaction's time, such as now().
func isPeriod(m parse.Message) bool {
	switch m.Name() {
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

// MayTellInstant reports whether a text contains current_timestamp, transaction_timestamp or now(). It is a
// fast check for every statement, with false positives.
func MayTellInstant(sql []byte) bool {
	for at := 0; ; at++ { // current_timestamp, transaction_timestamp
		i := bytes.IndexByte(sql[at:], '_')
		if i < 0 {
			break
		}
		const behind = "timestamp"
		if at += i; at+len(behind) < len(sql) && parse.IsWord(sql[at+1:at+1+len(behind)], behind) {
			return true
		}
	}
	for at := 0; ; at++ { // now()
		i := bytes.IndexByte(sql[at:], '(')
		if i < 0 {
			return false
		}
		if at += i; at >= 3 && parse.IsWord(sql[at-3:at], "now") {
			return true
		}
	}
}

// Instants returns the indexes of a text's result columns, from 0, that are the exact time of its transaction.
// The text must have one statement. Columns after a star are not included.
func Instants(p *rewrite.Planner, sql string) (columns []int) {
	statements := p.Statements(sql)
	if len(statements) != 1 {
		return nil
	}
	list := "returning_list"
	switch statements[0].Name() {
	case "SelectStmt": // a set operation has no target list
		list = "target_list"
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return nil
	}
	at := 0
	for target := range statements[0].List(list) {
		val := target.Child("val")
		if expands(val, 0) {
			return columns
		}
		if isPeriod(val) && (!val.Is("SQLValueFunction") || parse.SQLValueFunctionOp(val.Integer("op")) == parse.SVFOP_CURRENT_TIMESTAMP) {
			columns = append(columns, at)
		}
		at++
	}
	return columns
}

// expands reports whether a result expression may be several columns.
func expands(m parse.Message, depth int) bool {
	if m.Is("A_Star") || depth > maxDepth {
		return true
	}
	if !m.Is("ColumnRef") && !m.Is("A_Indirection") {
		return false
	}
	for child := range m.Nodes() {
		if expands(child, depth+1) {
			return true
		}
	}
	return false
}
