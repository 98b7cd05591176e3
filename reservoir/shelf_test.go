package reservoir

import (
	"testing"
	"time"
)

func TestWhatIsDue(t *testing.T) {
	t.Parallel()
	// Due from 100 on, guarded from 110 on, at its end at 150.
	tests := []struct {
		name    string
		now     time.Duration
		ready   int // c included
		target  int
		dialing int
		marked  int // others that wait for their replacement
		reason  CloseReason
		marks   bool
	}{
		{name: "young", now: 99, ready: 10, target: 10},
		{name: "young and surplus", now: 99, ready: 12, target: 10},
		{name: "all slots taken", now: 100, ready: 20, target: 20, reason: Aged},
		{name: "all slots taken, one missing", now: 100, ready: 19, target: 20, dialing: 1, reason: Aged},
		{name: "all slots taken, a batch missing", now: 100, ready: 18, target: 20, dialing: 2},
		{name: "slots left", now: 100, ready: 10, target: 10, marks: true},
		{name: "slots left, one is being replaced", now: 100, ready: 10, target: 10, dialing: 1, marked: 1, marks: true},
		{name: "slots left, a batch is being replaced", now: 100, ready: 10, target: 10, dialing: 2, marked: 2},
		{name: "its replacement is there", now: 100, ready: 11, target: 10, reason: Aged},
		{name: "dials fail", now: 109, ready: 8, target: 10},
		{name: "guarded", now: 110, ready: 8, target: 10, reason: Guarded},
		{name: "at its end", now: 150, ready: 8, target: 10, reason: Aged},
	}
	for _, tt := range tests {
		s := poolState{maxOpen: 20, target: tt.target, batch: 2, dialing: tt.dialing, replacing: tt.marked, horizon: tt.now}
		c := &Conn{retireAt: 100, guardAt: 110, endAt: 150}
		s.putReturned(c)
		for range tt.ready - 1 {
			s.putReturned(&Conn{})
		}
		reason, due := s.shouldRetire(c)
		if reason != tt.reason || due != (tt.reason != "") || c.replacing != tt.marks {
			t.Errorf("%s: %q, due %v, marked %v, want %q, marked %v", tt.name, reason, due, c.replacing, tt.reason, tt.marks)
		}
	}
}
