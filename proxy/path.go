package proxy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds dead network paths and silent servers. If a network drops packets, the kernel retransmits for about
// 15 minutes. A session therefore checks its backend's path when it is woken in a turn. The sweeper checks the paths of
// clients that hold a backend. The kernel's keepalive checks idle paths.

// errDeadPath means that the backend's host has acknowledged no sent data for longer than the configured limit.
var errDeadPath = errors.New("the server's host has stopped acknowledging")

// checkPath returns a lostError if the backend's network path is dead, otherwise nil.
func (b *backend) checkPath() error {
	if b != nil && b.path.IsDead(b.src.Raw) {
		return &lostError{err: errDeadPath}
	}
	return nil
}

// checkBackendSilence returns a lostError if the backend has sent nothing for the configured limit although replies are
// pending. A frozen server's host still acknowledges data. The turn is not replayed, since the server may continue.
// Procedures and COPY have no limit, since they take long. Only woken reads make this check, so that the limit is
// exceeded by at most two periods of the sweeper.
func (s *session) checkBackendSilence() error {
	t, limit := s.t, s.srv.cfg.SilenceTimeout
	switch {
	case limit == 0 || s.b == nil || t.settled || t.owed.empty() || t.server.copying:
	case t.observed.silentSince.IsZero():
		t.observed.silentSince = time.Now()
	case time.Since(t.observed.silentSince) < limit || s.b.src.Raw.Peek() != rawconn.Quiet: // bytes that have arrived must be read first
	case !slices.ContainsFunc(t.owed.items[t.owed.head:], mayTakeLong):
		return &lostError{err: fmt.Errorf("the server has sent nothing for %v", limit), silent: true}
	}
	return nil
}

// mayTakeLong reports whether a pending reply may take any time, because it answers a procedure or a COPY.
func mayTakeLong(o pendingReply) bool {
	return o.plan != nil && (o.plan.Pin == rewrite.PinProcedural ||
		o.plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Copy != rewrite.NoCopy }))
}

// sweepState is what the sweeper (which checks all sessions periodically) stores about one session.
type sweepState struct {
	tick uint64       // the session's tick at the last look
	path rawconn.Path // to its client
	// quiet is the number of consecutive sweeps at which the session could have been parked (left without a goroutine).
	quiet int
}

// closeDeadClient closes the connection of a client that holds a backend and whose path is dead. The session gets an
// error at its next read or write. If a client has no backend, the kernel's keepalive finds the dead path.
func (srv *Server) closeDeadClient(s *session, seen *sweepState) {
	if s.waits.HasBackend() && seen.path.IsDead(s.client.Raw) {
		srv.log.Warn("the client's host has stopped acknowledging", s.logAttrs()...)
		srv.closeClient(s)
	}
}

// closeClient closes the connection of a session's client and wakes the session. The session may have no goroutine,
// and the kernel does not report a connection that Sluice has closed.
func (srv *Server) closeClient(s *session) {
	s.client.Raw.Close()
	s.wake()
}
