package rewrite

import "bytes"

// times are words that PostgreSQL reads in a constant of a time or date by its settings.
var times = [][]byte{[]byte("now"), []byte("today"), []byte("tomorrow"), []byte("yesterday"), []byte("allballs")}

// ReadBySettings reports whether a text has constants, or other parts, whose meaning may
// depend on DateStyle, IntervalStyle, TimeZone or client_encoding: nothing but ASCII, and
// no constant in quotes with a digit or a word for a time in it, surely has none.
func ReadBySettings(sql []byte) bool {
	l := lexer{text: sql, utf8: true}
	for was := endToken; ; {
		switch is := l.next(); is {
		case endToken:
			return bytes.ContainsFunc(sql, func(r rune) bool { return r >= 0x80 })
		case badToken:
			return true
		case stringToken:
			if was == stringToken || timely(l.lexeme()) { // two that follow one another are one constant
				return true
			}
			was = is
		default:
			was = is
		}
	}
}

// timely reports whether a constant may be, or hold, a date, a time or an interval.
func timely(constant []byte) bool {
	if bytes.ContainsAny(constant, "0123456789") {
		return true
	}
	lower := bytes.ToLower(constant)
	for _, word := range times {
		if bytes.Contains(lower, word) {
			return true
		}
	}
	return false
}
