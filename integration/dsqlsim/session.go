package dsqlsim

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

const (
	// lastTransaction is how much longer than MaxAge a connection with an open
	// transaction lives: no transaction may be older (AWS quotas: 5 minutes).
	lastTransaction = 5 * time.Minute
	// watchEvery is how often an idle session looks after its age and whether
	// PostgreSQL has something to say.
	watchEvery = time.Second
	// vanishGrace is how long a statement may go on when its client has left.
	vanishGrace = time.Second

	clientBuffer = 16 << 10 // one TLS record
)

// Transaction status as ReadyForQuery says it.
const (
	statusIdle    = 'I'
	statusInBlock = 'T'
	statusFailed  = 'E'
)

// session is one client and its PostgreSQL connection. Its fields belong to the
// goroutine that runs it, but for link, waitingSince and yield.
type session struct {
	server *Server
	id     uint64
	key    cancelKey
	born   time.Time

	// uncount takes the session off the gauge of those that have their client, before the
	// client can see that it is cut off.
	uncount  func()
	link     link
	toClient *bufio.Writer
	upstream upstreamConn

	inbox   *inbox
	queue   frameQueue
	current handling
	replies replyQueue

	// status is that of the last ReadyForQuery, and within a turn what it will
	// be if everything succeeds.
	status byte
	turn   turn
	// skipping: an error was answered, the client's frames are void up to Sync.
	skipping bool
	// broken: a Query has failed.
	broken bool

	names     names
	schema    schema
	rules     dialect.Transaction
	block     block
	usage     usage
	journal   journal
	injection injection
	// job was submitted by the statement that runs, awaited is what it waits for.
	job, awaited string

	// waitingSince is when the session began to do what may wait for others, in Unix
	// nanoseconds, or 0. The referee reads it, and writes to yield.
	waitingSince atomic.Int64
	yield        chan yieldRequest
	// locksMoved is when the transaction's locks were last let go or taken again.
	locksMoved time.Time
}

// handling is how far the client's frame at hand has come.
type handling struct {
	checked bool // faults were looked for
	sent    bool // its reply is pending
}

// turn is what has happened since the last ReadyForQuery.
type turn struct {
	begun bool // something was sent
	busy  bool // something was executed
}

// serveSession dials PostgreSQL for an authenticated client and serves it to its end.
// raw is the TCP connection below client. It calls leave before a client can see
// that its session has ended: whoever connects then has the place.
func (s *Server) serveSession(client, raw net.Conn, id uint64, start *startup, leave func()) {
	if err := s.catalog.install(s.ctx, s.upstream); err != nil {
		s.log.Warn("no jobs, and no rules of the schema", "error", err)
	}
	up, err := s.upstream.dial(s.ctx, start.role, start.parameters)
	if err != nil {
		s.refuse(client, id, fmt.Errorf("%w: %w", upstreamFailure(err), err))
		return
	}
	s.established.Add(1)
	each := &session{
		uncount: sync.OnceFunc(func() { s.established.Add(-1) }), server: s, id: id, born: time.Now(), status: statusIdle,
		key:      cancelKey{up.PID, string(up.SecretKey)},
		link:     link{client: raw, upstream: up.Conn, done: make(chan struct{})},
		toClient: bufio.NewWriterSize(client, clientBuffer),
		upstream: newUpstreamConn(up.Conn),
		inbox:    newInbox(s.config.Limits.MessageBytes),
		names:    newNames(),
		schema:   schema{changes: &s.schemaChanges, known: s.schemaChanges.Load()},
		journal:  journal{ledger: s.ledger, metrics: s.metrics, session: id, pid: up.PID},
		yield:    make(chan yieldRequest, 1),
	}
	defer each.uncount()
	defer each.link.cut()
	if !s.register(each) {
		return
	}
	defer s.unregister(each)
	_ = client.SetDeadline(time.Time{})
	limit := time.AfterFunc(s.config.MaxAge+lastTransaction, each.link.cut)
	defer limit.Stop()

	s.metrics.connected.Inc()
	each.journal.add(Event{Kind: "connect", Outcome: "ok", Detail: start.role})
	if err := each.welcome(start.role, up.ParameterStatuses); err != nil {
		return
	}
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		each.inbox.fill(client, each.link.done)
		each.abandon()
	}()
	err = each.run()
	each.uncount()
	leave()
	each.end(client, err)
	<-filled
	s.plan.forget(id)
	each.journal.close(err, each.replies.first() == nil || each.injection.mustFail, !each.replies.endTurn())
	if errors.Is(err, errUpstream) && s.ctx.Err() == nil {
		s.log.Warn("upstream lost", "session", id, "error", err)
	}
}

