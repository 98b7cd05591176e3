package parse

import (
	"bytes"
	"strings"
)

// FirstWords returns the first word of each statement of a text, in lower case. For ROLLBACK TO it returns "rollback
// to". If servers may split the text in different ways, sure is false, and the words have no meaning. sure is false for
// a text that the lexer cannot read to its end. It is also false for a text with a backslash, or with a body after
// BEGIN ATOMIC.
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
			l.Pos = l.Start // skipStatement reads the parenthesis again, to count it
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

// skipStatement skips the tokens up to the semicolon that ends the current statement, or to the end of the text. second
// is the first token that it skips.
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
