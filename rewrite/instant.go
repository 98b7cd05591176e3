package rewrite

import (
	"bytes"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// The time of a transaction as a value: what a text and the default of a column become where the time
// that was told stands in the place of what the server would tell.

// Instant reports whether a column of that Time has the very time of the transaction, with its time zone
// and all its digits.
func Instant(time string) bool {
	switch kind, expression, _ := strings.Cut(time, " "); expression {
	case "now()", "CURRENT_TIMESTAMP", "transaction_timestamp()":
		return kind == instantType
	}
	return false
}

// instantType is that of a timestamptz without a precision, as TimeOf is told of it.
const instantType = "1184/-1"

// InstantKind is the Time of a column that has the very time of the transaction (Instant).
const InstantKind = instantType + " now()"

// AtTime is the expression that makes the value of a column of that Time, at an instant, which is an
// expression as well, by the settings in force.
func AtTime(time, instant string) string {
	_, expression, _ := strings.Cut(time, " ")
	ph := lexPhrase([]byte(expression), 0, len(expression))
	var edits []edit
	for i := 0; i < len(ph.tokens); i++ {
		if e, last := ph.period(i, instant); last >= 0 {
			edits, i = append(edits, e), last
		}
	}
	return edited(expression, edits)
}

// period puts an instant in the place of the word for the time of the transaction that stands at token i,
// with what belongs to it. last is its last token; -1 where no such word stands there.
func (p *phrase) period(i int, instant string) (e edit, last int) {
	as, timed := periodTypes[strings.ToLower(string(p.lexeme(i)))]
	if !timed || p.tokens[i].kind != wordToken {
		return e, -1
	}
	last = i
	switch {
	case !p.punct(i+1, '('):
	case p.punct(i+2, ')'): // now()
		last = i + 2
	case p.punct(i+3, ')'): // CURRENT_TIMESTAMP(3)
		last = i + 3
		as += string(p.text[p.tokens[i+1].start:p.tokens[i+3].end])
	}
	return edit{int(p.tokens[i].start), int(p.tokens[last].end), "((" + instant + ")::timestamptz)::" + as}, last
}

// periodTypes are the types of the words for the time of the transaction.
var periodTypes = map[string]string{"now": "timestamptz", "transaction_timestamp": "timestamptz", "current_timestamp": "timestamptz",
	"current_time": "timetz", "current_date": "date", "localtimestamp": "timestamp", "localtime": "time"}

// AtInstant is the text of a statement that reads, inserts or changes rows in which an instant, which an
// expression tells, stands in the place of the time of its transaction. It is "" where the text does not
// name that time, or where a column would get another name and cannot be given its own, and where rows
// are locked.
func (p *Planner) AtInstant(sql string, instant func() string) string {
	if !saysWord(sql, periods, false) {
		return ""
	}
	statements := p.statements(sql)
	if len(statements) != 1 {
		return ""
	}
	switch statements[0].name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return ""
	}
	a := instants{ph: lexPhrase([]byte(sql), 0, len(sql)), instant: instant}
	a.visit(statements[0], 0)
	if a.lost || len(a.edits) == 0 {
		return ""
	}
	return edited(sql, a.edits)
}

// instants puts an instant into one statement.
type instants struct {
	ph      phrase
	pairs   []int32 // of ph; nil: nobody has asked
	instant func() string
	edits   []edit
	lost    bool // it cannot be done
}

func (a *instants) visit(m message, depth int) {
	if a.lost = a.lost || depth > deepest; a.lost {
		return
	}
	named := ""
	switch m.name() {
	case "FuncCall", "SQLValueFunction":
		if !isPeriod(m) {
			break
		}
		word, last := a.token(m)
		if a.lost = last < 0; !a.lost {
			e, _ := a.ph.period(word, a.instant())
			e.start, e.text = m.integer("location"), "("+e.text+")" // some places take no cast without parentheses
			a.edits = append(a.edits, e)
		}
		return
	case "RangeFunction": // names its column
		a.lost = a.within(m, depth)
		return
	case "SelectStmt":
		named = "target_list"
		if a.lost = m.has("locking_clause"); a.lost { // it may have to go out in another form
			return
		}
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
		named = "returning_list"
	}
	if named != "" {
		for target := range m.list(named) {
			a.target(target)
		}
	}
	for child := range m.nodes() {
		a.visit(child, depth+1)
	}
}

