package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// MayGenerateValues reports whether a text may return values that the server generates, so that a second run may return
// others. The result is true if the text names a clock, a random value or a sequence, or is an INSERT with RETURNING.
// Only words are examined. Functions and views of users are ignored.
func MayGenerateValues(sql []byte) bool {
	l := parse.Lexer{Text: sql}
	var inserts, returns bool
	for {
		switch l.Next() {
		case parse.EndToken, parse.BadToken:
			return false
		case parse.WordToken:
			switch word := strings.ToLower(string(l.Lexeme())); {
			case parse.VolatileWords[word]:
				return true
			case word == "insert", word == "merge", word == "default":
				inserts = true
			case word == "returning":
				returns = true
			}
			if inserts && returns {
				return true
			}
		}
	}
}

// returningSkips is the shift table of a Horspool search for "returning". The table maps each byte to the distance to
// the next possible end of the word.
var returningSkips = func() (skips [256]uint8) {
	const word = "returning"
	for i := range skips {
		skips[i] = uint8(len(word))
	}
	for i := range len(word) - 1 {
		skips[word[i]], skips[word[i]-'a'+'A'] = uint8(len(word)-1-i), uint8(len(word)-1-i)
	}
	return skips
}()

// hasReturning reports whether a text contains "returning" in any case. Unlike a lexer, hasReturning examines few bytes
// of a long text.
func hasReturning(sql []byte) bool {
	const word = "returning"
	for end := len(word); end <= len(sql); end += int(returningSkips[sql[end-1]]) {
		if parse.IsWord(sql[end-len(word):end], word) {
			return true
		}
	}
	return false
}

// IsInsertReturning reports whether a text begins with INSERT and contains RETURNING.
func IsInsertReturning(sql []byte) bool {
	l := parse.Lexer{Text: sql}
	for first := true; ; first = false {
		switch l.Next() {
		case parse.EndToken, parse.BadToken:
			return false
		case parse.WordToken:
			if first && (!parse.IsWord(l.Lexeme(), "insert") || !hasReturning(sql)) {
				return false
			}
			if parse.IsWord(l.Lexeme(), "returning") {
				return true
			}
		default:
			if first {
				return false
			}
		}
	}
}
