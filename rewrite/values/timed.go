package values

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// When Sluice repeats a transaction, each column whose default is the transaction's time gets the time of the first
// run. ParseTimed covers INSERT ... VALUES (Insertion, upsert), INSERT ... SELECT (insertSelect) and INSERTs in WITH
// queries (insertsInWith).

// TimedStatement is a statement into which Sluice can write the time of a transaction's first run when it repeats the
// transaction.
type TimedStatement interface {
	// WithFirstRun returns the statement with values of its first run, or "" if no value of the first run is usable.
	WithFirstRun(g FirstRunValues) string
	// EffectsWith returns the effects that the statement still has with values of its first run.
	EffectsWith(g FirstRunValues) Effects
	// TakesTxTime reports whether the statement, with g, gets the time of the transaction's first run.
	TakesTxTime(g FirstRunValues) bool
	// ResolvesSame reports whether names still finds the same relations for the tables into which the statement
	// inserts.
	ResolvesSame(names *schema.NameResolver) bool
}

// ParseTimed parses a text with one statement. It returns nil if Sluice cannot write the time of the transaction's
// first run into the statement.
func ParseTimed(p *rewrite.Planner, sql string, names *schema.NameResolver) TimedStatement {
	if in := ParseInsertion(p, sql, names); in != nil {
		return in
	}
	if in := parseInsertion(p, sql, names, true); in != nil {
		return upsert{in}
	}
	statements := p.StatementTrees(sql)
	if names == nil || len(statements) != 1 {
		return nil
	}
	if s := parseInsertSelect(sql, statements[0], names); s != nil {
		return s
	}
	if w := parseInsertsInWith(p, sql, statements[0], names); w != nil {
		return w
	}
	return nil
}

// upsert is an INSERT ... VALUES ... ON CONFLICT DO UPDATE. When Sluice repeats it, it uses no values of the first
// answer, because some of the rows existed before.
type upsert struct{ *Insertion }

func (u upsert) WithFirstRun(g FirstRunValues) string {
	g.Value = nil
	return u.Insertion.WithFirstRun(g)
}

func (u upsert) EffectsWith(g FirstRunValues) Effects {
	g.Value = nil
	return u.Insertion.EffectsWith(g)
}

// insertSelect is an INSERT ... SELECT with a column list. When Sluice repeats it, it uses no values of the first
// answer.
type insertSelect struct {
	Insertion
	first int // the index of the token after SELECT or ALL
}

// parseInsertSelect returns the insertSelect of an INSERT, or nil. It returns nil if the query may refer to result
// columns by number, because WithFirstRun adds columns before them.
func parseInsertSelect(sql string, node parse.TreeNode, names *schema.NameResolver) *insertSelect {
	if !node.Is("InsertStmt") || node.Has("with_clause") || !node.Has("cols") {
		return nil
	}
	name, query := node.Child("relation"), node.Child("select_stmt")
	if !query.Has("target_list") || parse.SetOperation(query.Integer("op")) > parse.SETOP_NONE ||
		query.Has("distinct_clause", "group_clause", "sort_clause", "with_clause", "into_clause") {
		return nil
	}
	s := &insertSelect{Insertion: Insertion{sql: sql, names: names, node: node, ph: parse.LexTokens([]byte(sql), 0, len(sql)), list: -1}}
	s.pairs = s.ph.BracketPairs()
	if s.relation, _ = names.FindRelation(name.Text("schemaname"), name.Text("relname")); s.relation == nil || !s.readReturning(node, name) || !s.readColumnList(node) {
		return nil
	}
	s.first = s.head + 1
	if s.ph.IsKeyword(s.first, "all") {
		s.first++
	}
	if !s.ph.IsKeyword(s.head, "select") || s.first >= len(s.ph.Tokens) {
		return nil
	}
	return s
}

// WithFirstRun returns the INSERT with added columns for the time of the first run. They precede all other columns.
func (s *insertSelect) WithFirstRun(g FirstRunValues) string {
	g.Value = nil
	var added []int
	for i := range s.relation.Columns {
		if _, timed := s.valueSource(i, g); timed && s.isServerGenerated(i) {
			added = append(added, i)
		}
	}
	if len(added) == 0 {
		return ""
	}
	return parse.EditedText(s.sql, []parse.Edit{s.insertBefore(s.list+1, s.columnNamesSQL(added)+", "), s.insertBefore(s.first, s.valuesSQL(added, 0, g)+", ")})
}

