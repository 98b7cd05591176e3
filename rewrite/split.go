package rewrite

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v6"
	"github.com/pganalyze/pg_query_go/v6/parser"
	"google.golang.org/protobuf/encoding/protowire"
)

// Split is the other form of a query that locks FOR UPDATE over several tables,
// for clusters that take that on one table with equality on its key only: the
// first table's rows are locked by a statement of their own, and the query is
// run without its clause. Rows of the other tables are not locked.
type Split struct {
	// Lock is the companion; what it answers is for nobody. It must run in the
	// same transaction, in front of Read.
	Lock string
	// Params are the parameters of Lock by their numbers in the query: $1 of Lock
	// is the query's $Params[0].
	Params []int
	// Read is the query without its clause, with the parameters of the query.
	Read string

	text  string // what Read was made of: the one that the server refused
	edits []edit
}

// between stands between the two parts in a simple Query.
const between = "; "

// Text is both for a simple Query.
func (s *Split) Text() string { return s.Lock + between + s.Read }

// Position maps a position in Read to the refused text; Plan.Position maps that
// to the client's.
func (s *Split) Position(position int) int { return positionBefore(s.text, s.Read, s.edits, position) }

// TextPosition is Position for one in Text; ok is false in Lock, whose text the
// client did not write.
func (s *Split) TextPosition(position int) (mapped int, ok bool) {
	lock := utf8.RuneCountInString(s.Lock + between)
	if position <= lock {
		return 0, false
	}
	return s.Position(position - lock), true
}

// lazySplit holds a split form once it was asked for.
type lazySplit struct {
	once sync.Once
	form *Split
	// used is form once the cluster has refused the plan's text.
	used atomic.Pointer[Split]
}

// The two refusals that a split form is for, as older clusters word them.
var splitRefusals = [...]string{
	"locking clause such as FOR UPDATE can be applied only on tables with equality predicates on the key",
	"locking clause such as FOR UPDATE can be applied on a single table",
}

// wantsSplit reports whether an error says that the cluster takes FOR UPDATE only
// in the split form.
func wantsSplit(code string, message []byte) bool {
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

// Hints for the client of a refused FOR UPDATE: SplitHint where no split form
// helps, SplitNextHint where the next try is sent in it.
const (
	SplitHint     = "This cluster takes FOR UPDATE only on one table with equality on its whole key, and the query could not be split: lock the row by its key in a statement of its own."
	SplitNextHint = "This cluster takes FOR UPDATE only on one table with equality on its whole key. From now on this query is sent in two parts, which lock the first table's row only."
)

// Refused is told of an error of the server's about a plan that went out in the
// split form sent (nil: as its text). When the error refuses the locking clause,
// the plan has its split form used from now on, if there is a safe one, and
// again is true when that was not what was refused. hint is for the client; ""
// for every other error, and with the rule switched off.
func (p *Planner) Refused(plan *Plan, sent *Split, code string, message []byte) (hint string, again bool) {
	if !p.config.Rules.Split || !wantsSplit(code, message) {
		return "", false
	}
	form := p.Split(plan)
	if sent != nil || form == nil {
		return SplitHint, false
	}
	plan.split.used.Store(form)
	return SplitNextHint, true
}

// InSplit is the split form that the plan goes out in since the cluster refused
// its text; nil for nearly all plans.
func (p *Plan) InSplit() *Split { return p.split.used.Load() }

// splittable reports whether a text is one query that might have a split form.
func splittable(parts []part) bool {
	return len(parts) == 1 && parts[0].node.is("SelectStmt") && len(parts[0].locked) == 1 &&
		parts[0].locked[0].same(parts[0].node)
}

// Split is the split form of a plan of this planner; nil when there is no safe
// one. It is made when it is first asked for.
func (p *Planner) Split(plan *Plan) *Split {
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
		plan.split.form = p.splitOf(text)
	})
	return plan.split.form
}

// splitOf makes the split form of a query.
func (p *Planner) splitOf(text string) *Split {
	tree, err := parseTree(text)
	if err != nil {
		return nil
	}
	plan, parts := build(text, tree)
	if !splittable(parts) || plan.Statements[0].End > len(text) {
		return nil
	}
	query := parts[0].node
	table, on := lockedTable(query)
	if table.shape == nil || len(on) == 0 {
		return nil
	}
	s := &Split{text: text}
	if !s.companion(table, on) {
		return nil
	}
	ph := lexPhrase([]byte(text), parts[0].st.Start, parts[0].st.End)
	meant := intents{}
	meant.set(query, "locking_clause")
	clauses := clausesOf(&ph)
	if len(clauses) != 1 {
		return nil
	}
	s.edits = clauses[0].become(&ph, Strip)
	var ok bool
	if s.Read, ok = applyEdits(text, s.edits); !ok || !p.verified(s.Read, tree, meant, len(text) >= heavyBytes) || p.config.guard([]byte(s.Lock)) != fits {
		return nil
	}
	return s
}

// lockedTable finds the table whose rows a query shall lock and the conditions
// that compare a column of it with a constant. There is none when those are not
// sure to hold for every row that the query would lock.
func lockedTable(query message) (table message, on []value) {
	if !waitsForUpdate(query) || query.child("with_clause").shape != nil ||
		query.integer("op") != int(pg_query.SetOperation_SETOP_NONE) {
		return message{}, nil
	}
	clause, table := query.child("locking_clause"), leftmost(query)
	if table.shape == nil {
		return message{}, nil
	}
	if len(clause.values("locked_rels")) == 0 && outerJoined(query) || folded(query) {
		return message{}, nil // PostgreSQL refuses these, and so shall the server
	}
	name := table.text("relname")
	if alias := table.child("alias").text("aliasname"); alias != "" {
		name = alias
	}
	for of := range clause.list("locked_rels") {
		if of.text("relname") != name {
			return message{}, nil
		}
	}
	where := query.values("where_clause")
	if len(where) == 0 {
		return message{}, nil
	}
	return table, equalities(query.child("where_clause"), where[0], name)
}

