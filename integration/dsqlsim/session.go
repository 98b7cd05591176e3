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
	// lastTransaction is how much longer than MaxAge a connection with an open transaction lives. No transaction may be
	// older (AWS quotas: 5 minutes).
	lastTransaction = 5 * time.Minute
	// watchEvery is how often an idle session checks its age and looks for unsolicited frames of PostgreSQL.
	watchEvery = time.Second
	// vanishGrace is how long a statement may run on after its client has left.
	vanishGrace = time.Second

	clientBuffer = 16 << 10 // one TLS record
)

// These are the values of the transaction status in ReadyForQuery.
const (
	statusIdle    = 'I'
	statusInBlock = 'T'
	statusFailed  = 'E'
)

// session is the session of one client with its PostgreSQL connection. Its fields belong to the goroutine that runs it,
// except for link, waitingSince and yield.
type session struct {
	server *Server
	id     uint64
	key    cancelKey
	born   time.Time

	// uncount removes the session from the gauge of established sessions, before the client can see the end of its
	// connection.
	uncount  func()
	link     connPair
	toClient *bufio.Writer
	upstream upstreamConn

	inbox   *inbox
	queue   frameQueue
	current frameProgress
	replies replyQueue

	// status is the status in the last ReadyForQuery. Within a turn it is the status after all statements so far, if they
	// succeed.
	status byte
	turn   turnState
	// skipping reports that an error was answered and the session ignores the client's frames up to Sync.
	skipping bool
	// broken reports that a statement of the running Query has failed, so that its later statements must not run.
	broken bool

	names     sessionNames
	schema    schemaVersion
	rules     dialect.Transaction
	block     transactionBlock
	usage     transactionUsage
	journal   sessionJournal
	injection pendingInjection
	// job is the id of the job that the running statement has submitted. awaited is the id of the job that the statement
	// waits for.
	job, awaited string

	// waitingSince is when the session began an operation that may wait for other transactions, in Unix nanoseconds, or
	// 0. The lockArbiter reads waitingSince. By channel yield it asks a session to release the locks for which others
	// wait.
	waitingSince atomic.Int64
	yield        chan yieldRequest
	// locksMoved is when the transaction last released its locks or took them again.
	locksMoved time.Time
}

// frameProgress is the progress with the client's frame that the session handles now.
type frameProgress struct {
	checked bool // faults were looked for
	sent    bool // its reply is pending
}

// turnState says what the session has done since the last ReadyForQuery.
type turnState struct {
	begun bool // something was sent
	busy  bool // something was executed
}

// serveSession dials PostgreSQL for an authenticated client and serves the client to its end. raw is the TCP connection
// below client's TLS. It calls leave before the client can see the end of its session, so that the next client finds a
// free place.
func (s *Server) serveSession(client, raw net.Conn, id uint64, start *startupMessage, leave func()) {
	if err := s.catalog.ensureInstalled(s.ctx, s.upstream); err != nil {
		s.log.Warn("no jobs, and no rules of the schema", "error", err)
	}
	up, err := s.upstream.dialForClient(s.ctx, start.role, start.parameters)
	if err != nil {
		s.refuseConn(client, id, fmt.Errorf("%w: %w", upstreamFailure(err), err))
		return
	}
	s.established.Add(1)
	each := &session{
		uncount: sync.OnceFunc(func() { s.established.Add(-1) }), server: s, id: id, born: time.Now(), status: statusIdle,
		key:      cancelKey{up.PID, string(up.SecretKey)},
		link:     connPair{client: raw, upstream: up.Conn, done: make(chan struct{})},
		toClient: bufio.NewWriterSize(client, clientBuffer),
		upstream: newUpstreamConn(up.Conn),
		inbox:    newInbox(s.config.Limits.MessageBytes),
		names:    newSessionNames(),
		schema:   schemaVersion{changes: &s.schemaChanges, known: s.schemaChanges.Load()},
		journal:  sessionJournal{ledger: s.ledger, metrics: s.metrics, session: id, pid: up.PID},
		yield:    make(chan yieldRequest, 1),
	}
	defer each.uncount()
	defer each.link.closeBoth()
	if !s.register(each) {
		return
	}
	defer s.unregister(each)
	_ = client.SetDeadline(time.Time{})
	limit := time.AfterFunc(s.config.MaxAge+lastTransaction, each.link.closeBoth)
	defer limit.Stop()

	s.metrics.connected.Inc()
	each.journal.addEvent(LedgerEvent{Kind: "connect", Outcome: "ok", Detail: start.role})
	if err := each.sendStartupReplies(start.role, up.ParameterStatuses); err != nil {
		return
	}
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		each.inbox.readFrames(client, each.link.done)
		each.cutAfterGrace()
	}()
	err = each.run()
	each.uncount()
	leave()
	each.endSession(client, err)
	<-filled
	s.plan.forgetSession(id)
	each.journal.recordClose(err, each.replies.first() == nil || each.injection.mustFail, !each.replies.hasTurnEnd())
	if errors.Is(err, errUpstream) && s.ctx.Err() == nil {
		s.log.Warn("upstream lost", "session", id, "error", err)
	}
}

