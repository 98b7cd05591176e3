package proxy

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file takes frames from the client (nextFrame, readWholeFrame) to the backend. addToBatch collects them in the
// turn's batch, and flushToBackend writes the batch. A turn too long for one write gets a writer goroutine.

// halfDuplexLimit is how many bytes of a turn Sluice writes before it reads an answer. The socket buffers hold more, so
// a server that waits for Sluice to read still accepts these bytes. Above the limit a goroutine writes during reads.
const halfDuplexLimit = 64 << 10

// maxOwed and mostOwedBytes limit the pending replies, in entries and in bytes. For a longer pipeline Sluice sends a
// Flush, so that the server answers (finishEarlierFrames).
const (
	maxOwed       = 16 << 10
	mostOwedBytes = 2 << 20
)

// nextFrame waits until the client's next frame is buffered, or a buffer full of it, and leaves the frame unread.
// errTurnOver means that the turn has no further frame. A frame that no server would accept ends the session.
func (s *session) nextFrame() (typ byte, total int, err error) {
	c := &s.client
	for {
		typ, total, err = c.NextHeader()
		switch {
		case err != nil:
			return 0, 0, wire.ProtocolViolation("invalid message length")
		case total > 0:
			// PostgreSQL limits the length of a client's frame by its type too.
			limit := wire.ClientFrameLimit(typ)
			if limit == 0 && s.t.expectsCopyData() {
				return typ, total, nil // the caller ends the session
			}
			if limit == 0 {
				return 0, 0, wire.ProtocolViolation("invalid frontend message type %d", typ)
			}
			if total-1 > limit {
				return 0, 0, wire.ProtocolViolation("invalid message length")
			}
			if c.Buffered() >= min(total, wire.BufferSize) {
				return typ, total, nil
			}
			c.MakeRoom(min(total, wire.BufferSize))
		}
		if err := s.fillClientBuffer(); err != nil {
			return 0, 0, err
		}
		if s.t.settled {
			return 0, 0, errTurnOver
		}
	}
}

// errTurnOver means that the server ended the turn before the client's last frame, because a COPY failed.
var errTurnOver = errors.New("the server ended the turn")

// fillClientBuffer reads from the client in the middle of a turn. While a reply is pending it also relays the backend's
// frames. If the result is nil, the client has sent more, or the turn is over.
func (s *session) fillClientBuffer() error {
	if s.b != nil && (!s.t.owed.empty() || s.t.server.copying) {
		return s.fillClientWhileRelaying()
	}
	return s.fillClientOnly()
}

// readWholeFrame reads the client's next frame, of total bytes, and returns it. The slice is valid until the next read
// from the client. A frame larger than a buffer gets a separate buffer, so callers must limit total.
func (s *session) readWholeFrame(total int) ([]byte, error) {
	c := &s.client
	c.Grow(total)
	for c.Buffered() < total {
		if err := s.fillClientBuffer(); err != nil {
			return nil, err
		}
	}
	frame := c.Peek(total)
	c.Advance(total)
	return frame, nil
}

// forwardBytes passes the client's next n bytes, a frame or its rest, to the backend unchanged, and logs them for a
// replay. It reads all n bytes even after an error, unless the session ends.
func (s *session) forwardBytes(n int) error {
	c := &s.client
	s.t.request.midClient = true
	defer func() { s.t.request.midClient = false }()
	inPieces := n > c.Buffered()
	for n > 0 {
		if c.Buffered() == 0 {
			if err := s.fillClientBuffer(); err != nil {
				return s.finishForward(n, err)
			}
			continue
		}
		if s.b == nil {
			return s.discardBytes(n) // the backend was lost during the read
		}
		k := min(n, c.Buffered())
		// Take as many bytes as fill the batch's buffer, which flushIfFull then writes to the backend.
		if room := s.t.up.FreeBytes(); inPieces && room > 0 {
			k = min(k, room)
		}
		// A backend that has a part of a frame accepts only the rest. If the turn ends first, settleTurn drops the backend.
		s.t.partial.midFrame = k < n
		if s.t.rec.logs {
			s.tx.log.AppendPayload(c.Peek(k))
		}
		if s.t.request.pin.IsUnread() {
			s.t.request.pin.Scan(c.Peek(k))
		}
		s.t.addToBatch(c.Peek(k))
		c.Advance(k)
		n -= k
		if err := s.flushIfFull(); err != nil {
			return s.finishForward(n, err)
		}
	}
	return nil
}

