//go:build !race

package retry

import "testing"

// A usual transaction is logged, digested and looked through without
// allocating. (Under the race detector pools drop what they are given, at
// random.)
func TestNoAllocations(t *testing.T) {
	c := Defaults()
	logs, err := NewReplayLogPool[int](c)
	if err != nil {
		t.Fatal(err)
	}
	turn := newUsualTurn()
	held := NewHeldOutput(c.HeldBytes, NewByteQuota(c.HeldTotalBytes))
	budget, gate := NewBudget(c, new(clock).now), NewConflictGate(c)
	sent := 0
	count := func(piece []byte) error { sent += len(piece); return nil }
	for name, work := range map[string]func(){
		"log and replay": func() {
			l := logs.Open()
			for range 8 {
				turn.play(l)
			}
			l.RecordDelivered()
			l.BeginReplay()
			for i := range l.TurnCount() {
				frames := l.TurnFrames(i)
				for j := range frames {
					l.EachPayloadPiece(&frames[j], count)
				}
			}
			turn.play(l)
			l.Close()
		},
		"held output": func() {
			held.Add(turn.row)
			held.Each(count)
			held.Drop()
		},
		"the rest": func() {
			Classify([]byte("40001"), []byte("change conflicts with another transaction (OC000)"))
			HasNoRetryComment(turn.bind)
			NewContentionKey(gate, "UPDATE t", turn.bind)
			NewContentionKey(gate, turn.bind, turn.bind)
			gate.WaitIfContended(t.Context(), 1)
			budget.Take()
			budget.RecordCommit()
		},
	} {
		if n := testing.AllocsPerRun(200, work); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
