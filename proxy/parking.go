package proxy

import (
	"math"
	"time"
)

// This file parks sessions whose clients are silent for long, as most clients of a pool are. A parked session has no
// goroutine (rawconn.ParkedConns). When its client sends bytes, or another goroutine calls wake, a new goroutine
// continues the session. A parked session still counts in sessions and running.

// requestPark asks a session to park (to free its goroutine) after sweepsBeforePark sweeps (checks of all sessions)
// with the same tick (count of its waits). It does not call wake, which would continue a parked session. If the
// session goes on, requestPark asks again after as many sweeps.
func (srv *Server) requestPark(s *session, seen *sweepState, tick uint64) {
	if tick != seen.tick || tick&1 == 1 || !s.mayLinger.Load() {
		seen.quiet = 0
		return
	}
	if seen.quiet++; seen.quiet >= sweepsBeforePark {
		seen.quiet = 0
		s.client.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// wake makes a session that waits for its client check whether it must do other work, such as ending in a drain. The
// caller stores its reason first. Any goroutine may call it. Only wake and the client continue a parked session.
func (s *session) wake() {
	s.client.Conn.SetReadDeadline(time.Unix(1, 0))
	s.srv.parking.Wake(&s.spot)
}

// The limit on a client's silence also holds while its session is parked (without a goroutine). Shortly before the
// limit the sweeper, which checks idle sessions, continues the session.

// idleDeadline returns when the client will have been silent for limit. Parking and waking do not change that time.
func (s *session) idleDeadline(limit time.Duration) time.Time {
	if s.idleEnds.Load() == 0 {
		s.idleEnds.Store(int64(s.age() + min(limit, math.MaxInt64/2)))
	}
	return processStart.Add(s.began + time.Duration(s.idleEnds.Load()))
}

// isIdleLimitNear reports whether the client may reach its idle limit before the next sweep (check of all sessions). If
// so, the session must not park. Any goroutine may call it.
func (s *session) isIdleLimitNear() bool {
	end := s.idleEnds.Load()
	return end != 0 && time.Duration(end)-s.age() < 2*sweepEvery
}

// parkOrResume parks a session whose client is idle: its goroutine ends. If the client's idle limit is near, or
// parking is impossible, a new goroutine continues the session. The caller must not use the session afterwards.
func (srv *Server) parkOrResume(s *session) {
	s.mayLinger.Store(false)
	srv.running.Add(1)
	if s.isIdleLimitNear() || !srv.tryPark(s) {
		go srv.resumeSession(s)
	}
}

// tryPark frees the session's goroutine and reports success. During a drain it wakes the session at once, since the
// drain wakes each session only once, perhaps before parking. After Park only atomic fields may be read, since the
// session may run again.
func (srv *Server) tryPark(s *session) bool {
	if !srv.parking.Park(s.client.Raw, s, &s.spot) {
		return false
	}
	if srv.draining.Load() || s.waits.IsCut() {
		srv.parking.Wake(&s.spot)
	}
	return true
}

// resumeSession runs a parked session (one without a goroutine) until it ends or parks again.
func (srv *Server) resumeSession(s *session) {
	defer srv.running.Done()
	srv.parking.Unregister(s.client.Raw)
	if s.run() {
		srv.parkOrResume(s)
		return
	}
	srv.accepting.arrivals.ReleasePlace(&s.arrival.Conn)
}
