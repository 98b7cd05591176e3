package parse

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
)

// ScriptStatement is one SQL statement of a script, with its place in the script.
type ScriptStatement struct {
	Line int // of its first byte, from 1
	At   int // byte offset of it
	SQL  string

	// Gap is the offset at which the blanks and comments before the statement start.
	Gap int
	// Open says that a string or comment in the statement does not end, so that its meaning is unknown.
	Open bool
}

// SplitScript splits a script at its semicolons, as psql does. Semicolons in strings, comments, parentheses and bodies
// of SQL functions are no ends. SplitScript omits psql's commands and the data after COPY FROM STDIN.
func SplitScript(text string) iter.Seq[ScriptStatement] {
	return func(yield func(ScriptStatement) bool) {
		s := scriptReader{Lexer: Lexer{Text: []byte(text), Pos: BOMLength(text), UTF8: utf8.ValidString(text)}, line: 1}
		for {
			sql, more := s.nextStatement()
			if sql.SQL != "" && !yield(sql) || !more {
				return
			}
		}
	}
}

// BOMLength returns the length of the byte order mark at the start of a text, or 0 without one.
func BOMLength(text string) int {
	if strings.HasPrefix(text, "\ufeff") {
		return len("\ufeff")
	}
	return 0
}

// scriptReader reads the statements of a script.
type scriptReader struct {
	Lexer
	counted, line int // line is that of the byte at counted
	gap           int // start of the blanks and comments before the statement
}

// nextStatement returns the script's next statement, without its semicolon. more is false after the last statement.
func (s *scriptReader) nextStatement() (one ScriptStatement, more bool) {
	kind := s.firstToken()
	begin := max(s.Start, s.gap) // a comment without an end has no token after it
	var end statementEndFinder
	for ; kind != EndToken && kind != BadToken; kind = s.Lexer.Next() {
		switch kind {
		case WordToken:
			end.addWord(strings.ToLower(string(s.Lexeme())))
		case PunctToken:
			if !end.addPunct(s.Text[s.Start]) {
				continue
			}
			one = s.newStatement(begin, s.Start)
			if end.copying {
				s.skipCopyData()
			}
			return one, true
		}
	}
	one = s.newStatement(begin, len(s.Text))
	one.Open = kind == BadToken
	return one, false
}

// firstToken reads the first token of a statement. firstToken skips commands of psql and lone semicolons.
func (s *scriptReader) firstToken() TokenKind {
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

// statementEndFinder finds the semicolon that ends a statement.
type statementEndFinder struct {
	parens  int
	bodies  int    // BEGIN ATOMIC, and each CASE within
	last    string // word
	copying bool   // COPY ... FROM STDIN: its data follow
}

// addWord processes the next word of a statement, in lower case.
func (d *statementEndFinder) addWord(word string) {
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

// addPunct processes the next byte of punctuation and reports whether it ends the statement.
func (d *statementEndFinder) addPunct(b byte) bool {
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

func (s *scriptReader) newStatement(begin, end int) ScriptStatement {
	for ; s.counted < begin; s.counted++ {
		if s.Text[s.counted] == '\n' {
			s.line++
		}
	}
	sql := strings.TrimLeft(string(s.Text[begin:end]), Blanks)
	begin = end - len(sql)
	return ScriptStatement{Line: s.line, At: begin, SQL: strings.TrimRight(sql, Blanks), Gap: s.gap}
}

// skipLine skips the script's text to the end of the line.
func (s *scriptReader) skipLine() {
	for s.Pos < len(s.Text) && s.Text[s.Pos] != '\n' {
		s.Pos++
	}
}

// skipCopyData skips the data of a COPY in a script, up to and including the line that ends the data.
func (s *scriptReader) skipCopyData() {
	n := bytes.Index(s.Text[s.Pos:], []byte("\n\\."))
	if n < 0 {
		return // no data: they come from elsewhere
	}
	s.Pos += n + len("\n\\.")
	s.skipLine()
}
