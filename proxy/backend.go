package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/sequence"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/trip"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A backend as its session sees it, attached to the reservoir's connection from lend to
// lend, and the round trips that Sluice makes on its own account (exchange). The relay of
// clients' turns is in uplink.go and downlink.go.

// exchangeTimeout bounds a round trip that Sluice makes on its own account (settings, ROLLBACK,
// the empty one after a cancel) where Config.AnswerTimeout does not.
const exchangeTimeout = 5 * time.Second

// backend is a lent reservoir.Conn with what is known of the server's session
// behind it. It belongs to the session that holds it and stays attached to the
// Conn between lends.
type backend struct {
	conn     *reservoir.Conn
	src      wire.Reader
	prepared serverStatements
	// applied are the settings in force on the server; nil when unknown.
	applied *settings.Values
	// unsure: a function may have set what no statement and no report tells.
	unsure bool
	// left says whether functions may have left anything else here: leftbehind.go.
	left remains.Trace
	// reported are the parameters as the server has reported them, dialled at the
	// start and idle where the last transaction ended.
	reported, dialled, idle *settings.Reports
	// status is the byte of the last ReadyForQuery.
	status byte
	// reading is how the server reads texts now, as it reports; usual how it did
	// when it was dialled.
	reading, usual rewrite.Reading
	// sequences is what clients may have drawn of sequences here.
	sequences sequence.Backend
	// suspect: the server does not hold what we believe it holds.
	suspect bool
	// trips are Sluice's own: while one has not ended, the backend carries nothing.
	trips trip.Trips
	// patience is for how long an answer to Sluice itself may take.
	patience time.Duration
	// said is what the server gave as its reason to end the connection, while it owed nothing:
	// it answers nothing more, whether or not it closes.
	said error
	// tag is the last that answered Sluice itself.
	tag []byte
	// news are the notifications that came beside answers to Sluice itself, whole frames: their
	// client is sent them with what comes next (passNews).
	news []byte
	// path is what looks in turns have found of the way to the server.
	path path
	// knows: what the backend knows of the schema is as new as this: it was lent for the first
	// time, or was told then that its catalog was old. See meetSchema.
	knows time.Time
	// group: frames of a client are there, or on their way, outside a block: the next
	// Sync or Query commits what they do, and must be the client's.
	group bool
}

// errOpenGroup ends an exchange that would commit what a client has sent: every exchange
// ends in a Sync or Query. The caller takes it for a loss and gives the backend up, which
// undoes the group.
var errOpenGroup = errors.New("a Sync group of the client is open")

// attached returns the backend that rides on c, and makes one at the first lend: idle, with
// nothing set and nothing prepared.
func (srv *Server) attached(c *reservoir.Conn) *backend {
	if b, ok := c.Attachment.(*backend); ok {
		return b
	}
	b := &backend{conn: c, src: wire.NewReader(c.Net, rawOf(c.Net)), applied: srv.interned.None(), status: 'I'}
	b.reported = settings.Completed(c.Params)
	b.dialled, b.idle = b.reported, b.reported
	b.sequences, b.knows = sequence.NewBackend(), time.Now()
	b.usual = readingOf(c.Params)
	b.patience = cmp.Or(srv.cfg.AnswerTimeout, exchangeTimeout)
	b.reading = b.usual
	c.Attachment = b
	return b
}

// mostNews bounds the notifications of a backend that wait for their client, in bytes. PostgreSQL
// lets none have more than 8,000.
const mostNews = 1 << 20

var errMuchNews = errors.New("more notifications came beside an answer to Sluice itself than are kept")

// usableLooks bounds how often usable reads before it gives a backend up.
const usableLooks = 16

// usable looks at an idle backend without blocking: false when the server closed it or said
// something that ends it. TLS housekeeping, notices, and parameters that a reload of the
// server's configuration changed do not. No buffer is held afterwards.
func (b *backend) usable() bool {
	if b.trips.Err() != nil {
		return false
	}
	for range usableLooks {
		switch b.src.Raw.Peek() {
		case rawconn.Quiet:
			ok := b.src.Buffered() == 0
			b.src.Release()
			return ok
		case rawconn.Closed:
			return false
		}
		if err := b.poll(); err != nil && !isTimeout(err) {
			return false
		}
		for {
			typ, total, err := b.src.Header()
			if err != nil || total > 0 && typ != wire.ParameterStatus && typ != wire.NoticeResponse {
				return false
			}
			if total == 0 || total > b.src.Buffered() {
				break
			}
			if typ == wire.ParameterStatus {
				b.noteParameter(b.src.Peek(total))
			}
			b.src.Advance(total)
		}
	}
	return false
}

// partialRecordWait bounds the wait for the rest of a TLS record whose beginning has
// arrived: TLS gives out whole records only.
const partialRecordWait = 100 * time.Millisecond