// finishForward ends forwardBytes after the error err. After a lost backend it reads the remaining n bytes of the
// client's frame. It returns err, or the error that ends the session.
func (l *link) finishForward(n int, err error) error {
	var gone *lostError
	if !errors.As(err, &gone) {
		return err
	}
	l.t.partial.midFrame = false
	return cmp.Or(l.readIntoLog(n), err)
}

// readIntoLog reads n bytes from the client without a backend, and logs them for a replay.
func (l *link) readIntoLog(n int) error {
	c := &l.client
	for n > 0 {
		if c.Buffered() == 0 {
			if err := l.fillClientOnly(); err != nil {
				return err
			}
			continue
		}
		k := min(n, c.Buffered())
		if l.t.rec.logs {
			l.tx.log.AppendPayload(c.Peek(k))
		}
		c.Advance(k)
		n -= k
	}
	return nil
}

// discardBytes reads and drops the client's next n bytes. If the backend is lost meanwhile, it drops all n bytes
// nevertheless, and returns the loss.
func (s *session) discardBytes(n int) error {
	c := &s.client
	for {
		k := min(n, c.Buffered())
		c.Advance(k)
		if n -= k; n == 0 {
			return nil
		}
		if err := s.fillClientBuffer(); err != nil {
			return s.finishDiscard(n, err)
		}
	}
}

// finishDiscard ends discardBytes after the error err, and drops the remaining n bytes after a lost backend. It returns
// err, or the error that ends the session.
func (l *link) finishDiscard(n int, err error) error {
	var gone *lostError
	if !errors.As(err, &gone) {
		return err
	}
	c := &l.client
	for n > 0 {
		if err := l.fillClientOnly(); err != nil {
			return err
		}
		k := min(n, c.Buffered())
		c.Advance(k)
		n -= k
	}
	return err
}

// addToBatch appends bytes to the batch for the backend, and marks the turn as touched. It writes and relays nothing,
// so it changes neither pending replies nor backend nor log. After large additions, callers use flushIfFull.
func (t *turn) addToBatch(b []byte) {
	t.up.Add(b)
	t.touched = true
}

// addQueryFrame adds a Query frame as read from the client to the batch for the backend. A frame longer than a buffer
// is not copied. Instead the turn takes over the read buffer, unless that buffer holds more input of the client.
func (l *link) addQueryFrame(frame []byte) {
	if len(frame) > wire.BufferSize {
		if buf := l.client.DetachFrame(frame); buf != nil {
			l.t.sent.read = buf
			l.t.up.AddReference(frame)
			l.t.touched = true
			return
		}
	}
	l.t.addToBatch(frame)
}

// addParse adds a Parse with a template's text to the batch for the backend. A long text is not copied.
func (t *turn) addParse(name string, tmpl *statement.Template) {
	text := tmpl.ServerText()
	if len(text) <= wire.BufferSize {
		t.scratch = wire.AppendParse(t.scratch[:0], name, text, []byte(tmpl.OIDs))
		t.addToBatch(t.scratch)
		return
	}
	t.scratch = wire.AppendParseHead(t.scratch[:0], name, len(text), len(tmpl.OIDs))
	t.addToBatch(t.scratch)
	t.up.AddTextReference(text)
	t.scratch = append(append(t.scratch[:0], 0), tmpl.OIDs...)
	t.addToBatch(t.scratch)
}

// flushIfFull calls flushToBackend if the batch has at least a buffer of bytes. Even without an error, the backend may
// be lost or dropped afterwards. The client may also have got an error, as with flushToBackend.
func (s *session) flushIfFull() error {
	if !s.t.up.IsFull() {
		return nil
	}
	return s.flushToBackend()
}

