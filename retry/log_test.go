package retry

import (
	"slices"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// content is what a log holds of turn i, in plain form.
func content(l *ReplayLog[int], i int) (got []string) {
	frames := l.TurnFrames(i)
	for j := range frames {
		payload := []byte{}
		l.EachPayloadPiece(&frames[j], func(piece []byte) error { payload = append(payload, piece...); return nil })
		if len(payload) != frames[j].Len() {
			return []string{"length"}
		}
		got = append(got, string(frames[j].Type)+strconv.Itoa(frames[j].Note)+string(payload))
	}
	return got
}

var readyInBlock = reply{typ: 'Z', payload: []byte("T")}.frame()

func TestLogKeepsFramesAndSavepoints(t *testing.T) {
	t.Parallel()
	logs := newLogs(t)
	rapid.Check(t, func(t *rapid.T) {
		l := logs.Open()
		defer l.Close()
		type turn struct {
			frames        []string
			wrote, failed bool
		}
		var turns []turn
		var names []string
		var positions []int
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			last := -1
			for i := range names {
				if names[i] == name {
					last = i
				}
			}
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				if !l.AddSavepoint(name) {
					t.Fatal("no savepoint")
				}
				names, positions = append(names, name), append(positions, len(turns))
			case 1:
				if l.FindSavepoint(name) != last {
					t.Fatal("release")
				}
				if last >= 0 {
					l.ReleaseSavepoint(last)
					names, positions = names[:last], positions[:last]
				}
			case 2:
				if rapid.Bool().Draw(t, "failed") {
					l.RecordFrame('Q', 0, 10, 0)
					l.AppendPayload(make([]byte, 10))
					l.RefuseReplay(Failed) // what was sent last is forgotten, with all if there is no savepoint
					if l.CanRollbackTo() != (len(names) > 0) || l.RecordFrame('Q', 0, 10, 0) || l.AddSavepoint("c") {
						t.Fatal("after a failure")
					}
					if len(names) == 0 {
						return
					}
					if last < 0 {
						last = rapid.IntRange(0, len(names)-1).Draw(t, "savepoint")
					}
				}
				if last >= 0 {
					l.RollbackTo(last)
					names, positions = names[:last+1], positions[:last+1]
					keep := positions[last]
					for keep < len(turns) && !turns[keep].wrote && !turns[keep].failed {
						keep++
					}
					turns = turns[:keep]
				}
			default:
				var new turn
				for i := range rapid.IntRange(0, 4).Draw(t, "frames") {
					payload := drawPayload(t, 2*chunkSize)
					if !l.RecordFrame('Q', i, len(payload), 0) {
						t.Fatalf("refused: %v", l.RefusalReason())
					}
					half := rapid.IntRange(0, len(payload)).Draw(t, "half")
					l.AppendPayload(payload[:half])
					l.AppendPayload(payload[half:])
					new.frames = append(new.frames, "Q"+strconv.Itoa(i)+string(payload))
				}
				if new.wrote = rapid.Bool().Draw(t, "wrote"); new.wrote {
					l.RecordWrite()
				}
				if !slices.Equal(content(l, l.TurnCount()), new.frames) {
					t.Fatal("the turn in progress is not what was sent")
				}
				if new.failed = rapid.Bool().Draw(t, "failed"); new.failed {
					l.RecordReply('E', errorFrame("C23505\x00\x00"))
				}
				l.RecordReply('Z', readyInBlock)
				turns = append(turns, new)
			}
			charged := 0
			for i, turn := range turns {
				if !slices.Equal(content(l, i), turn.frames) {
					t.Fatalf("turn %d is not what was sent", i)
				}
				charged += turnCost
				for _, f := range turn.frames {
					charged += len(f) - 2 + frameOverhead[int]()
				}
			}
			for _, name := range names {
				charged += savepointCost + len(name)
			}
			if l.TurnCount() != len(turns) || l.CurrentTurn() != len(turns) || l.charged != charged || l.data.n > charged || l.SavepointCount() != len(names) {
				t.Fatalf("%d turns and %d bytes charged, want %d and %d", l.TurnCount(), l.charged, len(turns), charged)
			}
			if used := logs.Used(); used < int64(charged) || used%chunkSize != 0 {
				t.Fatalf("%d bytes used of %d charged", used, charged)
			}
		}
	})
	if logs.Used() != 0 {
		t.Fatalf("%d bytes leaked", logs.Used())
	}
}

