package cursor

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Cursor is an open cursor of SQL (DECLARE), and immutable. A change replaces the pointer in the cursor's portal, so
// that copies of the portal still have the old state.
type Cursor struct {
	NoScroll bool
	// Hold is set for a cursor WITH HOLD, whose remaining rows Sluice stores before the COMMIT.
	Hold    bool
	Query   *statement.Client
	Values  []byte // the Bind's format codes and values of parameters
	Formats []byte // the result formats, two bytes each; nil: text
	// WritesAtDeclare is the number of the transaction's writes before the DECLARE. The cursor does not see later writes.
	WritesAtDeclare uint64
	WasFetched      bool   // a FETCH or MOVE has run
	Seq             uint64 // the number of the first Bind in the transaction, if the cursor was bound again; else 0
}

// Bytes returns the approximate memory of the cursor's values and formats in bytes.
func (c *Cursor) Bytes() int { return len(c.Values) + len(c.Formats) }

// BindRest returns the Bind message of the cursor's portal without the names of portal and statement.
func (c *Cursor) BindRest() []byte {
	rest := binary.BigEndian.AppendUint16(slices.Clone(c.Values), uint16(len(c.Formats)/2))
	return append(rest, c.Formats...)
}

// WithFormats returns the cursor for other result formats, to be bound again. seq is the number of the cursor's Bind,
// and writes is the number of the transaction's writes. After a FETCH or a later write, WithFormats returns ErrFormats.
func (c *Cursor) WithFormats(formats []byte, seq, writes uint64) (*Cursor, error) {
	if c.WasFetched || c.WritesAtDeclare != writes {
		return nil, ErrFormats
	}
	again := *c
	again.Formats, again.Seq = formats, seq // the cursor has its age for savepoints
	return &again, nil
}

// Fetched returns the cursor after a FETCH or MOVE.
func (c *Cursor) Fetched() *Cursor {
	if c.WasFetched {
		return c
	}
	ran := *c
	ran.WasFetched = true
	return &ran
}

// BackwardError returns the error of a FETCH or MOVE that does not go forward by a number of rows.
func (c *Cursor) BackwardError(st *rewrite.CursorStatement) error {
	if st.Backward && c.NoScroll {
		return ErrForwardOnly
	}
	return ErrFetchElsewhere
}

// QueryError returns why Sluice refuses the query of a DECLARE, or nil. Such a query needs more than one portal.
func QueryError(t *statement.Template) error {
	switch {
	case t.Plan.Kind == rewrite.Unknown || t.Plan.Pin == rewrite.PinUnparsed:
		return ErrUnparsed
	case t.CurrentForm().Split != nil:
		return ErrSplit
	case t.Plan.Sequence != "":
		return ErrSequence
	}
	return nil
}

// Declared is a DECLARE that the client has bound to a portal. The portal's Execute carries it out.
type Declared struct {
	Cursor *rewrite.CursorStatement
	Query  statement.Client // a copy from the time of the Bind
	Values []byte           // as in Cursor
}

// Fetch is one FETCH or MOVE of at most Limit rows (0: all). If Into is not nil, Sluice stores the rows in Into and the
// client gets none. The replay log has the Fetch too, since a replay stores the rows again.
type Fetch struct {
	Move  bool
	Limit uint32
	Into  *stored.Cursor
}

// FitsEnd reports whether the frame of type typ may end the Fetch after so many rows. A server that sends more rows
// than the limit would make the next FETCH miss them.
func (f *Fetch) FitsEnd(typ byte, rows int) bool {
	return (f.Limit == 0 || rows <= int(f.Limit)) && (typ != wire.PortalSuspended || rows == int(f.Limit))
}

// Tag returns the CommandComplete of the Fetch, which has the number of rows.
func (f *Fetch) Tag(rows int) []byte { return fetchTag(f.Move, rows) }

func fetchTag(move bool, rows int) []byte {
	verb := "FETCH "
	if move {
		verb = "MOVE "
	}
	return wire.AppendCommandComplete(nil, verb+strconv.Itoa(rows))
}

// ExecuteFrame returns an Execute of a portal, of at most limit rows (0: all).
func ExecuteFrame(portal string, limit uint32) []byte {
	frame := wire.AppendHeader(nil, wire.Execute, len(portal)+5)
	frame = append(append(frame, portal...), 0)
	return binary.BigEndian.AppendUint32(frame, limit)
}
