package proxy

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// halfDuplexLimit is how much of a turn is written before anything of its
// replies is read. Both directions' socket buffers hold more than this, so a
// server that waits for us to read still takes it; past it a writer goroutine
// writes while the session reads.
const halfDuplexLimit = 64 << 10

// maxOwed bounds the owed queue: a longer pipeline is made to answer by a Flush.
const maxOwed = 16 << 10

// nextFrame waits until the header of the client's next frame is there, and as
// much of the frame as fits a buffer.
func (s *session) nextFrame() (typ byte, total int, err error) {
	c := &s.client
	for {
		typ, total, err = c.header()
		switch {
		case err != nil:
			return 0, 0, errProtocolViolation("invalid message length")
		case total > 0:
			limit := clientFrameLimit(typ)
			if limit == 0 {
				return 0, 0, errProtocolViolation("invalid frontend message type %d", typ)
			}
			if total-1 > limit {
				return 0, 0, errProtocolViolation("invalid message length")
			}
			if c.buffered() >= min(total, bufSize) {
				return typ, total, nil
			}
			if len(c.buf)-c.r < min(total, bufSize) {
				c.w = copy(c.buf, c.buf[c.r:c.w])
				c.r = 0
			}
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

// fillClient reads from the client in the middle of a turn. While the backend
// owes something it may speak first.
func (s *session) fillClient() error {
	if s.b != nil && (!s.t.owed.empty() || s.t.copying) {
		return s.fillEither()
	}
	for {
		err := s.client.fill()
		if err == nil || !isTimeout(err) {
			return err
		}
		if s.cut.Load() {
			return errCut
		}
		s.client.conn.SetReadDeadline(time.Time{})
	}
}

// whole returns the next frame, all of it, and takes it off the buffer. Valid
// until the next read from the client.
func (s *session) whole(total int) ([]byte, error) {
	c := &s.client
	c.grow(total)
	for c.buffered() < total {
		if err := s.fillClient(); err != nil {
			return nil, err
		}
	}
	frame := c.buf[c.r : c.r+total]
	c.r += total
	return frame, nil
}

// forward sends the next n bytes of the client to the backend as they are.
func (s *session) forward(n int) error {
	c := &s.client
	for n > 0 {
		if c.buffered() == 0 {
			if err := s.fillClient(); err != nil {
				return err
			}
			continue
		}
		if s.b == nil {
			return s.discard(n) // the backend was lost meanwhile
		}
		k := min(n, c.buffered())
		s.t.midFrame = k < n
		err := s.add(c.buf[c.r : c.r+k])
		c.r += k
		n -= k
		if err != nil {
			s.t.midFrame = false
			if derr := s.discard(n); derr != nil {
				return derr
			}
			return err
		}
	}
	return nil
}

// discard drops the next n bytes of the client.
func (s *session) discard(n int) error {
	c := &s.client
	for {
		k := min(n, c.buffered())
		c.r += k
		if n -= k; n == 0 {
			return nil
		}
		if err := s.fillClient(); err != nil {
			return err
		}
	}
}

// add gathers bytes for the backend, and writes when a buffer is full.
func (s *session) add(b []byte) error {
	k := &s.t.up
	for len(b) > 0 {
		if k.room() == 0 {
			if err := s.flushUp(); err != nil {
				return err
			}
		}
		n := min(len(b), k.room())
		k.add(b[:n])
		b = b[n:]
	}
	s.t.touched = true
	return nil
}

// addBytes is add for short frames of our own; an error shows at the next flush.
func (s *session) addBytes(b []byte) {
	if err := s.add(b); err != nil && s.t.upErr == nil {
		s.t.upErr = err
	}
}

// flushUp writes what was gathered for the backend.
func (s *session) flushUp() error {
	t := s.t
	if err := t.upErr; err != nil {
		t.upErr = nil
		return err
	}
	k := &t.up
	if k.n == 0 {
		return nil
	}
	t.flushed += k.n
	if t.flushed > halfDuplexLimit && !t.owed.empty() || t.uplink != nil {
		return s.flushBeside()
	}
	_, err := s.b.conn.Net.Write(k.buf[:k.n])
	k.reset()
	if err != nil {
		return &lostError{err}
	}
	return nil
}

// uplink is the writer goroutine of an oversized turn: writing all and then
// reading would deadlock once both directions exceed the socket buffers.
type uplink struct {
	work    chan []byte
	done    chan error
	busy    bool        // a buffer is with the writer; the session's own
	waiting atomic.Bool // the session reads the backend until the writer is done
}

// flushBeside hands the gathered bytes to the writer, and relays replies while
// the one before is still being written.
func (s *session) flushBeside() error {
	t := s.t
	if t.uplink == nil {
		t.uplink = &uplink{work: make(chan []byte, 1), done: make(chan error, 1)}
		go t.uplink.run(s.b)
	}
	if err := s.awaitUplink(); err != nil {
		return err
	}
	if t.up.n == 0 {
		return nil // the backend was dropped meanwhile
	}
	t.uplink.busy = true
	t.uplink.work <- t.up.buf[:t.up.n]
	t.up.buf, t.up.n = nil, 0
	return nil
}

func (u *uplink) run(b *backend) {
	conn := b.conn.Net
	for buf := range u.work {
		_, err := conn.Write(buf)
		putBuf(buf)
		u.done <- err
		if u.waiting.Load() {
			conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	close(u.done)
}

// awaitUplink returns once the writer has written what it was given.
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
				s.b.conn.Net.SetReadDeadline(s.t.deadline)
			}
			if err != nil {
				return &lostError{err}
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

// closeUplink ends the writer; the backend has answered, or is gone.
func (s *session) closeUplink() error {
	u := s.t.uplink
	s.t.uplink = nil
	close(u.work)
	for err := range u.done {
		if err != nil {
			return &lostError{err}
		}
	}
	return nil
}

// handle deals with the client's next frame.
func (s *session) handle(typ byte, total int) error {
	t := s.t
	if s.pinLost {
		return errPinLost
	}
	switch typ {
	case msgTerminate:
		return errTerminated
	case msgCopyData, msgCopyDone, msgCopyFail:
		return s.discard(total) // the rest of a COPY that has failed
	case msgSync:
		return s.sync(total)
	}
	if t.skip {
		return s.discard(total)
	}
	if s.dedicated {
		return s.passThrough(typ, total)
	}
	if t.owed.len() >= maxOwed {
		if err := s.makeAnswer(); err != nil {
			return err
		}
	}
	switch typ {
	case msgQuery:
		return s.query(total)
	case msgFunction:
		return s.function(total)
	case msgBind:
		return s.bind(total)
	}
	if typ == msgParse && total > s.srv.cfg.MaxStatementBytes {
		if err := s.discard(total); err != nil {
			return err
		}
		return errStatementTooLong(total, s.srv.cfg.MaxStatementBytes)
	}
	frame, err := s.whole(total)
	if err != nil {
		return err
	}
	switch typ {
	case msgParse:
		return s.parse(frame)
	case msgDescribe:
		return s.describe(frame)
	case msgExecute:
		return s.execute(frame)
	case msgClose:
		return s.closeNamed(frame)
	}
	return s.flush()
}

// sync ends a turn of the extended protocol.
func (s *session) sync(total int) error {
	if err := s.discard(total); err != nil {
		return err
	}
	t := s.t
	t.ended = true
	t.skip = false
	if !t.touched {
		return s.ready()
	}
	t.owed.push(msgSync)
	if s.b.status == 'I' && !t.inBlock && t.writes {
		t.mayCommit = true
	}
	s.addBytes(frameSync)
	return s.finish()
}

// flush is the client's Flush: it wants what it is owed so far.
func (s *session) flush() error {
	if !s.t.touched || s.t.owed.empty() {
		return s.flushDown()
	}
	return s.makeAnswer()
}

// makeAnswer has the server send what it owes, and relays it.
func (s *session) makeAnswer() error {
	s.addBytes(frameFlush)
	return s.drain()
}

// query is a simple Query.
func (s *session) query(total int) error {
	t := s.t
	t.ended = true
	s.unnamed, s.portal = nil, portal{}
	plan := unread
	var frame []byte
	if total <= s.srv.cfg.MaxStatementBytes {
		var err error
		if frame, err = s.whole(total); err != nil {
			return err
		}
		sql, rest, ok := cstring(frame[headerLen:])
		if !ok || len(rest) != 0 {
			return errProtocolViolation("invalid string in message")
		}
		plan = s.srv.planner.Plan(sql)
		if done, err := s.answerLocally(plan, sql); done || err != nil {
			return err
		}
	} else if s.state == failed {
		if err := s.discard(total); err != nil {
			return err
		}
		return errAborted
	}
	if err := s.admit(plan); err != nil {
		if frame == nil {
			if derr := s.discard(total); derr != nil {
				return derr
			}
		}
		return err
	}
	t.owed.push(msgQuery).plan = plan
	if s.b.status == 'I' && !t.inBlock {
		t.mayCommit = plan.Kind > rewrite.Read
		t.writes = t.writes || t.mayCommit
	} else {
		t.mayCommit = commits(plan)
	}
	var err error
	if frame != nil {
		err = s.add(frame)
	} else {
		err = s.forward(total)
	}
	if err != nil {
		return err
	}
	return s.finish()
}

// unread is the plan of a text too long to be held.
var unread = &rewrite.Plan{Kind: rewrite.Unknown, Pin: rewrite.PinUnparsed}

// admit gets a backend for a plan, and pins it where the plan needs that.
func (s *session) admit(plan *rewrite.Plan) error {
	if s.state == failed {
		return errAborted
	}
	if err := s.lend(); err != nil {
		return err
	}
	if plan.Pin != rewrite.NoPin && !s.pinned {
		return s.pin(plan)
	}
	return nil
}

// commits reports whether a text may end the transaction it runs in.
func commits(plan *rewrite.Plan) bool {
	if plan.Kind == rewrite.Unknown {
		return true
	}
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Setting {
		return false
	}
	for i := range plan.Statements {
		switch plan.Statements[i].Tx.Verb {
		case rewrite.Commit, rewrite.PrepareTransaction:
			return true
		}
	}
	return false
}

// function is a FunctionCall: relayed, and taken for a write.
func (s *session) function(total int) error {
	t := s.t
	t.ended = true
	err := s.admit(functionPlan)
	if err != nil {
		if derr := s.discard(total); derr != nil {
			return derr
		}
		return err
	}
	t.owed.push(msgFunction)
	t.writes = true
	t.mayCommit = s.b.status == 'I' && !t.inBlock
	if err := s.forward(total); err != nil {
		return err
	}
	return s.finish()
}

var functionPlan = &rewrite.Plan{Kind: rewrite.Write}

// refuse tells the client an error of ours where it stands in the stream. What
// the server has of the turn must fail too: it is sent something that does,
// and its error is replaced.
func (s *session) refuse(e *sqlError) error {
	t := s.t
	s.srv.metrics.ErrorSent(e.code)
	if s.state == busy || s.state == held && s.b.status == 'T' {
		if err := s.lend(); err != nil {
			return err
		}
		o := t.owed.push(msgBind)
		o.poison = true
		o.bytes = e.append(nil)
		s.addBytes(appendBindNothing(nil, "sluice_refused"))
		if !t.ended {
			t.skip = true
			return nil
		}
		t.owed.push(msgSync)
		s.addBytes(frameSync)
		return s.finish()
	}
	if s.state == begun {
		if err := s.move(refusedInBlock); err != nil {
			return err
		}
		s.begin = nil
	}
	if err := s.passSpan(e.append(nil)); err != nil {
		return err
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.ready()
}

// say tells an error that stands outside the owed queue.
func (s *session) say(e *sqlError) {
	s.srv.metrics.ErrorSent(e.code)
	s.passSpan(e.append(nil)) // a write error shows again at the next write
}

// ready ends a turn that the server does not end.
func (s *session) ready() error {
	s.t.settled = true
	return s.passSpan(appendReady(nil, s.status()))
}

// bindNames splits a Bind's payload after its two names.
func bindNames(payload []byte) (portalName, statement, rest []byte, ok bool) {
	portalName, rest, ok = cstring(payload)
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = cstring(rest)
	return portalName, statement, rest, ok
}

// appendBindHead starts a Bind with a statement's name replaced; n is the
// length of what follows the names.
func appendBindHead(dst, portalName []byte, statement string, n int) []byte {
	dst = append(dst, msgBind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(portalName)+1+len(statement)+1+n))
	dst = append(dst, portalName...)
	dst = append(dst, 0)
	dst = append(dst, statement...)
	return append(dst, 0)
}
