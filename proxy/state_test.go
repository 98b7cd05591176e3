package proxy

import "testing"

// Every pair that may occur, spelt out a second time: a change of the table
// must be made on purpose.
func TestTransitions(t *testing.T) {
	t.Parallel()
	rows := []struct {
		from sessionState
		e    sessionEvent
		to   sessionState
	}{
		{starting, started, idle}, {starting, settledHeld, inTransaction}, {starting, left, closing},
		{idle, beginAnswered, begun}, {idle, endAnswered, idle}, {idle, wanted, acquiring}, {idle, left, closing},
		{begun, beginAnswered, begun}, {begun, endAnswered, idle}, {begun, wanted, acquiring},
		{begun, refusedInBlock, failed}, {begun, lostInBlock, failed}, {begun, left, closing},
		{acquiring, lent, busy}, {acquiring, unlent, idle}, {acquiring, unlentInBlock, failed},
		{acquiring, lost, idle}, {acquiring, lostInBlock, failed}, {acquiring, left, closing},
		{busy, settledIdle, idle}, {busy, settledHeld, inTransaction}, {busy, lost, idle}, {busy, lostInBlock, failed},
		{busy, conflictMet, replaying}, {busy, left, closing},
		{replaying, resumed, busy}, {replaying, lost, idle}, {replaying, lostInBlock, failed}, {replaying, left, closing},
		{inTransaction, wanted, busy}, {inTransaction, settledHeld, inTransaction}, {inTransaction, settledIdle, idle}, {inTransaction, lost, idle},
		{inTransaction, lostInBlock, failed}, {inTransaction, left, closing},
		{failed, endAnswered, idle}, {failed, rolledBackTo, begun}, {failed, left, closing},
		{closing, left, closing},
	}
	allowed := map[[2]uint8]sessionState{}
	for _, r := range rows {
		allowed[[2]uint8{uint8(r.from), uint8(r.e)}] = r.to
	}
	for from := range stateCount {
		for e := range eventCount {
			want, ok := allowed[[2]uint8{uint8(from), uint8(e)}]
			got, gotOK := nextState(from, e)
			if gotOK != ok || ok && got != want {
				t.Errorf("next(%s, %s) = %s, %v; want %s, %v", from, e, got, gotOK, want, ok)
			}
		}
	}
}
