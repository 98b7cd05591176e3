package silent

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

func tag(s string) []byte { return wire.AppendCommandComplete(nil, s) }
func ready(s byte) []byte { return wire.AppendReadyForQuery(nil, s) }
func row(n int) []byte    { return append(wire.AppendHeader(nil, wire.DataRow, n), make([]byte, n)...) }
func failed(m int) []byte {
	return (&wire.Error{Code: "22P02", Message: strings.Repeat("é", m/2), Detail: "d"}).Append(nil)
}
func noticed(m int) []byte {
	return (&wire.Error{Code: "00000", Message: strings.Repeat("n", m)}).AppendNotice(nil, "NOTICE")
}

// An answer is the wanted one, or its statement has failed: nothing is concluded from what was not said.
func TestOutcome(t *testing.T) {
	t.Parallel()
	type frames [][]byte
	for _, test := range []struct {
		name string
		want ExpectedAnswer
		said frames
		code string // of Outcome
	}{
		{"commit", ExpectCommit, frames{tag("COMMIT"), ready('I')}, ""},
		{"commit rolled back", ExpectCommit, frames{tag("ROLLBACK"), ready('I')}, "40000"},
		{"commit without a word", ExpectCommit, frames{ready('I')}, "08007"},
		{"commit without an end", ExpectCommit, frames{tag("COMMIT")}, "08007"},
		{"commit with another tag", ExpectCommit, frames{tag("SELECT 1"), ready('I')}, "08007"},
		{"commit and an error", ExpectCommit, frames{tag("COMMIT"), failed(10), ready('I')}, "08007"},
		{"commit that fails", ExpectCommit, frames{failed(10), ready('I')}, "22P02"},
		{"commit in a block", ExpectCommit, frames{tag("COMMIT"), ready('T')}, "08007"},
		{"long tag", ExpectCommit, frames{tag(strings.Repeat("COMMIT", 100)), ready('I')}, "08007"},
		{"nothing", ExpectCommit, nil, "08007"},
		{"begin", ExpectBegin, frames{tag("BEGIN"), ready('T')}, ""},
		{"begin outside", ExpectBegin, frames{tag("BEGIN"), ready('I')}, "08P01"},
		{"insert", ExpectInsert(3), frames{tag("INSERT 0 3"), ready('T')}, ""},
		{"insert of fewer", ExpectInsert(3), frames{tag("INSERT 0 2"), ready('T')}, ""},
		{"insert of more", ExpectInsert(3), frames{tag("INSERT 0 4"), ready('T')}, "08P01"},
		{"insert of -1", ExpectInsert(3), frames{tag("INSERT 0 -1"), ready('T')}, "08P01"},
		{"insert without a number", ExpectInsert(3), frames{tag("INSERT 0 "), ready('T')}, "08P01"},
		{"insert outside of the block", ExpectInsert(3), frames{tag("INSERT 0 3"), ready('I')}, "08P01"},
		{"insert in a failed block", ExpectInsert(3), frames{tag("INSERT 0 3"), ready('E')}, "08P01"},
		{"insert without a tag", ExpectInsert(3), frames{ready('T')}, "08P01"},
		{"insert with a row", ExpectInsert(3), frames{row(2), tag("INSERT 0 3"), ready('T')}, "08P01"},
		{"insert twice", ExpectInsert(3), frames{tag("INSERT 0 3"), tag("INSERT 0 3"), ready('T')}, "08P01"},
		{"insert that fails", ExpectInsert(3), frames{failed(10), ready('E')}, "22P02"},
		{"a long error", ExpectInsert(3), frames{failed(70_000), ready('E')}, "22P02"},
		{"an error beyond all bounds", ExpectInsert(3), frames{failed(20 << 20), ready('E')}, "22P02"},
		{"a copy", ExpectInsert(3), frames{wire.AppendHeader(nil, wire.CopyInResponse, 0), tag("INSERT 0 3"), ready('T')}, "08P01"},
		{"select", ExpectSelect, frames{row(10), row(20), tag("SELECT 2"), ready('I')}, ""},
		{"select that lost a row", ExpectSelect, frames{row(10), tag("SELECT 2"), ready('I')}, "08P01"},
		{"select of too much", ExpectSelect, frames{row(mostRows), row(10), tag("SELECT 2"), ready('I')}, "54000"},
		{"set", ExpectInBlock("SET"), frames{tag("SET"), ready('T')}, ""},
		{"savepoint", ExpectInBlock("SAVEPOINT"), frames{tag("SAVEPOINT"), ready('E')}, "08P01"},
		{"refused", ExpectFailure, frames{failed(10), ready('E')}, ""},
		{"refused outside", ExpectFailure, frames{failed(10), ready('I')}, "22P02"},
		{"not refused", ExpectFailure, frames{tag("SELECT 1"), ready('T')}, "08P01"},
	} {
		for _, news := range []int{-1, 1, 1 << 20} {
			// News around every frame go to the client, and change nothing; nor does it matter where the pieces end.
			var said, around []byte
			for _, f := range append(slices.Clone(test.said), nil) {
				if news > 0 {
					said = append(said, noticed(news)...)
					around = append(around, noticed(news)...)
				}
				said = append(said, f...)
			}
			a, r, sent := NewAnswer(test.want), rand.New(rand.NewPCG(1, 2)), []byte(nil)
			for rest := said; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(1+r.IntN(300_000)))
				sent = append(sent, a.Feed(rest[:n])...)
				rest = rest[n:]
			}
			code, got := "", a.CheckOutcome()
			if got != nil {
				code = got.Code
			}
			if code != test.code || !bytes.Equal(sent, around) {
				t.Errorf("%s, news of %d: %q, want %q; %d bytes for the client, want %d", test.name, news, code, test.code, len(sent), len(around))
			}
			if held := cap(a.failure) + cap(a.rows); held > 3*mostError {
				t.Errorf("%s: %d bytes are held", test.name, held)
			}
		}
	}
}

