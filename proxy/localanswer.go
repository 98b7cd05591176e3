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
		return "ALTER TABLE"
	case st.Column != "":
		return "SELECT 1"
	case st.Show != "":
		return "SHOW"
	case st.DeallocateAll:
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
	case st.Void != "":
		return columnDescription(st.Void, void, 4)
	case st.Column != "":
		return columnDescription(st.Column, text, -1)
	case st.Show != "":
		return columnDescription(st.Show, text, -1)
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

// columnDescription is the RowDescription of one column of a type, by its OID and size. The
// column is of no table, has no type modifier, and comes as text.
func columnDescription(name string, typ uint32, size int16) []byte {
	b := wire.AppendHeader(nil, wire.RowDescription, 2+len(name)+1+18)
	b = append(b, 0, 1)
	b = append(b, name...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, typ)
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	return append(b, 0xff, 0xff, 0xff, 0xff, 0, 0)
}

// dataRow is a DataRow with one value as text, which is not NULL.
func dataRow(value string) []byte {
	b := wire.AppendHeader(nil, wire.DataRow, 2+4+len(value))
	b = append(b, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}
