package rewrite

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// SplitQuery is a query with FOR UPDATE over several tables, divided into two statements. Some clusters accept FOR
// UPDATE only on one table with equality on its key. Lock locks the rows of the first table, and Read is the query
// without FOR UPDATE. Rows of the other tables are not locked.
type SplitQuery struct {
	// Lock is the statement that locks the rows. Sluice runs Lock before Read in the same transaction, and drops its
	// result.
	Lock string
	// Params gives, for each parameter of Lock, its number in the client's query: $1 of Lock is the query's $Params[0].
	Params []int
	// Read is the client's query without FOR UPDATE, with the same parameters.
	Read string

	text  string // the text that the server refused; edits turn it into Read
	edits []parse.Edit
}

// splitSeparator separates the statements Lock and Read in a simple Query.
const splitSeparator = "; "

// Text returns the statements Lock and Read as one query text.
func (s *SplitQuery) Text() string { return s.Lock + splitSeparator + s.Read }

// RefusedPosition converts a character position in Read to a position in the text that the server refused.
// Plan.ClientPosition converts that position to one in the client's text.
func (s *SplitQuery) RefusedPosition(position int) int {
	return parse.OriginalPosition(s.text, s.Read, s.edits, position)
}

// RefusedTextPosition converts a character position in Text to a position in the text that the server refused. ok is
// false for a position in Lock, which the client did not write.
func (s *SplitQuery) RefusedTextPosition(position int) (mapped int, ok bool) {
	lock := utf8.RuneCountInString(s.Lock + splitSeparator)
	if position <= lock {
		return 0, false
	}
	return s.RefusedPosition(position - lock), true
}

// lazySplit holds the SplitQuery of a plan, which SplitPlan builds at its first call.
type lazySplit struct {
	once sync.Once
	form *SplitQuery
	// used is form if the cluster has refused the plan's text, otherwise nil.
	used atomic.Pointer[SplitQuery]
}

// splitRefusals are the messages of two errors of older clusters. A SplitQuery avoids these errors.
var splitRefusals = [...]string{
	"locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key",
	"locking clause such as FOR UPDATE can be applied on a single table",
}

// isSplitRefusal reports whether a server error says that FOR UPDATE needs a single table or equality on its key.
func isSplitRefusal(code string, message []byte) bool {
	if code != "0A000" {
		return false
	}
	for _, text := range splitRefusals {
		if bytes.Contains(message, []byte(text)) {
			return true
		}
	}
	return false
}

// These are hints for a client whose FOR UPDATE the server refused. SplitHint is for a query that Sluice cannot split,
// SplitNextHint for a query that Sluice splits at the next execution.
const (
	SplitHint     = "This cluster takes FOR UPDATE only on one table with equality on its whole key, and the query could not be split: lock the row by its key in a statement of its own."
	SplitNextHint = "This cluster takes FOR UPDATE only on one table with equality on its whole key. From now on this query is sent in two parts, which lock the first table's row only."
)

// HandleRefusal handles a server error for a plan. sent is the SplitQuery that Sluice sent, or nil if it sent the
// plan's text. hint is the hint for the client if the error refuses FOR UPDATE and Rules.Split is on, otherwise "".
// again reports that the plan now has a SplitQuery that Sluice has not sent yet. ActiveSplit returns it from now on.
func (p *Planner) HandleRefusal(plan *Plan, sent *SplitQuery, code string, message []byte) (hint string, again bool) {
	if !p.config.Rules.Split || !isSplitRefusal(code, message) {
		return "", false
	}
	form := p.SplitPlan(plan)
	if sent != nil || form == nil {
		return SplitHint, false
	}
	plan.split.used.Store(form)
	return SplitNextHint, true
}

// ActiveSplit returns the SplitQuery that replaces the plan's text because the cluster has refused the text. For nearly
// all plans it returns nil.
func (p *Plan) ActiveSplit() *SplitQuery { return p.split.used.Load() }

// isSplittable reports whether a text is a single query that has locking clauses, and only at its top level.
func isSplittable(parts []statementPart) bool {
	return len(parts) == 1 && parts[0].node.Is("SelectStmt") && len(parts[0].locked) == 1 &&
		parts[0].locked[0].IsSameNode(parts[0].node)
}