// Every field of an error is found, in whole characters, whatever is in front of it.
func TestLongFieldsEndForThemselves(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 2<<20)
	e := &wire.Error{Code: "23505", Message: long, Detail: long, Hint: "h", Table: "t"}
	for _, size := range []int{1, 7, 4096, 1 << 30} {
		a := NewAnswer(ExpectInsert(1))
		for rest := e.Append(nil); len(rest) > 0; {
			n := min(size, len(rest))
			a.Feed(rest[:n])
			rest = rest[n:]
		}
		got := a.LastError()
		if got.Code != "23505" || !strings.HasPrefix(long, got.Message) || len(got.Message) < mostField-10 || !strings.HasPrefix(long, got.Detail) {
			t.Errorf("in pieces of %d: %q, a message of %d bytes, a detail of %d", size, got.Code, len(got.Message), len(got.Detail))
		}
		if len(a.failure) > mostError {
			t.Errorf("in pieces of %d: %d bytes are held", size, len(a.failure))
		}
	}
}

// The half of a frame whose server is lost counts for nothing.
func TestHalfFrame(t *testing.T) {
	t.Parallel()
	a := NewAnswer(ExpectInsert(3))
	if a.Feed(failed(1000)[:500]); a.DropIncomplete() {
		t.Error("the client has none of it")
	}
	a.Feed(append(tag("INSERT 0 3"), ready('T')...))
	if err := a.CheckOutcome(); err != nil {
		t.Error(err)
	}
	if a.Feed(noticed(1000)[:500]); !a.DropIncomplete() {
		t.Error("the client has half of a notice")
	}
	b := NewAnswer(ExpectSelect)
	if b.Feed(row(1000)[:500]); b.DropIncomplete() {
		t.Error("the client has none of the row")
	}
	b.Feed(append(tag("SELECT 1"), ready('T')...))
	if b.CheckOutcome() == nil {
		t.Error("half a row counts as one")
	}
}
