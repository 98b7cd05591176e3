package rewrite

import (
	"slices"
	"strconv"
)

// rowlessVerbs begin statements whose answer has no rows, unless they say RETURNING.
var rowlessVerbs = []string{"insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "grant", "revoke", "comment", "lock",
	"analyze", "vacuum", "reindex", "cluster", "listen", "notify", "unlisten", "do", "discard", "prepare", "deallocate", "declare", "refresh"}

// ReturnsNothing reports whether a text surely is one statement that returns no rows, and returns the number of
// the last parameter that it has, 0 for none. Of a text that it cannot tell it says no.
func ReturnsNothing(sql []byte) (params int, ok bool) {
	l := lexer{text: sql}
	for first, ended := true, false; ; first = false {
		switch kind := l.next(); {
		case kind == endToken:
			return params, !first
		case kind == badToken, kind == oddToken, ended:
			return 0, false
		case kind == wordToken && first:
			word := l.lexeme()
			if !slices.ContainsFunc(rowlessVerbs, func(verb string) bool { return is(word, verb) }) {
				return 0, false
			}
		case kind == wordToken && is(l.lexeme(), "returning"), first:
			return 0, false
		case kind == paramToken:
			n, err := strconv.Atoi(string(l.lexeme()[1:]))
			if err != nil {
				return 0, false
			}
			params = max(params, n)
		case kind == punctToken && string(l.lexeme()) == ";":
			ended = true
		}
	}
}
