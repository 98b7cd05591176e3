package cursor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/stored"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// quota lets a cursor have any number of bytes, and counts them.
type quota struct{ taken int }

func (q *quota) Take(n int) bool { q.taken += n; return true }
func (q *quota) Give(n int)      { q.taken -= n }

// row returns a DataRow of one column, and column its RowDescription, of type text.
func row(value string) []byte {
	b := wire.AppendHeader(nil, wire.DataRow, 2+4+len(value))
	b = append(b, 0, 1, 0, 0, 0, byte(len(value)))
	return append(b, value...)
}

func column() []byte {
	b := wire.AppendHeader(nil, wire.RowDescription, 2+2+18)
	b = append(b, 0, 1, 'v', 0, 0, 0, 0, 0, 0, 0)
	return append(b, 0, 0, 0, 25, 255, 255, 255, 255, 255, 255, 0, 0)
}

// storedRows returns a stored cursor with rows of one column.
func storedRows(q stored.Quota, forwardOnly bool, values ...string) *stored.Cursor {
	x := stored.NewCursor(q, forwardOnly)
	for _, frame := range append([][]byte{column()}, rowsOf(values)...) {
		x.AddFrame(frame[0], frame, len(frame))
	}
	return x
}

func rowsOf(values []string) (all [][]byte) {
	for _, v := range values {
		all = append(all, row(v))
	}
	return all
}

// A FETCH or MOVE of stored rows answers what PostgreSQL does: rows, a tag with their number, and errors behind which
// the cursor is unusable.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name               string
		forwardOnly, moves bool
		direction          rewrite.CursorDirection
		count              int64
		want               string
		err                error
		failsLater         bool
	}{
		{name: "all", count: rewrite.CursorAll, want: "a b c FETCH 3"},
		{name: "two", count: 2, want: "a b FETCH 2"},
		{name: "none", count: 0, want: "FETCH 0"},
		{name: "MOVE", moves: true, count: 2, want: "MOVE 2"},
		{name: "back", forwardOnly: true, count: -1, err: ErrForwardOnly, failsLater: true},
	} {
		x := storedRows(&quota{}, c.forwardOnly, "a", "b", "c")
		st := &rewrite.CursorStatement{Name: "c", Verb: rewrite.FetchCursor, Direction: c.direction, Count: c.count}
		if c.moves {
			st.Verb = rewrite.MoveCursor
		}
		frames, err := Read(x, st, nil, false)
		if got := words(frames); !errors.Is(err, c.err) || got != c.want {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
		st.Count = 1
		if _, err := Read(x, st, nil, false); (err != nil) != c.failsLater {
			t.Errorf("%s, and once more: %v", c.name, err)
		}
	}
}

// words returns the values of rows and the tags in frames.
func words(frames [][]byte) string {
	var all []string
	for b := slices.Concat(frames...); len(b) > 0; {
		n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		switch payload := b[wire.HeaderLen:n]; b[0] {
		case wire.DataRow:
			all = append(all, string(payload[6:]))
		case wire.CommandComplete:
			all = append(all, string(payload[:len(payload)-1]))
		default:
			all = append(all, string(b[0]))
		}
		b = b[n:]
	}
	return strings.Join(all, " ")
}

// A RowDescription precedes the rows of a simple Query, and a FETCH in a format that the rows lack moves nothing.
func TestReadDescribed(t *testing.T) {
	t.Parallel()
	x := storedRows(&quota{}, false, "a")
	st := &rewrite.CursorStatement{Name: "c", Verb: rewrite.FetchCursor, Count: 1}
	if frames, err := Read(x, st, nil, true); err != nil || words(frames) != "T a FETCH 1" {
		t.Errorf("%q, %v", words(frames), err)
	}
	x = storedRows(&quota{}, false, "a")
	x.MissesRows = true
	st.Elsewhere = true
	if _, err := Read(x, st, nil, false); !errors.Is(err, ErrFetchElsewhere) {
		t.Errorf("rows in front of the stored ones: %v", err)
	}
}

// An Execute of a stored cursor's portal is suspended at its limit, and complete at the cursor's end.
func TestReadPortal(t *testing.T) {
	t.Parallel()
	x := storedRows(&quota{}, false, "a", "b")
	for _, want := range []string{"a s", "b s", "SELECT 0"} {
		if frames, err := ReadPortal(x, []byte("c"), 1); err != nil || words(frames) != want {
			t.Errorf("%q, %v, want %q", words(frames), err, want)
		}
	}
	x.Failed = true
	if _, err := ReadPortal(x, []byte("c"), 0); err == nil || !strings.Contains(err.Error(), "cannot be run") {
		t.Errorf("a cursor that has failed: %v", err)
	}
}

