package proxy

import (
	"encoding/binary"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The frames of statements that Sluice answers: tags, descriptions, rows. They are
// PostgreSQL's, byte for byte: clients are not to tell the two apart.

// localTag is the tag of a statement that is answered here. Of several changes the first
// tells.
func localTag(st *rewrite.Statement) string {
	switch {
	case st.Tag != "":
		return st.Tag
	case st.Database != nil:
		return databaseVerb(st.Database)
	case st.Alters():
		_, tag := st.Altered()
		return tag
	case st.Column != "", st.Told != nil:
		return "SELECT 1"
	case st.Show != "":
		return "SHOW"
	case st.Tx.Verb == rewrite.SetTransaction:
		return "SET"
	case st.Does == rewrite.DeallocatesAll:
		return "DEALLOCATE ALL"
	case st.Deallocate != "":
		return "DEALLOCATE"
	}
	return resetTag(&st.Changes[0])
}

// resetTag is the tag of a change of settings. SET name TO DEFAULT is a reset whose tag is
// SET.
func resetTag(c *rewrite.Change) string {
	switch {
	case c.Action == rewrite.DiscardAll:
		return "DISCARD ALL"
	case c.Action == rewrite.ResetAll, c.Action == rewrite.Reset && !c.Default:
		return "RESET"
	}
	return "SET"
}

// noticesOf are what the client is told in front of the tag of a statement that is answered.
func (s *session) noticesOf(st *rewrite.Statement) (frames [][]byte) {
	if len(st.Notices) == 0 || !s.hearsNotices() {
		return nil
	}
	for _, n := range st.Notices {
		e := wire.Error{Code: codeNotice, Message: n.Message, Detail: n.Detail}
		frames = append(frames, e.AppendNotice(nil, "NOTICE"))
	}
	return frames
}

// hearsNotices reports whether the client wants messages of the level NOTICE. Where the server
// keeps the setting, nobody here knows, and it is taken for the default.
func (s *session) hearsNotices() bool {
	level := s.leastMessages()
	return level != "warning" && level != "error"
}

// hearsWarnings is hearsNotices for messages of the level WARNING.
func (s *session) hearsWarnings() bool { return s.leastMessages() != "error" }

// leastMessages is the client's client_min_messages; "" where nobody here knows.
func (s *session) leastMessages() string {
	const level = "client_min_messages"
	if !s.settings.Shows(level) {
		return ""
	}
	return strings.ToLower(s.settings.Shown(level))
}

// codeNotice is the SQLSTATE of a notice that has none of its own, as PostgreSQL gives it.
const codeNotice = "00000"

// rowOf describes the one row that a statement answered here has; nil for none. The numbers
// are the OIDs of the types text and void.
func rowOf(st *rewrite.Statement) []byte {
	const text, void = 25, 2278
	switch {
	case st.Advisory != nil:
		return lockRow(st.Advisory, false)
	case st.Does == rewrite.AnswersVoid:
		return columnDescription(void, 4, st.Column)
	case st.Column != "":
		return columnDescription(text, -1, st.Column)
	case st.Show != "":
		return columnDescription(text, -1, st.Show)
	case st.Told != nil:
		var names []string
		for i := range st.Told {
			names = append(names, st.Told[i].Column)
		}
		return columnDescription(text, -1, names...)
	}
	return nil
}

// localDescription answers Describe of a statement or portal that is answered locally. The
// ParameterDescription of a statement goes in front of it.
func localDescription(plan *rewrite.Plan) [][]byte {
	if row := rowOf(plan.Single()); row != nil {
		return [][]byte{row}
	}
	return [][]byte{wire.FrameNoData}
}

// columnDescription is the RowDescription of columns of a type, by its OID and size. The
// columns are of no table, have no type modifier, and come as text.
func columnDescription(typ uint32, size int16, names ...string) []byte {
	n := 2
	for _, name := range names {
		n += len(name) + 1 + columnSize
	}
	b := wire.AppendHeader(nil, wire.RowDescription, n)
	b = binary.BigEndian.AppendUint16(b, uint16(len(names)))
	for _, name := range names {
		b = append(b, name...)
		b = append(b, 0, 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, typ)
		b = binary.BigEndian.AppendUint16(b, uint16(size))
		b = append(b, 0xff, 0xff, 0xff, 0xff, 0, 0)
	}
	return b
}

// dataRow is a DataRow of values as text, none of which is NULL.
func dataRow(values ...string) []byte {
	n := 2
	for _, value := range values {
		n += 4 + len(value)
	}
	b := wire.AppendHeader(nil, wire.DataRow, n)
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, value := range values {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		b = append(b, value...)
	}
	return b
}
