package rewrite

import (
	"errors"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/pganalyze/pg_query_go/v6/parser"
)

// Linter reads statements one after another, as one session would run them. It
// is not safe for concurrent use.
type Linter struct {
	planner *Planner
	inBlock bool
	block   block
	// tables are those that the texts have made so far, where bytea is mapped; nil elsewhere.
	tables *Schema
}

// Linter begins a session of reading. Whatever the word scan would clear is
// parsed all the same, and nothing is remembered.
func (p *Planner) Linter() *Linter {
	l := &Linter{planner: p}
	if p.config.Rules.Bytea != ByteaOff {
		l.tables = NewSchema(nil)
	}
	return l
}

// Read says what DSQL would not do with a text as PostgreSQL does, and what
// Sluice does about it. Only the reason of a Syntax finding quotes the text.
func (l *Linter) Read(sql string) []Finding {
	p := l.planner
	if p.config.guard([]byte(sql)) != fits {
		return []Finding{found(Unread, 0)}
	}
	tree, err := parseDialect(sql)
	if err != nil {
		return []Finding{misspelt(sql, err)}
	}
	plan, parts := p.draft(sql, tree)
	verbs := make([]Verb, len(parts))
	for i := range parts {
		verbs[i] = parts[i].st.Tx.Verb
	}
	findings := p.rewrite(sql, tree, l.names(), plan, parts).Findings
	for i := range findings {
		if f := &findings[i]; f.Action == mappedAction {
			f.Action = "would be " + mappedAction
		}
	}
	if l.inBlock && len(parts) == 1 && parts[0].st.Alters() {
		l.alone(findings)
	}
	l.learn(parts)
	for i := range parts {
		switch verbs[i] {
		case Begin:
			l.inBlock, l.block = true, block{}
		case Commit, Rollback, PrepareTransaction:
			l.inBlock = false
		default:
			if f := l.block.observe(parts[i].st, parts[i].node); l.inBlock && f != "" && len(parts) == 1 {
				finding := found(f, parts[i].st.Start)
				finding.Operation = parts[i].st.Operation
				findings = append(findings, finding)
			}
		}
	}
	return findings
}

// alone says of what is carried out outside of transactions only that it is not.
func (l *Linter) alone(findings []Finding) {
	for i := range findings {
		if f := &findings[i]; f.Outcome == Rewritten {
			f.Outcome, f.Severity, f.Action = Flagged, Error, passes
			f.Remedy = "run the statement alone outside of a transaction: it is then carried out in the steps that DSQL has"
		}
	}
}

// lintSchema is where a script's tables are whose names have no schema.
const lintSchema = "public"

func (l *Linter) names() *Names {
	if l.tables == nil {
		return nil
	}
	return l.tables.In([]string{lintSchema})
}

// learn takes note of the tables that a text makes. What becomes of them later is not followed.
func (l *Linter) learn(parts []part) {
	if l.tables == nil {
		return
	}
	r := &rewriter{rules: &l.planner.config.Rules, names: l.names()}
	for i := range parts {
		if parts[i].node.is("CreateStmt") {
			l.tables.add(r.relationMade(parts[i].node))
		}
	}
}

// misspelt is the finding of a text that PostgreSQL's parser does not take.
func misspelt(sql string, err error) Finding {
	f := found(Syntax, 0)
	if syntax, ok := errors.AsType[*parser.Error](err); ok {
		f.Reason += ": " + syntax.Message
		if at, ok := byteOffset(sql, syntax.Cursorpos); ok {
			f.At = at
		}
	}
	return f
}

// Snippet is one statement of a script.
type Snippet struct {
	Line int // of its first byte, from 1
	SQL  string
}

// Script splits a script at its semicolons, as psql does: those in strings,
// comments, parentheses and the bodies of functions in SQL are no ends. Commands
// of psql and the data behind COPY FROM STDIN are left out.
func Script(text string) iter.Seq[Snippet] {
	return func(yield func(Snippet) bool) {
		s := script{lexer: lexer{text: []byte(text), utf8: utf8.ValidString(text)}, line: 1}
		for {
			sql, more := s.next()
			if sql.SQL != "" && !yield(sql) || !more {
				return
			}
		}
	}
}

// script is the reading of a script.
type script struct {
	lexer
	counted, line int // line is that of the byte at counted
}

// next reads one statement, without its semicolon; more is false behind the last.
func (s *script) next() (one Snippet, more bool) {
	from := s.pos
	kind := s.first()
	begin := max(s.start, from) // at a comment without end no token begins
	var end delimiter
	for ; kind != endToken && kind != badToken; kind = s.lexer.next() {
		switch kind {
		case wordToken:
			end.word(strings.ToLower(string(s.lexeme())))
		case punctToken:
			if !end.punct(s.text[s.start]) {
				continue
			}
			one = s.snippet(begin, s.start)
			if end.copying {
				s.skipData()
			}
			return one, true
		}
	}
	return s.snippet(begin, len(s.text)), false
}

// first reads the first token of a statement: what stands before are commands of
// psql, and semicolons behind nothing.
func (s *script) first() token {
	for {
		kind := s.lexer.next()
		switch {
		case kind == punctToken && s.text[s.start] == '\\':
			s.skipLine()
		case kind != punctToken || s.text[s.start] != ';':
			return kind
		}
	}
}

// delimiter tells the semicolon that ends a statement from those within it.
type delimiter struct {
	parens  int
	bodies  int    // BEGIN ATOMIC, and each CASE within
	last    string // word
	copying bool   // COPY ... FROM STDIN: its data follow
}

// word takes the next word, in lower case.
func (d *delimiter) word(word string) {
	switch {
	case d.last == "from" && word == "stdin" && d.parens == 0:
		d.copying = true
	case d.last == "begin" && word == "atomic":
		d.bodies++
	case d.bodies > 0 && word == "case":
		d.bodies++
	case d.bodies > 0 && word == "end":
		d.bodies--
	}
	d.last = word
}

// punct takes the next byte of punctuation and reports whether it ends the statement.
func (d *delimiter) punct(b byte) bool {
	switch b {
	case '(':
		d.parens++
	case ')':
		d.parens--
	case ';':
		return d.parens <= 0 && d.bodies == 0
	}
	return false
}

func (s *script) snippet(begin, end int) Snippet {
	for ; s.counted < begin; s.counted++ {
		if s.text[s.counted] == '\n' {
			s.line++
		}
	}
	return Snippet{Line: s.line, SQL: strings.TrimSpace(string(s.text[begin:end]))}
}

// skipLine goes behind the end of the line.
func (s *script) skipLine() {
	for s.pos < len(s.text) && s.text[s.pos] != '\n' {
		s.pos++
	}
}

// skipData goes behind the line that ends the data of a COPY.
func (s *script) skipData() {
	rest := string(s.text[s.pos:])
	n := strings.Index(rest, "\n\\.")
	if n < 0 {
		return // no data: somebody else sends them
	}
	s.pos += n + len("\n\\.")
	s.skipLine()
}
