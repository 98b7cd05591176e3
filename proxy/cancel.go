package proxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/stopping"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// A CancelRequest arrives on its own connection, whose goroutine calls Waits.HandleCancelRequest. The session's
// goroutine acts on the request, or drops it if the turn has ended. With ForwardCancel (PostgreSQL) the server stops
// the statement, and Sluice acts only after CancelGrace. DSQL ignores cancels, so on DSQL Sluice discards the
// backend. Sluice's own statement timeout ends a statement by the same functions, onReadDeadline and giveUpStatement.

// cancelKey is the process number and secret (BackendKeyData) that Sluice sent to a client. CancelRequests repeat it.
type cancelKey struct {
	pid    uint32
	secret []byte
}

// These limits hold for CancelRequests with unknown keys, for each source address. Honest clients send some, since
// their session may have ended. At ten a second, guessing a secret of 4 bytes takes years.
const (
	cancelKeyBurst    = 100
	cancelKeyInterval = 100 * time.Millisecond
)

// CancelsAtOnce bounds the cancels that Sluice is sending to servers at a time. Each cancel needs a connection, hence a
// file descriptor. Further cancels wait. If the server accepts no connection, Sluice discards the backend instead.
const CancelsAtOnce = 16

// cancelKeyRegistry finds sessions by cancel key. Sluice invents the process numbers in keys, because a session uses
// many backends in turn, or none.
type cancelKeyRegistry struct {
	mu   sync.Mutex
	next uint32
	m    map[uint32]*session
}

// cancelRequests has what the cancel requests of all clients share.
type cancelRequests struct {
	keys       cancelKeyRegistry
	keyGuesses *startup.GuessLimiter
	cancelling chan struct{} // one element for each cancel request on its way to a server
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
	s.b.notifications = nil                                    // notifications for the LISTEN of an earlier client
	s.b.path = rawconn.Path{Limit: s.srv.cfg.BackendPathLimit} // earlier acknowledgements were owed to other clients
	return s.waits.Attach(conn)
}

// cancelPolicy returns how cancel requests stop the statements of the server's sessions.
func (srv *Server) cancelPolicy() interrupt.Policy {
	p := interrupt.Policy{Grace: srv.cfg.CancelGrace}
	if srv.cfg.ForwardCancel {
		p.Send = srv.sendCancel
	}
	return p
}

// sendCancel asks the server to stop the statement on conn. It waits while CancelsAtOnce cancels are being sent.
func (srv *Server) sendCancel(ctx context.Context, conn *reservoir.Conn) error {
	select {
	case srv.cancels.cancelling <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-srv.cancels.cancelling }()
	return conn.Cancel(ctx)
}

// finishCancel ends the turn's cancel once the backend has answered every frame, and reports whether a cancel was
// requested. A forwarded cancel must not hit another client's statement. So the session waits until the cancel has
// reached the server and an empty round trip has returned. If either fails, Sluice discards the backend.
func (s *session) finishCancel() (asked bool) {
	asked, reached := s.waits.FinishCancel()
	if asked && s.t != nil && s.t.nested.on { // the client's own turn must still hear of the cancel
		s.t.request.pendingCancel = interrupt.ErrCanceled
	}
	if reached && !s.waitOutCancel() {
		s.recordPinLoss()
		s.dropBackend(reservoir.Cancelled)
	}
	return asked
}

// waitOutCancel waits until a forwarded cancel can no longer hit a later statement. The server has already answered
// the turn. waitOutCancel reports false if the backend has become unusable. A cancel must reach the server within
// exchangeTimeout and before a shutdown.
func (s *session) waitOutCancel() bool {
	reached, arrived := s.waits.AwaitDelivery(exchangeTimeout, s.srv.ctx.Done())
	if !reached || !arrived {
		return !reached
	}
	s.b.conn.Net.SetReadDeadline(time.Time{})
	// The server answers this empty Sync after any cancel that has reached it. A Sync changes no transaction status, so
	// that another status means that the recorded status is wrong.
	status := s.b.status
	_, err := s.b.exchange(wire.FrameSync)
	return err == nil && s.b.status == status
}

