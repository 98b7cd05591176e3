package proxy

// Quieten has every session look as if its client had been silent for a look less than has it
// linger again.
func (srv *Server) Quieten() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for s, seen := range srv.sessions {
		seen.quiet, seen.tick = sweepsBeforePark-1, s.waits.Tick()
	}
}

// Count is how many sessions have no goroutine now.
func (srv *Server) Parked() int { return srv.parking.Count() }

// NudgeAll wakes every session without a reason.
func (srv *Server) NudgeAll() { srv.eachSession((*session).wake) }

// CloseOneClient closes the connection of some session as closeDeadClient does one whose path is dead,
// which the session must notice.
func (srv *Server) CloseOneClient() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for s := range srv.sessions {
		srv.closeClient(s)
		return
	}
}
