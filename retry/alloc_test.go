//go:build !race

package retry

import "testing"

// A usual transaction is logged, digested and looked through without
// allocating. (Under the race detector pools drop what they are given, at
// random.)
func TestNoAllocations(t *testing.T) {
	c := Defaults()
	logs, err := NewLogs[int](c)
	if err != nil {
		t.Fatal(err)
	}
	turn := newUsualTurn()
	held := NewHeld(c.HeldBytes, NewQuota(c.HeldTotalBytes))
	budget, gate := NewBudget(c, new(clock).now), NewGate(c)
	sent := 0
	count := func(piece []byte) error { sent += len(piece); return nil }
	for name, work := range map[string]func(){
		"log and replay": func() {
			l := logs.Open()
			for range 8 {
				turn.play(l)
			}
			l.Delivered()
			l.Rewind()
			for i := range l.Turns() {
				frames := l.Frames(i)
				for j := range frames {
					l.Payload(&frames[j], count)
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
			OptsOut(turn.bind)
			KeyOf(gate, "UPDATE t", turn.bind)
			KeyOf(gate, turn.bind, turn.bind)
			gate.Follow(t.Context(), 1)
			budget.Take()
			budget.Committed()
		},
	} {
		if n := testing.AllocsPerRun(200, work); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
