package recorded

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// room is a Reserver with so many bytes.
type room int

func (r *room) ReserveBytes(n int) bool {
	if *r < room(n) {
		return false
	}
	*r -= room(n)
	return true
}

// row returns a DataRow of the values.
func row(values ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
	}
	return append(wire.AppendHeader(nil, wire.DataRow, len(b)), b...)
}

func tag(text string) []byte { return wire.AppendCommandComplete(nil, text) }

// An answer is whole if its tag tells as many rows as came, of one INSERT that has ended once.
func TestAnswerOfOneStatement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows [][]byte
		ends [][]byte
		room room
		want bool
	}{
		"an INSERT":          {[][]byte{row("1"), row("2")}, [][]byte{tag("INSERT 0 2")}, 1 << 20, true},
		"in pieces":          {[][]byte{row("1")[:3], row("1")[3:]}, [][]byte{tag("INSERT 0 1")}, 1 << 20, true},
		"a row less":         {[][]byte{row("1")}, [][]byte{tag("INSERT 0 2")}, 1 << 20, false},
		"another command":    {[][]byte{row("1")}, [][]byte{tag("SELECT 1")}, 1 << 20, false},
		"twice":              {[][]byte{row("1")}, [][]byte{tag("INSERT 0 1"), tag("INSERT 0 1")}, 1 << 20, false},
		"suspended":          {[][]byte{row("1")}, [][]byte{wire.FramePortalSuspended}, 1 << 20, false},
		"no room in the log": {[][]byte{row("1")}, [][]byte{tag("INSERT 0 1")}, 3, false},
		"too long":           {[][]byte{row(strings.Repeat("x", maxAnswer))}, [][]byte{tag("INSERT 0 1")}, 1 << 20, false},
	} {
		k := New(true, false)
		for _, span := range c.rows {
			k.AddRows(&c.room, span)
		}
		for _, end := range c.ends {
			k.End(end[0], end, nil)
		}
		if k.Whole != c.want || (k.Statement(0, 1) != nil) != c.want {
			t.Errorf("%s: whole %v", name, k.Whole)
		}
		if k.Statement(0, 2) != nil {
			t.Errorf("%s: it answers one of two statements", name)
		}
	}
	if New(false, false) != nil || (*Answer)(nil).Statement(0, 1) != nil {
		t.Error("nothing is to be recorded, and something is")
	}
	k := New(true, false)
	k.Discard()
	if k.Statement(0, 1) != nil {
		t.Error("a discarded answer is used")
	}
	if k.Reset(); k.Statement(0, 1) == nil {
		t.Error("an answer that was reset cannot be used")
	}
}

// Of a statement that is no INSERT only the first row is stored, if it is short.
func TestFirstRow(t *testing.T) {
	t.Parallel()
	k, free := New(false, true), room(1<<20)
	k.AddRows(&free, row("now")[:5])
	if k.HasFirstRow() {
		t.Error("half a row is a row")
	}
	k.AddRows(&free, append(row("now")[5:], row("later")...))
	k.AddRows(&free, row("later still"))
	if !k.HasFirstRow() || string(wire.FirstRow(k.rows)) != string(row("now")) || k.Statement(0, 1) == nil {
		t.Errorf("first row %q", wire.FirstRow(k.rows))
	}
	long := New(false, true)
	long.AddRows(&free, row(strings.Repeat("x", maxFirstRow)))
	if long.HasFirstRow() || long.Statement(0, 1) != nil {
		t.Error("a long row is stored")
	}
}

// A query of several statements has an answer for each of them, once all have ended.
func TestAnswersOfSeveralStatements(t *testing.T) {
	t.Parallel()
	k, free := NewSeveral(2), room(1<<20)
	k.AddRows(&free, row("1"))
	k.End(wire.CommandComplete, tag("INSERT 0 1"), nil)
	if k.Statement(0, 2) != nil || k.Whole {
		t.Error("the first answer is used before the second has come")
	}
	k.AddRows(&free, row("2"))
	k.End(wire.CommandComplete, tag("SELECT 1"), nil)
	a, b := k.Statement(0, 2), k.Statement(1, 2)
	if a == nil || b == nil || !a.Whole || b.Whole || !b.First || string(a.rows) != string(row("1")) || string(b.rows) != string(row("2")) {
		t.Errorf("%+v, %+v", a, b)
	}
	k.End(wire.ErrorResponse, nil, nil)
	if k.Statement(0, 2) != nil {
		t.Error("answers in front of an error are used")
	}
}