func TestLogBounds(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.LogBytes, c.LogTotalBytes = 2*chunkSize, 3*chunkSize
	logs, err := NewReplayLogPool[int](c)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		fill func(l *ReplayLog[int])
	}{
		{"one large frame", func(l *ReplayLog[int]) { l.RecordFrame('B', 0, 2*chunkSize, 0) }},
		{"many small frames", func(l *ReplayLog[int]) {
			for range 2 * chunkSize / frameOverhead[int]() {
				l.RecordFrame('S', 0, 0, 0)
			}
			l.RecordFrame('S', 0, 0, 0)
		}},
		{"many turns", func(l *ReplayLog[int]) {
			for range 2*chunkSize/turnCost + 1 {
				if _, ok := l.RecordReply('Z', readyInBlock); !ok {
					t.Error("differs outside a replay")
				}
			}
		}},
		{"many savepoints", func(l *ReplayLog[int]) {
			for range 2 * chunkSize / savepointCost {
				l.AddSavepoint("s")
			}
		}},
	} {
		l := logs.Open()
		names := test.name == "many savepoints" // they are kept
		if test.fill(l); l.RefusalReason() != LogFull || l.Replayable() || l.CanRollbackTo() || l.BeginReplay() || (logs.Used() != 0) != names {
			t.Errorf("%s: refused for %q, %d bytes still held", test.name, l.RefusalReason(), logs.Used())
		}
		// From now on it notes nothing and lets everything pass.
		if l.RecordFrame('Q', 0, 1, 0) || l.AddSavepoint("a") {
			t.Errorf("%s: goes on logging", test.name)
		}
		l.AppendPayload([]byte("x"))
		if drop, ok := l.RecordReply('Z', readyInBlock); drop != 0 || !ok || l.TurnCount() != 0 || l.CurrentTurn() != 0 {
			t.Errorf("%s: drop %d, ok %v", test.name, drop, ok)
		}
		if names && l.FindSavepoint("s") != l.SavepointCount()-1 {
			t.Errorf("%s: %d", test.name, l.SavepointCount())
		}
		l.Close()
	}
	a, b := logs.Open(), logs.Open()
	a.RecordFrame('Q', 0, chunkSize, 0)
	if b.RecordFrame('Q', 0, chunkSize, 0) || b.RefusalReason() != MemoryFull {
		t.Errorf("the bound of all logs: refused for %q", b.RefusalReason())
	}
	a.Close()
	b.Close()
	if c := logs.Open(); !c.Replayable() || !c.HasDeliveredNothing() || c.TurnCount() != 0 || len(c.TurnFrames(0)) != 0 || logs.Used() != 0 {
		t.Errorf("a log is not as new: %v", c.RefusalReason())
	}
}

// Logs are shared by sessions: pool, chunks and bound hold under that.
func TestLogsInParallel(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.LogTotalBytes = c.LogBytes
	logs, err := NewReplayLogPool[int](c)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			payload := slices.Repeat([]byte{byte(i)}, 3*chunkSize)
			for range 500 {
				l := logs.Open()
				for j := 0; j < 8 && l.RecordFrame('Q', j, len(payload), 0); j++ {
					l.AppendPayload(payload)
				}
				frames := l.TurnFrames(0)
				for j := range frames {
					l.EachPayloadPiece(&frames[j], func(piece []byte) error {
						if piece[0] != byte(i) || piece[len(piece)-1] != byte(i) {
							t.Error("another's bytes")
						}
						return nil
					})
				}
				if logs.Used() > int64(c.LogTotalBytes+8*3*chunkSize+8*chunkSize) {
					t.Error("over the bound")
				}
				l.Close()
			}
		})
	}
	all.Wait()
	if logs.Used() != 0 {
		t.Errorf("%d bytes leaked", logs.Used())
	}
}

func TestNoLog(t *testing.T) {
	t.Parallel()
	var l *ReplayLog[int]
	l.RefuseReplay(Pinned)
	l.AppendPayload(nil)
	l.RecordWrite()
	l.RecordDelivered()
	if drop, ok := l.RecordRows([]byte("D")); drop != 0 || !ok {
		t.Error("rows do not pass")
	}
	if drop, ok := l.RecordReply('Z', readyInBlock); drop != 0 || !ok || l.RecordLocalReply(5) != 0 {
		t.Error("replies do not pass")
	}
	if l.RecordFrame('Q', 0, 1, 0) || l.Replayable() || l.BeginReplay() || l.RefusalReason() == Replayable {
		t.Error("it can be replayed")
	}
	l.Close()
}

// A log that is refused while a replay catches up must not let pass what the
// client was told already.
func TestRefusedInAReplay(t *testing.T) {
	t.Parallel()
	row := reply{typ: 'D', payload: []byte("1")}.frame()
	for _, settled := range []bool{true, false} {
		l := newLogs(t).Open()
		l.RecordRows(row)
		if settled {
			l.RecordReply('Z', readyInBlock)
		} else {
			l.RecordDelivered()
		}
		l.BeginReplay()
		l.RefuseReplay(Cancelled)
		l.RefuseReplay(TimedOut)
		if _, ok := l.RecordRows(row); ok || l.RefusalReason() != Cancelled {
			t.Errorf("settled %v: rows pass, refused for %q", settled, l.RefusalReason())
		}
		if _, ok := l.RecordReply('C', errorFrame("")); ok || l.RecordLocalReply(5) != 5 {
			t.Errorf("settled %v: replies pass", settled)
		}
		l.Close()
	}
}

