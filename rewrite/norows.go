package rewrite

import (
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// rowlessVerbs are the first words of statements that return no rows unless they have RETURNING.
var rowlessVerbs = []string{"insert", "update", "delete", "merge", "create", "alter", "drop", "truncate", "grant", "revoke", "comment", "lock",
	"analyze", "vacuum", "reindex", "cluster", "listen", "notify", "unlisten", "do", "discard", "prepare", "deallocate", "declare", "refresh"}

// ReturnsNoRows reports whether a text is certainly a single statement that returns no rows. params is the highest
// parameter number in the text, or 0.
func ReturnsNoRows(sql []byte) (params int, ok bool) {
	l := parse.Lexer{Text: sql}
	for first, ended := true, false; ; first = false {
		switch kind := l.Next(); {
		case kind == parse.EndToken:
			return params, !first
		case kind == parse.BadToken, kind == parse.OddToken, ended:
			return 0, false
		case kind == parse.WordToken && first:
			word := l.Lexeme()
			if !slices.ContainsFunc(rowlessVerbs, func(verb string) bool { return parse.IsWord(word, verb) }) {
				return 0, false
			}
		case kind == parse.WordToken && parse.IsWord(l.Lexeme(), "returning"), first:
			return 0, false
		case kind == parse.ParamToken:
			n, err := strconv.Atoi(string(l.Lexeme()[1:]))
			if err != nil {
				return 0, false
			}
			params = max(params, n)
		case kind == parse.PunctToken && string(l.Lexeme()) == ";":
			ended = true
		}
	}
}
