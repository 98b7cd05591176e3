package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file relays from the backend to the client. pump reads, relay goes through the frames in the buffer, and
// reply.go judges those that matter. output.go sends the rest on, in spans of the buffer where possible.

// finish sends the rest of the turn and relays until the turn has settled, replaying a transaction that fails
// meanwhile. It returns early with an error, or after a COPY in the extended protocol, whose Sync is still to come.
func (s *session) finish() error {
	if err := s.flushUp(); err != nil {
		return err
	}
	for !s.t.settled {
		if s.t.phase == aborting {
			if err := s.resolve(); err != nil {
				return err
			}
			continue
		}
		if s.t.copying {
			if err := s.copyIn(); err != nil {
				return err
			}
			if !s.t.ended {
				return nil // COPY in the extended protocol: a Sync is still to come
			}
			continue
		}
		if s.t.owed.empty() && s.t.ended {
			return s.unsentLost()
		}
		if err := s.pump(); err != nil {
			return err
		}
	}
	return nil
}

// unsentLost fails a turn that has no pending reply but has not settled. Its backend was lost before the turn's last
// frame was sent, and the new backend never got that frame.
func (s *session) unsentLost() error {
	if s.inBlock() {
		return s.abandon(errBackendLost, reservoir.Unclean)
	}
	return s.abandon(errUnsent, reservoir.Unclean)
}

// flushReplies relays until no reply is pending, in the middle of a turn. If the backend is lost and the transaction
// can be replayed, it goes on with a new backend. Any other loss is the error.
func (s *session) flushReplies() error {
	for {
		err := s.drained()
		var gone *lostError
		if !errors.As(err, &gone) || !s.survives() {
			return err
		}
		if err := s.backendLost(gone); err != nil {
			return err
		}
	}
}

// drained relays until this backend owes no reply. It replays a transaction that fails meanwhile.
func (s *session) drained() error {
	t := s.t
	if t.phase == aborting {
		if err := s.resolve(); err != nil {
			return err
		}
	}
	if err := s.flushUp(); err != nil {
		return err
	}
	for !t.owed.empty() && !t.settled && !t.copying {
		if err := s.pump(); err != nil {
			return err
		}
		if t.phase == aborting {
			if err := s.resolve(); err != nil {
				return err
			}
		}
	}
	return s.flushDown()
}

// pump reads once from the backend and relays the frames. If the read was woken it looks for the reason, and at the
// client. An error is a lost backend, or ends the session.
func (s *session) pump() error {
	// After its farewell a server answers nothing, even while its connection stays open.
	if s.b.said != nil {
		return &lostError{err: s.b.said}
	}
	if err := s.b.trips.Err(); err != nil {
		return &lostError{err: err}
	}
	err := s.b.src.Fill()
	if err == nil {
		s.t.quiet = time.Time{}
		if err := s.relay(); err != nil || s.t.stop == nil || s.t.rest > 0 {
			return err
		}
		return s.giveUp(s.t.stop)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err := s.flushDown(); err != nil {
			return err
		}
		if err := s.woken(); err != nil {
			return err
		}
		if err := s.attend(); err != nil {
			return err
		}
		return s.lookAtSilence()
	}
	return &lostError{err: err}
}

// verdict says whether the client gets a frame of the backend as it is.
type verdict uint8

const (
	pass verdict = iota
	swallow
	undecided // by a reply's handler: the frame is treated as without one
)

// stretch is the part of the backend's buffer that relay has gone through, by positions.
type stretch struct {
	span  int // start of the bytes to pass that are not yet in the batch
	noted int // end of the bytes that the log has
}

// relay handles the frames in the backend's buffer. Adjacent frames that pass are written from the buffer at once;
// others are gathered in the down batch. It stops when the turn has settled, when the server waits for COPY data, and
// at an incomplete frame. An error is a lost backend, or ends the session.
func (s *session) relay() error {
	t := s.t
	src := &s.b.src
	r := stretch{span: src.Pos(), noted: src.Pos()}
	for {
		if t.rest > 0 {
			if err := s.relayRest(&r); err != nil {
				return err
			}
			if t.rest > 0 || t.stop != nil {
				break
			}
		}
		typ, total, err := src.Header()
		if err != nil {
			return s.passFirst(&r, &lostError{err: fmt.Errorf("frame of type %q from the backend: %w", typ, err)})
		}
		if total == 0 {
			break
		}
		// Rows are most of the bytes. They are only counted: neither matched with pending replies nor awaited as a
		// whole.
		if (typ == wire.DataRow || typ == wire.CopyData) && !t.looks && !t.fenceRow() { // the hot path
			t.rows++
			n := min(total, src.Buffered())
			src.Advance(n)
			if t.rest = total - n; t.rest > 0 {
				t.restSwallow, t.restUncounted = false, false
				break
			}
			continue
		}
		if !arrived(src, typ, total) {
			break
		}
		if err := s.relayFrame(&r, typ, total); err != nil {
			return err
		}
		if t.settled || t.copying {
			break
		}
	}
	if err := s.noteRows(&r); err != nil {
		return err
	}
	return s.relayed(r.span)
}

// arrived reports whether enough of a frame is buffered to judge it: the whole frame, or the head of one longer than a
// buffer.
func arrived(src *wire.Reader, typ byte, total int) bool {
	if total <= wire.BufferSize {
		return src.Buffered() >= total
	}
	return typ != wire.ErrorResponse && typ != wire.NoticeResponse || src.Buffered() >= errorHead
}

