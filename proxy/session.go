package proxy

import (
	"cmp"
	"errors"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/options"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// A session is one client's connection. This file has its loop, which awaits the client and runs a turn (exchange.go)
// until the session ends (sessionend.go).
//
// An error of a turn means the same wherever it is returned. For a *wire.Error that is not Fatal, sendRefusal sends the
// error to the client, and the session goes on. For a Fatal error, end sends the error and the session ends. For a
// *lostError, handleBackendLoss replays the transaction or sends the client an error. For errCut the client gets the
// error of a shutdown. Any other error ends the session silently.

// These errors end a session, without an error for the client except for errCut. After errLingers the session goes on.
var (
	errTerminated = feature.ErrTerminated
	errClientGone = errors.New("client gone")
	errHalfRow    = errors.New("a row was cut in the middle") // no frame can follow half a row
	errClientLeft = errors.New("the client has left, and what it had asked for has not ended")
	errServerGone = errors.New("server closed the session's own connection")
	errCut        = interrupt.ErrCut
	errLingers    = errors.New("client lingers") // the session is parked and goes on later (run)
)

// session is one client connection. One goroutine owns it, or none while its client is silent for long (parking.go).
// Fields that other goroutines use are atomic, or guarded by waits. While the owner waits, a timer may check the
// client on another goroutine; the owner does nothing else then.
type session struct {
	srv  *Server
	id   uint64
	user string
	// database is the cluster's database that the client's database name maps to, for log lines.
	database string
	key      cancelKey

	link
	blockState
	settings     settings.Client
	statements   statement.ClientSet
	lastTemplate *statement.Template // the template of the last Parse
	// txParsing has hashes of the settings for SQL parsing if a transaction has changed them. Otherwise it is zero.
	txParsing serversettings.TxParsing
	memory    memoryAccounts // accounts.go
	stored    cursor.Stored
	sequences sequence.ClientRecord // sequences.go
	schema    schemaChange
	mapped    mapping.View // resolvenames.go
	// advisory has the session's advisory locks (locks.go). It is nil until the client asks for a lock.
	advisory *sessionLocks

	// inSchema is the schema that the client's database name maps to, or "". It is constant after the startup.
	inSchema string

	turns uint64
	began time.Duration // the session's start, as a time after processStart

	optedOut bool // the client, or its user's configuration, turns replay off
	// broken means that the session has panicked, so that the state of its backend is unknown.
	broken bool
	// guest means that the session still runs on a goroutine from the pool for new connections.
	guest bool
	// mayLinger means that the session waits for its client without a backend. So it may be parked (left without a
	// goroutine). The sweeper reads this flag.
	mayLinger atomic.Bool
	// idleEnds is when the idle limit ends the session, in ns after began. 0 means no limit, or a client that is not idle.
	// The sweeper reads idleEnds.
	idleEnds atomic.Int64
	arrival  *clientConn         // the connection's place in the limit of connections, released at the end
	spot     rawconn.ParkingSpot // where wake finds the session while it is parked
}

// link is the part of a session that reads from its client and writes to it. It uses neither the Server nor features.
type link struct {
	*activeState // nil while the session is parked; activestate.go
	pairing
	client wire.Reader
	waits  interrupt.Waits
	// withheld is output of the turn that Sluice does not send the client yet, because a replay may replace it.
	withheld         retry.HeldOutput
	bufferOutputFunc func([]byte) error // bufferOutput as a value, which is allocated only once
	// deliveries counts how often Sluice has sent the client all its output so far.
	deliveries uint64
}

// pairing is the session's backend, turn and state, which together say where its transaction is. Only the session uses
// the backend b while it has b. waits has the backend's connection too, for cancels, sweeps and Server.Close.
type pairing struct {
	b *backend // the session's backend, set only in the states busy, inTransaction and replaying
	// witness is a replay's second backend, for the parts that ROLLBACK TO has discarded (discarded.go).
	witness *backend
	t       *turn // nil between turns
	state   sessionState
	// dedicated means that the client has its own backend from startup to end, and that Sluice relays frames unread
	// (backend kind postgres, session pairing).
	dedicated bool
	// clientBroken means that the client's connection is broken. It may also mean that the client got only a part of a
	// frame, because a write failed.
	clientBroken bool
	// pin says whether the session left state on its backend that no other backend has.
	pin pin.State
	// deferredBegin is a BEGIN that Sluice has answered, in state begun. Sluice sends it before the first statement
	// that needs a server.
	deferredBegin *statement.Template
	// failedBegin is the client's BEGIN of a block that failed before the session had a backend.
	failedBegin *statement.Template
}

// processStart is when this process began. A session stores a Duration after processStart, to save memory.
var processStart = time.Now()

// age returns how long the session has existed.
func (s *session) age() time.Duration { return time.Since(processStart) - s.began }

// blockState has the session's state for transactions with DDL that Sluice commits in parts, and the client's options.
type blockState struct {
	parts   *ddltx.Tx      // parts.go; nil where transactions are not committed in parts
	options options.Client // options.go
}

// newSession returns a session without a backend, ready for turns. Without replay the session withholds no output.
// Sessions are not pooled, since a late cancel or timer of an ended session must not reach another client.
func newSession(srv *Server, id uint64, h *startup.Client) *session {
	s := new(session) // a literal would be built on the stack and copied
	s.srv, s.id, s.user, s.database, s.began = srv, id, h.User, h.Database, time.Since(processStart)
	s.client = wire.NewReader(h.Conn, h.Raw)
	s.settings = srv.pool.settings.NewClient()
	s.activate()
	s.memory.account = srv.accounts.NewClient()
	s.options = srv.options.NewClient(h.User)
	s.planner() // sets parts
	if r := srv.pool.replays; r != nil {
		s.withheld = retry.NewHeldOutput(r.cfg.HeldBytes, r.held)
		s.bufferOutputFunc = s.bufferOutput
		s.optedOut = srv.cfg.disablesReplayFor(h.User)
	}
	return s
}

// applyEvent applies an event to the session's state. If the table transitions does not allow the event in this state,
// that is a bug, and feature.ErrInternal ends the session.
func (s *session) applyEvent(e sessionEvent) error {
	to, ok := nextState(s.state, e)
	if !ok {
		s.srv.log.Error("no such transition", "session", s.id, "state", s.state, "event", e)
		return feature.ErrInternal
	}
	s.state = to
	return nil
}

// txStatus returns the transaction status of a ReadyForQuery that Sluice would send now: 'I', 'T' or 'E'. If the
// session has a backend, it is the status of the server's last ReadyForQuery.
func (p *pairing) txStatus() byte {
	switch p.state {
	case begun:
		return 'T'
	case failed:
		return 'E'
	case inTransaction, busy:
		if p.b != nil {
			return p.b.status
		}
	}
	return 'I'
}

// serve runs turns until the session ends, and returns the cause, which is never nil. If a turn lost a pinned backend,
// the session ends, and the client gets the error that its state is lost.
func (s *session) serve() error {
	for {
		if err := s.awaitClient(); err != nil {
			return err
		}
		if lost := s.srv.observers.loss(s); lost != nil {
			return lost.session
		}
		s.t = s.newTurn()
		s.waits.UseClock(&s.t.clock)
		err := s.runTurn(s.handleNextFrame)
		s.t.returnToPool()
		s.t = nil
		s.waits.UseClock(nil)
		s.freeUnnamed()
		s.updateMemoryCharges()
		if err != nil {
			return err
		}
		if s.parts.IsOn() && !s.inBlock() {
			s.parts.Reset()
		}
		s.turns++
		// The client has got all output so far, and therefore the answer to each Parse (revalidateStatement).
		s.deliveries++
		s.srv.metrics.CountTurn()
		if s.pin.IsLost() {
			return s.pinLostError()
		}
		if lost := s.srv.observers.loss(s); lost != nil {
			return lost.session
		}
	}
}

// awaitClient returns when the client has sent something. An error ends the session: a drain, a timeout, or a pinned
// backend that broke.
//
// A read deadline has one of five purposes: the idle limit, a guest's limit, a drain, a cut, and the sweeper's request
// to park. After the read ends, the clock and the flags show which purpose applies. If none does, the read goes on, or
// the session is parked (left without a goroutine). Other goroutines set a flag before the deadline, and awaitClient
// checks the flags after it sets a deadline. So it never misses a flag.
func (s *session) awaitClient() error {
	if err := s.reasonToEnd(); err != nil || s.client.Buffered() > 0 {
		return err
	}
	end, expired := s.silenceDeadline()
	if !end.IsZero() {
		s.client.Conn.SetReadDeadline(end)
	}
	for {
		if err := s.reasonToEnd(); err != nil {
			return err
		}
		var err error
		if s.b != nil && (s.dedicated || s.pin.IsPinned() || s.b.status == 'I') {
			err = s.awaitClientOrServer()
		} else {
			err = s.client.WaitIdle()
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
			return cmp.Or(s.reasonToEnd(), expired)
		}
		s.client.Conn.SetReadDeadline(end)
		if s.mayLinger.Load() {
			return cmp.Or(s.reasonToEnd(), errLingers)
		}
	}
}

// silenceDeadline returns end, until when the client may stay silent, and expired, the error after that time. With
// errLingers the session goes on, but gives up its pooled goroutine. A zero end means no limit.
func (s *session) silenceDeadline() (end time.Time, expired error) {
	limit, expired := s.idleLimit()
	if limit > 0 {
		end = s.idleDeadline(limit)
	}
	if may := s.b == nil; may != s.mayLinger.Load() {
		s.mayLinger.Store(may)
	}
	if s.guest && s.b == nil && s.turns < firstTurns {
		if soon := time.Now().Add(earlyIdleLimit); end.IsZero() || soon.Before(end) {
			return soon, errLingers
		}
	}
	return end, expired
}

// reasonToEnd returns why the session must end between two turns, or nil. The reason is errCut after a cut, or
// sqlerror.Draining in a drain if no transaction is open.
func (s *session) reasonToEnd() error {
	switch {
	case s.waits.IsCut():
		return errCut
	case s.srv.draining.Load() && (s.state == idle || s.state == inTransaction && s.b.status == 'I'):
		return sqlerror.Draining
	}
	return nil
}

// idleLimit returns how long the client may be silent now (0: for ever) and the error when that limit is over. In a
// transaction the shorter of the configured and the client's own limit applies. The client's own limit counts here only
// if Sluice enforces that setting instead of the server.
func (s *session) idleLimit() (time.Duration, error) {
	switch s.state {
	case begun, inTransaction, failed:
		if s.txStatus() == 'I' {
			break
		}
		limit := s.srv.cfg.IdleTransactionTimeout
		if s.settings.IdleInTransactionTimeout() > 0 && (limit == 0 || s.settings.IdleInTransactionTimeout() < limit) {
			limit = s.settings.IdleInTransactionTimeout()
		}
		return limit, sqlerror.IdleInTransaction
	}
	return s.srv.cfg.ClientIdleTimeout, sqlerror.IdleClient
}

// run runs a session after its startup. end releases the backend before removeSession removes the session, since
// Shutdown returns after the last removal. lingers means that the caller must park the session (leave it without a
// goroutine). resumeSession later calls run again on another goroutine.
func (s *session) run() (lingers bool) {
	s.activate()
	defer s.deactivate()
	cause := s.serveRecovering()
	if cause == errLingers {
		s.client.Conn.SetReadDeadline(time.Time{}) // parking checks for a reason to wake after this
		return true
	}
	usual := s.isOrderlyEnd(cause)
	s.end(cause)
	s.srv.removeSession(s)
	s.srv.metrics.CountSessionEnd(sessionEndLabel(cause))
	s.logEnd(cause, usual)
	return false
}

// serveRecovering calls serve. A panic ends only this session. After a panic Sluice does not know the state of the
// backend, and the field broken makes end discard it.
func (s *session) serveRecovering() (cause error) {
	defer func() {
		if p := recover(); p != nil {
			s.srv.log.Error("session panicked", append(s.logAttrs(), "panic", p, "stack", string(debug.Stack()))...)
			s.broken = true
			cause = feature.ErrInternal
		}
	}()
	return s.serve()
}

// unwrapRawConn returns the socket under conn, which may be TLS or a test's wrapper. If there is no rawconn.Conn,
// Sluice reads and writes conn by ordinary calls.
func unwrapRawConn(conn net.Conn) rawconn.Conn {
	for {
		switch c := conn.(type) {
		case rawconn.Conn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return rawconn.WrapPlain(conn)
		}
	}
}