func (s *insertSelect) EffectsWith(g FirstRunValues) Effects {
	g.Value = nil
	return s.Insertion.EffectsWith(g)
}

// insertsInWith is a statement with INSERTs in WITH queries. It may itself be an INSERT. When Sluice repeats it, it
// uses no values of the first answer.
type insertsInWith struct {
	p     *rewrite.Planner
	sql   string
	names *schema.NameResolver
	parts []timedPart // the INSERTs in text order
}

// timedPart is one INSERT within a statement, and its byte offsets in the statement's text.
type timedPart struct {
	start, end int
	in         TimedStatement
}

// parseInsertsInWith returns a statement with INSERTs in WITH queries as an insertsInWith, or nil if there are none.
func parseInsertsInWith(p *rewrite.Planner, sql string, node parse.TreeNode, names *schema.NameResolver) *insertsInWith {
	switch node.TypeName() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
	default:
		return nil
	}
	w := &insertsInWith{p: p, sql: sql, names: names}
	ph := parse.LexTokens([]byte(sql), 0, len(sql))
	pairs, all := ph.BracketPairs(), appendCTENames(node, 0, nil)
	behind := -1
	for cte := range node.Child("with_clause").List("ctes") {
		open := ph.TokenAt(cte.Integer("location"))
		if open < 0 {
			return nil
		}
		if open++; ph.IsPunct(open, '(') && pairs[open] >= 0 { // the WITH query has a list of column names
			open = int(pairs[open]) + 1
		}
		for ph.IsKeyword(open, "as") || ph.IsKeyword(open, "not") || ph.IsKeyword(open, "materialized") {
			open++
		}
		if !ph.IsPunct(open, '(') || pairs[open] < 0 {
			return nil
		}
		behind = int(pairs[open]) + 1
		if cte.Child("ctequery").Is("InsertStmt") {
			w.addInsert(int(ph.Tokens[open].End), int(ph.Tokens[behind-1].Start), all)
		}
	}
	if node.Is("InsertStmt") && ph.IsKeyword(behind, "insert") {
		w.addInsert(int(ph.Tokens[behind].Start), len(sql), all)
	}
	if len(w.parts) == 0 {
		return nil
	}
	return w
}

// addInsert adds the INSERT between two byte offsets of the text, if that INSERT can get the time of the first run.
func (w *insertsInWith) addInsert(start, end int, withs []string) {
	in := ParseTimed(w.p, w.sql[start:end], w.names)
	switch in := in.(type) {
	case *Insertion:
		in.withs = withs
	case upsert:
		in.withs = withs
	case *insertSelect:
		in.withs = withs
	default:
		return
	}
	w.parts = append(w.parts, timedPart{start, end, in})
}

func (w *insertsInWith) WithFirstRun(g FirstRunValues) string {
	g.Value = nil
	var edits []parse.Edit
	for _, part := range w.parts {
		if text := part.in.WithFirstRun(g); text != "" {
			edits = append(edits, parse.Edit{Start: part.start, End: part.end, Text: text})
		}
	}
	if len(edits) == 0 {
		return ""
	}
	return parse.EditedText(w.sql, edits)
}

// EffectsWith returns the effects of all INSERTs and of the other parts of the statement together.
func (w *insertsInWith) EffectsWith(g FirstRunValues) Effects {
	g.Value = nil
	var edits []parse.Edit
	var s Effects
	for _, part := range w.parts {
		edits = append(edits, parse.Edit{Start: part.start, End: part.end, Text: "SELECT NULL"})
		s = s.Union(part.in.EffectsWith(g))
	}
	left, ok := parse.Apply(w.sql, edits)
	if !ok {
		return allEffects
	}
	return s.Union(EffectsOf(w.p, left, w.names))
}

func (w *insertsInWith) TakesTxTime(g FirstRunValues) bool {
	for _, part := range w.parts {
		if part.in.TakesTxTime(g) {
			return true
		}
	}
	return false
}

func (w *insertsInWith) ResolvesSame(names *schema.NameResolver) bool {
	for _, part := range w.parts {
		if !part.in.ResolvesSame(names) {
			return false
		}
	}
	return true
}
