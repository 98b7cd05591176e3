package proxy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Dead paths and silent servers. A network that swallows packets tells nobody: the kernel
// sends again for a quarter of an hour. So the session looks at the path to its backend
// whenever it is woken in a turn (woken), and the sweeper at the paths to clients that hold
// a backend. A path without anything under way is for the kernel's keepalive to watch.

// path is what is known of the way to a peer.
type path struct {
	limit time.Duration // how long the peer's host may owe an acknowledgement; 0: for ever
	// since: from then on an acknowledgement was owed at every look, and none came.
	since time.Time
}

// dead reports whether the peer's host has owed an acknowledgement for as long as the limit
// without sending any; last is how long ago it sent one. A host whose program takes nothing
// acknowledges that it is asked: a shut window is no dead path.
func (p *path) dead(now time.Time, owed bool, last time.Duration) bool {
	if !owed || p.limit == 0 {
		p.since = time.Time{}
		return false
	}
	if p.since.IsZero() || now.Add(-last).After(p.since) {
		p.since = now
	}
	return now.Sub(p.since) >= p.limit
}

// look is dead for the peer of a connection.
func (p *path) look(conn rawconn.Conn) bool {
	owed, last := conn.Unacked()
	return p.dead(time.Now(), owed, last)
}

// errDeadPath is a backend whose host has acknowledged nothing for the time that is allowed.
var errDeadPath = errors.New("the server's host has stopped acknowledging")

// lookAtPath is the loss of a backend whose path is dead. nil: it may be waited for.
func (s *session) lookAtPath() error {
	if s.b != nil && s.b.path.look(s.b.src.Raw) {
		return &lostError{err: errDeadPath}
	}
	return nil
}

// lookAtSilence is the loss of a backend that owes an answer and has sent nothing for the
// time that is allowed: its host may acknowledge and its program be frozen. Nothing is sent
// again then, since the server may go on at any time. A procedure and COPY have no limit,
// for they are long about things. It is called when the session was woken in a read, so that
// the limit is exceeded by two periods of the sweeper at most.
func (s *session) lookAtSilence() error {
	t, limit := s.t, s.srv.cfg.SilenceTimeout
	switch {
	case limit == 0 || s.b == nil || t.settled || t.owed.empty() || t.copying:
	case t.quiet.IsZero():
		t.quiet = time.Now()
	case time.Since(t.quiet) < limit || s.b.src.Raw.Peek() != rawconn.Quiet: // what is there is to be read first
	case !slices.ContainsFunc(t.owed.items[t.owed.head:], unhurried):
		return &lostError{err: fmt.Errorf("the server has sent nothing for %v", limit), silent: true}
	}
	return nil
}

// unhurried reports whether an answer may take as long as it likes.
func unhurried(o owed) bool {
	return o.plan != nil && (o.plan.Pin == rewrite.PinProcedural ||
		o.plan.Any(func(st *rewrite.Statement) bool { return st.Copy != rewrite.NoCopy }))
}

// swept is what the sweeper remembers of a session from look to look.
type swept struct {
	tick uint64 // of the session, at the last look
	path path   // to its client
	// quiet counts the looks, one after the other, at which it might have lingered.
	quiet int
}

// watchClient ends the connection to a client that holds a backend and whose path is dead.
// The session finds it closed, wherever it reads or writes. A client without a backend
// keeps nothing from others: the kernel gives it up in time.
func (srv *Server) watchClient(s *session, seen *swept) {
	s.mu.Lock()
	holds := s.cancel.backend != nil
	s.mu.Unlock()
	if holds && seen.path.look(s.client.Raw) {
		srv.log.Warn("the client's host has stopped acknowledging", s.logAttrs()...)
		srv.closeClient(s)
	}
}

// closeClient closes the connection of a session's client, which the session finds wherever it is. It
// may be parked by now, though it held a backend: a connection that is closed leaves the kernel's set
// in silence.
func (srv *Server) closeClient(s *session) {
	s.client.Raw.Close()
	s.nudge()
}