// poll reads what has arrived already; os.ErrDeadlineExceeded means nothing. Bytes may wait
// inside TLS where the socket shows none; with a deadline in the past TLS gives those and
// does not get to the socket. Any other error means that the backend is lost.
func (b *backend) poll() error {
	if err := b.trips.Err(); err != nil {
		return err
	}
	if !b.src.Plain() {
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

// exchange writes msg, which ends in one ReadyForQuery, and reads up to it. It returns the
// payload of the first ErrorResponse, if any. An error means that the backend cannot be
// used any more; it is a *lastWords where the server has said why. Nothing may be owed, and no group of the client's be open.
func (b *backend) exchange(msg []byte) (refusal []byte, err error) {
	return b.exchangeRows(msg, func([]byte) {})
}

// exchangeRows is exchange that gives each row's payload to row, which must not keep it.
func (b *backend) exchangeRows(msg []byte, row func(payload []byte)) (refusal []byte, err error) {
	return b.exchangeAll(msg, row, b.patience, time.Time{}, nil)
}

// exchangeUntil is exchange that asks stop whether it shall go on: before it begins, when
// the read from the backend is woken, and at the given moment, unless that is zero. It
// returns stop's error; the answer may still be to come then.
func (b *backend) exchangeUntil(msg []byte, at time.Time, stop func() error) (refusal []byte, err error) {
	return b.exchangeAll(msg, func([]byte) {}, b.patience, at, stop)
}

// exchangeAll is what the others are: row is given the rows, stop may be nil, and patience is
// for how long the answer may take, 0 without end. A deadline that somebody else has set for
// the client's turn does not end the exchange: the clock tells the two apart, and the path is
// looked at. Parameters are noted, notifications kept for the client, notices dropped. An answer that
// is not that to msg is an error (silent.Exchange). An error
// behind the first byte leaves the round trip without its end: then the backend is broken, whoever
// looks at the error.
func (b *backend) exchangeAll(msg []byte, row func(payload []byte), patience time.Duration, at time.Time, stop func() error) (refusal []byte, err error) {
	if b.group {
		return nil, errOpenGroup
	}
	var end time.Time
	if patience > 0 {
		end = time.Now().Add(patience)
	}
	look := func() error {
		b.conn.Net.SetReadDeadline(earlier(end, at))
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
	return b.readAnswer(silent.NewExchange(msg, b.status), row, end, look)
}

// readAnswer reads what answers an exchange, up to its ReadyForQuery.
func (b *backend) readAnswer(answer silent.Exchange, row func(payload []byte), end time.Time, look func() error) (refusal []byte, err error) {
	for {
		typ, frame, err := b.ownFrame(end, look)
		if err != nil {
			return nil, err
		}
		payload := frame[wire.HeaderLen:]
		switch typ {
		case wire.ParameterStatus:
			b.noteParameter(frame)
			continue
		case wire.NotificationResponse:
			if len(b.news)+len(frame) > mostNews {
				return nil, errMuchNews
			}
			b.news = append(b.news, frame...)
			continue
		case wire.NoticeResponse:
			continue
		case wire.ErrorResponse:
			if said := farewellOf(payload); said != nil {
				return nil, said
			}
			if refusal == nil {
				refusal = append([]byte(nil), payload...)
			}
			if schemaConflict(refusal) {
				b.knows = time.Now() // the client's next statement is not told any more
			}
		case wire.DataRow:
			row(payload)
		case wire.CommandComplete:
			b.tag = append(b.tag[:0], payload[:len(payload)-1]...)
		case wire.ReadyForQuery:
			if err := answer.End(payload[0]); err != nil {
				return nil, fmt.Errorf("the server did not answer Sluice as asked: %w", err)
			}
			b.status = payload[0]
			b.trips.End()
			b.src.Release()
			return refusal, nil
		}
		answer.Frame(typ, payload)
	}
}

// ownFrame returns the next frame of an answer to Sluice itself, valid until the next read. A
// read that is woken before end, unless that is zero, goes on where look has no error.
func (b *backend) ownFrame(end time.Time, look func() error) (typ byte, frame []byte, err error) {
	for {
		typ, total, err := b.src.Header()
		switch {
		case err != nil:
			return 0, nil, err
		case total > wire.BufferSize:
			return 0, nil, fmt.Errorf("answer of %d bytes to a request of our own: %w", total, wire.ErrMalformed)
		case total > 0 && total <= b.src.Buffered():
			if frame = b.src.Peek(total); !wire.Sound(frame, true) {
				return 0, nil, malformed(typ, total)
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
		case b.path.look(b.src.Raw):
			return 0, nil, errDeadPath
		}
		if err := look(); err != nil { // else it was somebody's nudge for an earlier turn
			return 0, nil, err
		}
	}
}

// broken reports whether the backend must be given up: what the server holds, or what it will
// answer next, is not what is believed.
func (b *backend) broken() bool { return b.suspect || b.trips.Err() != nil }

// release gives the backend, which is idle and nobody's, back to the reservoir. One that is
// broken is discarded.
func (b *backend) release() {
	if b.broken() {
		b.src.Drop()
		b.conn.Discard(reservoir.Unclean)
		return
	}
	b.conn.Release()
}

// lostError says that the backend's connection broke, or that what the backend sends cannot
// be understood: either way nothing more is to be expected of it. A loss in a turn reaches
// backendLost as one.
type lostError struct {
	err error
	// silent: its connection may be whole, and the server still at work.
	silent bool
}

// Error is for the log: no client is told it.
func (e *lostError) Error() string { return "backend lost: " + e.err.Error() }

// Unwrap returns what broke the connection.
func (e *lostError) Unwrap() error { return e.err }

// errClosed is why a connection was not asked a question.
var errClosed = errors.New("the backend was closed")

// forQuestion is a backend that Sluice puts a question of its own to, of a connection that nobody else has;
// nil for one that was closed, which is discarded.
func (srv *Server) forQuestion(conn *reservoir.Conn) *backend {
	b := srv.attached(conn)
	if !b.usable() {
		conn.Discard(reservoir.PeekFailed)
		return nil
	}
	b.path = path{limit: srv.cfg.BackendPathLimit}
	return b
}
