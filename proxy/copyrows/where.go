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

// Where is a place in the data, as far as it is known. Value and Text are as much of it as an error
// shows (Clip).
type Where struct {
	Line int // from 1; 0: none
	// Column is the name of the column; "" for the whole line. Of a column that is NULL Null is
	// true, of one whose value is not known Unknown.
	Column        string
	Value         []byte
	Null, Unknown bool
	// Text is the line, where Whole says so.
	Text  []byte
	Whole bool
}

// Context is what PostgreSQL says of the place in an error's CONTEXT; "" where there is no line.
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

// mostShown bounds the data in an error, in bytes: PostgreSQL's own figure.
const mostShown = 100

// Clip is as much of data as an error shows.
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
