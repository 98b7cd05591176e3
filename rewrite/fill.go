package rewrite

import (
	"bytes"
	"strings"
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
	fill := Settled
	l := lexer{text: []byte(expression), utf8: true}
	word, was := "", endToken
	computed, cast := false, false // a text that is no constant; to a type that may be of a time
	for kind := endToken; ; was = kind {
		switch kind = l.next(); kind {
		case endToken:
			if computed && cast {
				fill = max(fill, Clock)
			}
			return fill
		case badToken:
			return Unclear
		case wordToken:
			word = strings.ToLower(string(l.lexeme()))
			by, known := readers[word]
			cast = cast || was == castToken && (!known || by != 0) && !settledTypes[word]
			switch {
			case clocks[word]:
				fill = max(fill, Clock)
			case drawers[word]:
				fill = max(fill, Drawn)
			case generators[word]:
				return Unclear
			}
			continue
		case quotedToken:
			word = strings.Trim(string(l.lexeme()), `"`) // the server quotes builtins as well: "left"
			cast = cast || was == castToken
			continue
		case operatorToken:
			computed = computed || len(l.lexeme()) > 1 // ||, ->>
		case stringToken:
			if clockText(l.lexeme()) {
				fill = max(fill, Clock)
			}
		case punctToken:
			if l.lexeme()[0] == '(' && word != "" && !clocks[word] && !drawers[word] && roles[word]&callable == 0 {
				return Unclear
			}
			computed = computed || l.lexeme()[0] == '(' && roles[word]&harmless != 0 && !timeMakers[word] && !clocks[word]
		}
		word = ""
	}
}

// TimeOf is the Time of a column by its type, in any form, and the text of its default: "" unless that
// has nothing in it but the time of the transaction, constants, and what makes another form of it by the
// settings of a session.
func TimeOf(kind, expression string) string {
	timed := false
	for l := (lexer{text: []byte(expression), utf8: true}); ; {
		switch l.next() {
		case endToken:
			if !timed {
				return ""
			}
			return kind + " " + expression
		case wordToken:
			word := strings.ToLower(string(l.lexeme()))
			if timed = timed || periods[word] && word != "age"; !forms[word] && (!periods[word] || word == "age") {
				return ""
			}
		case quotedToken:
			if word := strings.Trim(string(l.lexeme()), `"`); !forms[word] {
				return ""
			}
		case stringToken:
			if clockText(l.lexeme()) {
				return ""
			}
		case badToken:
			return ""
		}
	}
}

// forms are the words that stand beside the time in a default.
var forms = wordSet(`timezone date_trunc timestamp timestamptz date time with without zone at interval text
	extract epoch from numeric integer bigint`)

// drawers are the words for values that nobody else gets.
var drawers = wordSet(`nextval random random_normal gen_random_uuid gen_random_bytes uuidv4 uuidv7
	uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4`)

// clocks are the words for the time.
var clocks = wordSet(`now clock_timestamp statement_timestamp transaction_timestamp timeofday
	current_timestamp current_time current_date localtimestamp localtime age`)

func wordSet(words string) map[string]bool {
	m := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		m[word] = true
	}
	return m
}

// clockText reports whether a constant may be read as the time: 'now', 'today'. It looks for
// the words wherever they stand, since a constant may be an array or a range of such.
func clockText(b []byte) bool {
	if len(b) > 1 && (b[0]|0x20 == 'e' || b[0]|0x20 == 'u') && (b[1] == '\'' || b[1] == '&') && bytes.IndexByte(b, '\\') >= 0 {
		return true // it says another word than it shows: E'n\x6fw'
	}
	for i := 0; i < len(b); {
		j := i
		for j < len(b) && isLetter(b[j]) {
			j++
		}
		switch j - i {
		case 3, 5, 8, 9:
			if w := b[i:j]; is(w, "now") || is(w, "today") || is(w, "tomorrow") || is(w, "yesterday") {
				return true
			}
		}
		i = max(j, i+1)
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
