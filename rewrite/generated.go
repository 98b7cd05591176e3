package rewrite

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Generates reports whether what a text returns may hold a value that the server
// generates, so that running it again returns another: it names a clock, a random
// value or a sequence, or returns columns of rows that it inserts, which may have
// such defaults. It goes by the words alone, and knows nothing of what functions
// and views of users do.
func Generates(sql []byte) bool {
	l := parse.Lexer{Text: sql}
	var inserts, returns bool
	for {
		switch l.Next() {
		case parse.EndToken, parse.BadToken:
			return false
		case parse.WordToken:
			switch word := strings.ToLower(string(l.Lexeme())); {
			case parse.Generators[word]:
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

// returningSkips says, for the byte of a text that the last letter of returning is held against, how
// far the next one may be that ends the word.
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

// hasReturning reports whether the letters of returning stand in a text, anywhere and in any case: of a
// long text it looks at few bytes, where a lexer looks at all.
func hasReturning(sql []byte) bool {
	const word = "returning"
	for end := len(word); end <= len(sql); end += int(returningSkips[sql[end-1]]) {
		if parse.IsWord(sql[end-len(word):end], word) {
			return true
		}
	}
	return false
}

// InsertsReturning reports whether a text may be an INSERT that returns something: it begins
// so, and has the words.
func InsertsReturning(sql []byte) bool {
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
