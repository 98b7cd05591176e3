package proxy

import (
	"math"
	"time"
)

// Clients that are silent for long, which most clients of a pool are. A session whose client
// lingers has no goroutine: it is parked (rawconn.Parking), and goes on in a new one, whose stack
// is small, when its client's connection has something to tell, or when it is nudged. It counts
// among the sessions meanwhile, and in running.

// askToLinger has a session linger that has been silent for quietLooks; tick is its own of now. That
// is no nudge: the session may be parked before this has returned, and is not to be woken then. One
// that had something else to do is asked again as many looks later.
func (srv *Server) askToLinger(s *session, seen *swept, tick uint64) {
	if tick != seen.tick || tick&1 == 1 || !s.mayLinger.Load() {
		seen.quiet = 0
		return
	}
	if seen.quiet++; seen.quiet >= quietLooks {
		seen.quiet = 0
		s.client.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// nudge has a session that waits for its client look for a reason to do something else; whoever
// has one stores it first. It is the only way to wake a session of another goroutine that may be
// parked. Anybody may call it.
func (s *session) nudge() {
	s.client.Conn.SetReadDeadline(time.Unix(1, 0))
	s.srv.parking.Wake(&s.spot)
}

// A client that may not be silent for ever has a limit while its session is parked, too: the sweeper has the
// session go on shortly before that, and await then waits for the rest, to the moment.

// silentUntil is when the client will have been silent for limit, counted from when this was first asked
// of its silence: to linger, or to be nudged, moves it no more.
func (s *session) silentUntil(limit time.Duration) time.Time {
	if s.idleEnds.Load() == 0 {
		s.idleEnds.Store(int64(s.age() + min(limit, math.MaxInt64/2)))
	}
	return birth.Add(s.began + time.Duration(s.idleEnds.Load()))
}

// endsSoon reports whether the client's limit may be reached before the sweeper looks again: such a
// session does not linger. Anybody may call it.
func (s *session) endsSoon() bool {
	end := s.idleEnds.Load()
	return end != 0 && time.Duration(end)-s.age() < 2*sweepEvery
}

// linger parks a session whose run says that its client lingers, or has it go on at once: where the
// client's limit is near, and where nothing can be parked. The caller has nothing to do with the session any more.
func (srv *Server) linger(s *session) {
	s.mayLinger.Store(false)
	srv.running.Add(1)
	if s.endsSoon() || !srv.park(s) {
		go srv.goOn(s)
	}
}

// park reports whether the session is left to the parking. In a drain nobody stays there, for who
// ends it nudges once: a session that was nudged before it was parked, so that nobody has woken it,
// finds the reason behind it. Only what is atomic is looked at then: it may have gone on already.
func (srv *Server) park(s *session) bool {
	if !srv.parking.Park(s.client.Raw, s, &s.spot) {
		return false
	}
	if srv.draining.Load() || s.cutOff.Load() {
		srv.parking.Wake(&s.spot)
	}
	return true
}

// goOn runs a session that has lingered, up to its end or until it lingers again. Why it goes on is
// for await to find.
func (srv *Server) goOn(s *session) {
	defer srv.running.Done()
	srv.parking.Leave(s.client.Raw)
	if s.run() {
		srv.linger(s)
		return
	}
	srv.arrivals.Left(&s.arrival.Conn)
}
