package proxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A CancelRequest arrives on a connection of its own, whose goroutine calls askCancel. The session's goroutine acts on
// the request, or drops it if the turn has ended. With ForwardCancel (PostgreSQL) the server stops the statement, and
// Sluice acts only after CancelGrace. DSQL ignores cancels, so that Sluice discards the backend there. Sluice's own
// statement timeout ends a statement by the same functions, woken and giveUp.

// cancelKey is the BackendKeyData that Sluice sent to a client.
type cancelKey struct {
	pid    uint32
	secret []byte
}

// cancelState is shared by a session and the connections that cancel it, under the session's mu.
type cancelState struct {
	backend *backend // nil while the session has none
	// questioned is a backend that answers a question of Sluice's before the session gets it; else nil.
	questioned *backend
	stop       context.CancelCauseFunc // ends a wait inside Sluice; nil: there is no such wait
	place      *reservoir.Place        // in the queue for a backend; nil: the session is not queued
	asked      time.Time               // time of the turn's first cancel, zero if none; see graceAnew
	landed     chan struct{}           // closed when flying becomes false
	flying     bool                    // a cancel connection to the backend is not yet at EOF
	touched    bool                    // a cancel reached the backend since it was lent
}

// Unknown cancel keys are rate-limited for each source address. Well-meaning clients send some, since their session may
// have ended. At ten a second, guessing a secret of 4 bytes takes years.
const (
	keyBurst = 100
	keyEvery = 100 * time.Millisecond
)

// CancelsAtOnce bounds the cancels that are being sent to servers. Each needs a connection, hence a file descriptor.
// Further ones wait; if the server accepts no connection, Sluice discards the backend instead.
const CancelsAtOnce = 16

// cancelKeys finds sessions by cancel key. The process numbers in keys are invented, because a session uses many
// backends in turn, or none.
type cancelKeys struct {
	mu   sync.Mutex
	next uint32
	m    map[uint32]*session
}

// issue gives the session a key with a secret of secretLen bytes (protocol 3.2 allows long ones). Numbers start at
// random and count up, so that the number of an ended session is not soon used again.
func (k *cancelKeys) issue(s *session, secretLen int) {
	secret := make([]byte, secretLen)
	rand.Read(secret)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[uint32]*session{}
		var b [4]byte
		rand.Read(b[:])
		k.next = binary.BigEndian.Uint32(b[:]) >> 1
	}
	for {
		k.next = (k.next + 1) & 0x7fffffff
		if _, taken := k.m[k.next]; !taken && k.next != 0 {
			break
		}
	}
	s.key = cancelKey{pid: k.next, secret: secret}
	k.m[k.next] = s
}

// revoke removes the session's key. Later cancels with that key find no session.
func (k *cancelKeys) revoke(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, s.key.pid)
}

// find returns the session with the key, or nil. The comparison takes constant time, so that it reveals nothing about
// the secret.
func (k *cancelKeys) find(pid uint32, secret []byte) *session {
	k.mu.Lock()
	s := k.m[pid]
	k.mu.Unlock()
	if s == nil || subtle.ConstantTimeCompare(s.key.secret, secret) != 1 {
		return nil
	}
	return s
}

// attach assigns conn to the session. From then on cancel requests reach that backend. attach reports whether the turn
// was cancelled earlier, while the session had no backend.
func (s *session) attach(conn *reservoir.Conn) (asked bool) {
	s.b = s.srv.attached(conn)
	s.b.news = nil                                     // notifications for the LISTEN of an earlier client
	s.b.path = path{limit: s.srv.cfg.BackendPathLimit} // earlier acknowledgements were owed to other clients
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.backend = s.b
	s.cancel.touched = false
	return !s.cancel.asked.IsZero()
}

// cancelAsked reports whether the client has asked to cancel the running turn.
func (s *session) cancelAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cancel.asked.IsZero()
}

// nothingRuns clears the wait and the cancel of a turn that has failed and runs on no backend. The failure has answered
// any cancel, and there is nothing left to stop.
func (s *session) nothingRuns() {
	s.stopWaiting()
	s.heeded(errCanceled)
}

