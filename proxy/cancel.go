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

// A CancelRequest arrives on its own connection, whose goroutine calls handleCancelRequest. The session's goroutine
// acts on the request, or drops it if the turn has ended. With ForwardCancel (PostgreSQL) the server stops the
// statement, and Sluice acts only after CancelGrace. DSQL ignores cancels, so that Sluice discards the backend there.
// Sluice's own statement timeout ends a statement by the same functions, onReadDeadline and giveUpStatement.

// cancelKey is the process number and secret (BackendKeyData) that Sluice sent to a client. CancelRequests repeat it.
type cancelKey struct {
	pid    uint32
	secret []byte
}

// cancelState is what a session shares with the connections that cancel its statement. The session's mu guards it.
type cancelState struct {
	backend *backend // nil while the session has none
	// questionedBackend is the backend that answers a question of Sluice before the session gets that backend, or nil.
	questionedBackend *backend
	stopWait          context.CancelCauseFunc // ends a wait inside Sluice; nil: there is no such wait
	queuePlace        *reservoir.WaitPlace    // in the queue for a backend; nil: the session is not queued
	requestedAt       time.Time               // time of the turn's first cancel, zero if none; see restartCancelGrace
	delivered         chan struct{}           // closed when inFlight becomes false
	inFlight          bool                    // a cancel connection to the backend is not yet at EOF
	reachedBackend    bool                    // a cancel reached the backend since it was lent
}

// Limits for CancelRequests with unknown keys, for each source address. Honest clients send some, since their session
// may have ended. At ten a second, guessing a secret of 4 bytes takes years.
const (
	cancelKeyBurst    = 100
	cancelKeyInterval = 100 * time.Millisecond
)

// CancelsAtOnce bounds the cancels that Sluice is sending to servers at a time. Each cancel needs a connection, hence a
// file descriptor. Further cancels wait. If the server accepts no connection, Sluice discards the backend instead.
const CancelsAtOnce = 16

// cancelKeyRegistry finds sessions by cancel key. The process numbers in keys are invented, because a session uses many
// backends in turn, or none.
type cancelKeyRegistry struct {
	mu   sync.Mutex
	next uint32
	m    map[uint32]*session
}

// issue gives the session a cancel key with a secret of secretLen bytes (protocol 3.2 allows long ones). Process
// numbers start at random and count up, so that the number of an ended session is not soon used again.
func (k *cancelKeyRegistry) issue(s *session, secretLen int) {
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

// revoke removes the session's cancel key. Later CancelRequests with that key find no session.
func (k *cancelKeyRegistry) revoke(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, s.key.pid)
}

// find returns the session with the cancel key, or nil. The comparison takes constant time, so that it reveals nothing
// about the secret.
func (k *cancelKeyRegistry) find(pid uint32, secret []byte) *session {
	k.mu.Lock()
	s := k.m[pid]
	k.mu.Unlock()
	if s == nil || subtle.ConstantTimeCompare(s.key.secret, secret) != 1 {
		return nil
	}
	return s
}

// attachBackend assigns conn to the session. From then on CancelRequests reach that backend. asked reports whether the
// turn was cancelled earlier, while the session had no backend.
func (s *session) attachBackend(conn *reservoir.Conn) (asked bool) {
	s.b = s.srv.backendOf(conn)
	s.b.notifications = nil                                   // notifications for the LISTEN of an earlier client
	s.b.path = networkPath{limit: s.srv.cfg.BackendPathLimit} // earlier acknowledgements were owed to other clients
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.backend = s.b
	s.cancel.reachedBackend = false
	return !s.cancel.requestedAt.IsZero()
}

// isCancelRequested reports whether the client has asked to cancel the running turn.
func (s *session) isCancelRequested() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cancel.requestedAt.IsZero()
}

// clearWaitAndCancel clears the wait and the cancel of a turn that has failed and has no backend. The failure has
// answered any cancel, and no statement is left to stop.
func (s *session) clearWaitAndCancel() {
	s.endCancellable()
	s.consumeCancel(errCanceled)
}

