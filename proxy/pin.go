package proxy

import (
	"bytes"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Pins: a session keeps its backend from the moment at which it may have left something
// there that no other backend has. admit pins for a statement that is about to be sent,
// noteRole for what a server reports. acquireForSequences makes pins of its own.

// pin keeps the backend, which is lent, for the rest of the session, for the reason that the plan gives. With an error,
// for the client, there are too many pins: the plan must not be sent. The pin comes before the statement has run; where
// that one turns out to have left nothing, settle or replyError takes the pin back.
func (s *session) pin(plan *rewrite.Plan) error {
	why := plan.Pin
	if why == rewrite.NoPin {
		return nil
	}
	s.found = false
	s.sequences.ClearOwn() // more than numbers of sequences is kept there
	s.mapped.lost = s.mapped.lost && s.pinned || hidesPath[why]
	// PREPARE stays when another statement of its Sync group fails.
	nothing := leavesNothing[why] || why == rewrite.PinAdvisory && s.srv.cfg.Kind != Postgres // DSQL refuses it
	undone := len(plan.Statements) == 1 && nothing && (why != rewrite.PinPrepare || s.t.ended)
	// A text of several statements may have left something even where one of them fails.
	if s.pinned {
		s.t.pinnedByTurn, s.t.unreadPin, s.t.freshPin = s.t.pinnedByTurn && undone, false, false
		return nil
	}
	if !s.srv.takePin() {
		return errTooManyPins(s.srv.cfg.MaxPins, pinNames[why])
	}
	s.pinned = true
	s.t.pinnedByTurn, s.t.unreadPin, s.t.freshPin = undone, why == rewrite.PinUnparsed, true
	s.srv.metrics.Pinned(pinNames[why])
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", pinNames[why])...)
	return nil
}

// takePin counts one more session that keeps its backend, unless there are as many as may be.
func (srv *Server) takePin() bool {
	if srv.pinned.Add(1) <= int64(srv.cfg.MaxPins) {
		return true
	}
	srv.pinned.Add(-1)
	return false
}

// leavesNothing holds the reasons of a pin that a failed statement undoes, since its transaction takes back what it
// did. A session lock, for one, stays when the statement that took it fails.
var leavesNothing = map[rewrite.Pin]bool{rewrite.PinPrepare: true, rewrite.PinListen: true,
	rewrite.PinHoldCursor: true, rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinRole: true}

// unpinFailed takes the pin of a text back whose error shows that it has left nothing: head is what
// the error answers. In a block the backend stays until the block ends, and then goes back.
func (s *session) unpinFailed(head *owed, payload []byte) {
	if !s.pinned || !s.t.freshPin && !s.t.unreadPin {
		return
	}
	if s.t.unreadPin {
		// A text that the server does not understand either has left nothing on the backend.
		if left := &s.t.left; left.Tags() == 0 && notParsed(head, payload) || inItself(payload) && left.LeavesNothing() {
			s.unpin()
		}
		s.t.unreadPin = false // what a function was about when it failed is not known
		return
	}
	if st := s.failedAlone(head); st != nil && (st.Pin == rewrite.NoPin || s.notBegun(payload)) {
		s.unpin()
	}
}

// failedAlone is the statement that has failed, of the text that made the session keep its backend,
// whose statements in front of it leave nothing there; nil for others, and where it cannot be told.
func (s *session) failedAlone(head *owed) *rewrite.Statement {
	plan, n := head.plan, 0
	if plan == nil && head.tmpl != nil {
		plan = head.tmpl.plan
	}
	if head.kind == wire.Query {
		n = s.t.statement
	}
	if plan == nil || plan.Pin == rewrite.NoPin || head.kind == wire.Query && s.t.strung != nil || n >= len(plan.Statements) {
		return nil
	}
	for i := range n {
		if plan.Statements[i].Pin != rewrite.NoPin {
			return nil
		}
	}
	return &plan.Statements[n]
}

// notBegun reports whether an error says that its statement has not begun to run: DSQL has refused it as it stands
// (0A000), or a server found a name or a type wrong that stands in the text. That holds also for those that
// leavesNothing lacks: DO, CALL and LOAD, which leave something where they fail in the middle.
func (s *session) notBegun(payload []byte) bool {
	code := string(retry.Field(payload, 'C'))
	return s.srv.cfg.Kind == DSQL && code == retry.StateUnsupported ||
		strings.HasPrefix(code, "42") && retry.Field(payload, 'P') != nil && inItself(payload)
}

// inItself reports whether an error is that of a client's statement and of nothing that runs inside it.
func inItself(payload []byte) bool {
	return retry.Field(payload, 'q') == nil && retry.Field(payload, 'W') == nil
}

// unparsedRan records the tag of a statement of a text that nobody has read.
func unparsedRan(s *session, o *owed, _ *rewrite.Statement, tag []byte) {
	if s.t.unreadPin && o.plan.Pin == rewrite.PinUnparsed {
		s.t.left.Ran(tag)
	}
}

// unpinUnread takes the pin of a text back that nobody has read, and that has run: by its words and
// tags it has left nothing. Settings that its functions may have made are reset.
func (s *session) unpinUnread() {
	if s.pinned && s.t.unreadPin && s.t.left.LeavesNothing() {
		s.unpin()
		s.b.unsure = s.b.unsure || s.srv.cfg.Reset != ResetNever
	}
}

// unpin takes the pin of the turn at hand back.
func (s *session) unpin() {
	s.pinned, s.t.pinnedByTurn, s.t.freshPin, s.t.unreadPin = false, false, false, false
	s.srv.pinned.Add(-1)
}

// pinsAlone reports whether the statement at hand, which is a text's only one, is what has the
// session keep its backend from now on, and leaves nothing there where it fails. A change of the
// schema (OC001) is told of the statement itself: then it has not run. What an earlier statement
// of a block has left, a replay finds again, since that statement is run again.
func (s *session) pinsAlone(plan *rewrite.Plan) bool {
	return s.pinned && (s.t.pinnedByTurn || s.tx.held) && len(plan.Statements) == 1 && leavesNothing[plan.Pin]
}

// A loss of the backend is another matter: nobody knows whether the statement has run by then,
// and a conflict over rows may come behind its work. Both are refused as they were.

// unpinForReplay takes the pin of a statement back that has failed, since the schema has
// changed, and is run again: where it is sent once more, it pins anew (repin).
func (s *session) unpinForReplay() {
	if s.tx.pins && s.pinned && !s.tx.held {
		s.pinned, s.t.pinnedByTurn = false, false
		s.srv.pinned.Add(-1)
	}
}

// repin pins the session for a statement of the turn in progress that is about to be sent once
// more. Where there are too many pins by now, the attempt is over.
func (s *session) repin(plan *rewrite.Plan) {
	if s.tx.pins && plan != nil && plan.Pin != rewrite.NoPin && s.pin(plan) != nil {
		s.t.fail(retry.Pinned)
	}
}

// pinHolds is told that a statement has run to its end. What it has left on the backend no other attempt would find.
func (s *session) pinHolds(plan *rewrite.Plan) {
	if s.tx.pins && plan.Pin != rewrite.NoPin {
		s.tx.pins = false
		s.tx.log.Refuse(retry.Pinned)
	}
}

// A transaction of a session that keeps its backend already is run again for OC001 on that backend,
// which lives and keeps what the session has there. For no other reason: nothing is known of what
// the session has there that a rollback does not take back.

// onlyForSchema reports whether the transaction may be run again for a change of the schema alone.
func (s *session) onlyForSchema() bool { return s.tx.pins || s.tx.held }

// runsAnywhere reports whether the transaction may be run again, on any backend.
func (s *session) runsAnywhere() bool { return s.tx.log.Replayable() && !s.tx.held }

// holdsOn reports whether a session that keeps its backend still has it, before its transaction is
// run again there. Without it the session ends.
func (s *session) holdsOn() bool {
	if s.tx.held && s.b == nil {
		s.losePin()
		return false
	}
	return true
}

// staysHeld reports whether a session that kept its backend before keeps it behind a refused replay:
// where the backend stands, in a failed block or in none, as the client is told. Where the client is
// in a block, one is begun, and made to fail. Else the session ends.
func (s *session) staysHeld(after byte) bool {
	if !s.tx.held || s.b == nil || s.state == replaying && s.move(resumed) != nil || s.state != busy {
		return false
	}
	if s.settleCancel(); s.b == nil { // one that is on its way must not hit what comes next
		return false
	}
	return s.standAt(after)
}

// foundStays is staysHeld for a session whose functions have left something at the backend in the transaction, which is
// rolled back: it keeps the backend from now on. With false the backend is given back, or is gone.
func (s *session) foundStays(after byte) bool {
	if s.b == nil || !s.srv.asksBehind || s.state == replaying && s.move(resumed) != nil || s.state != busy {
		return false
	}
	s.lookBehind()
	return s.b != nil && s.pinned && s.standAt(after)
}

// standAt has the backend, which is in no transaction or in the failed block that the client is in, stand where the client
// is told that it stands.
func (s *session) standAt(after byte) bool {
	for _, step := range []struct {
		in   byte
		text string
	}{{'I', "BEGIN"}, {'T', "SELECT 1/0"}} {
		if after != 'E' || s.b.status != step.in {
			continue
		}
		if _, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, step.text)); err != nil {
			return false
		}
	}
	return s.b.status == after
}

