package parse

import (
	"slices"
	"strconv"
)

// rowlessVerbs are the first words of statements that return no rows unless they have RETURNING.
var rowlessVerbs = []string{"insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "grant", "revoke", "comment", "lock",
	"analyze", "vacuum", "reindex", "cluster", "listen", "notify", "unlisten", "do", "discard", "prepare", "deallocate", "declare", "refresh"}

// ReturnsNoRows reports whether a text certainly is a single statement that returns no rows. params is the greatest
// parameter number in the text, or 0 if the text has no parameter.
func ReturnsNoRows(sql []byte) (params int, ok bool) {
	l := Lexer{Text: sql}
	for first, ended := true, false; ; first = false {
		switch kind := l.Next(); {
		case kind == EndToken:
			return params, !first
		case kind == BadToken, kind == OddToken, ended:
			return 0, false
		case kind == WordToken && first:
			word := l.Lexeme()
			if !slices.ContainsFunc(rowlessVerbs, func(verb string) bool { return IsWord(word, verb) }) {
				return 0, false
			}
		case kind == WordToken && IsWord(l.Lexeme(), "returning"), first:
			return 0, false
		case kind == ParamToken:
			n, err := strconv.Atoi(string(l.Lexeme()[1:]))
			if err != nil {
				return 0, false
			}
			params = max(params, n)
		case kind == PunctToken && string(l.Lexeme()) == ";":
			ended = true
		}
	}
}
