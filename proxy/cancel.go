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

// Cancels. A CancelRequest comes on a connection of its own, whose goroutine calls
// askCancel; the session's goroutine acts on the request, or drops it when the turn is
// answered. Where the server takes cancels (ForwardCancel) it is the server that stops, and
// Sluice acts only when the grace is over; DSQL does not, and there the backend is given
// up. woken and giveUp are also how a statement timeout of Sluice's own ends a statement.

// cancelKey is the BackendKeyData that a client was given.
type cancelKey struct {
	pid    uint32
	secret []byte
}

// cancelState is what a cancel connection and its session share, under the session's mu.
type cancelState struct {
	backend *backend // nil while the session has none
	// questioned is one that is asked something before the session has it; else nil.
	questioned *backend
	stop       context.CancelCauseFunc // ends a wait of ours; nil: there is none
	place      *reservoir.Place        // in line for a backend; nil: the session does not wait there
	asked      time.Time               // when the running turn was first asked to stop; see graceAnew
	landed     chan struct{}           // closed when no cancel is flying any more
	flying     bool                    // a cancel connection to the backend is not yet at EOF
	touched    bool                    // a cancel reached the backend since it was lent
}

// The share of unknown cancel keys for each source. Clients send some without meaning ill, since a
// session may have ended; at ten a second a key of 4 bytes is found in years.
const (
	keyBurst = 100
	keyEvery = 100 * time.Millisecond
)

// CancelsAtOnce is how many cancels are on their way to servers at once: each has a connection, and so a file descriptor.
// The others wait, and where a server takes none, Sluice acts without it.
const CancelsAtOnce = 16

// cancelKeys finds sessions by the key they were given. Process numbers are made up: they
// are no backend's, since a session has many backends or none.
type cancelKeys struct {
	mu   sync.Mutex
	next uint32
	m    map[uint32]*session
}

// issue gives s a key; secrets of protocol 3.2 may be long. Numbers begin at a random place
// and count up: one is not given again soon after its session has ended.
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

// revoke takes the session's key back: a cancel with it finds nobody.
func (k *cancelKeys) revoke(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, s.key.pid)
}

// find returns the session with that key, or nil. The comparison takes the same time
// however much of a guess is right.
func (k *cancelKeys) find(pid uint32, secret []byte) *session {
	k.mu.Lock()
	s := k.m[pid]
	k.mu.Unlock()
	if s == nil || subtle.ConstantTimeCompare(s.key.secret, secret) != 1 {
		return nil
	}
	return s
}

// attach gives the session a backend, which cancels reach from now on. It reports whether
// one has come already, to this turn: that one found no backend, and was only noted.
func (s *session) attach(conn *reservoir.Conn) (asked bool) {
	s.b = s.srv.attached(conn)
	s.b.news = nil                                     // of a LISTEN that another client left behind
	s.b.path = path{limit: s.srv.cfg.BackendPathLimit} // what was owed before was owed to others
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel.backend = s.b
	s.cancel.touched = false
	return !s.cancel.asked.IsZero()
}

// cancelAsked reports whether the turn was asked to stop.
func (s *session) cancelAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cancel.asked.IsZero()
}

// nothingRuns is said where a turn has failed, and no backend runs any of it: there is
// nothing left to cancel, and a cancel that was asked for has found its end in that
// failure.
func (s *session) nothingRuns() {
	s.stopWaiting()
	s.heeded(errCanceled)
}

// answeredSoFar is said in a turn whose client is awaited and owed nothing: what a cancel
// was asked for has been answered, and one that comes now has nothing to stop. again is
// called when the client goes on.
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
			s.alarmLocked(time.Time{}) // not that of the grace any more
		}
	}
	return func() { s.tick.Store(s.tick.Load() | 1) }
}

// askCancel serves a CancelRequest, on the canceller's goroutine. It returns what became of
// it, for the metric: "dropped" when no turn waits, "waiting" when a wait of Sluice's own
// was ended or will be, "noted" when the session acts on it after the grace, "forwarded" or
// "failed" when the server was asked. The lock is not held while the server is asked, which
// takes a connection and a round trip.
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
	// The first request begins the grace: more of them do not prolong it.
	b := c.backend
	if c.stop != nil || b == nil { // without both, the wait that comes next sees it
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
		// The server will not stop, or is asked already: wake the session once the grace is over.
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
		c.asked = time.Time{} // what ran has been answered
	case c.backend == b && !c.asked.IsZero():
		b.conn.Net.SetReadDeadline(c.asked.Add(s.srv.cfg.CancelGrace))
	}
	if err != nil {
		return "failed"
	}
	return "forwarded"
}

