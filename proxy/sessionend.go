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

// What a session that ends tells its client, what becomes of its backend, and what the log has
// of sessions.

// end releases what the session holds. It tells the client why where the protocol has a
// place for it. cause is serve's, or that of an opening that failed. The state that the
// session leaves decides what becomes of its backend:
//
//   - one that the session keeps (keeps) is discarded;
//   - one in the middle of a turn is asked to stop, then discarded: a socket that is merely
//     closed lets a running statement keep its locks. It is not asked where the client has
//     left in peace, since what the turn may commit was wanted;
//   - any other is rolled back and serves the next client.
func (s *session) end(cause error) {
	defer s.account.Close()
	defer s.leaveLocks() // behind the transaction that is open
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

// readOut reads what the client has still sent, behind its last words, for a short time: a socket that is closed with
// unread bytes is reset, and the words may be lost. A client that has broken the protocol is taken to be sending.
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
	_, _ = io.CopyN(io.Discard, c.Conn, mostReadOut) // whatever ends it, the connection is closed then
}

// mostReadOut bounds it in bytes.
const mostReadOut = 64 << 20

// keeps reports whether the session keeps its backend to its end, by how it was paired or
// for what it has left there.
func (s *session) keeps() bool {
	return s.dedicated || s.pinned || s.srv.cfg.Pairing == Session
}

// rollback ends the transaction that a vanished client left open, so that no lock stays
// behind, and gives the backend back; one that does not come to rest is discarded. The
// session needs its backend, between two turns.
func (s *session) rollback() {
	refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "ROLLBACK"))
	if err != nil || refusal != nil || s.b.status != 'I' {
		s.dropBackend(reservoir.Unclean)
		return
	}
	// A cancel in flight may have hit the ROLLBACK only; the next client's statement it
	// must not hit.
	s.settleCancel()
	if s.b != nil {
		s.releaseBackend()
	}
}

// endsAsUsual reports whether a session that is about to end, for that cause, was left by its
// client in peace: it said goodbye, or closed its connection between two transactions.
func (s *session) endsAsUsual(cause error) bool {
	closed := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) // the latter: TLS without a goodbye
	return cause == errTerminated || closed && s.state == idle && s.client.Buffered() == 0
}

// logStart and logEnd write the lines of a session: log.sessions says which. What is not logged
// is not made: the values of two lines cost more than a startup's reads and writes.
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

// whoItIs says who a session's client is.
func (s *session) whoItIs() []any {
	_, secured := s.client.Conn.(*tls.Conn)
	return append(s.logAttrs(), "user", s.user, "database", s.database,
		"application", s.settings.Startup.Shown["application_name"], "tls", secured)
}

// logAttrs are what every line about a session says. They are made anew for each line: the
// caller may append.
func (s *session) logAttrs() []any {
	return []any{slog.Uint64("session", s.id), slog.String("client", s.client.Conn.RemoteAddr().String())}
}