// suspendCancel makes a turn not cancellable while the turn waits for its client and has no answer pending. It clears
// earlier cancels, and Sluice drops new ones. When the client continues, the caller calls the function again.
func (s *session) suspendCancel() (again func()) {
	if s.tick.Load()&1 == 0 {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick.Add(1)
	if c := &s.cancel; !c.inFlight && !c.requestedAt.IsZero() {
		c.requestedAt = time.Time{}
		if c.backend != nil {
			s.armReadDeadlineLocked(time.Time{}) // clear the deadline of the cancel's grace
		}
	}
	return func() { s.tick.Store(s.tick.Load() | 1) }
}

// handleCancelRequest handles a CancelRequest, on the goroutine of the cancel's connection. It returns the outcome for
// the metric: "dropped" if no turn runs; "waiting" if the cancel ends the session's current or next wait inside Sluice;
// "noted" if the session acts after CancelGrace; "forwarded" or "failed" if the server was asked. The lock is released
// while the server is asked, since that needs a connection and a round trip.
func (s *session) handleCancelRequest(ctx context.Context) string {
	s.mu.Lock()
	c := &s.cancel
	if s.tick.Load()&1 == 0 {
		s.mu.Unlock()
		return "dropped"
	}
	if c.requestedAt.IsZero() {
		c.requestedAt = time.Now()
	}
	// Only the first CancelRequest starts CancelGrace. Further requests do not prolong it.
	b := c.backend
	if c.stopWait != nil || b == nil { // without both, the session's next wait sees the request
		if c.stopWait != nil {
			c.stopWait(errCanceled)
		}
		if c.queuePlace != nil {
			c.queuePlace.EndWait(errCanceled)
		}
		s.mu.Unlock()
		return "waiting"
	}
	if !s.srv.cfg.ForwardCancel || c.inFlight {
		// The session is woken after CancelGrace, since the server ignores cancels, or has already got one.
		b.conn.Net.SetReadDeadline(c.requestedAt.Add(s.srv.cfg.CancelGrace))
		s.mu.Unlock()
		return "noted"
	}
	c.delivered = make(chan struct{})
	c.inFlight, c.reachedBackend = true, true
	s.mu.Unlock()

	err := s.srv.sendCancel(ctx, b.conn)

	s.mu.Lock()
	defer s.mu.Unlock()
	c.inFlight = false
	close(c.delivered)
	switch {
	case s.tick.Load()&1 == 0:
		c.requestedAt = time.Time{} // the turn has been answered meanwhile
	case c.backend == b && !c.requestedAt.IsZero():
		b.conn.Net.SetReadDeadline(c.requestedAt.Add(s.srv.cfg.CancelGrace))
	}
	if err != nil {
		return "failed"
	}
	return "forwarded"
}

// sendCancel asks the server to stop the statement on conn. It waits while CancelsAtOnce cancels are being sent.
func (srv *Server) sendCancel(ctx context.Context, conn *reservoir.Conn) error {
	select {
	case srv.cancelling <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-srv.cancelling }()
	return conn.Cancel(ctx)
}

// finishCancel ends the turn's cancel once the backend has answered every frame, and reports whether a cancel was
// requested. A forwarded cancel must not hit another client's statement. So the session waits until the cancel has
// reached the server and an empty round trip has returned. If either fails, the backend is discarded.
func (s *session) finishCancel() (asked bool) {
	s.mu.Lock()
	c := &s.cancel
	if asked = !c.requestedAt.IsZero(); asked {
		c.requestedAt = time.Time{}
		s.b.conn.Net.SetReadDeadline(time.Time{}) // the deadline of the grace
		if s.t != nil && s.t.nestedTurn.on {      // the client's own turn must still hear of the cancel
			s.t.pendingCancel = errCanceled
		}
	}
	if !c.reachedBackend {
		s.mu.Unlock()
		return asked
	}
	s.mu.Unlock()
	if !s.waitOutCancel() {
		s.recordPinLoss()
		s.dropBackend(reservoir.Cancelled)
	}
	return asked
}

// waitOutCancel waits until a forwarded cancel can no longer hit a later statement. The turn was answered already.
// waitOutCancel reports false if the backend has become unusable.
func (s *session) waitOutCancel() bool {
	s.mu.Lock()
	c := &s.cancel
	touched, landed, flying := c.reachedBackend, c.delivered, c.inFlight
	c.reachedBackend = false
	s.mu.Unlock()
	if !touched {
		return true
	}
	if flying && !s.awaitCancelDelivery(landed) {
		return false
	}
	s.b.conn.Net.SetReadDeadline(time.Time{})
	// The server answers this empty Sync after any cancel that has reached it. A Sync changes no transaction status, so
	// that another status means that the recorded status is wrong.
	status := s.b.status
	_, err := s.b.exchange(wire.FrameSync)
	return err == nil && s.b.status == status
}

// awaitCancelDelivery reports whether the cancel reached the server within exchangeTimeout and before a shutdown.
func (s *session) awaitCancelDelivery(landed <-chan struct{}) bool {
	select {
	case <-landed:
		return true
	case <-time.After(exchangeTimeout):
	case <-s.srv.ctx.Done():
	}
	return false
}

// encodeStopError returns the frame of an error that ends a turn without a backend, and counts it in the metrics.
func (s *session) encodeStopError(e *wire.Error) []byte {
	s.srv.metrics.CountErrorSent(e.Code)
	return e.Append(nil)
}

// cancelActionTime returns when Sluice itself acts on a cancel. It is zero if the client has asked for no cancel.
func (s *session) cancelActionTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel.requestedAt.IsZero() {
		return time.Time{}
	}
	return s.cancel.requestedAt.Add(s.srv.cfg.CancelGrace)
}

