package proxy

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
)

// Ends of a session that are not the client's fault and need no reply.
var (
	errTerminated = errors.New("client said goodbye")
	errClientGone = errors.New("client gone")
	errServerGone = errors.New("server closed the session's own connection")
	errCut        = errors.New("cut at the end of a drain")
)

// session is one client connection. One goroutine owns it; what others may
// touch is behind mu or atomic. Its parts are values, each at home in the file that is named.
type session struct {
	srv    *Server
	id     uint64
	user   string
	key    cancelKey
	client wire.Reader
	// clientBroken: a look found its connection broken.
	clientBroken bool

	pairing
	block
	settings    settings.Client
	statements  // prepared.go
	openPortals // portal.go
	draws       // sequences.go
	schema      schemaChange

	// withheld is output of the turn that its client has not been sent.
	withheld retry.Held
	sinkDown func([]byte) error // writeDown, made once
	optedOut bool               // the client, or its user, wants no replay

	// heard counts the moments at which the client was sent all that there was for it.
	heard  uint64
	turns  uint64
	began  time.Time
	probed time.Time // when the client was probed last; see probe

	// broken: the session met a bug; nobody knows what its backend is doing.
	broken bool

	// cut ends the session wherever it is.
	cutOff atomic.Bool
	tick   atomic.Uint64 // odd while a turn waits for the backend; see Server.sweep

	mu     sync.Mutex
	cancel cancelState // guarded by mu
}

// pairing is where a session stands with its backend.
type pairing struct {
	state state
	b     *backend // nil unless busy or inTransaction
	t     *turn    // nil between turns
	// dedicated: the backend is this client's own from startup to end, and
	// frames pass unseen (backend kind postgres, session pairing).
	dedicated bool
	// pinned: the session has state on its backend that no other has; pinLost: that
	// backend is gone, and what the session had there.
	pinned, pinLost bool
}

// block is the transaction that a session is in.
type block struct {
	deferredBegin *template // the BEGIN to send in front, while begun
	// unserved is that of a block that has failed before it had a backend.
	unserved *template
	tx       transaction
}

func newSession(srv *Server, id uint64, h *startup.Client) *session {
	s := &session{srv: srv, id: id, client: wire.NewReader(h.Conn, h.Raw), user: h.User,
		settings: settings.NewClient(srv.treat, &srv.interned), began: time.Now()}
	if r := srv.replays; r != nil {
		s.withheld = retry.NewHeld(r.cfg.HeldBytes, r.held)
		s.sinkDown = s.writeDown
		s.optedOut = srv.cfg.withoutReplay(h.User)
	}
	return s
}

// move applies an event; a pair that the table lacks is a bug.
func (s *session) move(e event) error {
	to, ok := next(s.state, e)
	if !ok {
		s.srv.log.Error("no such transition", "session", s.id, "state", s.state, "event", e)
		return errInternal
	}
	s.state = to
	return nil
}

// status is the byte a local ReadyForQuery carries.
func (s *session) status() byte {
	switch s.state {
	case begun:
		return 'T'
	case failed:
		return 'E'
	case inTransaction, busy:
		if s.b != nil {
			return s.b.status
		}
	}
	return 'I'
}

// serve runs turns until the client leaves; the error says why it ended.
func (s *session) serve() error {
	for {
		if err := s.await(); err != nil {
			return err
		}
		s.t = turnPool.Get().(*turn)
		err := s.turn()
		s.t.free()
		s.t = nil
		if err != nil {
			return err
		}
		s.turns++
		s.heard++
		s.srv.metrics.Turn()
		if s.pinLost {
			return errPinLost
		}
	}
}

// await returns when the client has sent something, and deals with what may
// happen before: drain, timeouts, a pinned backend that speaks.
func (s *session) await() error {
	for {
		if s.srv.draining.Load() && (s.state == idle || s.state == inTransaction && s.b.status == 'I') {
			return errDraining
		}
		if s.client.Buffered() > 0 {
			return nil
		}
		limit, expired := s.idleLimit()
		if limit > 0 {
			s.client.Conn.SetReadDeadline(time.Now().Add(limit))
		}
		start := time.Now
		var began time.Time
		if limit > 0 {
			began = start()
		}
		var err error
		if s.b != nil && (s.dedicated || s.pinned || s.b.status == 'I') {
			err = s.awaitEither()
		} else {
			err = s.client.Idle()
		}
		switch {
		case err == nil:
			if limit > 0 {
				s.client.Conn.SetReadDeadline(time.Time{})
			}
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case s.cutOff.Load():
			return errCut
		case limit > 0 && time.Since(began) >= limit:
			return expired
		}
		s.client.Conn.SetReadDeadline(time.Time{})
	}
}