// Stored cursors end with a transaction that rolls back, and give their bytes back.
func TestStored(t *testing.T) {
	t.Parallel()
	var s Stored
	q := &quota{}
	if !s.IsEmpty() || s.Find("a") != nil {
		t.Error("a session begins with stored cursors")
	}
	s.DropAll()
	s.Put("a", storedRows(q, false, "1"))
	s.EndTransaction(true, false)
	s.Put("b", storedRows(q, false, "2"))
	if s.EndTransaction(false, false); s.Find("a") == nil || s.Find("b") != nil {
		t.Errorf("behind a rollback: a %v, b %v", s.Find("a"), s.Find("b"))
	}
	for formats, refused := range map[int]bool{0: false, 1: false, 2: true} {
		if err := s.CheckFormats("a", formats); (err != nil) != refused {
			t.Errorf("%d formats: %v", formats, err)
		}
	}
	if err := s.CheckFormats("nosuch", 2); err != nil {
		t.Errorf("formats for no cursor: %v", err)
	}
	if s.DropAll(); !s.IsEmpty() || q.taken != 0 {
		t.Errorf("behind DropAll: empty %v, %d bytes taken", s.IsEmpty(), q.taken)
	}
}

// A cursor can be bound again for other formats until it was read or the transaction has written.
func TestWithFormats(t *testing.T) {
	t.Parallel()
	c := &Cursor{Values: []byte{0, 0, 0, 0}, WritesAtDeclare: 3}
	again, err := c.WithFormats([]byte{0, 1}, 7, 3)
	if err != nil || again == c || again.Seq != 7 || string(again.BindRest()) != "\x00\x00\x00\x00\x00\x01\x00\x01" || again.Bytes() != 6 {
		t.Errorf("%+v, %v", again, err)
	}
	if string(c.BindRest()) != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("text: % x", c.BindRest())
	}
	if _, err := c.WithFormats(nil, 7, 4); !errors.Is(err, ErrFormats) {
		t.Errorf("behind a write: %v", err)
	}
	read := c.Fetched()
	if _, err := read.WithFormats(nil, 7, 3); !errors.Is(err, ErrFormats) || c.WasFetched || read.Fetched() != read {
		t.Errorf("behind a FETCH: %v", err)
	}
}

// The end of a FETCH must fit its limit, and its tag has the number of rows.
func TestFetch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit uint32
		typ   byte
		rows  int
		fits  bool
	}{
		{0, wire.CommandComplete, 9, true}, {2, wire.CommandComplete, 1, true}, {2, wire.CommandComplete, 3, false},
		{2, wire.PortalSuspended, 2, true}, {2, wire.PortalSuspended, 1, false}, {0, wire.PortalSuspended, 1, false},
	} {
		if f := (&Fetch{Limit: c.limit}); f.FitsEnd(c.typ, c.rows) != c.fits {
			t.Errorf("limit %d, %c, %d rows: %v", c.limit, c.typ, c.rows, !c.fits)
		}
	}
	if got := words([][]byte{(&Fetch{Move: true}).Tag(2), (&Fetch{}).Tag(1)}); got != "MOVE 2 FETCH 1" {
		t.Errorf("%q", got)
	}
	if got := string(ExecuteFrame("c", 3)); got != "E\x00\x00\x00\x0ac\x00\x00\x00\x00\x03" {
		t.Errorf("%q", got)
	}
}

// Queries that need more than one portal, or that Sluice has not parsed, are refused.
func TestQueryError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		plan *rewrite.Plan
		want error
	}{
		{&rewrite.Plan{Kind: rewrite.Read}, nil}, {&rewrite.Plan{Kind: rewrite.Unknown}, ErrUnparsed},
		{&rewrite.Plan{Kind: rewrite.Read, Pin: rewrite.PinUnparsed}, ErrUnparsed}, {&rewrite.Plan{Kind: rewrite.Read, Sequence: "lastval"}, ErrSequence},
	} {
		if err := QueryError(&statement.Template{Plan: c.plan}); !errors.Is(err, c.want) {
			t.Errorf("kind %d, pin %d, %q: %v, want %v", c.plan.Kind, c.plan.Pin, c.plan.Sequence, err, c.want)
		}
	}
	c := &Cursor{NoScroll: true}
	if err := c.BackwardError(&rewrite.CursorStatement{Backward: true}); !errors.Is(err, ErrForwardOnly) {
		t.Errorf("back: %v", err)
	}
	if err := c.BackwardError(&rewrite.CursorStatement{}); !errors.Is(err, ErrFetchElsewhere) {
		t.Errorf("to a place: %v", err)
	}
}