// encodeStopError encodes e, an error that ends a turn of a session without a backend, and counts it in the metrics.
func (s *session) encodeStopError(e *wire.Error) []byte {
	s.srv.metrics.CountErrorSent(e.Code)
	return e.Append(nil)
}

// onReadDeadline handles a read from the backend that ended at its deadline. It checks each reason for a deadline
// (hold_time, statement timeout, cancel, dead network path, shutdown), and sets the next deadline. So overwriting a
// deadline does no harm. An error ends the session or is a lost backend. After nil the read continues, or Sluice has
// given the turn up and the client has the error.
func (s *session) onReadDeadline() error {
	t := s.t
	now := time.Now()
	if t.clock.EndHold(now) {
		t.rec.streams = true
		if err := s.flushToClient(); err != nil {
			return err
		}
	}
	s.waits.Arm()
	if err := s.b.checkPath(); err != nil {
		return err
	}
	switch due := s.waits.Due(now); {
	case due == errCut:
		return errCut
	case t.output.batches != nil: // the batches run after the server's ReadyForQuery, and stop then
		if e := s.waits.TakeRequested(now); e != nil {
			t.request.pendingCancel, t.output.stop = e, nil
		}
	case s.t.awaitsOnlyReady(): // the statement was answered in full, and an error would be a second answer
		s.waits.DropRequested()
		t.output.stop = nil
	case due == interrupt.ErrTimedOut:
		t.clock.Stop()
		s.waits.Arm()
		return s.giveUpStatement(interrupt.ErrTimedOut)
	case t.output.stop != nil:
		return s.giveUpStatement(t.output.stop)
	case due == interrupt.ErrCanceled:
		return s.giveUpStatement(interrupt.ErrCanceled)
	}
	return nil
}

// giveUpStatement discards the backend of a statement that the server does not stop, and sends the client the error
// e. It does so only if the statement cannot have committed: it reads, or its transaction has sent no COMMIT.
// Otherwise, or if the session cannot give up its backend, it returns nil and the turn continues. If the client has
// got half a row, the turn ends after that row.
func (s *session) giveUpStatement(e *wire.Error) error {
	t := s.t
	facts := stopping.Statement{
		Forwarded:    e == interrupt.ErrCanceled && s.srv.cfg.ForwardCancel,
		Readable:     s.b.src.Raw.Peek() == rawconn.Readable,
		MayCommit:    t.server.outcome.MayCommit(),
		KeepsBackend: s.dedicated || s.pin.IsPinned(),
		MidRow:       t.partial.rest > 0 && !t.partial.restSwallow,
		EndsAfterRow: t.output.stop != nil,
	}
	action := facts.Decide()
	if action == stopping.AwaitServer {
		t.output.stop = nil
		s.waits.RestartGrace(s.srv.cfg.CancelGrace)
		return nil
	}
	s.waits.Consume(interrupt.ErrCanceled)
	switch action {
	case stopping.LetRun:
		s.srv.metrics.CountCancel(metrics.CancelIneffective)
		s.srv.log.Warn("a statement runs to its end in spite of a cancel or timeout", "session", s.id, "cause", e.Message, "may_commit", facts.MayCommit, "keeps_backend", facts.KeepsBackend)
		t.request.pendingCancel = e
		s.waits.Arm()
		return nil
	case stopping.EndAfterRow:
		t.output.stop = e
		s.waits.ArmBy(time.Now().Add(s.srv.cfg.CancelGrace))
		return nil
	}
	s.srv.metrics.CountCancel(metrics.CancelDiscarded)
	s.cancelOnBackend() // else the server would run the statement to its end
	return s.abandonTurn(e, reservoir.Cancelled)
}