// world is a table with a drawn key and a default of the time, a planner, and the names of both.
func world(t *testing.T) (*rewrite.Planner, *schema.NameResolver, *schema.Schema) {
	t.Helper()
	p, err := rewrite.New(rewrite.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	s := schema.New([]schema.Relation{{Schema: "public", Name: "t", Columns: []schema.Column{
		{Name: "id", Fill: schema.Drawn}, {Name: "v"}, {Name: "at", Fill: schema.Clock, Time: "timestamptz now()", Kind: "timestamptz"}}},
		{Schema: "public", Name: "s", Sequence: true, ID: "1"}})
	return p, s.ResolverFor([]string{"public"}), s
}

// value writes a value as a constant.
func value(_ int, v []byte) string {
	if v == nil {
		return "NULL"
	}
	return settings.QuoteLiteral(string(v))
}

// The key that the client got is inserted again, and the time where it is known.
func TestSubstitute(t *testing.T) {
	t.Parallel()
	p, names, now := world(t)
	k := Repeatable{DrawnValues: true, Now: now}
	answer, free := New(true, false), room(1<<20)
	answer.AddRows(&free, row("7"))
	answer.End(wire.CommandComplete, tag("INSERT 0 1"), nil)
	w := Writer{Value: value, Time: txtime.Literal}
	for _, c := range []struct {
		sql, want string
		answer    *Answer
		values    bool
	}{
		{"INSERT INTO t (v) VALUES (1) RETURNING id", `INSERT INTO t (v, "id") VALUES (1, '7') RETURNING id`, answer, true},
		{"INSERT INTO t (v) VALUES (1) RETURNING id", "", nil, false},
		{"INSERT INTO t (v) VALUES (1), (2) RETURNING id", "", answer, false}, // two rows, and one in the answer
		{"SELECT 1", "", answer, false},
	} {
		if a := k.Substitute(p, c.sql, 1, names, c.answer, w); a.SQL != c.want || a.HasValues != c.values || a.CannotGiveTime || a.HasTime {
			t.Errorf("%s: %+v", c.sql, a)
		}
	}
	if a := k.Substitute(p, "INSERT INTO t (v) VALUES (1) RETURNING id", 0, names, answer, w); a.SQL != "" {
		t.Errorf("a statement of another transaction: %+v", a)
	}
	k.Clock, k.Tells, k.Time = true, true, &txtime.Time{}
	k.Time.AddInstant(txtime.Value{Format: 1, Bytes: []byte{0, 0, 0, 0, 0, 0, 0, 5}, IsInstant: true})
	if a := k.Substitute(p, "SELECT now(); SELECT 1; SELECT now()", 2, names, nil, w); !a.HasTime || a.CannotGiveTime || strings.Count(a.SQL, "now()") != 1 {
		t.Errorf("the time of the first two statements: %+v", a)
	}
	w.Time = func(txtime.Value) string { return "" }
	if a := k.Substitute(p, "SELECT now()", 1, names, nil, w); !a.CannotGiveTime {
		t.Errorf("a time that cannot be written: %+v", a)
	}
}

// What a text does behind the values that it gets: nothing draws or reads the clock any more.
func TestSurveyText(t *testing.T) {
	t.Parallel()
	p, names, now := world(t)
	k := Repeatable{DrawnValues: true, Clock: true, Now: now}
	for sql, want := range map[string]bool{"INSERT INTO t (v) VALUES (1) RETURNING id": true, "SELECT now()": true, "SELECT v FROM t": false, "INSERT INTO t VALUES (1, 2, '2026-11-30')": false} {
		if does := k.SurveyText(p, sql, 1, names, nil); does.Time != want {
			t.Errorf("%s: reads the clock: %v", sql, does.Time)
		}
	}
	if does := k.SurveyText(p, "SELECT setval('s', 1)", 1, names, nil); !does.Numbers {
		t.Error("setval sets no sequence back")
	}
}

func TestSameSequences(t *testing.T) {
	t.Parallel()
	_, _, now := world(t)
	k := Repeatable{Now: now}
	other := schema.New([]schema.Relation{{Schema: "public", Name: "s", Sequence: true, ID: "2"}})
	for range 2 {
		if !k.SameSequences(now) || k.SameSequences(other) || k.SameSequences(other) {
			t.Error("a sequence that was created again is the same")
		}
	}
}
