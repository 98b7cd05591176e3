package proxy

import (
	"cmp"
	"errors"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// A session is one client's connection, and this file is its loop: await the client and take
// a turn (exchange.go), until it ends (sessionend.go).
//
// The errors of a turn have these meanings, wherever they are returned. A *wire.Error that
// is not Fatal is for the client, who has not been told: refuse tells it, and the session
// goes on. A Fatal one ends the session, and end tells it. A *lostError says that the
// backend is lost: backendLost runs the transaction again, or tells the client. Every other
// error ends the session without a word to the client, save errCut, for which it is told
// that Sluice is shutting down.

// Ends of a session that are not the client's fault and need no reply.
var (
	errTerminated = feature.ErrTerminated
	errClientGone = errors.New("client gone")
	errHalfRow    = errors.New("a row was cut in the middle") // nothing can be told behind it
	errClientLeft = errors.New("the client has left, and what it had asked for has not ended")
	errServerGone = errors.New("server closed the session's own connection")
	errCut        = errors.New("cut at the end of a drain")
	errLingers    = errors.New("client lingers") // no end: see run
)

// session is one client connection. One goroutine owns it, none while it is parked (linger.go);
// what others may touch is behind mu or atomic. Its parts are values, each at home in the file that is named. Besides the
// owner there are, for as long as a wait of Sluice's own lasts, the looks for the client
// (lookOut), while the owner does nothing but wait.
type session struct {
	srv  *Server
	id   uint64
	user string
	// database is the name that the client's stands for; for the log.
	database string
	key      cancelKey
	client   wire.Reader

	*atWork // atwork.go; nil while the client lingers
	pairing
	blockState
	settings   settings.Client
	statements // prepared.go
	accounts   // accounts.go
	storedCursors
	sequences sequence.Client // sequences.go
	schema    schemaChange
	mapped    mapped // mapnames.go
	// advisory are the advisory locks, nil where the client has asked for none: lockkeeper.go.
	advisory *sessionLocks

	// withheld is output of the turn that its client has not been sent.
	withheld retry.Held
	sinkDown func([]byte) error // writeDown, made once
	// inSchema is the schema that the client's database name stands for; "" for none. It
	// stays as it is from the startup on.
	inSchema string

	// heard counts the moments at which the client was sent all that there was for it.
	heard uint64
	turns uint64
	began time.Duration // after birth

	optedOut bool // the client, or its user, wants no replay
	// clientBroken: a look found its connection broken, or a write failed, of which the client may
	// have a part.
	clientBroken bool
	// guest: the session runs on a goroutine that others wait for, until it lingers.
	guest bool
	// mayLinger: it awaits its client for as long as that takes, on a stack that has grown; the
	// sweeper reads it.
	mayLinger atomic.Bool
	// idleEnds is when the client has been silent for as long as it may, in ns after began; 0 while it is
	// not silent, or may be for ever. The sweeper reads it.
	idleEnds atomic.Int64
	arrival  *arrival     // the connection's place among all, which is given back at the end
	spot     rawconn.Spot // where it is parked, or was; see nudge

	// broken: the session met a bug; nobody knows what its backend is doing.
	broken bool

	// cutOff ends the session wherever it is.
	cutOff atomic.Bool
	tick   atomic.Uint64 // odd while a turn waits for the backend; see Server.sweep

	looks  sync.Mutex // held by a look for the client of a session in line, and before mu
	mu     sync.Mutex
	cancel cancelState // guarded by mu
}

// pairing is where a session stands with its backend. While a backend is lent, b belongs to
// the session alone; a copy of the pointer in cancelState is for cancels, sweeps and the
// Server's Close, under mu.
type pairing struct {
	b *backend // nil unless busy, inTransaction or replaying
	// witness is a second backend, for as long as a transaction is run again: discarded.go.
	witness *backend
	t       *turn // nil between turns
	state   state
	// dedicated: the backend is this client's own from startup to end, and
	// frames pass unseen (backend kind postgres, session pairing).
	dedicated bool
	// pinned: the session has state on its backend that no other has; pinLost: that
	// backend is gone, and what the session had there.
	// found: a look at the backend has found it, and nothing else says so.
	pinned, pinLost, found bool
}

// birth is when this process began: a session has a duration in the place of a time, which is smaller.
var birth = time.Now()

// age is for how long the session has been there.
func (s *session) age() time.Duration { return time.Since(birth) - s.began }

// blockState is the transaction that a session is in. A BEGIN that was answered here waits in
// deferredBegin for the first statement that needs a server.
type blockState struct {
	deferredBegin *template // the BEGIN to send in front, while begun
	// unserved is that of a block that has failed before it had a backend.
	unserved *template
	parts    *parts // parts.go; nil where transactions are not committed in parts
	chosen   chosen // choices.go
}

// newSession returns a session without a backend, which may take turns. Without replay its output is never withheld.
// Sessions are not pooled: a late cancel or timer of an ended session must not reach another client.
func newSession(srv *Server, id uint64, h *startup.Client) *session {
	s := new(session) // not a literal, which is made on the stack and copied
	s.srv, s.id, s.user, s.database, s.began = srv, id, h.User, h.Database, time.Since(birth)
	s.client = wire.NewReader(h.Conn, h.Raw)
	s.settings = settings.NewClient(srv.treat, &srv.interned)
	s.takeUp()
	s.account = srv.accounts.New()
	if s.chosen.user = srv.users[h.User]; s.chosen.user == nil {
		s.chosen.user = &noChoices
	}
	s.adopt(nil)
	if r := srv.replays; r != nil {
		s.withheld = retry.NewHeld(r.cfg.HeldBytes, r.held)
		s.sinkDown = s.writeDown
		s.optedOut = srv.cfg.withoutReplay(h.User)
	}
	return s
}

// move applies an event; a pair that the table lacks is a bug, and errInternal ends the
// session.
func (s *session) move(e event) error {
	to, ok := next(s.state, e)
	if !ok {
		s.srv.log.Error("no such transition", "session", s.id, "state", s.state, "event", e)
		return errInternal
	}
	s.state = to
	return nil
}

// status is the byte that a ReadyForQuery of Sluice's own carries now. A backend's is that
// of its last ReadyForQuery: in the middle of a group it says where the group began.
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

// serve runs turns until the client leaves; the error says why it ended, and is never nil.
// Behind a turn in which a pinned backend was lost there is no other: the client has its
// answer, and is told in end that its state is gone.
func (s *session) serve() error {
	for {
		if err := s.await(); err != nil {
			return err
		}
		if s.locksLost() {
			return errLockGone
		}
		s.t = turnPool.Get().(*turn)
		err := s.turn(s.step)
		s.t.free()
		s.t = nil
		s.freeSpare()
		s.chargeTurn()
		if err != nil {
			return err
		}
		s.forgetParts()
		s.turns++
		// Everything that there was for the client has been written: see asNow.
		s.heard++
		s.srv.metrics.Turn()
		if s.pinLost {
			return s.pinGone()
		}
		if s.locksLost() {
			return errLockGone
		}
	}
}

// await returns when the client has sent something, and deals with what may happen before:
// drain, timeouts, a pinned backend that speaks. An error ends the session.
//
// A read deadline serves five purposes here: the idle limit, the patience with a guest, the
// nudge of a drain, the cut, and the sweeper's nudge of one that may linger. The clock and the
// flags tell which of them ended the read; where none did, the read goes on, or the session
// lingers. The flags are looked at behind each setting of the deadline: whoever sets a flag
// sets the deadline after it, so that one of the two is seen.
func (s *session) await() error {
	if err := s.toEnd(); err != nil || s.client.Buffered() > 0 {
		return err
	}
	end, expired := s.patience()
	if !end.IsZero() {
		s.client.Conn.SetReadDeadline(end)
	}
	for {
		if err := s.toEnd(); err != nil {
			return err
		}
		var err error
		if s.b != nil && (s.dedicated || s.pinned || s.b.status == 'I') {
			err = s.awaitEither()
		} else {
			err = s.client.Idle()
		}
		switch {
		case err == nil:
			if !end.IsZero() {
				s.client.Conn.SetReadDeadline(time.Time{})
				s.idleEnds.Store(0)
			}
			return nil
		case !isTimeout(err):
			return err
		case !end.IsZero() && !time.Now().Before(end):
			return cmp.Or(s.toEnd(), expired)
		}
		s.client.Conn.SetReadDeadline(end)
		if s.mayLinger.Load() {
			return cmp.Or(s.toEnd(), errLingers)
		}
	}
}

// patience is when the session ends whose client stays silent, or lingers: by the idle limit, save for
// a guest in its first turns. Without an end the client may be silent for ever.
func (s *session) patience() (end time.Time, expired error) {
	limit, expired := s.idleLimit()
	if limit > 0 {
		end = s.silentUntil(limit)
	}
	if may := s.b == nil; may != s.mayLinger.Load() {
		s.mayLinger.Store(may)
	}
	if s.guest && s.b == nil && s.turns < firstTurns {
		if soon := time.Now().Add(briefly); end.IsZero() || soon.Before(end) {
			return soon, errLingers
		}
	}
	return end, expired
}

// toEnd is why the session ends between two turns: it is cut, or drained where no
// transaction is open. nil: it goes on.
func (s *session) toEnd() error {
	switch {
	case s.cutOff.Load():
		return errCut
	case s.srv.draining.Load() && (s.state == idle || s.state == inTransaction && s.b.status == 'I'):
		return errDraining
	}
	return nil
}

// idleLimit is how long the client may be silent now, and the error for one that is silent
// longer; 0 for ever. In a transaction the shorter of the configuration's limit and the
// client's own counts; the client's own is set where Sluice keeps that setting, else it is
// the server's to enforce.
func (s *session) idleLimit() (time.Duration, error) {
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

// run is a session's life after its startup. The backend is given up or back (end) before
// the session is forgotten: Shutdown returns when the last session is. One that lingers has
// not ended: run is called again, by another goroutine (goOn).
func (s *session) run() (lingers bool) {
	s.takeUp()
	defer s.layDown()
	cause := s.guarded()
	if cause == errLingers {
		s.client.Conn.SetReadDeadline(time.Time{}) // park looks for a reason behind it
		return true
	}
	usual := s.endsAsUsual(cause)
	s.end(cause)
	s.srv.forget(s)
	s.srv.metrics.SessionEnded(endCause(cause))
	s.logEnd(cause, usual)
	return false
}

// guarded is serve, with a panic turned into the end of this session alone. Behind a panic
// nobody knows what the backend was sent: broken has end discard it.
func (s *session) guarded() (cause error) {
	defer func() {
		if p := recover(); p != nil {
			s.srv.log.Error("session panicked", append(s.logAttrs(), "panic", p, "stack", string(debug.Stack()))...)
			s.broken = true
			cause = errInternal
		}
	}()
	return s.serve()
}

// rawOf finds the socket under conn, which may be TLS or a wrapper of a test. A connection
// without the raw layer is read by ordinary calls.
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
