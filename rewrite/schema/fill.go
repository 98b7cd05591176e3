package schema

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// DefaultKind says what value the server gives to a column that an INSERT omits.
type DefaultKind uint8

const (
	// Settled is the kind of a value that never changes: NULL, a constant, or a computation of constants.
	Settled DefaultKind = iota
	// Drawn is the kind of a value that no other row gets: a sequence's number, or a random value.
	Drawn
	// Clock is the kind of a value that is the current time, or contains it.
	Clock
	// Unclear is the kind of a value of unknown origin, for example of a user's function.
	Unclear
)

// ClassifyDefault returns the DefaultKind of a column's default. expression is the default's text as the server writes
// it.
func ClassifyDefault(expression string) DefaultKind {
	r := defaultReader{Lexer: parse.Lexer{Text: []byte(expression), UTF8: true}}
	for {
		switch kind := r.Next(); kind {
		case parse.EndToken:
			if r.computed && r.cast {
				return max(r.fill, Clock)
			}
			return r.fill
		case parse.BadToken:
			return Unclear
		default:
			if !r.readToken(kind) {
				return Unclear
			}
			r.was = kind
		}
	}
}

// defaultReader reads the SQL of a column's default token by token.
type defaultReader struct {
	parse.Lexer
	fill DefaultKind
	word string          // the previous word or name in lower case
	was  parse.TokenKind // the kind of the previous token
	// computed reports that the default is not one constant. cast reports a cast to a type whose constants may mean the
	// time, such as 'now'.
	computed, cast bool
}

// readToken processes a token of a default. It returns false for a token whose effects Sluice does not know.
func (r *defaultReader) readToken(kind parse.TokenKind) bool {
	switch kind {
	case parse.WordToken:
		return r.readWord()
	case parse.QuotedToken:
		r.word = strings.Trim(string(r.Lexeme()), `"`) // the server quotes some builtin names, such as "left"
		r.cast = r.cast || r.was == parse.CastToken
		return true
	case parse.OperatorToken:
		r.computed = r.computed || len(r.Lexeme()) > 1 // such as || and ->>
	case parse.StringToken:
		if parse.MayReadAsNow(r.Lexeme()) {
			r.fill = max(r.fill, Clock)
		}
	case parse.PunctToken:
		if r.Lexeme()[0] == '(' && !r.readCall() {
			return false
		}
	}
	r.word = ""
	return true
}

// readWord processes an unquoted word of a default. It returns false for a word whose effects Sluice does not know.
func (r *defaultReader) readWord() bool {
	r.word = strings.ToLower(string(r.Lexeme()))
	r.cast = r.cast || r.was == parse.CastToken && parse.TypeReadsClock(r.word)
	switch {
	case parse.ClockWords[r.word]:
		r.fill = max(r.fill, Clock)
	case parse.UniqueValueFuncs[r.word]:
		r.fill = max(r.fill, Drawn)
	case parse.VolatileWords[r.word]:
		return false
	}
	return true
}

// readCall processes an opening parenthesis in a default, which may follow a function's name. It returns false if
// Sluice does not know the function.
func (r *defaultReader) readCall() bool {
	if r.word != "" && !parse.ClockWords[r.word] && !parse.UniqueValueFuncs[r.word] && parse.RoleOfLowerWord(r.word)&parse.Callable == 0 {
		return false
	}
	r.computed = r.computed || parse.RoleOfLowerWord(r.word)&parse.Harmless != 0 && !parse.TimeFuncs[r.word] && !parse.ClockWords[r.word]
	return true
}

// TimeOfDefault returns the Column.Time of a column. kind is the column's type, and expression the text of its default.
// The result is "" if the default contains more than the transaction's time, constants, and conversions. These
// conversions may depend on nothing but session settings.
func TimeOfDefault(kind, expression string) string {
	timed := false
	for l := (parse.Lexer{Text: []byte(expression), UTF8: true}); ; {
		switch l.Next() {
		case parse.EndToken:
			if !timed {
				return ""
			}
			return kind + " " + expression
		case parse.WordToken:
			word := strings.ToLower(string(l.Lexeme()))
			if timed = timed || parse.TxTimeWords[word] && word != "age"; !timeConversionWords[word] && (!parse.TxTimeWords[word] || word == "age") {
				return ""
			}
		case parse.QuotedToken:
			if word := strings.Trim(string(l.Lexeme()), `"`); !timeConversionWords[word] {
				return ""
			}
		case parse.StringToken:
			if parse.MayReadAsNow(l.Lexeme()) {
				return ""
			}
		case parse.BadToken:
			return ""
		}
	}
}

// timeConversionWords are the words of conversions that a default may apply to the transaction's time.
var timeConversionWords = parse.WordSet(`timezone date_trunc timestamp timestamptz date time with without zone at interval text
	extract epoch from numeric integer bigint`)