// tagHolds is told of a statement's tag. Where a cursor that outlives its transaction stands, and which statements are
// prepared, a rollback does not take back: behind such a statement the transaction is not run again.
func (s *session) tagHolds(tag []byte) {
	if !s.tx.held {
		return
	}
	word, _, _ := bytes.Cut(tag, []byte(" "))
	switch string(word) {
	case "FETCH", "MOVE", "CLOSE", "DEALLOCATE", "DISCARD":
		s.tx.log.Refuse(retry.Pinned)
	}
}

// losePin says that a pinned backend is going, and with it the state that the session had there: the session ends once
// the turn has been answered. Of a session that is not pinned it takes no notice.
func (s *session) losePin() {
	if s.pinned {
		s.pinned, s.found, s.pinLost = false, false, true
		s.sequences.ClearOwn()
		s.srv.pinned.Add(-1)
	}
}

// pinNames name the reasons of a pin, for the metric and the log.
var pinNames = map[rewrite.Pin]string{
	rewrite.PinPrepare: metrics.PinPrepare, rewrite.PinListen: metrics.PinListen,
	rewrite.PinHoldCursor: metrics.PinHoldCursor, rewrite.PinTemp: metrics.PinTemporary,
	rewrite.PinAdvisory: metrics.PinAdvisoryLock, rewrite.PinSetConfig: metrics.PinSetConfig,
	rewrite.PinSequence: metrics.PinSequence, rewrite.PinSeed: metrics.PinSeed,
	rewrite.PinLoad: metrics.PinLoad, rewrite.PinProcedural: metrics.PinProcedural,
	rewrite.PinUnparsed: metrics.PinUnparsed, rewrite.PinRole: metrics.PinRole,
}