func TestDifferenceNamesTheStatement(t *testing.T) {
	t.Parallel()
	tag := func(tag string) reply { return reply{typ: 'C', payload: append([]byte(tag), 0)} }
	row := func(value string) reply { return reply{typ: 'D', payload: []byte(value)} }
	ready := reply{typ: 'Z', payload: []byte("T")}
	failure := reply{typ: 'E', payload: errorPayload("ERROR", "23505", "")}
	first := []reply{row("1"), tag("SELECT 1"), ready}
	for _, test := range []struct {
		name        string
		told, again []reply
		want        ReplayDifference
	}{
		{"a value", []reply{row("1"), tag("SELECT 1"), ready}, []reply{row("2"), tag("SELECT 1"), ready}, ReplayDifference{2, 2, Select, Values}},
		{"a row more", []reply{row("1"), tag("SELECT 1"), ready}, []reply{row("1"), row("1"), tag("SELECT 2"), ready}, ReplayDifference{2, 2, Select, Size}},
		{"an error", []reply{tag("INSERT 0 1"), ready}, []reply{failure, ready}, ReplayDifference{2, 2, Insert, Outcome}},
		{"another error", []reply{failure, ready}, []reply{{typ: 'E', payload: errorPayload("ERROR", "23503", "")}, ready}, ReplayDifference{2, 2, OtherVerb, Values}},
		{"another severity", []reply{{typ: 'N', payload: errorPayload("WARNING", "01000", "")}, ready},
			[]reply{{typ: 'N', payload: errorPayload("CAUTION", "01000", "")}, ready}, ReplayDifference{2, 2, OtherVerb, Values}},
		{"another text", []reply{failure, ready}, []reply{{typ: 'E', payload: errorPayload("ERROR", "23505", "line 2")}, ready}, ReplayDifference{}},
		{"what does not count", []reply{{typ: '1'}, {typ: '2'}, {typ: '3'}, {typ: 'S', payload: []byte("a\x00b\x00")}, {typ: 'A'}, row("1"), ready},
			[]reply{row("1"), ready}, ReplayDifference{}},
		{"several", []reply{tag("UPDATE 1"), tag("DELETE 1"), tag("DELETE 1"), ready},
			[]reply{tag("UPDATE 1"), tag("DELETE 1"), tag("DELETE 2"), ready}, ReplayDifference{2, 4, Update, Values}},
		{"no statement", []reply{{typ: 'n'}, ready}, []reply{{typ: 'T'}, ready}, ReplayDifference{2, 2, OtherVerb, Values}},
		{"the status", []reply{ready}, []reply{{typ: 'Z', payload: []byte("E")}}, ReplayDifference{2, 2, OtherVerb, Values}},
	} {
		l := newLogs(t).Open()
		play := func(turn []reply) (ok bool) {
			for _, r := range turn {
				if _, ok = l.RecordReply(r.typ, r.frame()); !ok {
					return false
				}
			}
			return ok
		}
		play(first)
		play(test.told)
		l.BeginReplay()
		if !play(first) || play(test.again) != (test.want == ReplayDifference{}) || l.Difference() != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, l.Difference(), test.want)
		}
		l.Close()
	}
}

// A turn that is cut in the middle of a Sync group is compared as one that settled.
func TestCut(t *testing.T) {
	t.Parallel()
	row := func(value string) []byte { return reply{typ: 'D', payload: []byte(value)}.frame() }
	for _, again := range []string{"1", "2", "12", ""} {
		l := newLogs(t).Open()
		l.RecordFrame('E', 0, 0, 0)
		l.RecordRows(row("1"))
		if !l.CutTurn() || l.TurnCount() != 1 || !l.IsCutTurn(0) || !l.AddSavepoint("a") {
			t.Fatal("not cut")
		}
		l.RecordFrame('E', 1, 0, 0)
		if l.RollbackDropsTurn(0, 1) != true || l.RollbackDropsTurn(0, 0) {
			t.Error("what a rollback forgets")
		}
		l.RollbackTo(0)
		l.BeginReplay()
		l.RecordRows(row(again))
		if ok := l.CutTurn(); ok != (again == "1") || ok != (l.CurrentTurn() == l.TurnCount()) || !ok && l.Difference().First != 1 {
			t.Errorf("again %q: %v, %+v", again, ok, l.Difference())
		}
		l.Close()
	}
}

// A turn that an error of the server ended stays in a log with a savepoint, to be compared by a replay. A rollback
// gives back what its frames were charged, also for memory besides their payloads.
func TestFailedTurnBehindASavepoint(t *testing.T) {
	t.Parallel()
	l := newLogs(t).Open()
	defer l.Close()
	if !l.AddSavepoint("a") {
		t.Fatal("no room")
	}
	before := l.Bytes()
	l.RecordFrame('Q', 0, 0, chunkSize)
	if got := l.Bytes(); got < before+chunkSize {
		t.Errorf("%d bytes, behind %d, with %d besides a frame", got, before, chunkSize)
	}
	l.RecordReply('E', errorFrame("C22012\x00\x00"))
	if l.RefuseReplay(Failed); l.TurnCount() != 1 || !l.EndedWithError(0) {
		t.Fatalf("%d turns", l.TurnCount())
	}
	if l.RollbackTo(0); l.Bytes() != before || l.TurnCount() != 0 {
		t.Errorf("%d bytes behind the rollback, want %d", l.Bytes(), before)
	}
}