// relayRest continues a frame longer than a buffer. Its bytes pass or are dropped, as its head was.
func (s *session) relayRest(r *stretch) error {
	t := s.t
	src := &s.b.src
	n := min(t.rest, src.Buffered())
	t.rest -= n
	if !t.restSwallow {
		src.Advance(n)
		if t.restUncounted {
			r.noted = src.Pos()
		}
		return nil
	}
	if err := s.passStretch(r); err != nil {
		return err
	}
	if t.restInto != nil {
		t.restInto.TakeRest(src.Peek(n))
		if t.rest == 0 {
			t.restInto = nil
		}
	}
	src.Advance(n)
	r.span, r.noted = src.Pos(), src.Pos()
	return nil
}

// passStretch passes the bytes up to the read position, before output from elsewhere.
func (s *session) passStretch(r *stretch) error {
	if err := s.passSpan(s.b.src.Since(r.span)); err != nil {
		return err
	}
	r.span = s.b.src.Pos()
	return nil
}

// passFirst sends the client the frames before one that failed with err, if err is a lost backend: they count as
// answered. It returns err, or the error of sending.
func (s *session) passFirst(r *stretch, err error) error {
	var gone *lostError
	if s.b == nil || !errors.As(err, &gone) {
		return err
	}
	return cmp.Or(s.noteRows(r), s.passStretch(r), err)
}

// relayFrame handles one frame, complete or longer than a buffer. The log first gets the rows before the frame. If the
// frame passes, the log gets it too; in a replay the client may have it already. Then Sluice's own answers that are
// next in the queue are sent.
func (s *session) relayFrame(r *stretch, typ byte, total int) error {
	t := s.t
	src := &s.b.src
	if err := s.noteRows(r); err != nil {
		return err
	}
	frame := src.Peek(min(total, src.Buffered()))
	// Output that the reply causes must follow the frames before the reply.
	if !plainReply(typ) || s.gathers() || typ == wire.ReadyForQuery && s.hasNews() {
		if err := s.passStretch(r); err != nil {
			return err
		}
	}
	v, err := s.reply(typ, frame, total)
	if err != nil {
		return s.passFirst(r, err)
	}
	drop := 0
	if v == pass && s.noting() {
		if drop = s.noteReply(typ, frame); drop > 0 {
			if err := s.passStretch(r); err != nil {
				return err
			}
			r.span += drop
		}
	}
	src.Advance(len(frame))
	r.noted = src.Pos()
	t.rest, t.restSwallow = total-len(frame), v != pass
	t.restUncounted = typ == wire.ErrorResponse || typ == wire.NoticeResponse
	if v != pass || t.restUncounted && drop > 0 {
		t.restSwallow = true
		r.span = src.Pos()
	}
	if t.owesSynthetic() {
		if err := s.passStretch(r); err != nil {
			return err
		}
		s.emitSynthetic()
	}
	return nil
}

// errorHead is the number of bytes of a long ErrorResponse or NoticeResponse that must arrive before it is judged.
const errorHead = 1 << 10

// plainReply reports whether a frame of this type only advances the pending replies. Then no output precedes the frame,
// and the span before it continues.
func plainReply(typ byte) bool {
	switch typ {
	case wire.CommandComplete, wire.BindComplete, wire.RowDescription, wire.ReadyForQuery, wire.ParseComplete, wire.NoData:
		return true
	}
	return false
}

// hasNews reports whether other frames may have to precede a ReadyForQuery (notifications, parameters).
func (s *session) hasNews() bool {
	return len(s.b.news) > 0 || !s.dedicated && (s.tx.resets || s.mayTell())
}

// gathers reports whether the first pending reply may be replaced or dropped instead of passed.
func (s *session) gathers() bool {
	q := &s.t.owed
	return q.empty() || q.first().swallow || q.first().reply != nil || s.tx.job.Open() || s.t.batches != nil || s.t.ownTx.on
}

// relayed sends the span that relay has left, up to the read position. If the turn has settled, the backend is first
// returned to serve the next client during this write. Its buffer, which holds the answer, is detached for that. An
// error ends the session, or is that of a job's backend.
func (s *session) relayed(span int) error {
	t := s.t
	src := &s.b.src
	data := src.Since(span)
	switch {
	case t.settled && t.phase != live:
		t.settled, t.stand = false, atReady // an attempt of the replay has ended, not the client's turn
		return nil
	case t.settled && s.tx.job.Waits():
		if err := s.passSpan(data); err != nil {
			return err
		}
		return s.settleJob()
	case t.settled && t.batches != nil:
		if err := s.passSpan(data); err != nil {
			return err
		}
		return s.settleBatches()
	case t.settled && t.putsBack:
		if err := s.passSpan(data); err != nil {
			return err
		}
		return s.settlePutBack()
	}
	if !t.settled || src.Buffered() > 0 {
		if err := s.passSpan(data); err != nil {
			return err
		}
		if !t.settled {
			s.limitHold()
			return s.flushDown()
		}
		return s.settle(s.b.status)
	}
	buf := src.Detach()
	if err := s.settle(s.b.status); err != nil {
		wire.PutBuffer(buf)
		return err
	}
	err := s.passSpan(s.named(data))
	wire.PutBuffer(buf)
	return err
}
