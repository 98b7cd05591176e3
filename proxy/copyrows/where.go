package copyrows

import (
	"strconv"
	"unicode/utf8"
)

// Error is an error in a COPY's data, with PostgreSQL's code and text.
type Error struct {
	Code, Message, Detail, Hint string // Code is a SQLSTATE
	DataPosition
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// malformed is the SQLSTATE of most errors in a COPY's data.
const malformed = "22P04"

// DataPosition is a place in a COPY's data, as far as it is known. Value and Text are truncated by ClipShown.
type DataPosition struct {
	Line int // from 1; 0: none
	// Column is the name of the column, or "" for the whole line. Null means that the column's value is NULL. Unknown
	// means that the value is unknown.
	Column        string
	Value         []byte
	Null, Unknown bool
	// Text is the line at this place, if Whole is set.
	Text  []byte
	Whole bool
}

// Context returns the place in the form of PostgreSQL's CONTEXT for a COPY to table, or "" if no line is known.
func (w DataPosition) Context(table string) string {
	if w.Line == 0 {
		return ""
	}
	said := "COPY " + table + ", line " + strconv.Itoa(w.Line)
	switch {
	case w.Column != "" && w.Null:
		return said + ", column " + w.Column + ": null input"
	case w.Column != "" && w.Unknown:
		return said + ", column " + w.Column
	case w.Column != "":
		return said + ", column " + w.Column + ": \"" + string(w.Value) + "\""
	case w.Whole:
		return said + ": \"" + string(w.Text) + "\""
	}
	return said
}

// mostShown bounds the bytes of data that an error shows, as in PostgreSQL.
const mostShown = 100

// ClipShown returns the part of a line or value that an error shows.
func ClipShown(b []byte) []byte {
	if len(b) <= mostShown {
		return b
	}
	n := mostShown
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "..."...)
}