// idleLimit is how long the client may be silent now, and the error for one
// that is silent longer; 0 for ever.
func (s *session) idleLimit() (time.Duration, *wire.Error) {
	switch s.state {
	case begun, inTransaction, failed:
		if s.status() == 'I' {
			break
		}
		limit := s.srv.cfg.IdleTransactionTimeout
		if s.settings.IdleInTransactionTimeout() > 0 && (limit == 0 || s.settings.IdleInTransactionTimeout() < limit) {
			limit = s.settings.IdleInTransactionTimeout()
		}
		return limit, errIdleInTransaction
	}
	return s.srv.cfg.ClientIdleTimeout, errIdleClient
}

// turn relays one turn: the client's frames up to the one that ends it, and
// everything that answers them.
func (s *session) turn() error {
	err := s.exchangeFrames()
	if s.t.uplink != nil {
		s.closeUplink() // the turn is over: a failed write has been told, or no longer matters
	}
	s.client.Release()
	return err
}

func (s *session) exchangeFrames() error {
	for !s.t.settled {
		var err error
		if s.t.ended { // the backend was lost, and its successor owes the rest
			err = s.finish()
		} else {
			err = s.step()
		}
		if err != nil {
			err = s.recovered(err)
			if err == nil && s.pinLost && !s.t.settled {
				err = errPinLost
			}
			if err == nil && s.t.skip && !s.t.settled {
				// A client may wait for the error behind a Flush.
				if err = s.flush(); err != nil {
					if err = s.recovered(err); err == nil && !s.t.settled {
						err = s.flushToClient()
					}
				}
			}
		}
		if err != nil {
			if s.t.rest == 0 || s.t.phase == aborting {
				s.releaseWithheld() // a write error shows again at the next write
				s.flushDown()
			}
			return err
		}
	}
	if err := s.releaseWithheld(); err != nil {
		return err
	}
	return s.flushDown()
}

// recovered goes on after an error that is not the session's end. A backend may be lost
// while an error is told, and another while the first one's loss is mended.
func (s *session) recovered(err error) error {
	var gone *lostError
	var out *wire.Error
	if !errors.As(err, &gone) && errors.As(err, &out) && !out.Fatal {
		err = s.refuse(out)
	}
	for errors.As(err, &gone) && s.b != nil {
		if err = s.backendLost(gone); s.dedicated {
			break
		}
	}
	return err
}

// step handles the next frame of the client.
func (s *session) step() error {
	typ, total, err := s.nextFrame()
	if err != nil {
		return err
	}
	if s.t.phase == aborting {
		if err := s.resolve(); err != nil || s.t.settled {
			return err
		}
	}
	return s.handle(typ, total)
}

// end releases what the session holds. It tells the client why where the
// protocol has a place for it.
func (s *session) end(cause error) {
	var clientErr *wire.Error
	if errors.Is(cause, errCut) {
		clientErr = errDraining
	} else {
		errors.As(cause, &clientErr)
	}
	if clientErr != nil {
		s.srv.metrics.ErrorSent(clientErr.Code)
		fatal := *clientErr
		fatal.Fatal = true
		s.client.Conn.SetWriteDeadline(time.Now().Add(time.Second))
		s.client.Conn.Write(fatal.Append(nil))
	}
	s.client.Conn.Close()
	s.client.Drop()
	s.withheld.Drop()
	s.endTransaction(false)
	s.schemaCommitted() // nobody knows
	if s.b == nil {
		return
	}
	if s.pinned {
		s.srv.pinned.Add(-1)
	}
	inTurn := s.state == busy || s.state == replaying
	s.move(left)
	switch {
	case s.keeps():
		if inTurn {
			s.stopBackend()
		}
		s.dropBackend(reservoir.Pinned)
	case inTurn || s.broken || s.cutOff.Load():
		s.stopBackend()
		s.dropBackend(reservoir.ClientGone)
	default:
		s.rollback()
	}
}

// keeps reports whether the session keeps its backend to its end.
func (s *session) keeps() bool {
	return s.dedicated || s.pinned || s.srv.cfg.Pairing == Session
}

// rollback ends the transaction that a vanished client left open, so that no
// lock stays behind, and gives the backend back.
func (s *session) rollback() {
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
	if err != nil || refusal != nil || s.b.status != 'I' {
		s.dropBackend(reservoir.Unclean)
		return
	}
	s.settleCancel()
	if s.b != nil {
		s.releaseBackend()
	}
}

// logAttrs are what every line about a session says.
func (s *session) logAttrs() []any {
	return []any{slog.Uint64("session", s.id), slog.String("client", s.client.Conn.RemoteAddr().String())}
}

// rawOf finds the socket under conn.
func rawOf(conn net.Conn) rawconn.Conn {
	for {
		switch c := conn.(type) {
		case rawconn.Conn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return rawconn.Plain(conn)
		}
	}
}
