// Package pin has the rules for pinned sessions. A pinned session keeps its backend, because it may have left state
// there that no other backend has: a prepared statement, a temporary table, a lock.
//
// A State belongs to a session, a Turn to a turn of its client, and a Tx to a transaction. A Counter bounds the
// pinned sessions of a process. Package proxy pins a session before it sends a statement that may leave state. If the
// statement leaves none, package proxy removes the pin at the end of the turn, or at the statement's error.
//
// The package sends nothing. Package proxy returns or drops backends, and runs transactions again.
package pin

import (
	"sync/atomic"

	"github.com/sluice-proxy/sluice/proxy/leftover"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Counter counts the pinned sessions of a process, up to a limit. It is safe for concurrent use.
type Counter struct {
	pinned atomic.Int64
	limit  int64
}

// NewCounter returns a Counter for at most limit pinned sessions.
func NewCounter(limit int) *Counter { return &Counter{limit: int64(limit)} }

// Pinned returns the number of pinned sessions.
func (c *Counter) Pinned() int { return int(c.pinned.Load()) }

// Reserve counts one more pinned session and returns true, or returns false if the limit is reached.
func (c *Counter) Reserve() bool {
	if c.pinned.Add(1) <= c.limit {
		return true
	}
	c.pinned.Add(-1)
	return false
}

// Release ends the count of one session that Reserve has counted.
func (c *Counter) Release() { c.pinned.Add(-1) }

// State says whether a session is pinned, so that it must retain its backend.
type State struct {
	pinned bool
	// lost means that the pinned backend and its state are lost, or that the limit allowed no pin for such state. The
	// session ends after the turn.
	lost bool
	// found means that the session is pinned for state that no statement showed: a query to the backend found it.
	found bool
	// reserved says whether one feature alone needs the pin (PinReserved).
	reserved reservation
	// leaves means that the session gives its backend up at the end of its transaction, though it is pinned.
	leaves bool
}

// reservation says whether a session is pinned for one feature alone, and whether that feature still needs the pin.
type reservation uint8

const (
	notReserved reservation = iota
	needed
	useless
)

// Turn describes the pin that the client's current turn has made. The zero Turn is that of a turn without a pin.
type Turn struct {
	// only means that the turn's only statement pinned the session and leaves no state if it fails.
	only bool
	// fresh means that this turn pinned the session, and that exactly one of its texts needed the pin.
	fresh bool
	// unread means that this turn pinned the session, only for a text that Sluice could not parse.
	unread bool
	// left says what state the unparsed text may have left on the backend.
	left leftover.Scanner
}

// Statement describes the text for which a session is pinned.
type Statement struct {
	// Plan is the plan of the text.
	Plan *rewrite.Plan
	// IsDSQL means that the server is DSQL, which refuses advisory locks.
	IsDSQL bool
	// EndsTurn means that the client sends nothing after the text in this turn.
	EndsTurn bool
}

// leavesNothing lists the reasons for a pin whose statement leaves nothing on the backend if it fails, because the
// rollback removes everything. A session lock is not listed, since the lock remains after an error.
var leavesNothing = map[rewrite.PinReason]bool{rewrite.PinPrepare: true, rewrite.PinListen: true,
	rewrite.PinHoldCursor: true, rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinRole: true}

// isUndone reports whether the rollback of a failed turn removes all state that the statement leaves. A PREPARE
// remains even if another statement before the same Sync fails, so its pin must remain.
func (st *Statement) isUndone() bool {
	why := st.Plan.Pin
	nothing := leavesNothing[why] || why == rewrite.PinAdvisory && st.IsDSQL
	return len(st.Plan.Statements) == 1 && nothing && (why != rewrite.PinPrepare || st.EndsTurn)
}

// IsPinned reports whether the session is pinned.
func (p *State) IsPinned() bool { return p.pinned }

// IsLost reports whether the session ends after its turn, because its state is lost.
func (p *State) IsLost() bool { return p.lost }

// IsFound reports whether the session is pinned for state that only a query to the backend has found.
func (p *State) IsFound() bool { return p.found }

// Pin pins the session for the text st of the turn t, because the text's plan has a Pin. added is false if the
// session was pinned already. ok is false if pins allows no more. In that case the caller must not send the text.
func (p *State) Pin(t *Turn, st *Statement, pins *Counter) (added, ok bool) {
	p.found, p.reserved = false, notReserved
	undone := st.isUndone()
	if p.pinned { // a multi-statement query may leave state even if one of its statements fails
		t.only, t.unread, t.fresh = t.only && undone, false, false
		return false, true
	}
	if !pins.Reserve() {
		return false, false
	}
	p.pinned = true
	t.only, t.unread, t.fresh = undone, st.Plan.Pin == rewrite.PinUnparsed, true
	return true, true
}

// PinReserved pins the session for one feature, after Counter.Reserve has counted the session.
func (p *State) PinReserved() { p.pinned, p.reserved = true, needed }

// SetUseless records whether the feature that called PinReserved no longer needs the pin. It does nothing for a
// session that is pinned for more than that feature.
func (p *State) SetUseless(isUseless bool) {
	switch {
	case p.reserved == notReserved:
	case isUseless:
		p.reserved = useless
	default:
		p.reserved = needed
	}
}

// GiveUpAtEnd records that the session gives its backend up at the end of its transaction. IsGivenUp reports whether
// it was called, so that the transaction must not pin the session again.
func (p *State) GiveUpAtEnd()    { p.leaves = true }
func (p *State) IsGivenUp() bool { return p.leaves }

// MustGiveUp reports whether the session must give its backend up at the end of its transaction.
func (p *State) MustGiveUp() bool { return p.reserved == useless || p.leaves }

// RecordFound records whether the session is pinned for state that only a query to the backend has found.
func (p *State) RecordFound(found bool) { p.found = found }

// RecordLoss records that the session's state is lost or must not reach another session. A pin remains.
func (p *State) RecordLoss() { p.lost = true }

// Lose records that a pinned session is about to lose its backend, and thus state. For a session that is not pinned
// it does nothing.
func (p *State) Lose(pins *Counter) {
	if p.pinned {
		*p = State{lost: true}
		pins.Release()
	}
}

// Drop removes the session's pin, if any, because the session gives up its backend, or its state there is gone.
func (p *State) Drop(pins *Counter) {
	if p.pinned {
		pins.Release()
	}
	*p = State{lost: p.lost}
}

// EndSession removes a pinned session from the count of pins. The session stays pinned while it ends.
func (p *State) EndSession(pins *Counter) {
	if p.pinned {
		pins.Release()
	}
}

// UnpinFailed removes the pin of the failed turn t if its statement left no state, and reports whether it did so.
func (p *State) UnpinFailed(t *Turn, pins *Counter) bool {
	if t.only {
		p.unpin(t, pins)
		return true
	}
	return false
}

// UnpinUnparsed removes the pin of an unparsed text that ran if its words and command tags show that it left no
// state. It reports whether it did so. Functions of the text may still have changed settings of the backend.
func (p *State) UnpinUnparsed(t *Turn, pins *Counter) bool {
	if p.pinned && t.unread && t.left.LeavesNothing() {
		p.unpin(t, pins)
		return true
	}
	return false
}

// unpin removes the pin that the current turn made, so that the session may return its backend.
func (p *State) unpin(t *Turn, pins *Counter) {
	p.pinned, t.only, t.fresh, t.unread = false, false, false, false
	pins.Release()
}

// IsUnread reports whether only unparsed text pinned the session in this turn. If so, the caller passes it to Scan.
func (t *Turn) IsUnread() bool { return t.unread }

// Scan checks the next piece of an unparsed text that pinned the session.
func (t *Turn) Scan(piece []byte) { t.left.ScanPiece(piece) }

// RecordTag records the command tag of a statement of an unparsed text that pinned the session.
func (t *Turn) RecordTag(tag []byte) { t.left.RecordTag(tag) }
