package values

import (
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// When a transaction is repeated, every column whose default is the time gets the time of the first run. Timed
// covers INSERT ... VALUES (Insertion, upsert), INSERT ... SELECT (selection) and INSERTs in WITH queries
// (within).

// Timed is a statement that can get the time of its transaction.
type Timed interface {
	// With returns the statement with values of its first run, or "" if there are none to use.
	With(g Given) string
	// Survey returns the effects of the statement with values of its first run.
	Survey(g Given) Survey
	// GivesTime reports whether the statement gets the time.
	GivesTime(g Given) bool
	// Same reports whether names still resolve the statement's target tables to the same relations.
	Same(names *schema.Names) bool
}

// TimedOf returns a text with one statement as a Timed, or nil if the statement cannot get the transaction's time.
func TimedOf(p *rewrite.Planner, sql string, names *schema.Names) Timed {
	if in := InsertionOf(p, sql, names); in != nil {
		return in
	}
	if in := insertionOf(p, sql, names, true); in != nil {
		return upsert{in}
	}
	statements := p.Statements(sql)
	if names == nil || len(statements) != 1 {
		return nil
	}
	if s := selectionOf(sql, statements[0], names); s != nil {
		return s
	}
	if w := withinOf(p, sql, statements[0], names); w != nil {
		return w
	}
	return nil
}

// upsert is an INSERT ... VALUES ... ON CONFLICT DO UPDATE. A repetition does not use values of its first
// answer, because some of its rows existed before.
type upsert struct{ *Insertion }

func (u upsert) With(g Given) string {
	g.Value = nil
	return u.Insertion.With(g)
}

func (u upsert) Survey(g Given) Survey {
	g.Value = nil
	return u.Insertion.Survey(g)
}

// selection is an INSERT ... SELECT with a column list. A repetition does not use values of its first answer.
type selection struct {
	Insertion
	first int // the token after SELECT or ALL
}

// selectionOf returns the selection of an INSERT, or nil. Queries that may refer to columns by number are
// excluded.
func selectionOf(sql string, node parse.Message, names *schema.Names) *selection {
	if !node.Is("InsertStmt") || node.Has("with_clause") || !node.Has("cols") {
		return nil
	}
	name, query := node.Child("relation"), node.Child("select_stmt")
	if !query.Has("target_list") || parse.SetOperation(query.Integer("op")) > parse.SETOP_NONE ||
		query.Has("distinct_clause", "group_clause", "sort_clause", "with_clause", "into_clause") {
		return nil
	}
	s := &selection{Insertion: Insertion{sql: sql, names: names, node: node, ph: parse.LexPhrase([]byte(sql), 0, len(sql)), list: -1}}
	s.pairs = s.ph.Pairs()
	if s.relation, _ = names.Find(name.Text("schemaname"), name.Text("relname")); s.relation == nil || !s.returns(node, name) || !s.lists(node) {
		return nil
	}
	s.first = s.head + 1
	if s.ph.Word(s.first, "all") {
		s.first++
	}
	if !s.ph.Word(s.head, "select") || s.first >= len(s.ph.Tokens) {
		return nil
	}
	return s
}

// With puts the columns with values of the first run before the others.
func (s *selection) With(g Given) string {
	g.Value = nil
	var added []int
	for i := range s.relation.Columns {
		if _, timed := s.gives(i, g); timed && s.filled(i) {
			added = append(added, i)
		}
	}
	if len(added) == 0 {
		return ""
	}
	return parse.Edited(s.sql, []parse.Edit{s.inFront(s.list+1, s.named(added)+", "), s.inFront(s.first, s.valued(added, 0, g)+", ")})
}

func (s *selection) Survey(g Given) Survey {
	g.Value = nil
	return s.Insertion.Survey(g)
}

// within is a statement with INSERTs in WITH queries, and possibly an INSERT itself. A repetition does not use
// values of its first answer.
type within struct {
	p     *rewrite.Planner
	sql   string
	names *schema.Names
	parts []timedPart // the INSERTs in text order
}

// timedPart is one INSERT of a statement, and its offsets in the text.
type timedPart struct {
	start, end int
	in         Timed
}

// withinOf returns the statement with INSERTs in WITH queries as a within, or nil.
func withinOf(p *rewrite.Planner, sql string, node parse.Message, names *schema.Names) *within {
	switch node.Name() {
	case "SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt":
	default:
		return nil
	}
	w := &within{p: p, sql: sql, names: names}
	ph := parse.LexPhrase([]byte(sql), 0, len(sql))
	pairs, all := ph.Pairs(), withs(node, 0, nil)
	behind := -1
	for cte := range node.Child("with_clause").List("ctes") {
		open := ph.At(cte.Integer("location"))
		if open < 0 {
			return nil
		}
		if open++; ph.Punct(open, '(') && pairs[open] >= 0 { // a list of column names
			open = int(pairs[open]) + 1
		}
		for ph.Word(open, "as") || ph.Word(open, "not") || ph.Word(open, "materialized") {
			open++
		}
		if !ph.Punct(open, '(') || pairs[open] < 0 {
			return nil
		}
		behind = int(pairs[open]) + 1
		if cte.Child("ctequery").Is("InsertStmt") {
			w.add(int(ph.Tokens[open].End), int(ph.Tokens[behind-1].Start), all)
		}
	}
	if node.Is("InsertStmt") && ph.Word(behind, "insert") {
		w.add(int(ph.Tokens[behind].Start), len(sql), all)
	}
	if len(w.parts) == 0 {
		return nil
	}
	return w
}

// add adds the INSERT between two offsets if it can get the time.
func (w *within) add(start, end int, withs []string) {
	in := TimedOf(w.p, w.sql[start:end], w.names)
	switch in := in.(type) {
	case *Insertion:
		in.withs = withs
	case upsert:
		in.withs = withs
	case *selection:
		in.withs = withs
	default:
		return
	}
	w.parts = append(w.parts, timedPart{start, end, in})
}

func (w *within) With(g Given) string {
	g.Value = nil
	var edits []parse.Edit
	for _, part := range w.parts {
		if text := part.in.With(g); text != "" {
			edits = append(edits, parse.Edit{Start: part.start, End: part.end, Text: text})
		}
	}
	if len(edits) == 0 {
		return ""
	}
	return parse.Edited(w.sql, edits)
}

// Survey combines the surveys of the INSERTs and of the statement without them.
func (w *within) Survey(g Given) Survey {
	g.Value = nil
	var edits []parse.Edit
	var s Survey
	for _, part := range w.parts {
		edits = append(edits, parse.Edit{Start: part.start, End: part.end, Text: "SELECT NULL"})
		s = s.Or(part.in.Survey(g))
	}
	left, ok := parse.Apply(w.sql, edits)
	if !ok {
		return all
	}
	return s.Or(SurveyOf(w.p, left, w.names))
}

func (w *within) GivesTime(g Given) bool {
	for _, part := range w.parts {
		if part.in.GivesTime(g) {
			return true
		}
	}
	return false
}

func (w *within) Same(names *schema.Names) bool {
	for _, part := range w.parts {
		if !part.in.Same(names) {
			return false
		}
	}
	return true
}
