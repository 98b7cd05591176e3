package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/trip"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file has the type backend, and the round trips in which Sluice itself asks the server a question (exchange).
// uplink.go and downlink.go relay the clients' turns.

// exchangeTimeout bounds a round trip of Sluice's own request to the server when Config.AnswerTimeout is 0. Such a
// request is a SET, a ROLLBACK, or the empty round trip after a cancel.
const exchangeTimeout = 5 * time.Second

// backend is a connection to the server, together with what Sluice has recorded about the server's session. One
// client's session holds it at a time. It stays attached to its reservoir.Conn while no session holds it.
type backend struct {
	conn     *reservoir.Conn
	src      wire.Reader
	prepared statement.ServerSet
	// settings records the settings on the server, and the parameters that the server has reported.
	settings serversettings.Backend
	// leftState records whether functions may have left state other than settings on the server (see leftstate.go).
	leftState remains.StateTrace
	// status is the status byte of the last ReadyForQuery: 'I', 'T' or 'E'.
	status byte
	// sequences records the sequences that clients may have used on this backend, which currval and lastval need.
	sequences sequence.BackendRecord
	// suspect is set when the state of the server's session may differ from what Sluice has recorded.
	suspect bool
	// trips counts round trips of Sluice's own requests. During such a round trip, Sluice sends no client's frame.
	trips trip.RoundTrips
	// answerTimeout bounds how long the server may take to answer a request of Sluice itself.
	answerTimeout time.Duration
	// closingError is the reason that the server sent, between turns, for closing the connection. After that message the
	// server answers nothing, even if the connection stays open.
	closingError error
	// tag is the command tag of the server's last answer to a request of Sluice itself.
	tag []byte
	// notifications holds whole NotificationResponse frames that arrived during a round trip of Sluice's own request. The
	// client gets them with the next output (passNotifications).
	notifications []byte
	// path measures whether the server's host still acknowledges TCP packets.
	path rawconn.Path
	// catalogCurrentAt is when the backend's catalog was last known to be current: at its first lending, or at a schema
	// conflict (OC001) in a round trip of Sluice itself. The server reports each conflict only once. See refreshSchema.
	catalogCurrentAt time.Time
	// txSchema is the schema that Sluice read within a transaction with DDL, or nil. See readOwnSchema.
	txSchema *mapping.Snapshot
	// groupOpen is set while the backend has frames of a client's Sync group (frames up to a Sync) outside a block. The
	// next Sync or Query commits the effects of these frames, so that Sluice must not send one of its own.
	groupOpen bool
}

// errOpenGroup refuses a round trip of Sluice's own while the client's frames await a Sync. The round trip's Sync or
// Query would commit the client's statements. The caller discards the backend, as after a loss, which rolls back.
var errOpenGroup = errors.New("a Sync group of the client is open")

// backendOf returns the backend of a connection. At the connection's first lending, it makes the backend, which is idle
// and has no settings or prepared statements.
func (srv *Server) backendOf(c *reservoir.Conn) *backend {
	if b, ok := c.Attachment.(*backend); ok {
		return b
	}
	b := &backend{conn: c, src: wire.NewReader(c.Net, unwrapRawConn(c.Net)), settings: srv.pool.settings.NewBackend(c.Params), status: 'I'}
	b.sequences, b.catalogCurrentAt = sequence.NewBackendRecord(), time.Now()
	b.answerTimeout = cmp.Or(srv.cfg.AnswerTimeout, exchangeTimeout)
	c.Attachment = b
	return b
}

// maxNotificationBytes bounds, in bytes, a backend's stored notifications, which its client gets with the next
// output. PostgreSQL allows a notification at most 8,000 bytes.
const maxNotificationBytes = 1 << 20

var errTooManyNotifications = errors.New("more notifications came beside an answer to Sluice itself than are kept")

// maxUsableReads bounds how often isUsable reads from a backend before it reports false.
const maxUsableReads = 16