// flushToBackend writes the batch to the backend. Above halfDuplexLimit a goroutine writes, and the session relays
// replies meanwhile. Outside a block, the write opens a Sync group on the backend, until its ReadyForQuery.
func (s *session) flushToBackend() error {
	t := s.t
	k := &t.up
	if k.IsEmpty() {
		return nil
	}
	if err := s.b.trips.Err(); err != nil {
		return &lostError{err: err}
	}
	t.sent.flushed += k.Len()
	t.observed.silentSince = time.Time{} // a backend that still gets input is not silent
	s.b.groupOpen = !t.server.outcome.InBlock()
	if t.sent.flushed > halfDuplexLimit && !t.owed.empty() || t.sent.uplink != nil {
		return s.flushByWriter()
	}
	if err := k.Flush(s.b.conn.Net); err != nil {
		return &lostError{err: err}
	}
	return nil
}

// backendWriter is a goroutine that writes a long turn to the backend. Without it, session and server could each wait
// for the other to read, once both directions exceed the socket buffers. It writes one batch at a time and ends with
// the turn.
type backendWriter struct {
	work    chan wire.Batch
	done    chan error
	busy    bool        // the writer has a batch; only the session uses this field
	waiting atomic.Bool // the session reads the backend until the writer is done
}

// flushByWriter gives the batch to the writer goroutine. First it relays replies until the previous batch is written.
// If that write failed, it returns a *lostError.
func (s *session) flushByWriter() error {
	t := s.t
	if t.sent.uplink == nil {
		t.sent.uplink = &backendWriter{work: make(chan wire.Batch, 1), done: make(chan error, 1)}
		go t.sent.uplink.run(s.b)
	}
	if err := s.awaitWriter(); err != nil {
		return err
	}
	if t.up.IsEmpty() {
		return nil // the backend was dropped meanwhile
	}
	t.sent.uplink.busy = true
	t.sent.uplink.work <- t.up.Detach()
	return nil
}

// run writes batches to the backend until work is closed. The session may be reading the backend while it waits for the
// writer. If so, a read deadline in the past wakes the session.
func (u *backendWriter) run(b *backend) {
	conn := b.conn.Net
	for batch := range u.work {
		u.done <- batch.Flush(conn)
		if u.waiting.Load() {
			conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	close(u.done)
}

// awaitWriter relays replies until the writer goroutine has written its batch. It also returns if the backend is
// dropped.
func (s *session) awaitWriter() error {
	u := s.t.sent.uplink
	if u == nil || !u.busy {
		return nil
	}
	u.waiting.Store(true)
	defer u.waiting.Store(false)
	for {
		select {
		case err := <-u.done:
			u.busy = false
			if s.b != nil {
				s.waits.Arm()
			}
			if err != nil {
				return &lostError{err: err}
			}
			return nil
		default:
		}
		if s.b == nil {
			return nil
		}
		if err := s.readAndRelay(); err != nil {
			return err
		}
	}
}

// finishBackendWrite waits until the writer goroutine is done, before other code writes to the backend. After the time
// patience it ends the write. whole reports whether the batch was written completely. If no writer is busy, it returns
// at once. The session must have a backend.
func (p *pairing) finishBackendWrite(patience time.Duration) (whole bool) {
	if p.t == nil || p.t.sent.uplink == nil || !p.t.sent.uplink.busy {
		return true
	}
	u, conn := p.t.sent.uplink, p.b.conn.Net
	enough := time.AfterFunc(patience, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := <-u.done
	u.busy = false
	return enough.Stop() && err == nil
}

// closeWriter ends the writer goroutine after the backend has answered or is lost. It returns the error of a write, if
// no caller has got that error yet.
func (t *turn) closeWriter() error {
	u := t.sent.uplink
	t.sent.uplink = nil
	close(u.work)
	for err := range u.done {
		if err != nil {
			return &lostError{err: err}
		}
	}
	return nil
}
