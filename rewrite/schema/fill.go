package schema

import (
	"strings"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// Fill says with what the server fills in a column that an INSERT leaves out.
type Fill uint8

const (
	// Settled is what does not change: nothing, a constant, what is computed of that.
	Settled Fill = iota
	// Drawn is a value that nobody else gets: a number of a sequence, a random value.
	Drawn
	// Clock is the time, or what has it in itself.
	Clock
	// Unclear may be anything: it calls what nobody knows.
	Unclear
)

// FillOf tells the fill of a column by the text of its default, as the server writes that.
func FillOf(expression string) Fill {
	r := fillReader{Lexer: parse.Lexer{Text: []byte(expression), UTF8: true}}
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
			if !r.take(kind) {
				return Unclear
			}
			r.was = kind
		}
	}
}

// fillReader reads a default's expression, token by token.
type fillReader struct {
	parse.Lexer
	fill Fill
	word string      // the word or name in front, in lower case
	was  parse.Token // the kind of the token in front
	// computed: a text in it is no constant. cast: to a type that may be of a time.
	computed, cast bool
}

// take notes a token. It reports false for one of which nobody knows what it does.
func (r *fillReader) take(kind parse.Token) bool {
	switch kind {
	case parse.WordToken:
		return r.takeWord()
	case parse.QuotedToken:
		r.word = strings.Trim(string(r.Lexeme()), `"`) // the server quotes builtins as well: "left"
		r.cast = r.cast || r.was == parse.CastToken
		return true
	case parse.OperatorToken:
		r.computed = r.computed || len(r.Lexeme()) > 1 // ||, ->>
	case parse.StringToken:
		if parse.TimeText(r.Lexeme()) {
			r.fill = max(r.fill, Clock)
		}
	case parse.PunctToken:
		if r.Lexeme()[0] == '(' && !r.takeCall() {
			return false
		}
	}
	r.word = ""
	return true
}

// takeWord is take for a word.
func (r *fillReader) takeWord() bool {
	r.word = strings.ToLower(string(r.Lexeme()))
	r.cast = r.cast || r.was == parse.CastToken && parse.TypeReadsClock(r.word)
	switch {
	case parse.Clocks[r.word]:
		r.fill = max(r.fill, Clock)
	case parse.Drawers[r.word]:
		r.fill = max(r.fill, Drawn)
	case parse.Generators[r.word]:
		return false
	}
	return true
}

// takeCall is take for a parenthesis, in front of which the name of a function may be.
func (r *fillReader) takeCall() bool {
	if r.word != "" && !parse.Clocks[r.word] && !parse.Drawers[r.word] && parse.RoleNamed(r.word)&parse.Callable == 0 {
		return false
	}
	r.computed = r.computed || parse.RoleNamed(r.word)&parse.Harmless != 0 && !parse.TimeMakers[r.word] && !parse.Clocks[r.word]
	return true
}

// TimeOf is the Time of a column by its type, in any form, and the text of its default: "" unless that
// has nothing in it but the time of the transaction, constants, and what makes another form of it by the
// settings of a session.
func TimeOf(kind, expression string) string {
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
			if timed = timed || parse.Periods[word] && word != "age"; !forms[word] && (!parse.Periods[word] || word == "age") {
				return ""
			}
		case parse.QuotedToken:
			if word := strings.Trim(string(l.Lexeme()), `"`); !forms[word] {
				return ""
			}
		case parse.StringToken:
			if parse.TimeText(l.Lexeme()) {
				return ""
			}
		case parse.BadToken:
			return ""
		}
	}
}

// forms are the words that stand beside the time in a default.
var forms = parse.WordSet(`timezone date_trunc timestamp timestamptz date time with without zone at interval text
	extract epoch from numeric integer bigint`)
