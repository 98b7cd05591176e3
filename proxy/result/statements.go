package result

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// ConstantTag returns a function that returns the command tag given by the parameter tag for every statement.
func ConstantTag(tag string) func(*rewrite.Statement) string {
	return func(*rewrite.Statement) string { return tag }
}

// RuleTag returns the command tag that a rewriting rule has set for a statement.
func RuleTag(st *rewrite.Statement) string { return st.Tag }

// SettingTag returns the command tag of SET, RESET or DISCARD ALL. SET name TO DEFAULT resets a setting, but its
// tag is SET.
func SettingTag(st *rewrite.Statement) string {
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

// AlterationTag returns the command tag of DDL that Sluice performs in several steps (statement by statement).
func AlterationTag(st *rewrite.Statement) string {
	_, tag := st.StepTextAndTag()
	return tag
}

// RepeatedFetchTag returns the tag of a repeated Execute of a FETCH, which finds no more rows: FETCH 0. For other
// cursor statements, RepeatedFetchTag returns "".
func RepeatedFetchTag(st *rewrite.Statement) string {
	if st.Cursor.Verb == rewrite.FetchCursor {
		return "FETCH 0"
	}
	return ""
}

// These functions return the RowDescription of statements that Sluice answers itself with one row.

func DescribeVoid(st *rewrite.Statement) []byte       { return DescribeColumns(void, 4, st.Column) }
func DescribeShow(st *rewrite.Statement) []byte       { return DescribeColumns(text, -1, st.Show) }
func DescribeTextColumn(st *rewrite.Statement) []byte { return DescribeColumns(text, -1, st.Column) }
func DescribeLock(st *rewrite.Statement) []byte       { return DescribeLockFormat(st.Advisory, false) }

// DescribeConfig returns the RowDescription of a SELECT of set_config calls.
func DescribeConfig(st *rewrite.Statement) []byte {
	var names []string
	for i := range st.SetConfigColumns {
		names = append(names, st.SetConfigColumns[i].Column)
	}
	return DescribeColumns(text, -1, names...)
}

// DescribeLockFormat returns the RowDescription of a statement about advisory locks, in text or binary format.
func DescribeLockFormat(a *rewrite.AdvisoryCall, binaryForm bool) []byte {
	row := DescribeColumns(void, 4, a.Column)
	if a.Verb == rewrite.TryAdvisory || a.Verb == rewrite.UnlockAdvisory {
		row = DescribeColumns(boolean, 1, a.Column)
	}
	if binaryForm {
		row[len(row)-1] = 1
	}
	return row
}

// LockRow returns the DataRow of a statement about advisory locks. ok is the result of a function that returns boolean.
// The other functions return void, whose text is empty.
func LockRow(a *rewrite.AdvisoryCall, ok, binaryForm bool) []byte {
	switch {
	case a.Verb == rewrite.LockAdvisory, a.Verb == rewrite.UnlockAllAdvisory:
		return TextRow("")
	case binaryForm && ok:
		return TextRow("\x01")
	case binaryForm:
		return TextRow("\x00")
	case ok:
		return TextRow("t")
	}
	return TextRow("f")
}

// DescribeOrNoData returns the answer to a Describe of st: the frame from columns, or NoData if columns is nil.
func DescribeOrNoData(columns func(*rewrite.Statement) []byte, st *rewrite.Statement) []byte {
	if columns == nil {
		return wire.FrameNoData
	}
	return columns(st)
}