// onReadDeadline handles a read from the backend that ended at its deadline. It checks each reason for a deadline
// (hold_time, statement timeout, cancel, path, shutdown), and sets the next deadline. So overwriting a deadline does no
// harm. An error ends the session or is a lost backend. After nil the read continues, or the turn was given up and the
// client has the error.
func (s *session) onReadDeadline() error {
	t := s.t
	now := time.Now()
	act := s.cancelActionTime()
	if !t.holdEnd.IsZero() && !now.Before(t.holdEnd) {
		t.holdEnd, t.streams = time.Time{}, true
		if err := s.flushToClient(); err != nil {
			return err
		}
	}
	s.armReadDeadline()
	if err := s.checkBackendPath(); err != nil {
		return err
	}
	switch {
	case s.cutOff.Load():
		return errCut
	case t.batches != nil:
		s.deferCancelOrTimeout(now)
	case s.awaitsOnlyReady():
		s.clearCancelAndTimeout()
	case !t.deadline.IsZero() && !now.Before(t.deadline):
		t.deadline = time.Time{}
		s.armReadDeadline()
		return s.giveUpStatement(errTimedOut)
	case t.stop != nil:
		return s.giveUpStatement(t.stop)
	case !act.IsZero() && !now.Before(act):
		return s.giveUpStatement(errCanceled)
	}
	return nil
}

// deferCancelOrTimeout saves a cancel or timeout for the batches of a large DELETE or UPDATE, since these run after the
// server's ReadyForQuery.
func (s *session) deferCancelOrTimeout(now time.Time) {
	switch t := s.t; {
	case !t.deadline.IsZero() && !now.Before(t.deadline):
		t.pendingCancel = errTimedOut
	case s.isCancelRequested():
		t.pendingCancel = errCanceled
	default:
		return
	}
	s.clearCancelAndTimeout()
}

// clearCancelAndTimeout clears the cancel and timeout of a statement that was answered in full. Only ReadyForQuery is
// missing, and an error would be a second answer.
func (s *session) clearCancelAndTimeout() {
	s.mu.Lock()
	s.cancel.requestedAt = time.Time{}
	s.mu.Unlock()
	s.t.deadline, s.t.stop = time.Time{}, nil
	s.armReadDeadline()
}

// giveUpStatement discards the backend of a statement that the server does not stop, and sends the client e. It does so
// only if the statement cannot have committed: it reads, or its transaction has sent no COMMIT. Otherwise, or if the
// session cannot give up its backend, it returns nil and the turn continues. If the client has got half a row, the turn
// ends after that row.
func (s *session) giveUpStatement(e *wire.Error) error {
	t := s.t
	readable := s.b.src.Raw.Peek() == rawconn.Readable
	// A forwarded cancel has stopped the statement at the server, and a slow client still reads earlier rows. The server
	// does not know of a timeout of Sluice.
	if e == errCanceled && s.srv.cfg.ForwardCancel && readable {
		t.stop = nil
		s.restartCancelGrace()
		return nil
	}
	s.mu.Lock()
	s.cancel.requestedAt = time.Time{}
	s.mu.Unlock()
	if t.outcome.MayCommit() || s.dedicated || s.pinned {
		s.srv.metrics.CountCancel(metrics.CancelIneffective)
		t.pendingCancel = e
		s.armReadDeadline()
		return nil
	}
	// The client already has half a row. So the turn ends after the row, if its rest arrives within another CancelGrace.
	if t.rest > 0 && !t.restSwallow && (t.stop == nil || readable) { // not in the middle of a row
		t.stop = e
		s.armReadDeadlineBy(time.Now().Add(s.srv.cfg.CancelGrace))
		return nil
	}
	return s.stopAndDiscardBackend(e)
}

// stopAndDiscardBackend asks the server to stop the statement, discards the backend and sends the client e.
func (s *session) stopAndDiscardBackend(e *wire.Error) error {
	s.srv.metrics.CountCancel(metrics.CancelDiscarded)
	s.cancelOnBackend()
	return s.abandonTurn(e, reservoir.Cancelled)
}

// restartCancelGrace restarts a cancel's CancelGrace. After it has expired, reads from the backend end at once.
func (s *session) restartCancelGrace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.cancel.requestedAt.IsZero() {
		s.cancel.requestedAt = now
	}
	s.armReadDeadlineLocked(now.Add(s.srv.cfg.CancelGrace))
}
