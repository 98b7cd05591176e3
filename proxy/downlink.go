package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/sluice-proxy/sluice/rewrite"
)

// finish sends what is left of the turn and relays until it has settled.
func (s *session) finish() error {
	if err := s.flushUp(); err != nil {
		return err
	}
	for !s.t.settled {
		if s.t.copying {
			if err := s.copyIn(); err != nil {
				return err
			}
			if !s.t.ended {
				return nil // COPY in the extended protocol: a Sync is still to come
			}
			continue
		}
		if err := s.pump(); err != nil {
			return err
		}
	}
	return nil
}

// drain relays until the backend owes nothing, in the middle of a turn.
func (s *session) drain() error {
	if err := s.flushUp(); err != nil {
		return err
	}
	for !s.t.owed.empty() && !s.t.settled && !s.t.copying {
		if err := s.pump(); err != nil {
			return err
		}
	}
	return s.flushDown()
}

// pump reads once from the backend and relays what came.
func (s *session) pump() error {
	err := s.b.src.fill()
	if err == nil {
		return s.relay()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err := s.flushDown(); err != nil {
			return err
		}
		return s.woken()
	}
	return &lostError{err}
}

// verdict is what becomes of one frame of the backend.
type verdict uint8

const (
	pass verdict = iota
	swallow
)

// relay handles the frames in the backend's buffer. Runs of frames that pass
// are written from that buffer as one; the rest is gathered in the down sink.
func (s *session) relay() error {
	t := s.t
	src := &s.b.src
	span := src.r // start of the bytes to pass that are not yet in the sink
	for {
		if t.rest > 0 {
			n := min(t.rest, src.buffered())
			if t.restSwallow {
				if err := s.passSpan(src.buf[span:src.r]); err != nil {
					return err
				}
				src.r += n
				span = src.r
			} else {
				src.r += n
			}
			if t.rest -= n; t.rest > 0 {
				break
			}
		}
		typ, total, err := src.header()
		if err != nil {
			return &lostError{fmt.Errorf("frame of type %q from the backend: %w", typ, err)}
		}
		if total == 0 {
			break
		}
		if typ == msgDataRow || typ == msgCopyData { // the hot path
			n := min(total, src.buffered())
			src.r += n
			if t.rest = total - n; t.rest > 0 {
				t.restSwallow = false
				break
			}
			continue
		}
		have := src.buffered()
		if have < total && total <= bufSize {
			break // held whole once it has arrived
		}
		frame := src.buf[src.r:min(src.r+total, src.w)]
		// What the reply makes us say goes behind what came before it.
		if !plainReply(typ) || s.gathers() {
			if err := s.passSpan(src.buf[span:src.r]); err != nil {
				return err
			}
			span = src.r
		}
		v, err := s.reply(typ, frame, total)
		if err != nil {
			return err
		}
		src.r += len(frame)
		t.rest, t.restSwallow = total-len(frame), v != pass
		if v != pass {
			span = src.r
		} else if t.owedFakes() {
			if err := s.passSpan(src.buf[span:src.r]); err != nil {
				return err
			}
			span = src.r
			s.emitFakes()
		}
		if t.settled || t.copying {
			break
		}
	}
	return s.relayed(span)
}

// plainReply reports whether a frame of this type changes nothing but the owed
// queue, when it passes.
func plainReply(typ byte) bool {
	switch typ {
	case msgCommandComplete, msgBindComplete, msgRowDescription, msgReady, msgParseComplete, msgNoData:
		return true
	}
	return false
}

// gathers reports whether the head's reply does not simply pass.
func (s *session) gathers() bool {
	q := &s.t.owed
	return q.empty() || q.first().swallow || q.first().poison || q.first().kind == msgQuery && q.first().bytes != nil
}

// relayed sends on what relay left: the span that ends at the buffer's read
// position. When the turn has settled, the backend is given back first, so
// that it serves the next client while this one is written to.
func (s *session) relayed(span int) error {
	t := s.t
	src := &s.b.src
	data := src.buf[span:src.r]
	if !t.settled || src.buffered() > 0 {
		if err := s.passSpan(data); err != nil {
			return err
		}
		if !t.settled {
			return s.flushDown()
		}
		return s.settle(s.b.status)
	}
	buf := src.buf
	src.buf, src.r, src.w = nil, 0, 0
	if err := s.settle(s.b.status); err != nil {
		putBuf(buf)
		return err
	}
	err := s.passSpan(data)
	putBuf(buf)
	return err
}

