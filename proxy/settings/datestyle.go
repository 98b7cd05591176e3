package settings

import (
	"strings"
)

// DateStyle is a value of DateStyle as SET takes it, which may say only a half: the
// server keeps the other half that is in force. Empty: not said.
type DateStyle struct{ style, order string }

// ReadDateStyle adds the words of a value to those in force before it; reset is
// what DEFAULT among them means. A word that PostgreSQL does not know is left out:
// the server refuses it.
func ReadDateStyle(in DateStyle, value string, reset DateStyle) DateStyle {
	ordered := false
	for _, word := range strings.FieldsFunc(strings.ToUpper(value), func(r rune) bool { return r == ',' || r == '\'' || r == '"' || r <= ' ' }) {
		switch {
		case word == "ISO", word == "SQL":
			in.style = word
		case strings.HasPrefix(word, "POSTGRES"):
			in.style = "Postgres"
		case word == "GERMAN":
			in.style = "German"
			if !ordered { // the day comes first unless something else is said
				in.order = "DMY"
			}
		case word == "DMY", strings.HasPrefix(word, "EURO"):
			in.order, ordered = "DMY", true
		case word == "MDY", word == "US", strings.HasPrefix(word, "NONEURO"):
			in.order, ordered = "MDY", true
		case word == "YMD":
			in.order, ordered = "YMD", true
		case word == "DEFAULT":
			in.style = reset.style
			if !ordered {
				in.order = reset.order
			}
		}
	}
	return in
}

// whole reports whether both halves are said.
func (d DateStyle) whole() bool { return d.style != "" && d.order != "" }

func (d DateStyle) String() string {
	if d.style == "" || d.order == "" {
		return d.style + d.order
	}
	return d.style + ", " + d.order
}

// Merges reports whether a server adds that value to the one in force.
func Merges(name, value string) bool {
	return name == "datestyle" && !ReadDateStyle(DateStyle{}, value, DateStyle{}).whole()
}

// SQL is the value for SET; "" when nothing is said.
func (d DateStyle) SQL() string {
	if d == (DateStyle{}) {
		return ""
	}
	return QuoteLiteral(d.String())
}
