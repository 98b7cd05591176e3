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

// The way from the backend to the client: read (pump), go through the frames in the buffer
// (relay), have reply.go judge those that matter, and send on what passes (output.go), in spans of
// the buffer where that is possible.

// finish sends what is left of the turn and relays until it has settled. It returns before
// that with an error, and behind a COPY in the extended protocol, whose Sync is still to
// come. A transaction that has failed on the way is run again here.
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

// unsentLost ends a turn of which the backend owes nothing: an earlier one was lost before the last
// frame of the turn was sent, and its successor does not know of that frame.
func (s *session) unsentLost() error {
	if s.inBlock() {
		return s.abandon(errBackendLost, reservoir.Unclean)
	}
	return s.abandon(errUnsent, reservoir.Unclean)
}

// flushReplies relays until the backend owes nothing, in the middle of a turn. A loss that
// the transaction survives is mended here, and its successor owes the rest; any other is
// the error.
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

// drained is flushReplies for one backend. A transaction that has to be run again is run
// again in its course.
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

// pump reads once from the backend and relays what came. Where the read was woken it looks
// for the reason, and for the client. An error is a lost backend, or the session's end.
func (s *session) pump() error {
	// A server that has said goodbye answers nothing more, even if its connection stays
	// open.
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

// verdict is what becomes of one frame of the backend: the client gets it as it is, or not.
type verdict uint8

const (
	pass verdict = iota
	swallow
	undecided // of a reply: the frame means what it means without one
)

// stretch is what relay has gone through of the backend's buffer, by positions in it.
type stretch struct {
	span  int // start of the bytes to pass that are not yet in the batch
	noted int // end of those that the log was told of
}

// relay handles the frames in the backend's buffer. Runs of frames that pass are written
// from that buffer as one; the rest is gathered in the down batch. It stops where the turn
// has settled, where the server waits for COPY data, and in front of a frame of which too
// little has arrived. An error is a lost backend, or the session's end.
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
		// Rows are most of all bytes: they are neither matched with the queue nor awaited
		// whole, only counted off.
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

// arrived reports whether as much of a frame is buffered as must be seen of it: all, or
// what counts of one that no buffer holds.
func arrived(src *wire.Reader, typ byte, total int) bool {
	if total <= wire.BufferSize {
		return src.Buffered() >= total
	}
	return typ != wire.ErrorResponse && typ != wire.NoticeResponse || src.Buffered() >= errorHead
}

// relayRest goes on with a frame that no buffer holds: its bytes pass, or are dropped, as
// its beginning was.
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

// passStretch passes what has been gone through, in front of what is sent from elsewhere.
func (s *session) passStretch(r *stretch) error {
	if err := s.passSpan(s.b.src.Since(r.span)); err != nil {
		return err
	}
	r.span = s.b.src.Pos()
	return nil
}

// passFirst sends the client the frames in front of one that failed with err, where err is a lost backend: they
// are counted as answered already. The frame that failed is not sent. It returns err, or why it could not send.
func (s *session) passFirst(r *stretch, err error) error {
	var gone *lostError
	if s.b == nil || !errors.As(err, &gone) {
		return err
	}
	return cmp.Or(s.noteRows(r), s.passStretch(r), err)
}

// relayFrame deals with one frame, which has arrived, but for the end of one that no buffer
// holds. The log is told of the rows before it, then the frame is judged, then the log is
// told of a frame that passes, and may say that the client has that frame already. Answers
// of Sluice's own that come next in the queue are made up behind it.
func (s *session) relayFrame(r *stretch, typ byte, total int) error {
	t := s.t
	src := &s.b.src
	if err := s.noteRows(r); err != nil {
		return err
	}
	frame := src.Peek(min(total, src.Buffered()))
	// Anything that Sluice says because of the reply goes behind what came before the
	// reply.
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

// errorHead is how much of an error or notice too long for a buffer must be
// there before it is looked at.
const errorHead = 1 << 10

// plainReply reports whether a frame of this type, when it passes, changes nothing but the
// owed queue: then nothing is sent in front of the frame, and the span before it can go on.
func plainReply(typ byte) bool {
	switch typ {
	case wire.CommandComplete, wire.BindComplete, wire.RowDescription, wire.ReadyForQuery, wire.ParseComplete, wire.NoData:
		return true
	}
	return false
}

// hasNews reports whether the client may have to be sent something in front of a ReadyForQuery.
func (s *session) hasNews() bool {
	return len(s.b.news) > 0 || !s.dedicated && (s.tx.resets || s.mayTell())
}

// gathers reports whether the head's reply does not simply pass: something else may be sent
// in its place.
func (s *session) gathers() bool {
	q := &s.t.owed
	return q.empty() || q.first().swallow || q.first().reply != nil || s.tx.job.Open() || s.t.chunks != nil || s.t.ownTx.on
}

// relayed sends on what relay left: the span that ends at the buffer's read position. When
// the turn has settled, the backend is given back first, so that it serves the next client
// while this one is written to; its buffer, which holds the answer, is detached for that.
// An error is the session's end, or that of a job's backend.
func (s *session) relayed(span int) error {
	t := s.t
	src := &s.b.src
	data := src.Since(span)
	switch {
	case t.settled && t.phase != live:
		t.settled, t.stand = false, atReady // not the end of the client's turn
		return nil
	case t.settled && s.tx.job.Waits():
		if err := s.passSpan(data); err != nil {
			return err
		}
		return s.settleJob()
	case t.settled && t.chunks != nil:
		if err := s.passSpan(data); err != nil {
			return err
		}
		return s.settleChunks()
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
