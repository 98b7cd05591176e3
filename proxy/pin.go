package proxy

import (
	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/rewrite"
)

// pin keeps the backend for the rest of the session.
func (s *session) pin(plan *rewrite.Plan) error {
	why := plan.Pin
	if why == rewrite.NoPin {
		return nil
	}
	s.own, s.void = false, false
	// PREPARE stays when another statement of its Sync group fails.
	undone := len(plan.Statements) == 1 && leavesNothing[why] && (why != rewrite.PinPrepare || s.t.ended)
	if s.pinned {
		s.t.pinnedByTurn, s.t.unreadPin = s.t.pinnedByTurn && undone, false
		return nil
	}
	if n := s.srv.pinned.Add(1); n > int64(s.srv.cfg.MaxPins) {
		s.srv.pinned.Add(-1)
		return errTooManyPins(s.srv.cfg.MaxPins, pinNames[why])
	}
	s.pinned = true
	s.t.pinnedByTurn, s.t.unreadPin = undone, why == rewrite.PinUnparsed
	s.srv.metrics.Pinned(pinNames[why])
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", pinNames[why])...)
	return nil
}

// leavesNothing holds the reasons of a pin that a failed statement undoes. A
// session lock, for one, stays when the statement that took it fails.
var leavesNothing = map[rewrite.Pin]bool{rewrite.PinPrepare: true, rewrite.PinListen: true,
	rewrite.PinHoldCursor: true, rewrite.PinTemp: true, rewrite.PinSetConfig: true, rewrite.PinRole: true}

// losePin says that a pinned backend is going, and with it the state that the
// session had there: the session ends once the turn has been answered.
func (s *session) losePin() {
	if s.pinned {
		s.pinned, s.own, s.void, s.pinLost = false, false, false, true
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