// sendCancel asks a server to stop what a backend runs, when fewer than CancelsAtOnce do.
func (srv *Server) sendCancel(ctx context.Context, conn *reservoir.Conn) error {
	select {
	case srv.cancelling <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-srv.cancelling }()
	return conn.Cancel(ctx)
}

// settleCancel runs at the end of a turn, with a backend that is answered in full. A
// backend with a cancel in flight is not given on before the cancel has landed and an empty
// round trip has come back: no other client's statement is ever hit. It reports whether the
// turn was asked to stop. The backend may be gone afterwards, where the cancel did not land
// in time or the round trip failed.
func (s *session) settleCancel() (asked bool) {
	s.mu.Lock()
	c := &s.cancel
	if asked = !c.asked.IsZero(); asked {
		c.asked = time.Time{}
		s.b.conn.Net.SetReadDeadline(time.Time{}) // that of the grace
		if s.t != nil && s.t.nested.on {          // its client waits for more than this turn
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

// outlastsCancel waits for a cancel that is on its way to the backend, whose turn is answered, so that it does not hit what
// comes next. It reports false where the backend cannot be used any more.
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
	// The empty group is answered behind any cancel that has landed. The group changes no
	// status: another one says that the backend is not where it is believed to be.
	status := s.b.status
	_, err := s.b.exchange(wire.FrameSync)
	return err == nil && s.b.status == status
}

// landsInTime waits for a cancel that is on its way to the server.
func (s *session) landsInTime(landed <-chan struct{}) bool {
	select {
	case <-landed:
		return true
	case <-time.After(exchangeTimeout):
	case <-s.srv.ctx.Done():
	}
	return false
}

// stoppedBy is the frame of an error that ends a turn while no backend runs it. The error
// is counted here.
func (s *session) stoppedBy(e *wire.Error) []byte {
	s.srv.metrics.ErrorSent(e.Code)
	return e.Append(nil)
}

// actAt is when Sluice acts on a cancel by itself; zero when none was asked for.
func (s *session) actAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel.asked.IsZero() {
		return time.Time{}
	}
	return s.cancel.asked.Add(s.srv.cfg.CancelGrace)
}

// woken is called when a read from the backend ran into a deadline: somebody wants the
// session to look up. Each of the possible reasons is looked at, and where none is due the
// deadline is set to the next of them: who overwrote whose deadline does not matter. An
// error ends the session, or is a lost backend. With nil the read goes on, or the backend
// was given up and the client told (t.settled, t.skip).
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
	case t.chunks != nil:
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

// putOffStop leaves a cancel or a timeout to the batches that begin behind ReadyForQuery.
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

// forgetStops has nothing stop a statement that has ended: only the server's ReadyForQuery is
// late, and an error behind the answer would be a second one.
func (s *session) forgetStops() {
	s.mu.Lock()
	s.cancel.asked = time.Time{}
	s.mu.Unlock()
	s.t.deadline, s.t.stop = time.Time{}, nil
	s.alarmRead()
}

// giveUp stops a turn that the server will not stop: inside a transaction before a COMMIT
// left, or for a statement that only reads, by discarding the backend; the client is told
// e, and its connection lives on. A commit or an autocommit write is waited for, and so is
// a backend that holds the session's own state: then nil is returned and the turn goes on.
// In the middle of a frame that is being gathered all this is left to backendLost.
func (s *session) giveUp(e *wire.Error) error {
	t := s.t
	readable := s.b.src.Raw.Peek() == rawconn.Readable
	// A cancel has the server stop: the client is slow to read what came before. Of a
	// timeout of ours the server knows nothing.
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
	// Half a row cannot be taken back: the turn stops behind its end (pump), if that comes
	// within another grace.
	if t.rest > 0 && !t.restSwallow && (t.stop == nil || readable) { // not in the middle of a row
		t.stop = e
		s.alarmBy(time.Now().Add(s.srv.cfg.CancelGrace))
		return nil
	}
	return s.discardStopped(e)
}

// discardStopped is the end of a turn that is given up.
func (s *session) discardStopped(e *wire.Error) error {
	s.srv.metrics.Cancel(metrics.CancelDiscarded)
	s.stopBackend()
	return s.abandon(e, reservoir.Cancelled)
}

// graceAnew lets a cancel have its grace once more. With the old one, which is over, each
// read from the backend would end before it has begun.
func (s *session) graceAnew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.cancel.asked.IsZero() {
		s.cancel.asked = now
	}
	s.alarmLocked(now.Add(s.srv.cfg.CancelGrace))
}