// passSpan sends bytes to the client: at once when they are many and nothing
// waits before them, else with the next flush.
func (s *session) passSpan(b []byte) error {
	k := &s.t.down
	if len(b) == 0 {
		return nil
	}
	if k.n == 0 && (len(b) >= bufSize/2 || s.t.settled) {
		return s.writeClient(b)
	}
	for len(b) > 0 {
		n := min(len(b), k.room())
		k.add(b[:n])
		b = b[n:]
		if k.room() == 0 {
			if err := s.flushDown(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flushDown writes what was gathered for the client.
func (s *session) flushDown() error {
	k := &s.t.down
	if k.n == 0 {
		return nil
	}
	err := s.writeClient(k.buf[:k.n])
	k.reset()
	return err
}

func (s *session) writeClient(b []byte) error {
	if _, err := s.client.conn.Write(b); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// tell appends frames for the client behind everything owed before them.
func (s *session) tell(frames ...[]byte) error {
	t := s.t
	for _, b := range frames {
		if !t.owed.empty() {
			t.owed.push(0).bytes = bytes.Clone(b)
			continue
		}
		if err := s.passSpan(b); err != nil {
			return err
		}
	}
	return nil
}

// owedFakes reports whether the head of the queue is a fake.
func (t *turn) owedFakes() bool { return !t.owed.empty() && t.owed.first().kind == 0 }

// emitFakes writes the fakes at the head of the queue.
func (s *session) emitFakes() {
	t := s.t
	for t.owedFakes() {
		s.passSpan(t.owed.first().bytes) // a write error shows again at the next write
		t.owed.pop()
	}
}

// reply matches one frame of the backend with what it owes. frame may be cut
// short when it is longer than a buffer; total is its whole length.
func (s *session) reply(typ byte, frame []byte, total int) (verdict, error) {
	t := s.t
	switch typ {
	case msgParameterStatus, msgNotice:
		if !t.owed.empty() && t.owed.first().swallow {
			return swallow, nil
		}
		return pass, nil
	case msgNotification:
		if !s.pinned && !s.dedicated {
			return swallow, nil // of a LISTEN that another client left behind
		}
		return pass, nil
	case msgError:
		return s.replyError(frame)
	}
	if t.owed.empty() {
		return swallow, s.desync(typ)
	}
	o := t.owed.first()
	v := pass
	if o.swallow {
		v = swallow
	}
	switch o.kind {
	case msgParse:
		if typ != msgParseComplete {
			return v, s.desync(typ)
		}
		if o.tmpl != nil && !s.pinned { // nil when frames pass unseen
			o.tmpl.accepted.Store(o.stmt.epoch + 1)
		}
	case msgBind:
		if typ != msgBindComplete {
			return v, s.desync(typ)
		}
	case msgClose:
		if typ != msgCloseComplete {
			return v, s.desync(typ)
		}
	case msgDescribe:
		switch typ {
		case msgParameterDesc:
			t.capture = append(t.capture[:0], frame...)
			o.done = len(frame) == total
			return v, nil
		case msgRowDescription, msgNoData:
			s.described(o, frame, len(frame) == total)
		default:
			return v, s.desync(typ)
		}
	case msgExecute:
		switch typ {
		case msgCommandComplete, msgEmptyQuery, msgPortalSuspended:
			s.completed(o, typ, frame)
		case msgCopyIn, msgCopyBoth:
			s.startCopy()
			return v, nil
		case msgCopyOut, msgCopyDone:
			return v, nil
		default:
			return v, s.desync(typ)
		}
	case msgQuery:
		switch typ {
		case msgCommandComplete, msgEmptyQuery:
			s.completed(o, typ, frame)
			t.statement++
			if o.bytes != nil { // a RESET that went as a SET
				return swallow, s.passSpan(o.bytes)
			}
			return v, nil
		case msgCopyIn, msgCopyBoth:
			s.startCopy()
			return v, nil
		case msgRowDescription, msgCopyOut, msgCopyDone:
			return v, nil
		case msgReady:
			return v, s.replyReady(frame)
		}
		return v, s.desync(typ)
	case msgFunction:
		switch typ {
		case msgFunctionResponse:
			return v, nil
		case msgReady:
			return v, s.replyReady(frame)
		}
		return v, s.desync(typ)
	case msgSync:
		if typ != msgReady {
			return v, s.desync(typ)
		}
		return v, s.replyReady(frame)
	}
	t.owed.pop()
	return v, nil
}

// desync says that the backend sent what nobody asked for: its stream cannot
// be trusted any more.
func (s *session) desync(typ byte) error {
	s.srv.log.Error("backend out of step", append(s.logAttrs(), "frame", string(rune(typ)))...)
	return &lostError{fmt.Errorf("unexpected frame %q", typ)}
}

// replyReady is a ReadyForQuery: the turn has settled.
func (s *session) replyReady(frame []byte) error {
	if len(frame) != headerLen+1 {
		return &lostError{errProtocol}
	}
	s.t.owed.pop()
	s.b.status = frame[headerLen]
	s.t.settled = true
	s.t.copying = false
	return nil
}

// described notes a statement's description for this client and the others.
func (s *session) described(o *owed, frame []byte, whole bool) {
	if o.tmpl == nil {
		return // a portal's
	}
	if !whole || !o.done {
		return // too long to keep: nobody is told from memory
	}
	t := s.t
	d := &description{epoch: s.srv.catalog.epoch.Load(), frames: append(bytes.Clone(t.capture), frame...)}
	t.desc = d
	if !s.pinned {
		o.tmpl.desc.Store(d)
	}
	if o.told != nil && o.told.tmpl == o.tmpl {
		o.told.told = d
	}
}

// completed is the end of one statement: what it did to the session takes hold.
func (s *session) completed(o *owed, typ byte, frame []byte) {
	t := s.t
	if o.plan == nil || typ != msgCommandComplete {
		return
	}
	kind := o.plan.Kind
	if o.kind == msgQuery && len(o.plan.Statements) == 1 && kind != rewrite.Control {
		// In autocommit the tag of a Query comes after its commit.
		t.committed = !t.inBlock && s.b.status == 'I'
	}
	if kind <= rewrite.Read || kind == rewrite.Write && len(o.plan.Statements) == 1 {
		return
	}
	tag := frame[headerLen : len(frame)-1]
	switch string(tag) {
	case "COMMIT":
		t.committed, t.rolledBack = true, false
		if o.kind == msgQuery && t.statement+1 < len(o.plan.Statements) {
			s.fold(false) // an inner COMMIT
			t.committed = false
		}
	case "ROLLBACK":
		t.rolledBack = true
		if o.kind == msgQuery && t.statement+1 < len(o.plan.Statements) {
			s.fold(true)
			t.rolledBack = false
		}
	}
	i := 0
	if o.kind == msgQuery {
		i = t.statement
	}
	if i >= len(o.plan.Statements) {
		return
	}
	st := &o.plan.Statements[i]
	for _, c := range st.Changes {
		if c.Action != rewrite.SetLocal {
			s.staged = append(s.staged, c)
		}
		if c.Action == rewrite.DiscardAll {
			s.b.prepared.clear()
			s.forgetStatements()
		}
	}
	if st.DeallocateAll {
		s.b.prepared.clear()
		s.forgetStatements()
	}
	if st.Kind == rewrite.DDL {
		s.sawDDL = true
		s.srv.catalog.flush()
	}
}

// replyError is an ErrorResponse: the entries up to the next boundary will not
// be answered any more.
func (s *session) replyError(frame []byte) (verdict, error) {
	t := s.t
	payload := frame[headerLen:]
	if sev := field(payload, 'V'); string(sev) == "FATAL" || string(sev) == "PANIC" {
		if s.dedicated {
			return pass, nil // the end of the stream follows
		}
		return swallow, &lostError{fmt.Errorf("server said %s", field(payload, 'C'))}
	}
	if t.owed.empty() {
		return pass, nil
	}
	t.failed = true
	t.copying = false
	code := string(field(payload, 'C'))
	head := *t.owed.first()
	if code == "40001" && bytes.Contains(field(payload, 'M'), []byte("(OC001)")) || code == "0A000" && head.kind == msgBind {
		s.srv.catalog.flush()
	}
	if code == "26000" && !head.poison && !s.dedicated && (head.kind == msgBind || head.kind == msgDescribe) {
		s.b.suspect = true // somebody deallocated our statements behind our back
	}
	v := pass
	if head.poison {
		v = swallow
		if err := s.passSpan(head.bytes); err != nil {
			return v, err
		}
	}
	own := head.kind == msgParse && !head.swallow
	undos := t.owed.failed(s.skipped)
	for i, u := range undos {
		if own && i == len(undos)-1 && u.name == "" {
			u.prev = nil // a Parse that fails destroys the unnamed statement all the same
		}
		s.setStatement(u.name, u.prev)
	}
	switch {
	case head.boundary():
	case t.owed.empty():
		t.skip = true
	case t.owed.first().kind != msgSync:
		// The server skips to a Sync that the client never sends: a Query came
		// behind frames that failed, the BEGIN in front of it at least.
		*t.owed.first() = owed{kind: msgSync}
		s.addBytes(frameSync)
		return v, s.flushUp()
	}
	return v, nil
}

// skipped is an entry that the server will not answer because of an error
// before it.
func (s *session) skipped(o *owed) {
	if o.stmt == nil {
		return
	}
	switch o.kind {
	case msgParse:
		s.b.prepared.remove(o.stmt)
	case msgClose:
		s.b.prepared.orphans = append(s.b.prepared.orphans, o.stmt.name)
	}
}