// answeredSoFar makes a turn not cancellable while it waits for its client and owes no answer. Earlier cancels are
// cleared, new ones dropped. The caller calls again when the client continues.
func (s *session) answeredSoFar() (again func()) {
	if s.tick.Load()&1 == 0 {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick.Add(1)
	if c := &s.cancel; !c.flying && !c.asked.IsZero() {
		c.asked = time.Time{}
		if c.backend != nil {
			s.alarmLocked(time.Time{}) // clear the deadline of the cancel's grace
		}
	}
	return func() { s.tick.Store(s.tick.Load() | 1) }
}

// askCancel handles a CancelRequest, on the canceller's goroutine. It returns the outcome for the metric: "dropped" if
// no turn runs; "waiting" if a wait inside Sluice ends, or its next one will; "noted" if the session acts after the
// grace; "forwarded" or "failed" if the server was asked. The lock is released while the server is asked, since that
// needs a connection and a round trip.
func (s *session) askCancel(ctx context.Context) string {
	s.mu.Lock()
	c := &s.cancel
	if s.tick.Load()&1 == 0 {
		s.mu.Unlock()
		return "dropped"
	}
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	// Only the first request starts the grace; further requests do not prolong it.
	b := c.backend
	if c.stop != nil || b == nil { // without both, the session's next wait sees the request
		if c.stop != nil {
			c.stop(errCanceled)
		}
		if c.place != nil {
			c.place.Leave(errCanceled)
		}
		s.mu.Unlock()
		return "waiting"
	}
	if !s.srv.cfg.ForwardCancel || c.flying {
		// The server ignores cancels, or has one already: wake the session after the grace.
		b.conn.Net.SetReadDeadline(c.asked.Add(s.srv.cfg.CancelGrace))
		s.mu.Unlock()
		return "noted"
	}
	c.landed = make(chan struct{})
	c.flying, c.touched = true, true
	s.mu.Unlock()

	err := s.srv.sendCancel(ctx, b.conn)

	s.mu.Lock()
	defer s.mu.Unlock()
	c.flying = false
	close(c.landed)
	switch {
	case s.tick.Load()&1 == 0:
		c.asked = time.Time{} // the turn has been answered meanwhile
	case c.backend == b && !c.asked.IsZero():
		b.conn.Net.SetReadDeadline(c.asked.Add(s.srv.cfg.CancelGrace))
	}
	if err != nil {
		return "failed"
	}
	return "forwarded"
}

// sendCancel asks the server to stop the statement on conn, once fewer than CancelsAtOnce are being sent.
func (srv *Server) sendCancel(ctx context.Context, conn *reservoir.Conn) error {
	select {
	case srv.cancelling <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-srv.cancelling }()
	return conn.Cancel(ctx)
}

// settleCancel ends the turn's cancel once the backend has answered everything, and reports whether there was one. A
// forwarded cancel must not hit another client's statement. So the session waits until it has reached the server and an
// empty round trip has returned. If either fails, the backend is discarded.
func (s *session) settleCancel() (asked bool) {
	s.mu.Lock()
	c := &s.cancel
	if asked = !c.asked.IsZero(); asked {
		c.asked = time.Time{}
		s.b.conn.Net.SetReadDeadline(time.Time{}) // the deadline of the grace
		if s.t != nil && s.t.nested.on {          // the client's own turn must still hear of the cancel
			s.t.unheeded = errCanceled
		}
	}
	if !c.touched {
		s.mu.Unlock()
		return asked
	}
	s.mu.Unlock()
	if !s.outlastsCancel() {
		s.losePin()
		s.dropBackend(reservoir.Cancelled)
	}
	return asked
}

// outlastsCancel waits until a forwarded cancel can no longer hit a later statement; the turn was answered already. It
// reports false if the backend has become unusable.
func (s *session) outlastsCancel() bool {
	s.mu.Lock()
	c := &s.cancel
	touched, landed, flying := c.touched, c.landed, c.flying
	c.touched = false
	s.mu.Unlock()
	if !touched {
		return true
	}
	if flying && !s.landsInTime(landed) {
		return false
	}
	s.b.conn.Net.SetReadDeadline(time.Time{})
	// The server answers this empty Sync after any cancel that has reached it. The Sync changes no status: a different
	// status means that the recorded one is wrong.
	status := s.b.status
	_, err := s.b.exchange(wire.FrameSync)
	return err == nil && s.b.status == status
}

// landsInTime reports whether the cancel reached the server within exchangeTimeout and before shutdown.
func (s *session) landsInTime(landed <-chan struct{}) bool {
	select {
	case <-landed:
		return true
	case <-time.After(exchangeTimeout):
	case <-s.srv.ctx.Done():
	}
	return false
}

// stoppedBy returns the frame of an error that ends a turn without a backend, and counts the error in the metrics.
func (s *session) stoppedBy(e *wire.Error) []byte {
	s.srv.metrics.ErrorSent(e.Code)
	return e.Append(nil)
}

// actAt returns when Sluice acts on a cancel itself; zero if the client has asked for none.
func (s *session) actAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel.asked.IsZero() {
		return time.Time{}
	}
	return s.cancel.asked.Add(s.srv.cfg.CancelGrace)
}