// isUsable reports whether an idle backend can still serve: the server has neither closed the connection nor sent an
// error. It does not block. It reads harmless bytes, such as TLS housekeeping, notices and changed parameters (after a
// reload of the server's configuration). No read buffer is held afterwards.
func (b *backend) isUsable() bool {
	if b.trips.Err() != nil {
		return false
	}
	for range maxUsableReads {
		switch b.src.Raw.Peek() {
		case rawconn.Quiet:
			ok := b.src.Buffered() == 0
			b.src.ReleaseBuffer()
			return ok
		case rawconn.Closed:
			return false
		}
		if err := b.readAvailable(); err != nil && !isTimeout(err) {
			return false
		}
		for {
			typ, total, err := b.src.NextHeader()
			if err != nil || total > 0 && typ != wire.ParameterStatus && typ != wire.NoticeResponse {
				return false
			}
			if total == 0 || total > b.src.Buffered() {
				break
			}
			if typ == wire.ParameterStatus {
				b.recordParameter(b.src.Peek(total))
			}
			b.src.Advance(total)
		}
	}
	return false
}

// partialRecordWait bounds the wait for the rest of a TLS record, since crypto/tls returns only whole records.
const partialRecordWait = 100 * time.Millisecond

// readAvailable reads bytes that have already arrived, without waiting. If no bytes have arrived, it returns
// os.ErrDeadlineExceeded. Any other error means that the backend is lost. TLS may hold decrypted bytes while the socket
// is quiet. A read deadline in the past makes TLS return them without touching the socket.
func (b *backend) readAvailable() error {
	if err := b.trips.Err(); err != nil {
		return err
	}
	if !b.src.IsPlain() {
		b.conn.Net.SetReadDeadline(time.Unix(1, 0))
		defer b.conn.Net.SetReadDeadline(time.Time{})
		if err := b.src.Fill(); !isTimeout(err) {
			return err
		}
		b.conn.Net.SetReadDeadline(time.Now().Add(partialRecordWait))
	}
	if b.src.Raw.Peek() == rawconn.Quiet {
		return os.ErrDeadlineExceeded
	}
	return b.src.Fill()
}

// exchange sends the server msg, which must cause exactly one ReadyForQuery, and reads up to that frame. It returns
// the payload of the first ErrorResponse, if any. After an error the backend is unusable. A *serverFatalError has the
// server's reason. No reply may be pending, and the client's earlier frames must have had their Sync.
func (b *backend) exchange(msg []byte) (refusal []byte, err error) {
	return b.exchangeRows(msg, func([]byte) {})
}

// exchangeRows sends msg as exchange does, and calls row with each row's payload, valid only during the call.
func (b *backend) exchangeRows(msg []byte, row func(payload []byte)) (refusal []byte, err error) {
	return b.doExchange(msg, row, b.answerTimeout, time.Time{}, nil)
}

// exchangeUntil sends msg as exchange does, but the function stop can end it early. exchangeUntil calls stop before
// sending, whenever a deadline ends the read, and when the time in the parameter at comes (zero: never). It returns
// stop's error, and the server's answer may still be on its way.
func (b *backend) exchangeUntil(msg []byte, at time.Time, stop func() error) (refusal []byte, err error) {
	return b.doExchange(msg, func([]byte) {}, b.answerTimeout, at, stop)
}

// doExchange implements exchange, exchangeRows and exchangeUntil. It bounds the answer by patience (0: no bound).
// stop may be nil. A dead network path also ends the exchange, a read deadline of the client's turn does not.
// doExchange records parameters, saves notifications for the client, and drops notices. An answer that does not fit
// msg is an error (silent.ExchangeCheck). After an error the round trip stays incomplete, so the backend is broken.
func (b *backend) doExchange(msg []byte, row func(payload []byte), patience time.Duration, at time.Time, stop func() error) (refusal []byte, err error) {
	if b.groupOpen {
		return nil, errOpenGroup
	}
	var end time.Time
	if patience > 0 {
		end = time.Now().Add(patience)
	}
	look := func() error {
		b.conn.Net.SetReadDeadline(interrupt.Earlier(end, at))
		if stop == nil {
			return nil
		}
		return stop()
	}
	defer b.conn.Net.SetReadDeadline(time.Time{})
	if err := look(); err != nil {
		return nil, err
	}
	if err := b.trips.Begin(); err != nil {
		return nil, err
	}
	if _, err := b.conn.Net.Write(msg); err != nil {
		return nil, err
	}
	return b.readAnswer(silent.NewExchangeCheck(msg, b.status), row, end, look)
}

