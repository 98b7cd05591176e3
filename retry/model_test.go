package retry

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A reply is one answer for the client: a frame of the server's, or one made up.
type reply struct {
	typ     byte
	payload []byte
	made    bool
}

func (r reply) frame() []byte {
	b := append([]byte{r.typ, 0, 0, 0, 0}, r.payload...)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}

func errorPayload(severity, state, message string) []byte {
	return []byte("S" + severity + "\x00V" + severity + "\x00C" + state + "\x00M" + message + "\x00\x00")
}

// counts is what of a reply a client must not see changed; "" for nothing.
func (r reply) counts() string {
	switch {
	case r.made || bytes.IndexByte([]byte("SA123"), r.typ) >= 0:
		return ""
	case r.typ == 'E' || r.typ == 'N':
		return string(r.typ) + string(ErrorField(r.payload, 'V')) + "/" + string(ErrorField(r.payload, 'C'))
	}
	return string(r.frame())
}

// takes reports whether the reply has a place in the order of a turn's output.
func (r reply) takes() bool { return r.made || r.typ != 'S' && r.typ != 'A' }

func drawPayload(t *rapid.T, most int) []byte {
	return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(0, most).Draw(t, "length"))
}

// drawTurn draws the answer to one turn, its ReadyForQuery included.
func drawTurn(t *rapid.T) []reply {
	var turn []reply
	for range rapid.IntRange(0, 8).Draw(t, "replies") {
		switch typ := rapid.SampledFrom([]byte("DDDDDTtnCIsdHcENSA123m")).Draw(t, "type"); typ {
		case 'm':
			turn = append(turn, reply{typ: '1', made: true})
		case '1', '2', '3', 'n', 'I', 's', 'c':
			turn = append(turn, reply{typ: typ})
		case 'E', 'N':
			state := rapid.SampledFrom([]string{"23505", "25001", ""}).Draw(t, "state")
			turn = append(turn, reply{typ: typ, payload: errorPayload("ERROR", state, string(drawPayload(t, 5)))})
		case 'C':
			tag := rapid.SampledFrom([]string{"SELECT 1", "UPDATE 0", "INSERT 0 1", ""}).Draw(t, "tag")
			turn = append(turn, reply{typ: typ, payload: append([]byte(tag), 0)})
		default:
			turn = append(turn, reply{typ: typ, payload: drawPayload(t, 3000)})
		}
	}
	return append(turn, reply{typ: 'Z', payload: []byte{rapid.SampledFrom([]byte("TE")).Draw(t, "status")}})
}

// feed gives replies to a log as a relay does, cut where t likes, and returns
// what the client was sent. ok is false when the replay differs.
func feed(t *rapid.T, l *ReplayLog[int], replies []reply, flush bool) (sent []byte, ok bool) {
	pass := func(b []byte, drop int, ok bool) bool {
		if drop < 0 || drop > len(b) {
			t.Fatalf("drop %d of %d bytes", drop, len(b))
		}
		if ok {
			sent = append(sent, b[drop:]...)
			if flush && rapid.Bool().Draw(t, "flush") {
				l.RecordDelivered()
			}
		}
		return ok
	}
	var rows []byte // frames of a run
	for _, r := range replies {
		frame := r.frame()
		if !r.made && (r.typ == 'D' || r.typ == 'd') {
			rows = append(rows, frame...)
			continue
		}
		for len(rows) > 0 {
			n := rapid.IntRange(1, len(rows)).Draw(t, "span")
			if drop, ok := l.RecordRows(rows[:n]); !pass(rows[:n], drop, ok) {
				return sent, false
			}
			rows = rows[n:]
		}
		if r.made {
			pass(frame, l.RecordLocalReply(len(frame)), true)
			continue
		}
		first := len(frame) // of a frame too long for a buffer
		if len(frame) > 100 && (r.typ == 'T' || r.typ == 't' || r.typ == 'H') {
			first = rapid.IntRange(50, len(frame)).Draw(t, "first")
		}
		if drop, ok := l.RecordReply(r.typ, frame[:first]); !pass(frame[:first], drop, ok) {
			return sent, false
		}
		if rest := frame[first:]; len(rest) > 0 {
			if drop, ok := l.RecordRows(rest); !pass(rest, drop, ok) {
				return sent, false
			}
		}
	}
	for len(rows) > 0 {
		n := rapid.IntRange(1, len(rows)).Draw(t, "span")
		if drop, ok := l.RecordRows(rows[:n]); !pass(rows[:n], drop, ok) {
			return sent, false
		}
		rows = rows[n:]
	}
	return sent, true
}