// woken handles a read from the backend that ended at its deadline. Each reason for one (hold_time, statement timeout,
// cancel, path, cut) is checked, and the deadline set for the next. So overwriting a deadline does no harm. An error
// ends the session or is a lost backend. After nil the read continues, or the turn was given up and the client has its
// error (t.settled, t.skip).
func (s *session) woken() error {
	t := s.t
	now := time.Now()
	act := s.actAt()
	if !t.holdEnd.IsZero() && !now.Before(t.holdEnd) {
		t.holdEnd, t.streams = time.Time{}, true
		if err := s.flushToClient(); err != nil {
			return err
		}
	}
	s.alarmRead()
	if err := s.lookAtPath(); err != nil {
		return err
	}
	switch {
	case s.cutOff.Load():
		return errCut
	case t.batches != nil:
		s.putOffStop(now)
	case s.allAnswered():
		s.forgetStops()
	case !t.deadline.IsZero() && !now.Before(t.deadline):
		t.deadline = time.Time{}
		s.alarmRead()
		return s.giveUp(errTimedOut)
	case t.stop != nil:
		return s.giveUp(t.stop)
	case !act.IsZero() && !now.Before(act):
		return s.giveUp(errCanceled)
	}
	return nil
}

// putOffStop saves a cancel or timeout until the batches of a large DELETE or UPDATE, which run after ReadyForQuery.
func (s *session) putOffStop(now time.Time) {
	switch t := s.t; {
	case !t.deadline.IsZero() && !now.Before(t.deadline):
		t.unheeded = errTimedOut
	case s.cancelAsked():
		t.unheeded = errCanceled
	default:
		return
	}
	s.forgetStops()
}

// forgetStops clears the cancel and timeout of a statement that was answered in full. Only ReadyForQuery is missing,
// and an error now would be a second answer.
func (s *session) forgetStops() {
	s.mu.Lock()
	s.cancel.asked = time.Time{}
	s.mu.Unlock()
	s.t.deadline, s.t.stop = time.Time{}, nil
	s.alarmRead()
}

// giveUp ends a turn whose statement the server does not stop: it discards the backend and sends the client e. It does
// so only if the statement cannot have committed: it reads, or its transaction has sent no COMMIT. Otherwise, or if the
// session keeps its backend, it returns nil and the turn goes on. After half a row, it ends the turn behind that row.
func (s *session) giveUp(e *wire.Error) error {
	t := s.t
	readable := s.b.src.Raw.Peek() == rawconn.Readable
	// A forwarded cancel has stopped the server, and a slow client still reads the earlier rows. A timeout of Sluice is
	// unknown to the server.
	if e == errCanceled && s.srv.cfg.ForwardCancel && readable {
		t.stop = nil
		s.graceAnew()
		return nil
	}
	s.mu.Lock()
	s.cancel.asked = time.Time{}
	s.mu.Unlock()
	if t.outcome.MayCommit() || s.dedicated || s.pinned {
		s.srv.metrics.Cancel(metrics.CancelIneffective)
		t.unheeded = e
		s.alarmRead()
		return nil
	}
	// The client cannot unread half a row: pump ends the turn after the row, if its rest arrives within another grace.
	if t.rest > 0 && !t.restSwallow && (t.stop == nil || readable) { // not in the middle of a row
		t.stop = e
		s.alarmBy(time.Now().Add(s.srv.cfg.CancelGrace))
		return nil
	}
	return s.discardStopped(e)
}

// discardStopped asks the server to stop, discards the backend and sends the client e.
func (s *session) discardStopped(e *wire.Error) error {
	s.srv.metrics.Cancel(metrics.CancelDiscarded)
	s.stopBackend()
	return s.abandon(e, reservoir.Cancelled)
}

// graceAnew restarts the grace of a cancel. With the expired one, each read from the backend would end at once.
func (s *session) graceAnew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.cancel.asked.IsZero() {
		s.cancel.asked = now
	}
	s.alarmLocked(now.Add(s.srv.cfg.CancelGrace))
}