// SplitPlan returns the SplitQuery of a plan of this planner, or nil if no safe one exists. The first call builds it.
func (p *Planner) SplitPlan(plan *Plan) *SplitQuery {
	if !plan.splits {
		return nil
	}
	plan.split.once.Do(func() {
		text := plan.source
		if plan.Text != "" {
			text = plan.Text
		}
		if len(text) >= heavyBytes {
			p.heavy.Lock()
			defer p.heavy.Unlock()
		}
		plan.split.form = p.buildSplit(text)
	})
	return plan.split.form
}

// buildSplit returns the SplitQuery of a text with one query, or nil if no safe one exists.
func (p *Planner) buildSplit(text string) *SplitQuery {
	tree, err := parse.Tree(text)
	if err != nil {
		return nil
	}
	plan, parts := buildPlan(text, tree)
	if !isSplittable(parts) || plan.Statements[0].End > len(text) {
		return nil
	}
	query := parts[0].node
	table, on := lockedTable(query)
	if table.Shape == nil || len(on) == 0 {
		return nil
	}
	s := &SplitQuery{text: text}
	if !s.setLockStatement(table, on) {
		return nil
	}
	ph := parse.LexTokens([]byte(text), parts[0].st.Start, parts[0].st.End)
	meant := parse.TreeChanges{}
	meant.Set(query, "locking_clause")
	clauses := lockClauses(&ph)
	if len(clauses) != 1 {
		return nil
	}
	s.edits = clauses[0].policyEdits(&ph, Strip)
	var ok bool
	if s.Read, ok = parse.Apply(text, s.edits); !ok || !p.hasIntendedMeaning(s.Read, tree, meant, len(text) >= heavyBytes) || p.config.checkLimits([]byte(s.Lock)) != parse.Fits {
		return nil
	}
	return s
}

// lockedTable returns the table whose rows the statement Lock must lock, and the conditions that compare its columns
// with constants. on is empty if some row that the query would lock might not meet the conditions.
func lockedTable(query parse.TreeNode) (table parse.TreeNode, on []parse.Value) {
	if !isBlockingForUpdate(query) || query.Child("with_clause").Shape != nil || query.Child("into_clause").Shape != nil ||
		query.Integer("op") != int(parse.SETOP_NONE) {
		return parse.TreeNode{}, nil
	}
	clause, table := query.Child("locking_clause"), firstTable(query)
	if table.Shape == nil {
		return parse.TreeNode{}, nil
	}
	if len(clause.Values("locked_rels")) == 0 && hasOuterJoin(query) || combinesRows(query) {
		return parse.TreeNode{}, nil // PostgreSQL refuses these queries, so Sluice must let the server refuse them
	}
	name := table.Text("relname")
	if alias := table.Child("alias").Text("aliasname"); alias != "" {
		name = alias
	}
	for of := range clause.List("locked_rels") {
		if of.Text("relname") != name {
			return parse.TreeNode{}, nil
		}
	}
	where := query.Values("where_clause")
	if len(where) == 0 {
		return parse.TreeNode{}, nil
	}
	return table, columnEqualities(query.Child("where_clause"), where[0], name)
}

// isBlockingForUpdate reports whether a query has exactly one locking clause, FOR UPDATE without NOWAIT or SKIP LOCKED.
func isBlockingForUpdate(query parse.TreeNode) bool {
	clause := query.Child("locking_clause")
	return len(query.Values("locking_clause")) == 1 && clause.Integer("strength") == forUpdate &&
		clause.Integer("wait_policy") == int(parse.LockWaitBlock)
}

// firstTable returns the first table of a query's FROM. The result is absent if a join hides the table's name or may
// give NULLs in place of its row. It is also absent for a query of one table, because a server would refuse its
// SplitQuery, too.
func firstTable(query parse.TreeNode) parse.TreeNode {
	item := query.Child("from_clause")
	several := len(query.Values("from_clause")) > 1
	for item.Is("JoinExpr") {
		kind := parse.JoinType(item.Integer("jointype"))
		if kind != parse.JOIN_INNER && kind != parse.JOIN_LEFT || item.Child("alias").Shape != nil {
			return parse.TreeNode{}
		}
		several = true
		item = item.Child("larg")
	}
	if !item.Is("RangeVar") || !several {
		return parse.TreeNode{}
	}
	return item
}

