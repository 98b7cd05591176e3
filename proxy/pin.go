package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file pins sessions (each to its backend) by the rules of package pin. admitPlan pins before it sends a
// statement, pinForRole when the server reports a role, and acquireForSequences for sequences.

// pinBackend keeps the session's backend until the session ends, because plan may leave state there. It is called
// before the statement runs. If the statement leaves nothing, Sluice removes the pin at the turn's end or at the
// server's error. If pinBackend returns an error, which goes to the client, the plan must not be sent.
func (s *session) pinBackend(plan *rewrite.Plan) error {
	why := plan.Pin
	if why == rewrite.NoPin {
		return nil
	}
	if s.pin.IsGivenUp() {
		return sqlerror.PinBehindDiscard
	}
	s.mapped.RecordPin(why, s.pin.IsPinned())
	added, ok := s.pin.Pin(&s.t.request.pin, &pin.Statement{Plan: plan, IsDSQL: s.srv.cfg.Kind != Postgres, EndsTurn: s.t.request.ended}, s.srv.pins)
	if !ok {
		return sqlerror.TooManyPins(s.srv.cfg.MaxPins, pinLabels[why])
	}
	if added {
		s.srv.metrics.CountPin(pinLabels[why])
		s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", pinLabels[why])...)
	}
	return nil
}

// unpinAfterError removes the pin if the error shows that the statement left nothing on the backend. head is the
// pending reply that the error answers.
func (s *session) unpinAfterError(head *pendingReply, payload []byte) {
	if !s.pin.MayUnpin(&s.t.request.pin) {
		return
	}
	plan, n := head.plan, 0
	if plan == nil && head.tmpl != nil {
		plan = head.tmpl.Plan
	}
	if head.kind == wire.Query {
		n = s.t.server.statement
	}
	e := pin.Failure{Payload: payload, IsSyntaxError: isSyntaxErrorInUnparsed(head, payload), IsDSQL: s.srv.cfg.Kind == DSQL}
	if head.kind != wire.Query || s.t.request.script == nil {
		e.Statement = pin.FailedStatement(plan, n)
	}
	s.pin.UnpinAfterError(&s.t.request.pin, &e, s.srv.pins)
}

// recordUnparsedTag records the command tag of a statement whose text Sluice could not parse.
func recordUnparsedTag(s *session, o *pendingReply, _ *rewrite.Statement, tag []byte) {
	if s.t.request.pin.IsUnread() && o.plan.Pin == rewrite.PinUnparsed {
		s.t.request.pin.RecordTag(tag)
	}
}

// repinForReplay pins the session for a statement that a replay is about to send, or fails the replay.
func (s *session) repinForReplay(plan *rewrite.Plan) {
	if s.tx.pin.Pins() && plan != nil && plan.Pin != rewrite.NoPin && s.pinBackend(plan) != nil {
		s.t.abandonAttempt(retry.Pinned)
	}
}

// hasPinnedBackend reports whether a pinned session still has its backend for a replay. If not, the session ends.
func (s *session) hasPinnedBackend() bool {
	if s.tx.pin.IsHeld() && s.b == nil {
		s.recordPinLoss()
		return false
	}
	return true
}

// keepPinAfterRefusal reports whether a session that was pinned before the transaction keeps its backend after a
// refused replay. after is the transaction status that the client gets. For 'E', bringToStatus makes a block fail on
// the backend. If the result is false, the session ends.
func (s *session) keepPinAfterRefusal(after byte) bool {
	if !s.tx.pin.IsHeld() || s.b == nil || s.state == replaying && s.applyEvent(resumed) != nil || s.state != busy {
		return false
	}
	if s.finishCancel(); s.b == nil { // the cancel must not hit the next statement
		return false
	}
	return s.b.bringToStatus(after)
}

// pinForLeftState pins a session if its functions left state on the backend during the transaction that was rolled
// back. after is the transaction status that the client gets. If the result is false, the session has no pin.
func (s *session) pinForLeftState(after byte) bool {
	if s.b == nil || !s.srv.pool.leftState.Enabled() || s.state == replaying && s.applyEvent(resumed) != nil || s.state != busy {
		return false
	}
	s.checkLeftState()
	return s.b != nil && s.pin.IsPinned() && s.b.bringToStatus(after)
}

// bringToStatus gives the backend, idle or in a failed block, the transaction status that the client gets. For
// 'E' it sends BEGIN and a statement that fails. It reports success.
func (b *backend) bringToStatus(after byte) bool {
	for _, step := range []struct {
		in   byte
		text string
	}{{'I', "BEGIN"}, {'T', "SELECT 1/0"}} {
		if after != 'E' || b.status != step.in {
			continue
		}
		if _, err := b.exchange(wire.AppendStrings(nil, wire.Query, step.text)); err != nil {
			return false
		}
	}
	return b.status == after
}

// recordPinLoss records that a pinned session is about to lose its backend, and thus state. The session ends after the
// turn is answered. For a session without a pin, recordPinLoss does nothing.
func (s *session) recordPinLoss() { s.pin.Lose(s.srv.pins) }

// releasePinned drops the session's own backend, because the server cannot discard the session's state on it. Unlike
// recordPinLoss, it lets the session continue with another backend. The caller changes the session's state.
func (s *session) releasePinned() {
	s.pin.Drop(s.srv.pins)
	s.dropBackend(reservoir.Pinned)
}

// pinLabels maps the reasons for pinning a session to their names in metrics and log.
var pinLabels = map[rewrite.PinReason]string{
	rewrite.PinPrepare: metrics.PinPrepare, rewrite.PinListen: metrics.PinListen,
	rewrite.PinHoldCursor: metrics.PinHoldCursor, rewrite.PinTemp: metrics.PinTemporary,
	rewrite.PinAdvisory: metrics.PinAdvisoryLock, rewrite.PinSetConfig: metrics.PinSetConfig,
	rewrite.PinSequence: metrics.PinSequence, rewrite.PinSeed: metrics.PinSeed,
	rewrite.PinLoad: metrics.PinLoad, rewrite.PinProcedural: metrics.PinProcedural,
	rewrite.PinUnparsed: metrics.PinUnparsed, rewrite.PinRole: metrics.PinRole,
}
