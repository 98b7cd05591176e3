package proxy

import (
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
)

// This file has Sluice's own statement timeout, and the part of a turn that can be cancelled. A timeout or a cancel
// ends a read from the backend, and onReadDeadline (cancel.go) finds the reason.

// beginCancellable begins the part of a turn that can be cancelled and timed out: the turn waits for a backend, or for
// its answer. An odd tick shows that to the sweeper, which checks waiting sessions.
func (s *session) beginCancellable() {
	s.tick.Store(s.tick.Load() | 1)
	s.startStatementTimeout()
}

// armStatementTimeout sets the backend's read deadline to the end of the statement timeout. After the end of the
// timeout, it returns an error for the client, and the session still has its backend.
func (s *session) armStatementTimeout() error {
	deadline := s.t.deadline
	if deadline.IsZero() {
		return nil
	}
	if !time.Now().Before(deadline) {
		s.consumeCancel(errTimedOut)
		return errTimedOut
	}
	s.armReadDeadline()
	return nil
}

// armReadDeadline sets the backend's read deadline to the next event of the session: the statement timeout, the end of
// hold_time, the end of CancelGrace. Code that has set another deadline must call it afterwards.
func (s *session) armReadDeadline() { s.armReadDeadlineBy(time.Time{}) }

// armReadDeadlineBy sets the backend's read deadline to the session's next event (timeout, cancel), or to at if that is
// earlier and not zero.
func (s *session) armReadDeadlineBy(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armReadDeadlineLocked(at)
}

// armReadDeadlineLocked implements armReadDeadlineBy. The caller holds mu, since a cancel sets the same deadline under
// mu. The session must have its backend.
func (s *session) armReadDeadlineLocked(at time.Time) {
	at = earlierDeadline(at, earlierDeadline(s.t.deadline, s.t.holdEnd))
	if !s.cancel.requestedAt.IsZero() {
		at = earlierDeadline(at, s.cancel.requestedAt.Add(s.srv.cfg.CancelGrace))
	}
	s.b.conn.Net.SetReadDeadline(at)
}

// earlierDeadline returns the earlier of two times. The zero time means never.
func earlierDeadline(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// endCancellable ends the cancellable part of a turn, once the turn has been answered. A new value of tick tells the
// sweeper, which checks waiting sessions, that the session's next wait is a new one.
func (s *session) endCancellable() {
	if v := s.tick.Load(); v&1 == 1 {
		s.tick.Store(v + 1)
	}
	s.disarmReadDeadline()
	if s.t != nil {
		s.t.deadline = time.Time{}
	}
}

// disarmReadDeadline removes the turn's read deadline from its backend. Most turns have none.
func (s *session) disarmReadDeadline() {
	if s.t != nil && !(s.t.deadline.IsZero() && s.t.holdEnd.IsZero()) {
		s.t.holdEnd = time.Time{}
		if s.b != nil {
			s.b.conn.Net.SetReadDeadline(time.Time{})
		}
	}
}

// startStatementTimeout starts Sluice's statement timeout, when the turn's first statement is about to wait or to be
// sent. A pipeline or multi-statement query has one timeout as a whole (docs/compatibility.md).
func (s *session) startStatementTimeout() {
	if t := s.t; s.settings.StatementTimeout() > 0 && !t.timeoutRunning {
		t.timeoutRunning = true
		t.deadline = time.Now().Add(s.settings.StatementTimeout())
	}
}

// serverTimeoutDeadline returns when a wait in Sluice has lasted as long as statement_timeout allows, since the server
// counts only from the end of that wait. If no timeout is set, or Sluice does not know it, the result is zero.
func (s *session) serverTimeoutDeadline() time.Time {
	value := s.settings.InForce.SQL["statement_timeout"]
	if value == "" || s.srv.treat.ForName("statement_timeout") != settings.Carried {
		return time.Time{}
	}
	d, refused := settings.ParseTimeout("statement_timeout", strings.Trim(value, "' "))
	if refused != nil || d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
