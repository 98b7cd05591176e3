package settings

import (
	"strings"
)

// DateStyle is a value of the setting DateStyle: a style and an order. SET may give only one of the two, and the
// server retains the other one. "" means not given.
type DateStyle struct{ style, order string }

// MergeDateStyle merges the words of a value with in, the current value. reset is the meaning of the word DEFAULT.
// Unknown words are skipped, because the server refuses them.
func MergeDateStyle(in DateStyle, value string, reset DateStyle) DateStyle {
	ordered := false
	for _, word := range strings.FieldsFunc(strings.ToUpper(value), func(r rune) bool { return r == ',' || r == '\'' || r == '"' || r <= ' ' }) {
		switch {
		case word == "ISO", word == "SQL":
			in.style = word
		case strings.HasPrefix(word, "POSTGRES"):
			in.style = "Postgres"
		case word == "GERMAN":
			in.style = "German"
			if !ordered { // the day comes first unless an order is given
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

// isComplete reports whether both style and order are given.
func (d DateStyle) isComplete() bool { return d.style != "" && d.order != "" }

func (d DateStyle) String() string {
	if d.style == "" || d.order == "" {
		return d.style + d.order
	}
	return d.style + ", " + d.order
}

// IsMergedByServer reports whether a server merges a value of a setting with the current one.
func IsMergedByServer(name, value string) bool {
	return name == "datestyle" && !MergeDateStyle(DateStyle{}, value, DateStyle{}).isComplete()
}

// SQL returns the value as it may follow SET DateStyle TO, or "" if nothing is given.
func (d DateStyle) SQL() string {
	if d == (DateStyle{}) {
		return ""
	}
	return QuoteLiteral(d.String())
}