// waitsForUpdate reports whether FOR UPDATE, without a wait policy, is the only
// locking clause of a query.
func waitsForUpdate(query message) bool {
	clause := query.child("locking_clause")
	return len(query.values("locking_clause")) == 1 && clause.integer("strength") == forUpdate &&
		clause.integer("wait_policy") == int(pg_query.LockWaitPolicy_LockWaitBlock)
}

// leftmost is the first table of a query's FROM. It is absent where a join hides its
// name or makes up rows for it, and where it is the only one: of one table the
// companion would be refused just so.
func leftmost(query message) message {
	item := query.child("from_clause")
	several := len(query.values("from_clause")) > 1
	for item.is("JoinExpr") {
		kind := pg_query.JoinType(item.integer("jointype"))
		if kind != pg_query.JoinType_JOIN_INNER && kind != pg_query.JoinType_JOIN_LEFT || item.child("alias").shape != nil {
			return message{}
		}
		several = true
		item = item.child("larg")
	}
	if !item.is("RangeVar") || !several {
		return message{}
	}
	return item
}

// outerJoined reports whether rows of some table may be made up for a join: they
// cannot be locked.
func outerJoined(query message) bool {
	var outer func(from message) bool
	outer = func(from message) bool {
		return from.is("JoinExpr") && (pg_query.JoinType(from.integer("jointype")) != pg_query.JoinType_JOIN_INNER ||
			outer(from.child("larg")) || outer(from.child("rarg")))
	}
	for from := range query.list("from_clause") {
		if outer(from) {
			return true
		}
	}
	return false
}

// folded reports whether a row of the result stands for several of a table's.
func folded(query message) bool {
	for _, clause := range []string{"distinct_clause", "group_clause", "having_clause", "window_clause"} {
		if len(query.values(clause)) > 0 {
			return true
		}
	}
	return false
}

// equalities gathers the conditions of a conjunction that are column = constant
// for a column written with the table's name.
func equalities(condition message, wrapped value, table string) []value {
	switch {
	case condition.is("BoolExpr") && condition.integer("boolop") == int(pg_query.BoolExprType_AND_EXPR):
		var all []value
		args := condition.values("args")
		i := 0
		for arg := range condition.list("args") {
			all = append(all, equalities(arg, args[i], table)...)
			i++
		}
		return all
	case condition.is("A_Expr") && condition.integer("kind") == int(pg_query.A_Expr_Kind_AEXPR_OP):
		names := condition.names("name")
		column, constant := condition.child("lexpr"), condition.child("rexpr")
		if isConstant(column) {
			column, constant = constant, column
		}
		if len(names) == 1 && names[0] == "=" && isColumnOf(column, table) && isConstant(constant) {
			return []value{wrapped}
		}
	}
	return nil
}

func isColumnOf(m message, table string) bool {
	names := m.is("ColumnRef")
	if !names {
		return false
	}
	fields := m.names("fields")
	return len(fields) == 2 && fields[0] == table && len(m.values("fields")) == 2
}

// isConstant reports a parameter or a constant, with or without one cast.
func isConstant(m message) bool {
	if m.is("TypeCast") {
		m = m.child("arg")
	}
	return m.is("ParamRef") || m.is("A_Const")
}

// sampleLock is the companion before the client's table and conditions are in it.
var sampleLock = sample("SELECT 1 FROM t WHERE true AND true FOR UPDATE")

// companion writes the statement that locks the table's rows. The parser's own
// deparser writes it, and what it wrote must be what was meant.
func (s *Split) companion(table message, on []value) bool {
	tree := sampleLock()
	query := tree.child("stmts").child("stmt")
	meant := intents{}
	meant.set(query, "from_clause", wrap(table))
	if len(on) == 1 {
		meant.set(query, "where_clause", on[0])
	} else {
		meant.set(query.child("where_clause"), "args", on...)
	}
	text, err := parser.DeparseFromProtobuf(meant.encode(tree))
	if err != nil {
		return false
	}
	again, err := parseTree(text)
	if err != nil || !meant.equal(tree, again) {
		return false
	}
	s.Lock = s.renumber(text)
	return s.Lock != ""
}

// wrap puts a node into the Node that lists of nodes hold.
func wrap(m message) value {
	for number, f := range shapes()["Node"].fields {
		if f.shape == m.shape {
			return value{bytes: protowire.AppendBytes(protowire.AppendTag(nil, protowire.Number(number), protowire.BytesType), m.wire)}
		}
	}
	panic("rewrite: no Node holds " + m.name())
}

// renumber gives the parameters of a text the numbers from 1 and notes which
// they were.
func (s *Split) renumber(text string) string {
	ph := lexPhrase([]byte(text), 0, len(text))
	now := map[int]int{}
	var edits []edit
	for i, t := range ph.tokens {
		if t.kind != paramToken {
			continue
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(string(ph.lexeme(i)), "$")) // the parser took it
		if now[n] == 0 {
			s.Params = append(s.Params, n)
			now[n] = len(s.Params)
		}
		edits = append(edits, edit{int(t.start), int(t.end), "$" + strconv.Itoa(now[n])})
	}
	return edited(text, edits)
}