// hasOuterJoin reports whether FROM has an outer join. The server cannot lock the rows of NULLs that an outer join
// gives.
func hasOuterJoin(query parse.TreeNode) bool {
	var outer func(from parse.TreeNode) bool
	outer = func(from parse.TreeNode) bool {
		return from.Is("JoinExpr") && (parse.JoinType(from.Integer("jointype")) != parse.JOIN_INNER ||
			outer(from.Child("larg")) || outer(from.Child("rarg")))
	}
	for from := range query.List("from_clause") {
		if outer(from) {
			return true
		}
	}
	return false
}

// combinesRows reports whether a result row may combine several table rows, by DISTINCT, GROUP BY, HAVING or WINDOW.
func combinesRows(query parse.TreeNode) bool {
	for _, clause := range []string{"distinct_clause", "group_clause", "having_clause", "window_clause"} {
		if len(query.Values(clause)) > 0 {
			return true
		}
	}
	return false
}

// columnEqualities returns those operands of an AND that have the form table.column = constant. wrapped is the
// condition as a value of its parent's field.
func columnEqualities(condition parse.TreeNode, wrapped parse.Value, table string) []parse.Value {
	switch {
	case condition.Is("BoolExpr") && condition.Integer("boolop") == int(parse.AND_EXPR):
		var all []parse.Value
		args := condition.Values("args")
		i := 0
		for arg := range condition.List("args") {
			all = append(all, columnEqualities(arg, args[i], table)...)
			i++
		}
		return all
	case condition.Is("A_Expr") && condition.Integer("kind") == int(parse.AEXPR_OP):
		names := condition.Names("name")
		column, constant := condition.Child("lexpr"), condition.Child("rexpr")
		if isConstant(column) {
			column, constant = constant, column
		}
		if len(names) == 1 && names[0] == "=" && isColumnOf(column, table) && isConstant(constant) {
			return []parse.Value{wrapped}
		}
	}
	return nil
}

func isColumnOf(m parse.TreeNode, table string) bool {
	names := m.Is("ColumnRef")
	if !names {
		return false
	}
	fields := m.Names("fields")
	return len(fields) == 2 && fields[0] == table && len(m.Values("fields")) == 2
}

// isConstant reports whether m is a parameter or a constant, with at most one cast.
func isConstant(m parse.TreeNode) bool {
	if m.Is("TypeCast") {
		m = m.Child("arg")
	}
	return m.Is("ParamRef") || m.Is("A_Const")
}

// sampleLock is a tree of the statement Lock, into which setLockStatement inserts the table and the conditions.
var sampleLock = parse.LazyTree("SELECT 1 FROM t WHERE true AND true FOR UPDATE")

// setLockStatement sets Lock to a statement that locks the rows of table that meet all conditions in on. It makes the
// text from a tree, parses the text and compares the trees. It returns false if they differ.
func (s *SplitQuery) setLockStatement(table parse.TreeNode, on []parse.Value) bool {
	tree := sampleLock()
	query := tree.Child("stmts").Child("stmt")
	meant := parse.TreeChanges{}
	meant.Set(query, "from_clause", parse.WrapInNode(table))
	if len(on) == 1 {
		meant.Set(query, "where_clause", on[0])
	} else {
		meant.Set(query.Child("where_clause"), "args", on...)
	}
	text, err := parse.Deparse(meant.Encode(tree))
	if err != nil {
		return false
	}
	again, err := parse.Tree(text)
	if err != nil || !meant.Equal(tree, again) {
		return false
	}
	s.Lock = s.renumberParams(text)
	return s.Lock != ""
}

// renumberParams numbers the parameters of a text from 1, and records their numbers in the client's query in Params.
func (s *SplitQuery) renumberParams(text string) string {
	ph := parse.LexTokens([]byte(text), 0, len(text))
	now := map[int]int{}
	var edits []parse.Edit
	for i, t := range ph.Tokens {
		if t.Kind != parse.ParamToken {
			continue
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(string(ph.Lexeme(i)), "$")) // the parser accepted the number
		if now[n] == 0 {
			s.Params = append(s.Params, n)
			now[n] = len(s.Params)
		}
		edits = append(edits, parse.Edit{Start: int(t.Start), End: int(t.End), Text: "$" + strconv.Itoa(now[n])})
	}
	return parse.EditedText(text, edits)
}
