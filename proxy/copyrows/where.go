package copyrows

import (
	"strconv"
	"unicode/utf8"
)

// Error is why the data cannot be read, with PostgreSQL's code and text.
type Error struct {
	Code, Message, Detail, Hint string // Code is a SQLSTATE
	Where
}

func (e *Error) Error() string { return e.Message + " (SQLSTATE " + e.Code + ")" }

// malformed is the code of most errors of the formats.
const malformed = "22P04"

// Where is a place in the data, as far as it is known. Value and Text are truncated as in an error
// (Clip).
type Where struct {
	Line int // from 1; 0: none
	// Column is the name of the column, "" for the whole line. Null says that its value is NULL,
	// Unknown that its value is unknown.
	Column        string
	Value         []byte
	Null, Unknown bool
	// Text is the line, if Whole is set.
	Text  []byte
	Whole bool
}

// Context returns PostgreSQL's CONTEXT of the place, "" without a line.
func (w Where) Context(table string) string {
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

// mostShown bounds the data in an error, in bytes, as in PostgreSQL.
const mostShown = 100

// Clip returns the part of data that an error shows.
func Clip(b []byte) []byte {
	if len(b) <= mostShown {
		return b
	}
	n := mostShown
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "..."...)
}