// newLogs returns logs with room for everything.
func newLogs(t testing.TB) *ReplayLogPool[int] {
	t.Helper()
	c := Defaults()
	c.LogBytes, c.LogTotalBytes = mostLogBytes, mostLogBytes
	logs, err := NewReplayLogPool[int](c)
	if err != nil {
		t.Fatal(err)
	}
	return logs
}

// change returns turns with one thing changed that a client could notice, or
// that takes a place in the order.
func change(t *rapid.T, turns [][]reply) [][]reply {
	changed := make([][]reply, len(turns))
	for i := range turns {
		changed[i] = slices.Clone(turns[i])
	}
	i := rapid.IntRange(0, len(turns)-1).Draw(t, "turn")
	j := rapid.IntRange(0, len(turns[i])-1).Draw(t, "reply")
	r := &changed[i][j]
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0: // a byte
		if len(r.payload) > 0 {
			r.payload = bytes.Clone(r.payload)
			r.payload[rapid.IntRange(0, len(r.payload)-1).Draw(t, "at")] ^= 1
		}
	case 1: // longer
		if r.typ != 'Z' {
			r.payload = append(bytes.Clone(r.payload), 'x')
		}
	case 2: // gone
		if r.typ != 'Z' {
			changed[i] = slices.Delete(changed[i], j, j+1)
		}
	case 3: // twice
		if r.typ != 'Z' {
			changed[i] = slices.Insert(changed[i], j, *r)
		}
	case 4: // another place
		if j+2 < len(changed[i]) {
			changed[i][j], changed[i][j+1] = changed[i][j+1], changed[i][j]
		}
	case 5: // another type
		if bytes.IndexByte([]byte("DdTtHCsIn"), r.typ) >= 0 && !r.made {
			r.typ = 'V'
		}
	}
	return changed
}

// essence is what counts of a turn's output, and how many frames have a place
// only.
func essence(turn []reply) (counts []string, others int) {
	for _, r := range turn {
		if c := r.counts(); c != "" {
			counts = append(counts, c)
		} else if r.takes() {
			others++
		}
	}
	return counts, others
}

// split is the opposite of join.
func split(stream []byte) (replies []reply) {
	for len(stream) > 0 {
		n := 1 + int(binary.BigEndian.Uint32(stream[1:]))
		replies = append(replies, reply{typ: stream[0], payload: stream[headerLen:n]})
		stream = stream[n:]
	}
	return replies
}

// same says whether a client that was told all of told and then the first seen
// replies of turn may be told the rest of again: the naive form of the rule.
func same(told, again [][]reply, turn, turnAgain []reply, seen int) bool {
	for i := range told {
		a, _ := essence(told[i])
		b, _ := essence(again[i])
		if !slices.Equal(a, b) {
			return false
		}
	}
	a, othersA := essence(turn[:seen])
	b, othersB := essence(turnAgain[:len(turnAgain)-1]) // the ReadyForQuery was not told
	return len(b) >= len(a) && slices.Equal(a, b[:len(a)]) && othersB >= othersA
}