// abandon is called when the client has ended. What it sent still runs, as on
// any server, but a statement that goes on is ended by and by.
func (s *session) abandon() {
	select {
	case <-s.link.done:
	case <-time.After(vanishGrace):
		s.link.cut()
	}
}

// end says goodbye as the cause deserves, and closes both connections.
func (s *session) end(client net.Conn, cause error) {
	if f, ok := errors.AsType[*failure](cause); ok {
		_, _ = s.toClient.Write(encode(f.response()))
	}
	if !errors.Is(cause, errCut) {
		// PostgreSQL's last words are in the buffer, or ours. The client may be
		// gone, and must not keep us.
		_ = client.SetWriteDeadline(time.Now().Add(vanishGrace))
		_ = s.toClient.Flush()
		_, _ = s.link.upstream.Write(encode(&pgproto3.Terminate{}))
		_ = client.Close()
	}
	s.link.cut()
}

// welcome ends the startup: authenticated, parameters, key, ready. Which
// parameters a cluster reports is not known; these are PostgreSQL's, with the
// cluster's version and role.
func (s *session) welcome(role string, parameters map[string]string) error {
	out := encode(&pgproto3.AuthenticationOk{})
	for name, value := range parameters {
		switch name {
		case "server_version":
			value = dialect.ServerVersion
		case "is_superuser":
			value = "off"
		case "session_authorization":
			value = role
		}
		out = append(out, encode(&pgproto3.ParameterStatus{Name: name, Value: value})...)
	}
	out = append(out, encode(&pgproto3.BackendKeyData{ProcessID: s.key.pid, SecretKey: []byte(s.key.secret)})...)
	out = append(out, encode(&pgproto3.ReadyForQuery{TxStatus: statusIdle})...)
	if _, err := s.toClient.Write(out); err != nil {
		return err
	}
	return s.toClient.Flush()
}

// run serves the client until it ends, and returns why.
func (s *session) run() error {
	watch := time.NewTimer(watchEvery)
	defer watch.Stop()
	for {
		f, err := s.peek()
		switch {
		case err != nil:
			return err
		case f == nil:
			err = s.idle(watch)
		case isCopyData(f.kind) && s.replies.first() != nil:
			err = s.settle() // a COPY may be about to begin, and want this frame
		default:
			next := s.queue.pop()
			s.current = handling{}
			if err = s.handleFrame(&next); errors.Is(err, errReplay) && !s.current.sent {
				next.again = next.again || s.current.checked
				s.queue.pushBehindReplayed(next)
			}
		}
		if err != nil && !errors.Is(err, errReplay) {
			return err
		}
	}
}

// peek returns the client's next frame, nil if none has arrived.
func (s *session) peek() (*frame, error) {
	if s.queue.first() == nil {
		frames, err := s.inbox.take(s.queue.frames)
		if err != nil {
			return nil, err
		}
		s.queue.frames, s.queue.at = frames, 0
	}
	return s.queue.first(), nil
}

// idle is what a session does when the client is silent: it brings what has
// begun to its end, and waits.
func (s *session) idle(watch *time.Timer) error {
	if err := s.settle(); err != nil {
		return err
	}
	if s.isAged() {
		return s.ageError()
	}
	watch.Reset(watchEvery)
	select {
	case <-s.inbox.arrived:
		return nil
	case r := <-s.yield:
		return s.giveWay(r)
	case <-s.link.done:
		return errClosing
	case <-watch.C:
		return s.relayUnsolicited()
	}
}

// isAged tells whether the connection has reached its age and may end now.
func (s *session) isAged() bool {
	return s.status == statusIdle && !s.turn.begun && time.Since(s.born) >= s.server.config.MaxAge
}

func (s *session) ageError() error {
	if s.server.config.AgeFatal {
		return fmt.Errorf("%w: %w", errAged, tooOld)
	}
	return errAged
}

// relayUnsolicited passes on what PostgreSQL says unasked: its shutdown, a changed
// parameter. It does not wait if there is nothing.
func (s *session) relayUnsolicited() error {
	for s.upstream.in.Buffered() > 0 || readable(s.link.upstream) {
		if err := s.handleReply(); err != nil {
			_ = s.toClient.Flush()
			return err
		}
	}
	return s.toClient.Flush()
}
