package parse

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf8"
)

// ScriptStatement is one SQL statement of a script, with its place in the script.
type ScriptStatement struct {
	Line int // the line of the statement's first byte, counted from 1
	At   int // the byte offset of the statement
	SQL  string

	// Gap is the byte offset at which the blanks and comments before the statement start.
	Gap int
	// Open means that a string or a comment in the statement has no end, so that the statement's meaning is unknown.
	Open bool
}

// SplitScript splits a script at its semicolons, as psql does. A semicolon in a string, a comment, parentheses or the
// body of an SQL function does not end a statement. SplitScript omits psql's commands and the data after COPY FROM
// STDIN.
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

// BOMLength returns the length in bytes of the byte order mark at the start of a text, or 0 if there is none.
func BOMLength(text string) int {
	if strings.HasPrefix(text, "\ufeff") {
		return len("\ufeff")
	}
	return 0
}

// scriptReader reads the statements of a script.
type scriptReader struct {
	Lexer
	counted, line int // line is the line number of the byte at the offset counted
	gap           int // the offset of the blanks and comments before the statement
}

// nextStatement returns the script's next statement, without its semicolon. more is false after the last statement.
func (s *scriptReader) nextStatement() (one ScriptStatement, more bool) {
	kind := s.firstToken()
	begin := max(s.Start, s.gap) // after a comment without an end, there is no token
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

// firstToken reads the first token of a statement. Before that, it skips psql's commands and semicolons without a
// statement.
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

// statementEndFinder finds out which semicolon ends a statement.
type statementEndFinder struct {
	parens  int
	bodies  int    // the number of open bodies: BEGIN ATOMIC, and each CASE in it
	last    string // the last word
	copying bool   // the statement is COPY ... FROM STDIN, after which data follow
}

// addWord processes the next word of a statement. word is in lower case.
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

// addPunct processes the next byte of punctuation. It reports whether the byte ends the statement.
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

// skipLine skips the rest of the script's current line.
func (s *scriptReader) skipLine() {
	for s.Pos < len(s.Text) && s.Text[s.Pos] != '\n' {
		s.Pos++
	}
}

// skipCopyData skips the data of a COPY in a script, including the line \. that ends the data.
func (s *scriptReader) skipCopyData() {
	n := bytes.Index(s.Text[s.Pos:], []byte("\n\\."))
	if n < 0 {
		return // the script does not contain the data
	}
	s.Pos += n + len("\n\\.")
	s.skipLine()
}