// Feature: dsql-locking-compatibility, Property 6: Integrity under failure: a
// replay that answers as the transaction did is invisible, however far the
// client had been told.
func TestEqualReplayIsInvisible(t *testing.T) {
	t.Parallel()
	logs := newLogs(t)
	rapid.Check(t, func(t *rapid.T) {
		l := logs.Open()
		defer l.Close()
		told := rapid.SliceOfN(rapid.Custom(drawTurn), 0, 3).Draw(t, "told")
		for _, turn := range told {
			if _, ok := feed(t, l, turn, true); !ok {
				t.Fatal("differs outside a replay")
			}
		}
		last := rapid.Custom(drawTurn).Draw(t, "last")
		seen := rapid.IntRange(0, len(last)-1).Draw(t, "seen")
		got, _ := feed(t, l, last[:seen], false)
		if r := last[seen]; r.typ == 'D' || r.typ == 'd' { // a row that came in part
			part := r.frame()[:rapid.IntRange(0, len(r.payload)).Draw(t, "part")]
			l.RecordRows(part)
			got = append(got, part...)
		}
		l.RecordDelivered()
		for range rapid.IntRange(1, 2).Draw(t, "conflicts") {
			if !l.BeginReplay() {
				t.Fatalf("not replayable: %v", l.RefusalReason())
			}
			for i, turn := range told {
				if l.CurrentTurn() != i {
					t.Fatalf("at turn %d, want %d", l.CurrentTurn(), i)
				}
				if sent, ok := feed(t, l, turn, false); !ok || len(sent) > 0 {
					t.Fatalf("turn %d again: sent %q, ok %v, %+v", i, sent, ok, l.Difference())
				}
			}
		}
		sent, ok := feed(t, l, last, true)
		if !ok {
			t.Fatalf("differs: %+v", l.Difference())
		}
		if got = withoutParameters(append(got, sent...)); !bytes.Equal(got, withoutParameters(join(last))) {
			t.Fatalf("the client was sent %q, want %q", got, join(last))
		}
		if l.TurnCount() != len(told)+1 {
			t.Fatalf("%d turns settled, want %d", l.TurnCount(), len(told)+1)
		}
	})
}

func join(replies []reply) (b []byte) {
	for _, r := range replies {
		b = append(b, r.frame()...)
	}
	return b
}

// withoutParameters drops the frames that may come at any time.
func withoutParameters(stream []byte) (kept []byte) {
	for _, r := range split(stream) {
		if r.takes() {
			kept = append(kept, r.frame()...)
		}
	}
	return kept
}

// Feature: dsql-locking-compatibility, Property 6: Integrity under failure: a
// replay that answers otherwise than its client was told is refused, and only
// then.
func TestReplayAgreesWithTheNaiveRule(t *testing.T) {
	t.Parallel()
	logs := newLogs(t)
	rapid.Check(t, func(t *rapid.T) {
		l := logs.Open()
		defer l.Close()
		turns := rapid.SliceOfN(rapid.Custom(drawTurn), 1, 3).Draw(t, "turns")
		again := change(t, turns)
		told, last := turns[:len(turns)-1], turns[len(turns)-1]
		for _, turn := range told {
			feed(t, l, turn, true)
		}
		seen := rapid.IntRange(0, len(last)-1).Draw(t, "seen")
		before, _ := feed(t, l, last[:seen], false)
		l.RecordDelivered()
		l.BeginReplay()
		var sent []byte
		ok := true
		for _, turn := range again {
			var more []byte
			if more, ok = feed(t, l, turn, false); len(more) > 0 || !ok {
				sent = more
				break
			}
		}
		want := same(told, again, last, again[len(again)-1], seen)
		if ok != want {
			t.Fatalf("told %v and %d of %v\nagain %v\nok %v, want %v: %+v", told, seen, last, again, ok, want, l.Difference())
		}
		if !ok {
			if d := l.Difference(); d.First < 1 || d.Last < d.First {
				t.Fatalf("difference %+v", d)
			}
			return
		}
		got, others := essence(split(append(before, sent...)))
		whole, othersWhole := essence(again[len(again)-1])
		if !slices.Equal(got, whole) || others != othersWhole {
			t.Fatalf("the client was sent %q and %q, want %v", before, sent, again[len(again)-1])
		}
	})
}
