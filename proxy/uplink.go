package proxy

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// The way from the client to the backend: frames are read from the client (nextFrame,
// whole), gathered in the turn's batch (add), and written in one piece where a turn fits
// (flushUp). A turn that does not fit has a writer goroutine, the uplink.

// halfDuplexLimit is how much of a turn is written before anything of its
// replies is read. Both directions' socket buffers hold more than this, so a
// server that waits for us to read still takes it; past it a writer goroutine
// writes while the session reads.
const halfDuplexLimit = 64 << 10

// maxOwed bounds the owed queue: a longer pipeline is made to answer by a Flush
// (closeGroup). So is one whose entries hold mostOwedBytes.
const (
	maxOwed       = 16 << 10
	mostOwedBytes = 2 << 20
)

// nextFrame waits until the header of the client's next frame is there, and as much of the
// frame as fits a buffer. The frame stays unread. errTurnOver says that there is none in
// this turn; a frame that no server would take ends the session.
func (s *session) nextFrame() (typ byte, total int, err error) {
	c := &s.client
	for {
		typ, total, err = c.Header()
		switch {
		case err != nil:
			return 0, 0, wire.ProtocolViolation("invalid message length")
		case total > 0:
			// PostgreSQL bounds the lengths in the same way, by type.
			limit := wire.ClientFrameLimit(typ)
			if limit == 0 && s.readsData() {
				return typ, total, nil // which ends the session
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
		if err := s.fillClient(); err != nil {
			return 0, 0, err
		}
		if s.t.settled {
			return 0, 0, errTurnOver
		}
	}
}

// errTurnOver says that the server ended the turn while the client was
// expected to go on with it: a COPY that failed.
var errTurnOver = errors.New("the server ended the turn")

// fillClient reads from the client in the middle of a turn. While the backend owes
// something it may speak first. With nil more of the client has come, or the turn has
// settled.
func (s *session) fillClient() error {
	if s.b != nil && (!s.t.owed.empty() || s.t.copying) {
		return s.fillEither()
	}
	return s.fillClientAlone()
}

// whole returns the next frame, all of it, and takes it off the buffer. Valid until the
// next read from the client. A frame larger than a buffer gets one of its own: callers
// bound total.
func (s *session) whole(total int) ([]byte, error) {
	c := &s.client
	c.Grow(total)
	for c.Buffered() < total {
		if err := s.fillClient(); err != nil {
			return nil, err
		}
	}
	frame := c.Peek(total)
	c.Advance(total)
	return frame, nil
}

// forward sends the next n bytes of the client to the backend as they are, which is a frame
// or the rest of one, and logs them. With an error they are off the client's stream all the
// same, unless the session ends: the next frame is whole.
func (s *session) forward(n int) error {
	c := &s.client
	s.t.midClient = true
	defer func() { s.t.midClient = false }()
	inPieces := n > c.Buffered()
	for n > 0 {
		if c.Buffered() == 0 {
			if err := s.fillClient(); err != nil {
				return s.leftOver(n, err)
			}
			continue
		}
		if s.b == nil {
			return s.discard(n) // the backend was lost meanwhile
		}
		k := min(n, c.Buffered())
		// Pieces fill a buffer and no more, which is then written.
		if room := s.t.up.Room(); inPieces && room > 0 {
			k = min(k, room)
		}
		// A backend that has a part of a frame can be given nothing else: see settle.
		s.t.midFrame = k < n
		if s.t.logs {
			s.tx.log.Write(c.Peek(k))
		}
		if s.t.unreadPin {
			s.t.left.Read(c.Peek(k))
		}
		s.add(c.Peek(k))
		c.Advance(k)
		n -= k
		if err := s.flushFull(); err != nil {
			return s.leftOver(n, err)
		}
	}
	return nil
}

// leftOver is the end of a forward that met err: the n bytes of the client's frame that are
// left are taken off its stream, if it was the backend's fault. The error is err, or the
// session's end.
func (s *session) leftOver(n int, err error) error {
	var gone *lostError
	if !errors.As(err, &gone) {
		return err
	}
	s.t.midFrame = false
	return cmp.Or(s.take(n), err)
}

// take is forward without a backend: the frame is kept for a replay, which sends all of it.
func (s *session) take(n int) error {
	c := &s.client
	for n > 0 {
		if c.Buffered() == 0 {
			if err := s.fillClientAlone(); err != nil {
				return err
			}
			continue
		}
		k := min(n, c.Buffered())
		if s.t.logs {
			s.tx.log.Write(c.Peek(k))
		}
		c.Advance(k)
		n -= k
	}
	return nil
}

// discard drops the next n bytes of the client, also when the backend is lost meanwhile:
// then the loss is the error, and the bytes are gone all the same.
func (s *session) discard(n int) error {
	c := &s.client
	for {
		k := min(n, c.Buffered())
		c.Advance(k)
		if n -= k; n == 0 {
			return nil
		}
		if err := s.fillClient(); err != nil {
			return s.discardRest(n, err)
		}
	}
}

// discardRest is the end of a discard that met err, with n bytes left. It returns err, or
// the session's end.
func (s *session) discardRest(n int, err error) error {
	var gone *lostError
	if !errors.As(err, &gone) {
		return err
	}
	c := &s.client
	for n > 0 {
		if err := s.fillClientAlone(); err != nil {
			return err
		}
		k := min(n, c.Buffered())
		c.Advance(k)
		n -= k
	}
	return err
}

// add gathers bytes for the backend. The turn counts as touched from then on. Nothing is
// written, and so nothing is relayed: what stands in the queue of answers, on the backend and
// in the log is as it was. Whoever adds much has flushFull called between two frames.
func (s *session) add(b []byte) {
	s.t.up.Add(b)
	s.t.touched = true
}

// addRead is add for a Query as it was read from the client. One that is longer than a buffer is not
// copied: the turn, which it ends, keeps what it was read into, unless more of the client is there.
func (s *session) addRead(frame []byte) {
	if len(frame) > wire.BufferSize {
		if buf := s.client.Yield(frame); buf != nil {
			s.t.read = buf
			s.t.up.Refer(frame)
			s.t.touched = true
			return
		}
	}
	s.add(frame)
}

// addParse adds a Parse of a template's text, which is not copied where it is long.
func (s *session) addParse(name string, tmpl *template) {
	t, text := s.t, tmpl.text()
	if len(text) <= wire.BufferSize {
		t.scratch = wire.AppendParse(t.scratch[:0], name, text, []byte(tmpl.oids))
		s.add(t.scratch)
		return
	}
	t.scratch = wire.AppendParseHead(t.scratch[:0], name, len(text), len(tmpl.oids))
	s.add(t.scratch)
	t.up.ReferText(text)
	t.scratch = append(append(t.scratch[:0], 0), tmpl.oids...)
	s.add(t.scratch)
}

// flushFull writes what was gathered where that is a buffer or more. With nil the backend may
// have been lost or dropped meanwhile, or an error been relayed, as with flushUp.
func (s *session) flushFull() error {
	if !s.t.up.Full() {
		return nil
	}
	return s.flushUp()
}

// flushUp writes what was gathered for the backend. Beyond halfDuplexLimit that is done by
// the uplink, and replies are relayed meanwhile. Outside a block the backend has an open
// group from now on, up to its ReadyForQuery.
func (s *session) flushUp() error {
	t := s.t
	k := &t.up
	if k.Empty() {
		return nil
	}
	if err := s.b.trips.Err(); err != nil {
		return &lostError{err: err}
	}
	t.flushed += k.Len()
	t.quiet = time.Time{} // as long as it is still being sent something, it owes nothing
	s.b.group = !t.outcome.InBlock()
	if t.flushed > halfDuplexLimit && !t.owed.empty() || t.uplink != nil {
		return s.flushBeside()
	}
	if err := k.Flush(s.b.conn.Net); err != nil {
		return &lostError{err: err}
	}
	return nil
}

// uplink is the writer goroutine of an oversized turn: writing all and then reading would
// deadlock once both directions exceed the socket buffers. It has one batch at a time, and
// lives no longer than the turn.
type uplink struct {
	work    chan wire.Batch
	done    chan error
	busy    bool        // a batch is with the writer; the session's own
	waiting atomic.Bool // the session reads the backend until the writer is done
}

// flushBeside hands the gathered bytes to the writer, and relays replies while the one
// before is still being written. An error of that write is a lost backend.
func (s *session) flushBeside() error {
	t := s.t
	if t.uplink == nil {
		t.uplink = &uplink{work: make(chan wire.Batch, 1), done: make(chan error, 1)}
		go t.uplink.run(s.b)
	}
	if err := s.awaitUplink(); err != nil {
		return err
	}
	if t.up.Empty() {
		return nil // the backend was dropped meanwhile
	}
	t.uplink.busy = true
	t.uplink.work <- t.up.Detach()
	return nil
}

// run writes what it is handed to the backend until work is closed. The session may be
// reading the backend meanwhile, and waits for this: a deadline in the past has it look.
func (u *uplink) run(b *backend) {
	conn := b.conn.Net
	for batch := range u.work {
		u.done <- batch.Flush(conn)
		if u.waiting.Load() {
			conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	close(u.done)
}

// awaitUplink returns once the writer has written what it was given. Replies are relayed
// meanwhile; the backend may be dropped over them, and then there is nothing to wait for.
func (s *session) awaitUplink() error {
	u := s.t.uplink
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
				s.alarmRead()
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
		if err := s.pump(); err != nil {
			return err
		}
	}
}

// leaveBackend waits until the writer is done with the backend, before somebody else writes
// to it: for patience at most, then the write is ended and was not whole. Without a writer
// the backend is left at once. It needs the backend.
func (s *session) leaveBackend(patience time.Duration) (whole bool) {
	if s.t == nil || s.t.uplink == nil || !s.t.uplink.busy {
		return true
	}
	u, conn := s.t.uplink, s.b.conn.Net
	enough := time.AfterFunc(patience, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })
	err := <-u.done
	u.busy = false
	return enough.Stop() && err == nil
}

// closeUplink ends the writer; the backend has answered, or is gone. The error is that of a
// write that nobody has been told of.
func (s *session) closeUplink() error {
	u := s.t.uplink
	s.t.uplink = nil
	close(u.work)
	for err := range u.done {
		if err != nil {
			return &lostError{err: err}
		}
	}
	return nil
}
