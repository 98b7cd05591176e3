package parse

import "strings"

// MayGenerateValues reports whether a text may return values that the server generates, so that a second run could
// return others. It does if it names a clock, a random value or a sequence, or is an INSERT with RETURNING.
// MayGenerateValues examines only words, and ignores functions and views of users.
func MayGenerateValues(sql []byte) bool {
	l := Lexer{Text: sql}
	var inserts, returns bool
	for {
		switch l.Next() {
		case EndToken, BadToken:
			return false
		case WordToken:
			switch word := strings.ToLower(string(l.Lexeme())); {
			case VolatileWords[word]:
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

// returningSkips is the table of a Horspool search for "returning". For the last byte of a part of the text as long as
// the word, it gives the number of bytes by which the search may advance.
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

// hasReturning reports whether a text contains "returning", in any letter case. It examines fewer bytes than a lexer
// would.
func hasReturning(sql []byte) bool {
	const word = "returning"
	for end := len(word); end <= len(sql); end += int(returningSkips[sql[end-1]]) {
		if IsWord(sql[end-len(word):end], word) {
			return true
		}
	}
	return false
}

// IsInsertReturning reports whether a text begins with INSERT and contains RETURNING.
func IsInsertReturning(sql []byte) bool {
	l := Lexer{Text: sql}
	for first := true; ; first = false {
		switch l.Next() {
		case EndToken, BadToken:
			return false
		case WordToken:
			if first && (!IsWord(l.Lexeme(), "insert") || !hasReturning(sql)) {
				return false
			}
			if IsWord(l.Lexeme(), "returning") {
				return true
			}
		default:
			if first {
				return false
			}
		}
	}
}
