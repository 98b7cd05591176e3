package result

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Tag returns a function that returns the same command tag for every statement.
func Tag(tag string) func(*rewrite.Statement) string {
	return func(*rewrite.Statement) string { return tag }
}

// OwnTag returns the command tag that a rewriting rule has set for a statement.
func OwnTag(st *rewrite.Statement) string { return st.Tag }

// ChangeTag returns the command tag of SET, RESET or DISCARD ALL. SET name TO DEFAULT resets a setting, but its
// tag is SET.
func ChangeTag(st *rewrite.Statement) string {
	switch c := &st.Changes[0]; {
	case c.Action == rewrite.DiscardAll:
		return "DISCARD ALL"
	case c.Action == rewrite.ResetAll, c.Action == rewrite.Reset && !c.Default:
		return "RESET"
	}
	return "SET"
}

// DatabaseTag returns the command tag of a CREATE DATABASE or DROP DATABASE.
func DatabaseTag(st *rewrite.Statement) string {
	if st.Database.Drop {
		return "DROP DATABASE"
	}
	return "CREATE DATABASE"
}

// AlteredTag returns the command tag of DDL that Sluice performs in steps.
func AlteredTag(st *rewrite.Statement) string {
	_, tag := st.Altered()
	return tag
}

// FetchedTag returns the tag of a repeated Execute of a FETCH, which finds no more rows: FETCH 0. For other cursor
// statements, FetchedTag returns "".
func FetchedTag(st *rewrite.Statement) string {
	if st.Cursor.Verb == rewrite.FetchCursor {
		return "FETCH 0"
	}
	return ""
}

// These functions return the RowDescription of statements that return one row.

func VoidColumn(st *rewrite.Statement) []byte    { return Columns(void, 4, st.Column) }
func ShownColumn(st *rewrite.Statement) []byte   { return Columns(text, -1, st.Show) }
func QueriedColumn(st *rewrite.Statement) []byte { return Columns(text, -1, st.Column) }
func LockColumn(st *rewrite.Statement) []byte    { return LockRow(st.Advisory, false) }

// ConfigColumns returns the RowDescription of a SELECT of set_config calls.
func ConfigColumns(st *rewrite.Statement) []byte {
	var names []string
	for i := range st.Told {
		names = append(names, st.Told[i].Column)
	}
	return Columns(text, -1, names...)
}

// LockRow returns the RowDescription of a statement about advisory locks, in text or binary format.
func LockRow(a *rewrite.Advisory, binaryForm bool) []byte {
	row := Columns(void, 4, a.Column)
	if a.Verb == rewrite.TryAdvisory || a.Verb == rewrite.UnlockAdvisory {
		row = Columns(boolean, 1, a.Column)
	}
	if binaryForm {
		row[len(row)-1] = 1
	}
	return row
}

// Described returns the answer to Describe: the frame of columns, or NoData if columns is nil.
func Described(columns func(*rewrite.Statement) []byte, st *rewrite.Statement) []byte {
	if columns == nil {
		return wire.FrameNoData
	}
	return columns(st)
}