// cutAfterGrace cuts the session's connections vanishGrace after the client has ended, unless the session has ended
// before. Until the cut the statements that the client sent still run, as on any server.
func (s *session) cutAfterGrace() {
	select {
	case <-s.link.done:
	case <-time.After(vanishGrace):
		s.link.closeBoth()
	}
}

// endSession sends the last message to the client, as the cause requires, and closes both connections.
func (s *session) endSession(client net.Conn, cause error) {
	if f, ok := errors.AsType[*failure](cause); ok {
		_, _ = s.toClient.Write(encodeMessage(f.response()))
	}
	if !errors.Is(cause, errCut) {
		// The write has a deadline, since the client may be gone. The buffer may hold last messages from PostgreSQL
		// or dsqlsim.
		_ = client.SetWriteDeadline(time.Now().Add(vanishGrace))
		_ = s.toClient.Flush()
		_, _ = s.link.upstream.Write(encodeMessage(&pgproto3.Terminate{}))
		_ = client.Close()
	}
	s.link.closeBoth()
}

// sendStartupReplies ends the startup with AuthenticationOk, the parameters, the cancel key and ReadyForQuery. Which
// parameters a cluster reports is not known. Dsqlsim reports PostgreSQL's parameters, with the cluster's version and
// role.
func (s *session) sendStartupReplies(role string, parameters map[string]string) error {
	out := encodeMessage(&pgproto3.AuthenticationOk{})
	for name, value := range parameters {
		switch name {
		case "server_version":
			value = dialect.ServerVersion
		case "is_superuser":
			value = "off"
		case "session_authorization":
			value = role
		}
		out = append(out, encodeMessage(&pgproto3.ParameterStatus{Name: name, Value: value})...)
	}
	out = append(out, encodeMessage(&pgproto3.BackendKeyData{ProcessID: s.key.pid, SecretKey: []byte(s.key.secret)})...)
	out = append(out, encodeMessage(&pgproto3.ReadyForQuery{TxStatus: statusIdle})...)
	if _, err := s.toClient.Write(out); err != nil {
		return err
	}
	return s.toClient.Flush()
}

// run serves the client until its end, and returns the reason for the end.
func (s *session) run() error {
	watch := time.NewTimer(watchEvery)
	defer watch.Stop()
	for {
		f, err := s.peekFrame()
		switch {
		case err != nil:
			return err
		case f == nil:
			err = s.waitIdle(watch)
		case isCopyData(f.kind) && s.replies.first() != nil:
			err = s.drainReplies() // a COPY may be about to begin, and need this frame
		default:
			next := s.queue.pop()
			s.current = frameProgress{}
			if err = s.handleFrame(&next); errors.Is(err, errReplay) && !s.current.sent {
				next.replayed = next.replayed || s.current.checked
				s.queue.pushBehindReplayed(next)
			}
		}
		if err != nil && !errors.Is(err, errReplay) {
			return err
		}
	}
}

// peekFrame returns the client's next frame without removing it, nil if none has arrived.
func (s *session) peekFrame() (*frame, error) {
	if s.queue.first() == nil {
		frames, err := s.inbox.takeFrames(s.queue.frames)
		if err != nil {
			return nil, err
		}
		s.queue.frames, s.queue.at = frames, 0
	}
	return s.queue.first(), nil
}

// waitIdle reads the pending replies when the client has sent no frame, and then waits for a frame.
func (s *session) waitIdle(watch *time.Timer) error {
	if err := s.drainReplies(); err != nil {
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
		return s.yieldLocks(r)
	case <-s.link.done:
		return errClosing
	case <-watch.C:
		return s.relayUnsolicited()
	}
}

// isAged reports whether the connection has reached its maximum age and is idle.
func (s *session) isAged() bool {
	return s.status == statusIdle && !s.turn.begun && time.Since(s.born) >= s.server.config.MaxAge
}

func (s *session) ageError() error {
	if s.server.config.AgeFatal {
		return fmt.Errorf("%w: %w", errAged, tooOld)
	}
	return errAged
}

// relayUnsolicited relays frames that PostgreSQL sends without a request, for example at its shutdown or for a changed
// parameter. It does not wait for frames.
func (s *session) relayUnsolicited() error {
	for s.upstream.in.Buffered() > 0 || isReadable(s.link.upstream) {
		if err := s.handleReply(); err != nil {
			_ = s.toClient.Flush()
			return err
		}
	}
	return s.toClient.Flush()
}