// readAnswer reads the server's answer to a request of Sluice itself, up to ReadyForQuery. row gets each row.
func (b *backend) readAnswer(answer silent.ExchangeCheck, row func(payload []byte), end time.Time, look func() error) (refusal []byte, err error) {
	for {
		typ, frame, err := b.readAnswerFrame(end, look)
		if err != nil {
			return nil, err
		}
		payload := frame[wire.HeaderLen:]
		switch typ {
		case wire.ParameterStatus:
			b.recordParameter(frame)
			continue
		case wire.NotificationResponse:
			if len(b.notifications)+len(frame) > maxNotificationBytes {
				return nil, errTooManyNotifications
			}
			b.notifications = append(b.notifications, frame...)
			continue
		case wire.NoticeResponse:
			continue
		case wire.ErrorResponse:
			if said := parseServerFatal(payload); said != nil {
				return nil, said
			}
			if refusal == nil {
				refusal = append([]byte(nil), payload...)
			}
			if isSchemaConflict(refusal) {
				b.catalogCurrentAt = time.Now() // the server reports a schema conflict once: the client's statement gets none
			}
		case wire.DataRow:
			row(payload)
		case wire.CommandComplete:
			b.tag = append(b.tag[:0], payload[:len(payload)-1]...)
		case wire.ReadyForQuery:
			if err := answer.CheckEnd(payload[0]); err != nil {
				return nil, fmt.Errorf("the server did not answer Sluice as asked: %w", err)
			}
			b.status = payload[0]
			b.trips.End()
			b.src.ReleaseBuffer()
			return refusal, nil
		}
		answer.CheckFrame(typ, payload)
	}
}

// readAnswerFrame returns the next frame, valid until the next read, of the server's answer to Sluice's own request.
// It gives up at end (zero: never). If a deadline ends a read earlier, it calls look, and reads on if look returns nil.
func (b *backend) readAnswerFrame(end time.Time, look func() error) (typ byte, frame []byte, err error) {
	for {
		typ, total, err := b.src.NextHeader()
		switch {
		case err != nil:
			return 0, nil, err
		case total > wire.BufferSize:
			return 0, nil, fmt.Errorf("answer of %d bytes to a request of our own: %w", total, wire.ErrMalformed)
		case total > 0 && total <= b.src.Buffered():
			if frame = b.src.Peek(total); !wire.HasMinimumPayload(frame, true) {
				return 0, nil, errMalformedFrame(typ, total)
			}
			b.src.Advance(total)
			return typ, frame, nil
		}
		err = b.src.Fill()
		switch {
		case err == nil:
			continue
		case !isTimeout(err) || !end.IsZero() && !time.Now().Before(end):
			return 0, nil, err
		case b.path.IsDead(b.src.Raw):
			return 0, nil, errDeadPath
		}
		if err := look(); err != nil { // else the wake was meant for an earlier turn
			return 0, nil, err
		}
	}
}

// isBroken reports whether Sluice must discard the backend, because its state or its next answer is unknown.
func (b *backend) isBroken() bool { return b.suspect || b.trips.Err() != nil }

// release returns an idle backend to the reservoir, or discards a broken one. The caller has detached its session.
func (b *backend) release() {
	if b.isBroken() {
		b.src.DropBuffer()
		b.conn.Discard(reservoir.Unclean)
		return
	}
	b.conn.Release()
}

// lostError reports that the backend's connection broke, or that the server sent frames that cannot be parsed. The
// backend sends no more answers. During a turn lostError is passed to handleBackendLoss.
type lostError struct {
	err error
	// silent is set if the server stopped answering, but the connection did not break. The statement may still run.
	silent bool
}

// Error returns the text of a lost backend for the process's log. Clients never get it.
func (e *lostError) Error() string { return "backend lost: " + e.err.Error() }

// Unwrap returns the error that broke the backend's connection.
func (e *lostError) Unwrap() error { return e.err }

// errClosed reports that Sluice did not send its own request, because the backend's connection was closed.
var errClosed = errors.New("the backend was closed")

// usableBackend returns the backend of an idle connection, for a request of Sluice itself. If the server has closed the
// connection, usableBackend discards it and returns nil. No other goroutine may use conn.
func (srv *Server) usableBackend(conn *reservoir.Conn) *backend {
	b := srv.backendOf(conn)
	if !b.isUsable() {
		conn.Discard(reservoir.PeekFailed)
		return nil
	}
	b.path = rawconn.Path{Limit: srv.cfg.BackendPathLimit}
	return b
}
