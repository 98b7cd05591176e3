package pin

import (
	"bytes"

	"github.com/sluice-proxy/sluice/rewrite"
)

// Tx says which replays of a transaction its session's pins allow. The zero Tx allows every replay.
//
// After a pin, a transaction is not replayed for a lost backend or a data conflict, since the pinning statement may
// have run. Only OC001 (a schema conflict) proves that the statement has not run.
//
// If the session was pinned before the transaction began, a replay is possible only after OC001, on the same backend.
// OC001 leaves the backend's state intact. After other failures, a rollback may not have restored that state.
type Tx struct {
	// pins means that the transaction's current statement pins the session.
	pins bool
	// held means that the session was pinned before the transaction.
	held bool
}

// RecordPinned records that the transaction begins in a pinned session.
func (x *Tx) RecordPinned() { x.held = true }

// RecordSole records that the session is about to send a statement for which State.IsSole is true.
func (x *Tx) RecordSole() { x.pins = true }

// Pins reports whether the current statement of the transaction pins the session.
func (x *Tx) Pins() bool { return x.pins }

// IsHeld reports whether the session was pinned before the transaction, so that a replay needs the same backend.
func (x *Tx) IsHeld() bool { return x.held }

// ReplaysOnlyForSchema reports whether only OC001, a change of the schema, allows a replay of the transaction.
func (x *Tx) ReplaysOnlyForSchema() bool { return x.pins || x.held }

// ReplaysAnywhere reports whether the transaction may be replayed on any backend, not only on a pinned one. logged
// means that the transaction's log allows a replay.
func (x *Tx) ReplaysAnywhere(logged bool) bool { return logged && !x.held }

// EndsReplay reports whether the transaction can no longer be replayed, because the plan's statement, which pinned
// the session, has run. A replay would not find the state that the statement left.
func (x *Tx) EndsReplay(plan *rewrite.Plan) bool {
	if !x.pins || plan.Pin == rewrite.NoPin {
		return false
	}
	x.pins = false
	return true
}

// TagEndsReplay reports whether a statement with this command tag makes a later replay impossible. In a pinned
// session these are FETCH, MOVE, CLOSE, DEALLOCATE and DISCARD. A rollback does not undo what they do to WITH HOLD
// cursors and prepared statements.
func (x *Tx) TagEndsReplay(tag []byte) bool {
	if !x.held {
		return false
	}
	word, _, _ := bytes.Cut(tag, []byte(" "))
	switch string(word) {
	case "FETCH", "MOVE", "CLOSE", "DEALLOCATE", "DISCARD":
		return true
	}
	return false
}

// IsSole reports whether the plan's single statement pinned the session and leaves nothing if it fails. If so, a
// replay after OC001 is possible, since the statement has not run. The replay runs earlier statements of the block
// again, which restores the state that they left.
func (p *State) IsSole(t *Turn, x *Tx, plan *rewrite.Plan) bool {
	return p.pinned && (t.only || x.held) && len(plan.Statements) == 1 && leavesNothing[plan.Pin]
}

// UnpinForReplay removes the pin of a statement that failed with OC001, before its replay. The session is pinned again
// when the replay sends the statement.
func (p *State) UnpinForReplay(t *Turn, x *Tx, pins *Counter) {
	if x.pins && p.pinned && !x.held {
		p.pinned, t.only = false, false
		pins.Release()
	}
}
