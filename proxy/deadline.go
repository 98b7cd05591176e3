package proxy

import (
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
)

// The statement timeout of a turn, where Sluice keeps that setting, and the part of a turn
// that can be cancelled. Both end reads from the backend; woken (cancel.go) looks for the
// reason.

// startWaiting begins the part of a turn that can be cancelled and timed out: it waits for
// its backend, or to have one. The sweeper is shown that it does, by an odd tick.
func (s *session) startWaiting() {
	s.tick.Store(s.tick.Load() | 1)
	s.startClock()
}

// armTimeout has the read from the backend end with the statement's time, which may be over
// already: then the error is for the client, and the backend is lent all the same.
func (s *session) armTimeout() error {
	deadline := s.t.deadline
	if deadline.IsZero() {
		return nil
	}
	if !time.Now().Before(deadline) {
		s.heeded(errTimedOut)
		return errTimedOut
	}
	s.alarmRead()
	return nil
}

// alarmRead sets the backend's read deadline to the next moment at which the session wants
// to look up: the statement's time, the end of hold_time, the grace of a cancel. Everybody
// who has moved that deadline for a purpose of its own sets it back by this.
func (s *session) alarmRead() { s.alarmBy(time.Time{}) }

// alarmBy is alarmRead for a session that wants to look up at that time at the latest; zero
// is no such time.
func (s *session) alarmBy(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmLocked(at)
}

// alarmLocked is alarmBy under mu, which a cancel takes to set the same deadline. The turn
// needs a backend.
func (s *session) alarmLocked(at time.Time) {
	at = earlier(at, earlier(s.t.deadline, s.t.holdEnd))
	if !s.cancel.asked.IsZero() {
		at = earlier(at, s.cancel.asked.Add(s.srv.cfg.CancelGrace))
	}
	s.b.conn.Net.SetReadDeadline(at)
}

// earlier is the earlier of two moments; a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// stopWaiting ends what startWaiting began, when the turn has been answered. The tick gets
// a new value, so that the sweeper takes the next wait for another one.
func (s *session) stopWaiting() {
	if v := s.tick.Load(); v&1 == 1 {
		s.tick.Store(v + 1)
	}
	s.disarm()
	if s.t != nil {
		s.t.deadline = time.Time{}
	}
}

// disarm takes the alarms of the turn off its backend. Where there are none, the common
// case, it leaves the deadline alone.
func (s *session) disarm() {
	if s.t != nil && !(s.t.deadline.IsZero() && s.t.holdEnd.IsZero()) {
		s.t.holdEnd = time.Time{}
		if s.b != nil {
			s.b.conn.Net.SetReadDeadline(time.Time{})
		}
	}
}

// startClock starts the time of a statement timeout that Sluice keeps, once a turn: when
// its first statement is about to wait or to be sent. A pipeline or string has one timeout
// as a whole (docs/compatibility.md).
func (s *session) startClock() {
	if t := s.t; s.settings.StatementTimeout() > 0 && !t.clocked {
		t.clocked = true
		t.deadline = time.Now().Add(s.settings.StatementTimeout())
	}
}

// carriedDeadline is when a wait of ours exceeds a statement timeout that the server keeps:
// the server does not know of the wait, and counts from zero behind it. Zero: never, or
// nobody knows.
func (s *session) carriedDeadline() time.Time {
	value := s.settings.InForce.SQL["statement_timeout"]
	if value == "" || s.srv.treat.Of("statement_timeout") != settings.Carried {
		return time.Time{}
	}
	d, refused := settings.Timeout("statement_timeout", strings.Trim(value, "' "))
	if refused != nil || d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
