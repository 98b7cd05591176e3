package result

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Tag returns a command tag that does not depend on the statement.
func Tag(tag string) func(*rewrite.Statement) string {
	return func(*rewrite.Statement) string { return tag }
}

// OwnTag returns the tag that a rule has given the statement.
func OwnTag(st *rewrite.Statement) string { return st.Tag }

// ChangeTag returns the tag of a statement by its first change of settings. SET name TO DEFAULT is a reset
// whose tag is SET.
func ChangeTag(st *rewrite.Statement) string {
	switch c := &st.Changes[0]; {
	case c.Action == rewrite.DiscardAll:
		return "DISCARD ALL"
	case c.Action == rewrite.ResetAll, c.Action == rewrite.Reset && !c.Default:
		return "RESET"
	}
	return "SET"
}

// DatabaseTag returns the tag of CREATE DATABASE and DROP DATABASE, which is the statement's name too.
func DatabaseTag(st *rewrite.Statement) string {
	if st.Database.Drop {
		return "DROP DATABASE"
	}
	return "CREATE DATABASE"
}

// AlteredTag returns the tag of a statement that is carried out in steps.
func AlteredTag(st *rewrite.Statement) string {
	_, tag := st.Altered()
	return tag
}

// FetchedTag returns the tag of a second Execute of a statement about a cursor: FETCH and MOVE find no row
// behind the first. It returns "" for any other verb.
func FetchedTag(st *rewrite.Statement) string {
	if st.Cursor.Verb == rewrite.FetchCursor {
		return "FETCH 0"
	}
	return ""
}

// The following return the RowDescription of the one row that a statement answers with.

func VoidColumn(st *rewrite.Statement) []byte    { return Columns(void, 4, st.Column) }
func ShownColumn(st *rewrite.Statement) []byte   { return Columns(text, -1, st.Show) }
func QueriedColumn(st *rewrite.Statement) []byte { return Columns(text, -1, st.Column) }
func LockColumn(st *rewrite.Statement) []byte    { return LockRow(st.Advisory, false) }

// ConfigColumns describes the row of set_config.
func ConfigColumns(st *rewrite.Statement) []byte {
	var names []string
	for i := range st.Told {
		names = append(names, st.Told[i].Column)
	}
	return Columns(text, -1, names...)
}

// LockRow describes the row of a statement about advisory locks, in text or in binary form.
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

// Described returns the frame that answers Describe by columns of a statement; nil columns: it has no row.
func Described(columns func(*rewrite.Statement) []byte, st *rewrite.Statement) []byte {
	if columns == nil {
		return wire.FrameNoData
	}
	return columns(st)
}
