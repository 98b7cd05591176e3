package proxy

// Quieten has every session look as if its client had been silent for a look less than has it
// linger again.
func (srv *Server) Quieten() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for s, seen := range srv.sessions {
		seen.quiet, seen.tick = quietLooks-1, s.tick.Load()
	}
}
