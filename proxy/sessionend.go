package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// The end of a session: the client's last error, the release of the backend, and the log lines of sessions.

// end releases what the session holds, and sends the client the cause if it is an error for clients. cause is the
// error of serve or of a failed startup. The session's state decides what happens to its backend:
//
//   - A backend that must not serve another client (keeps) is discarded.
//   - For a backend in the middle of a turn, Sluice sends a cancel request and discards it. A closed socket
//     alone would let a running statement keep its locks. After a Terminate from the client
//     no cancel is sent, since the client wanted what the turn may commit.
//   - Any other backend is rolled back and serves the next client.
func (s *session) end(cause error) {
	defer s.account.Close()
	defer s.leaveLocks() // after the open transaction
	clientErr, _ := errors.AsType[*wire.Error](cause)
	if errors.Is(cause, errCut) {
		clientErr = errDraining
	}
	if clientErr != nil && !errors.Is(cause, errHalfRow) && !s.clientBroken {
		s.srv.metrics.ErrorSent(clientErr.Code)
		fatal := *clientErr
		fatal.Fatal = true
		// A client that does not read must not keep the session from ending.
		s.client.Conn.SetWriteDeadline(time.Now().Add(lastWordsWait))
		s.client.Conn.Write(fatal.Append(nil))
		s.readOut(clientErr)
	}
	s.client.Conn.Close()
	s.client.Drop()
	s.withheld.Drop()
	s.dropAllStored()
	s.endTransaction(false)
	s.schemaCommitted() // unknown, so assume that it was
	if s.b == nil {
		return
	}
	if s.pinned {
		s.srv.pinned.Add(-1)
	}
	inTurn := s.state == busy || s.state == replaying
	s.move(left)
	switch {
	case inTurn && errors.Is(cause, errClientLeft):
		s.srv.log.Warn("a commit outlasts its client", append(s.logAttrs(), "grace", s.srv.cfg.CommitGrace)...)
		s.dropBackend(reservoir.ClientLeft)
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

// readOut reads, for a short time, what the client sends after its last error. A socket that is closed with unread
// bytes is reset, which may lose the error. A client that broke the protocol is assumed to be sending.
func (s *session) readOut(told *wire.Error) {
	c := &s.client
	if told.Code != errNotInStep.Code && c.Buffered() == 0 && c.Raw.Peek() != rawconn.Readable || s.cutOff.Load() {
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
	_, _ = io.CopyN(io.Discard, c.Conn, mostReadOut) // on any result the connection is closed next
}

// mostReadOut is how many bytes readOut reads at most.
const mostReadOut = 64 << 20

// keeps reports whether the backend must not serve another client: it is dedicated, the session left state on it, or
// pairing is by session.
func (s *session) keeps() bool {
	return s.dedicated || s.pinned || s.srv.cfg.Pairing == Session
}

// rollback ends the transaction that a vanished client left open, so that no lock stays, and returns the backend. A
// backend that is not idle after the ROLLBACK is discarded. The session must have a backend and be between two turns.
func (s *session) rollback() {
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
	if err != nil || refusal != nil || s.b.status != 'I' {
		s.dropBackend(reservoir.Unclean)
		return
	}
	// A cancel request on its way may hit the ROLLBACK, but must not hit the next client's statement.
	s.settleCancel()
	if s.b != nil {
		s.releaseBackend()
	}
}

// endsAsUsual reports whether the client ended the session in an orderly way: by Terminate, or by closing its
// connection between two transactions.
func (s *session) endsAsUsual(cause error) bool {
	closed := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) // the latter: TLS without close_notify
	return cause == errTerminated || closed && s.state == idle && s.client.Buffered() == 0
}

// logStart logs the start of a session, and logEnd its end, as log.sessions says. Values are built only for lines
// that are written: they cost more than all reads and writes of a startup.
func (s *session) logStart() {
	if s.srv.cfg.LogSessions == LogAll && s.srv.log.Enabled(s.srv.ctx, slog.LevelInfo) {
		s.srv.log.Info("session started", s.whoItIs()...)
	}
}

func (s *session) logEnd(cause error, usual bool) {
	logs := s.srv.cfg.LogSessions
	if logs == LogNone || usual && logs != LogAll || !s.srv.log.Enabled(s.srv.ctx, slog.LevelInfo) {
		return
	}
	s.srv.log.Info("session ended", append(s.whoItIs(), "cause", cause, "turns", s.turns,
		"duration", s.age().Round(time.Millisecond))...)
}

// whoItIs returns the log attributes that identify a session's client.
func (s *session) whoItIs() []any {
	_, secured := s.client.Conn.(*tls.Conn)
	return append(s.logAttrs(), "user", s.user, "database", s.database,
		"application", s.settings.Startup.Shown["application_name"], "tls", secured)
}

// logAttrs returns the log attributes of every line about a session, as a new slice, so that the caller may append.
func (s *session) logAttrs() []any {
	return []any{slog.Uint64("session", s.id), slog.String("client", s.client.Conn.RemoteAddr().String())}
}
