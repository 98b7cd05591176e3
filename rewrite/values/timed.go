package values

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// When a transaction is repeated, every column whose default is the transaction's time gets the time of the first run.
// ParseTimed covers INSERT ... VALUES (Insertion, upsert), INSERT ... SELECT (insertSelect) and INSERTs in WITH queries
// (insertsInWith).

// TimedStatement is a statement into which Sluice, in a repeated transaction, can write the time of the first run.
type TimedStatement interface {
	// WithFirstRun returns the statement with values of its first run, or "" if there are no values to use.
	WithFirstRun(g FirstRunValues) string
	// EffectsWith returns the effects of the statement with values of its first run.
	EffectsWith(g FirstRunValues) Effects
	// TakesTxTime reports whether the statement gets the time of the transaction's first run.
	TakesTxTime(g FirstRunValues) bool
	// ResolvesSame reports whether the resolver names still finds the same relations for the statement's target tables.
	ResolvesSame(names *schema.NameResolver) bool
}

// ParseTimed parses a text with one statement. The result is nil if Sluice cannot write the time of the transaction's
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

// upsert is an INSERT ... VALUES ... ON CONFLICT DO UPDATE. A repeated upsert does not use values of its first answer,
// because some of its rows existed before.
type upsert struct{ *Insertion }

func (u upsert) WithFirstRun(g FirstRunValues) string {
	g.Value = nil
	return u.Insertion.WithFirstRun(g)
}

func (u upsert) EffectsWith(g FirstRunValues) Effects {
	g.Value = nil
	return u.Insertion.EffectsWith(g)
}

// insertSelect is an INSERT ... SELECT with a column list. A repeated insertSelect does not use values of its first
// answer.
type insertSelect struct {
	Insertion
	first int // the token after SELECT or ALL
}

// parseInsertSelect returns the insertSelect of an INSERT, or nil. The result is nil for queries that may refer to
// columns by number.
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

// WithFirstRun returns the INSERT with values of its first run, whose columns precede all other columns.
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

// insertsInWith is a statement with INSERTs in WITH queries, and possibly an INSERT itself. A repeated statement does
// not use values of its first answer.
type insertsInWith struct {
	p     *rewrite.Planner
	sql   string
	names *schema.NameResolver
	parts []timedPart // the INSERTs in text order
}

// timedPart is one INSERT of a statement, and its offsets in the text.
type timedPart struct {
	start, end int
	in         TimedStatement
}

// parseInsertsInWith returns the statement with INSERTs in WITH queries as an insertsInWith, or nil.
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
		if open++; ph.IsPunct(open, '(') && pairs[open] >= 0 { // a list of column names
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

// addInsert adds the INSERT between two offsets of the text, if that INSERT can get the transaction's time.
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

// EffectsWith returns the union of the effects of the statement's INSERTs and of its other parts.
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
