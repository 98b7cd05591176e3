package parse

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
)

// Snippet is one statement of a script.
type Snippet struct {
	Line int // of its first byte, from 1
	At   int // byte offset of it
	SQL  string

	// Gap is where the blanks and comments in front of it begin.
	Gap int
	// Open says that a string or comment in it does not end: what it is nobody can tell.
	Open bool
}

// Script splits a script at its semicolons, as psql does: those in strings,
// comments, parentheses and the bodies of functions in SQL are no ends. Commands
// of psql and the data behind COPY FROM STDIN are left out.
func Script(text string) iter.Seq[Snippet] {
	return func(yield func(Snippet) bool) {
		s := script{Lexer: Lexer{Text: []byte(text), Pos: MarkBytes(text), UTF8: utf8.ValidString(text)}, line: 1}
		for {
			sql, more := s.next()
			if sql.SQL != "" && !yield(sql) || !more {
				return
			}
		}
	}
}

// MarkBytes is the length of the byte order mark that a text begins with.
func MarkBytes(text string) int {
	if strings.HasPrefix(text, "\ufeff") {
		return len("\ufeff")
	}
	return 0
}

// script is the reading of a script.
type script struct {
	Lexer
	counted, line int // line is that of the byte at counted
	gap           int // where the blanks and comments in front of the statement begin
}

// next reads one statement, without its semicolon; more is false behind the last.
func (s *script) next() (one Snippet, more bool) {
	kind := s.first()
	begin := max(s.Start, s.gap) // at a comment without end no token begins
	var end delimiter
	for ; kind != EndToken && kind != BadToken; kind = s.Lexer.Next() {
		switch kind {
		case WordToken:
			end.word(strings.ToLower(string(s.Lexeme())))
		case PunctToken:
			if !end.punct(s.Text[s.Start]) {
				continue
			}
			one = s.snippet(begin, s.Start)
			if end.copying {
				s.skipData()
			}
			return one, true
		}
	}
	one = s.snippet(begin, len(s.Text))
	one.Open = kind == BadToken
	return one, false
}

// first reads the first token of a statement: what stands before are commands of
// psql, and semicolons behind nothing.
func (s *script) first() Token {
	for {
		s.gap = s.Pos
		kind := s.Lexer.Next()
		switch {
		case kind == PunctToken && s.Text[s.Start] == '\\':
			s.skipLine()
		case kind != PunctToken || s.Text[s.Start] != ';':
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

// Blanks are the bytes of white space.
const Blanks = " \t\n\r\f\v"

func (s *script) snippet(begin, end int) Snippet {
	for ; s.counted < begin; s.counted++ {
		if s.Text[s.counted] == '\n' {
			s.line++
		}
	}
	sql := strings.TrimLeft(string(s.Text[begin:end]), Blanks)
	begin = end - len(sql)
	return Snippet{Line: s.line, At: begin, SQL: strings.TrimRight(sql, Blanks), Gap: s.gap}
}

// skipLine goes behind the end of the line.
func (s *script) skipLine() {
	for s.Pos < len(s.Text) && s.Text[s.Pos] != '\n' {
		s.Pos++
	}
}

// skipData goes behind the line that ends the data of a COPY.
func (s *script) skipData() {
	n := bytes.Index(s.Text[s.Pos:], []byte("\n\\."))
	if n < 0 {
		return // no data: somebody else sends them
	}
	s.Pos += n + len("\n\\.")
	s.skipLine()
}
