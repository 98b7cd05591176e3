package parse

import (
	"bytes"
	"strings"
)

// FirstWords returns the first word of each statement of a text, in lower case. The word for ROLLBACK TO is "rollback
// to". sure is false if servers may split the text differently, and the words are then meaningless. That is so for a
// text that the lexer cannot read to its end, one with a backslash, and one with a body between BEGIN ATOMIC and END.
func FirstWords(sql []byte) (words []string, sure bool) {
	if bytes.IndexByte(sql, '\\') >= 0 {
		return nil, false
	}
	l := Lexer{Text: sql}
	for {
		kind := l.Next()
		switch word := l.Lexeme(); {
		case kind == EndToken:
			return words, true
		case kind == PunctToken && word[0] == ';':
			continue
		case kind == WordToken:
			words = append(words, strings.ToLower(string(word)))
		case kind == PunctToken && word[0] == '(':
			words = append(words, "select")
			l.Pos = l.Start // skipStatement counts it
		default:
			return nil, false
		}
		second, ok := l.skipStatement()
		if !ok {
			return nil, false
		}
		if last := len(words) - 1; words[last] == "rollback" && IsWord(second, "to") {
			words[last] = "rollback to"
		}
	}
}

// skipStatement skips to the semicolon that ends the current statement, or to the end of the text.
// second is the first skipped token.
func (l *Lexer) skipStatement() (second []byte, ok bool) {
	for at, depth := 0, 0; ; at++ {
		kind := l.Next()
		word := l.Lexeme()
		switch {
		case kind == EndToken, kind == PunctToken && word[0] == ';' && depth == 0:
			return second, true
		case kind == BadToken, kind == WordToken && IsWord(word, "atomic"):
			return nil, false
		case kind == PunctToken && word[0] == '(':
			depth++
		case kind == PunctToken && word[0] == ')':
			depth--
		}
		if at == 0 {
			second = word
		}
	}
}