// target writes the name behind a column of a query that has its name from the time. Those are left that have
// it from what is outermost.
func (a *instants) target(target message) {
	val := target.child("val")
	switch {
	case a.lost, target.text("name") != "":
	case isPeriod(val), (val.is("TypeCast") || val.is("CollateClause") || val.is("CaseExpr")) && a.within(val, 0):
		end := a.itemEnd(target.integer("location"))
		if a.lost = end < 0; !a.lost {
			name, _ := figure(val)
			a.edits = append(a.edits, edit{end, end, " AS " + identifier(name)})
		}
	case val.is("FuncCall"), val.is("A_Expr"), val.is("BoolExpr"), val.is("NullTest"), val.is("CoalesceExpr"), val.is("SubLink"):
	default:
		a.lost = a.within(val, 0)
	}
}

// itemEnd is where an item of a list that begins at an offset ends: in front of a comma, of the word that
// begins the next clause, or of the end. -1 where that is not plain to see.
func (a *instants) itemEnd(start int) int {
	first := a.ph.at(start)
	if a.pairs == nil {
		a.pairs = a.ph.pairs()
	}
	for i := first; i >= 0; i++ {
		switch {
		case i == len(a.ph.tokens), a.ph.punct(i, ','), a.ph.punct(i, ')'), a.ph.punct(i, ';'),
			a.ph.tokens[i].kind == wordToken && clauses[strings.ToLower(string(a.ph.lexeme(i)))] && !a.ph.word(i-1, "distinct") && !a.ph.word(i-1, "within"):
			if i == first {
				return -1
			}
			return int(a.ph.tokens[i-1].end)
		case a.ph.punct(i, '('), a.ph.punct(i, '['):
			if i = int(a.pairs[i]); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// clauses are the words, all reserved, that may stand behind the list of what a query returns.
var clauses = wordSet("from where group having window union intersect except order limit offset fetch for into")

// token is the word of a node that is the time, and the last token that belongs to it; -1 where that is
// not plain to see.
func (a *instants) token(m message) (word, last int) {
	word = a.ph.at(m.integer("location"))
	if word >= 0 && m.is("FuncCall") {
		word = a.ph.qualified(word) - 1
	}
	_, last = a.ph.period(word, "")
	return word, last
}

// within reports whether a node has the time of the transaction in it.
func (a *instants) within(m message, depth int) bool {
	if isPeriod(m) || depth > deepest {
		return true
	}
	for child := range m.nodes() {
		if a.within(child, depth+1) {
			return true
		}
	}
	return false
}

// isPeriod reports whether a node is the time of the transaction.
func isPeriod(m message) bool {
	switch m.name() {
	case "SQLValueFunction":
		return pg_query.SQLValueFunctionOp(m.integer("op")) <= pg_query.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP_N
	case "FuncCall":
		names := m.names("funcname")
		if last := names[len(names)-1]; last != "now" && last != "transaction_timestamp" || m.has("over", "agg_filter", "args") {
			return false
		}
		return len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog"
	}
	return false
}

// MayTellInstant reports whether a text has a word for the time of its transaction as Instants looks for it:
// a quick look, made for each statement.
func MayTellInstant(sql []byte) bool {
	for at := 0; ; at++ { // current_timestamp, transaction_timestamp
		i := bytes.IndexByte(sql[at:], '_')
		if i < 0 {
			break
		}
		const behind = "timestamp"
		if at += i; at+len(behind) < len(sql) && is(sql[at+1:at+1+len(behind)], behind) {
			return true
		}
	}
	for at := 0; ; at++ { // now()
		i := bytes.IndexByte(sql[at:], '(')
		if i < 0 {
			return false
		}
		if at += i; at >= 3 && is(sql[at-3:at], "now") {
			return true
		}
	}
}

// Instants are the columns, from 0, of what a text returns that are the very time of its transaction. It
// looks at a text of one statement, and there not behind a column that stands for several.
func (p *Planner) Instants(sql string) (columns []int) {
	statements := p.statements(sql)
	if len(statements) != 1 {
		return nil
	}
	list := "returning_list"
	switch statements[0].name() {
	case "SelectStmt": // one that combines others has no list
		list = "target_list"
	case "InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt":
	default:
		return nil
	}
	at := 0
	for target := range statements[0].list(list) {
		val := target.child("val")
		if expands(val, 0) {
			return columns
		}
		if isPeriod(val) && (!val.is("SQLValueFunction") || pg_query.SQLValueFunctionOp(val.integer("op")) == pg_query.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP) {
			columns = append(columns, at)
		}
		at++
	}
	return columns
}

// expands reports whether a column of a query may stand for several.
func expands(m message, depth int) bool {
	if m.is("A_Star") || depth > deepest {
		return true
	}
	if !m.is("ColumnRef") && !m.is("A_Indirection") {
		return false
	}
	for child := range m.nodes() {
		if expands(child, depth+1) {
			return true
		}
	}
	return false
}
