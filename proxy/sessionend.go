package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file ends a session: the client's last error, the release of the backend, and the log lines of sessions.

// end releases all that the session holds. If cause, the error of serve or of a failed startup, is an error for
// clients, end sends it. The session's state decides what happens to its backend:
//
//   - Sluice discards a backend that must not serve another client (keepsBackend). If the session has advisory
//     locks, Sluice first rolls back.
//   - For a backend in the middle of a turn, Sluice sends a cancel request and discards the backend. A closed
//     socket alone would let a running statement hold its locks. If the client left by Terminate and the turn may
//     commit (errClientLeft), Sluice sends no cancel, since the client wanted the commit.
//   - Any other backend is rolled back and serves the next client.
func (s *session) end(cause error) {
	defer s.memory.account.Close()
	defer s.srv.observers.notifyClosed(s)
	clientErr, _ := errors.AsType[*wire.Error](cause)
	if errors.Is(cause, errCut) {
		clientErr = sqlerror.Draining
	}
	if clientErr != nil && !errors.Is(cause, errHalfRow) && !s.clientBroken {
		s.srv.metrics.CountErrorSent(clientErr.Code)
		fatal := *clientErr
		fatal.Fatal = true
		// A client that does not read must not prevent the session from ending. The write therefore has a deadline.
		s.client.Conn.SetWriteDeadline(time.Now().Add(lastWordsWait))
		s.client.Conn.Write(fatal.Append(nil))
		s.drainClient(clientErr)
	}
	s.client.Conn.Close()
	s.client.DropBuffer()
	s.withheld.Drop()
	s.endTransaction(false)
	s.invalidateSchemaCache() // Sluice does not know whether the transaction committed a change of the schema
	if s.b == nil {
		return
	}
	s.pin.EndSession(s.srv.pins)
	inTurn := s.state == busy || s.state == replaying
	s.applyEvent(left)
	switch {
	case inTurn && errors.Is(cause, errClientLeft):
		s.srv.log.Warn("a commit outlasts its client", append(s.logAttrs(), "grace", s.srv.cfg.CommitGrace)...)
		s.dropBackend(reservoir.ClientLeft)
	case s.keepsBackend() && (inTurn || s.broken || s.waits.IsCut() || s.advisory == nil):
		if inTurn {
			s.cancelOnBackend()
		}
		s.dropBackend(reservoir.Pinned)
	case inTurn || s.broken || s.waits.IsCut():
		s.cancelOnBackend()
		s.dropBackend(reservoir.ClientGone)
	default:
		s.rollBackAndRelease()
	}
}

// drainClient reads, for a short time, what the client sends after its last error. The kernel resets a socket that
// Sluice closes with unread bytes, and the client may lose that error. A client that broke the protocol may be sending.
func (l *link) drainClient(told *wire.Error) {
	c := &l.client
	if told.Code != errSynchronizationLost.Code && c.Buffered() == 0 && c.Raw.Peek() != rawconn.Readable || l.waits.IsCut() {
		return
	}
	half := c.Raw.CloseWrite
	if secured, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		half = secured.CloseWrite
	}
	if half() != nil {
		return
	}
	c.Conn.SetReadDeadline(time.Now().Add(lastWordsWait))
	_, _ = io.CopyN(io.Discard, c.Conn, maxDrainBytes) // on any result the connection is closed next
}

// maxDrainBytes is how many bytes Sluice reads at most from a client after its last error.
const maxDrainBytes = 64 << 20

// keepsBackend reports whether no other client may get the session's backend. That is so if the backend is dedicated,
// if the session left state there, or if pairing is by session.
func (s *session) keepsBackend() bool {
	return s.dedicated || s.pin.IsPinned() || s.srv.cfg.Pairing == Session
}

// rollBackAndRelease ends the transaction that a vanished client left open, so that no lock stays. It then returns the
// backend, or discards it (keepsBackend, or after a failed ROLLBACK). The session must be between two turns.
func (s *session) rollBackAndRelease() {
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
	if err != nil || refusal != nil || s.b.status != 'I' {
		s.dropBackend(reservoir.Unclean)
		return
	}
	// A cancel request that is on its way may hit this ROLLBACK, but must not hit the next client's statement.
	s.finishCancel()
	s.srv.observers.returned.notify(s) // the block's DDL is undone
	if s.b != nil && s.keepsBackend() {
		s.dropBackend(reservoir.Pinned)
	} else if s.b != nil {
		s.releaseBackend()
	}
}

// hasClosed reports whether err, of a read from the client, means that the client has closed its connection. Over TLS
// without close_notify, the error is io.ErrUnexpectedEOF.
func hasClosed(err error) bool {
	_, lost := errors.AsType[*lostError](err) // the backend's connection
	return !lost && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// isOrderlyEnd reports whether the client ended the session in an orderly way. It did so if it sent Terminate, or
// closed its connection between two transactions.
func (l *link) isOrderlyEnd(cause error) bool {
	return cause == errTerminated || hasClosed(cause) && l.state == idle && l.client.Buffered() == 0
}

// logStart logs the start of a session, and logEnd its end, as the option log.sessions says. They build log values only
// for lines that are written. Building them costs more than all reads and writes of a startup.
func (s *session) logStart() {
	if s.srv.cfg.LogSessions == LogAll && s.srv.log.Enabled(s.srv.ctx, slog.LevelInfo) {
		s.srv.log.Info("session started", s.clientLogAttrs()...)
	}
}

func (s *session) logEnd(cause error, usual bool) {
	logs := s.srv.cfg.LogSessions
	if logs == LogNone || usual && logs != LogAll || !s.srv.log.Enabled(s.srv.ctx, slog.LevelInfo) {
		return
	}
	s.srv.log.Info("session ended", append(s.clientLogAttrs(), "cause", cause, "turns", s.turns,
		"duration", s.age().Round(time.Millisecond))...)
}

// clientLogAttrs returns the log attributes that identify a session's client.
func (s *session) clientLogAttrs() []any {
	_, secured := s.client.Conn.(*tls.Conn)
	return append(s.logAttrs(), "user", s.user, "database", s.database,
		"application", s.settings.Startup.Shown["application_name"], "tls", secured)
}

// logAttrs returns the log attributes of every line about a session, as a new slice, so that the caller may append.
func (s *session) logAttrs() []any {
	return []any{slog.Uint64("session", s.id), slog.String("client", s.client.Conn.RemoteAddr().String())}
}
