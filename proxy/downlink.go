package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file relays from the backend to the client. readAndRelay reads, relayBuffered goes through the frames in the
// buffer, and reply.go handles the frames that Sluice must examine. output.go sends frames, in spans of the buffer
// where possible.

// finishTurn sends the last frames of the turn and relays answers until the turn is over. It replays a transaction that
// fails meanwhile. It returns early with an error, or after a COPY in the extended protocol, before its Sync.
func (s *session) finishTurn() error {
	if err := s.flushToBackend(); err != nil {
		return err
	}
	for !s.t.settled {
		if s.t.rec.phase == phaseAborting {
			if err := s.runAttempts(); err != nil {
				return err
			}
			continue
		}
		if s.t.server.copying {
			if err := s.relayCopyIn(); err != nil {
				return err
			}
			if !s.t.request.ended {
				return nil // COPY in the extended protocol: a Sync is still to come
			}
			continue
		}
		if s.t.owed.empty() && s.t.request.ended {
			return s.failUnsentTurn()
		}
		if err := s.readAndRelay(); err != nil {
			return err
		}
	}
	return nil
}

// failUnsentTurn fails a turn that has no pending reply but is not over. Its backend was lost before the turn's last
// frame was sent, and the new backend never got that frame.
func (s *session) failUnsentTurn() error {
	if s.inBlock() {
		return s.abandonTurn(sqlerror.BackendLost, reservoir.Unclean)
	}
	return s.abandonTurn(sqlerror.Unsent, reservoir.Unclean)
}

// awaitPendingReplies relays answers, in the middle of a turn, until no reply is pending. If the backend is lost and
// the transaction can be replayed, the turn continues with a new backend. Any other loss is returned as an error.
func (s *session) awaitPendingReplies() error {
	for {
		err := s.drainReplies()
		var gone *lostError
		if !errors.As(err, &gone) || !s.t.canReplayAfterLoss() {
			return err
		}
		if err := s.handleBackendLoss(gone); err != nil {
			return err
		}
	}
}

// drainReplies relays until no reply of this backend is pending. It replays a transaction that fails meanwhile.
func (s *session) drainReplies() error {
	t := s.t
	if t.rec.phase == phaseAborting {
		if err := s.runAttempts(); err != nil {
			return err
		}
	}
	if err := s.flushToBackend(); err != nil {
		return err
	}
	for !t.owed.empty() && !t.settled && !t.server.copying {
		if err := s.readAndRelay(); err != nil {
			return err
		}
		if t.rec.phase == phaseAborting {
			if err := s.runAttempts(); err != nil {
				return err
			}
		}
	}
	return s.flushBuffered()
}

// readAndRelay reads once from the backend and relays the frames. If a deadline ended the read, it finds the reason,
// and checks whether the client has left. An error is a lost backend, or ends the session.
func (s *session) readAndRelay() error {
	// After the server has sent its reason for closing the connection, it answers nothing, even on an open connection.
	if s.b.closingError != nil {
		return &lostError{err: s.b.closingError}
	}
	if err := s.b.trips.Err(); err != nil {
		return &lostError{err: err}
	}
	err := s.b.src.Fill()
	if err == nil {
		s.t.observed.silentSince = time.Time{}
		if err := s.relayBuffered(); err != nil || s.t.output.stop == nil || s.t.partial.rest > 0 {
			return err
		}
		return s.giveUpStatement(s.t.output.stop)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err := s.flushBuffered(); err != nil {
			return err
		}
		if err := s.onReadDeadline(); err != nil {
			return err
		}
		if err := s.checkClient(); err != nil {
			return err
		}
		return s.checkBackendSilence()
	}
	return &lostError{err: err}
}

// frameVerdict says whether the client gets a frame of the backend unchanged.
type frameVerdict uint8

const (
	pass frameVerdict = iota
	swallow
	undecided // by a reply's handler: the frame is treated as without one
)

// relaySpan says, by positions, which part of the backend's buffer relayBuffered has gone through.
type relaySpan struct {
	span  int // start of the bytes to pass that are not yet in the batch
	noted int // end of the bytes that the log has
}

// relayBuffered handles the frames in the backend's buffer. It writes adjacent frames for the client from the buffer
// at once, and gathers other output in turn.down. It stops when the turn is over, when the server waits for COPY
// data, and at an incomplete frame. An error is a lost backend, or ends the session.
func (s *session) relayBuffered() error {
	t := s.t
	src := &s.b.src
	r := relaySpan{span: src.Pos(), noted: src.Pos()}
	for {
		if t.partial.rest > 0 {
			if err := s.relayFrameRest(&r); err != nil {
				return err
			}
			if t.partial.rest > 0 || t.output.stop != nil {
				break
			}
		}
		typ, total, err := src.NextHeader()
		if err != nil {
			return s.passFramesBefore(&r, &lostError{err: fmt.Errorf("frame of type %q from the backend: %w", typ, err)})
		}
		if total == 0 {
			break
		}
		// Rows are most of the bytes. Sluice only counts rows, and does not match them with pending replies.
		if (typ == wire.DataRow || typ == wire.CopyData) && !t.output.inspectsFrames && !t.isFenceRow() { // the hot path
			t.server.rows++
			n := min(total, src.Buffered())
			src.Advance(n)
			if t.partial.rest = total - n; t.partial.rest > 0 {
				t.partial.restSwallow, t.partial.restUncounted = false, false
				break
			}
			continue
		}
		if !hasArrived(src, typ, total) {
			break
		}
		if err := s.relayFrame(&r, typ, total); err != nil {
			return err
		}
		if t.settled || t.server.copying {
			break
		}
	}
	if err := s.recordRows(&r); err != nil {
		return err
	}
	return s.finishSpan(r.span)
}

// hasArrived reports whether enough of a frame is buffered to handle the frame, or the head of a very long one.
func hasArrived(src *wire.Reader, typ byte, total int) bool {
	if total <= wire.BufferSize {
		return src.Buffered() >= total
	}
	return typ != wire.ErrorResponse && typ != wire.NoticeResponse || src.Buffered() >= errorHead
}

// relayFrameRest continues a backend's frame longer than a buffer. It passes or drops the rest like the frame's head.
func (l *link) relayFrameRest(r *relaySpan) error {
	t := l.t
	src := &l.b.src
	n := min(t.partial.rest, src.Buffered())
	t.partial.rest -= n
	if !t.partial.restSwallow {
		src.Advance(n)
		if t.partial.restUncounted {
			r.noted = src.Pos()
		}
		return nil
	}
	if err := l.passRelaySpan(r); err != nil {
		return err
	}
	if t.partial.restInto != nil {
		t.partial.restInto.AddFrameRest(src.Peek(n))
		if t.partial.rest == 0 {
			t.partial.restInto = nil
		}
	}
	src.Advance(n)
	r.span, r.noted = src.Pos(), src.Pos()
	return nil
}

// passRelaySpan sends the client the backend's bytes up to the read position, before Sluice sends output of its own.
func (l *link) passRelaySpan(r *relaySpan) error {
	if err := l.sendOrWithhold(l.b.src.BytesSince(r.span)); err != nil {
		return err
	}
	r.span = l.b.src.Pos()
	return nil
}

// passFramesBefore sends the client the frames before the one that failed with err, if err is a lost backend. Those
// frames count as answered. It returns err, or the error of sending.
func (s *session) passFramesBefore(r *relaySpan, err error) error {
	var gone *lostError
	if s.b == nil || !errors.As(err, &gone) {
		return err
	}
	return cmp.Or(s.recordRows(r), s.passRelaySpan(r), err)
}

// relayFrame handles one frame of the backend, complete or longer than a buffer. It first logs the rows before the
// frame, for a replay. It also logs the frame, unless Sluice hides it from the client. Finally it sends Sluice's own
// answers that are next in the queue.
func (s *session) relayFrame(r *relaySpan, typ byte, total int) error {
	t := s.t
	src := &s.b.src
	if err := s.recordRows(r); err != nil {
		return err
	}
	frame := src.Peek(min(total, src.Buffered()))
	// Output that this reply causes must reach the client after the frames before the reply.
	if !isPlainReply(typ) || s.t.mayReplaceReply() || typ == wire.ReadyForQuery && s.hasFramesBeforeReady() {
		if err := s.passRelaySpan(r); err != nil {
			return err
		}
	}
	v, err := s.handleBackendFrame(typ, frame, total)
	if err != nil {
		return s.passFramesBefore(r, err)
	}
	drop := 0
	if v == pass && s.t.rec.isRecording() {
		if drop = s.recordReply(typ, frame); drop > 0 {
			if err := s.passRelaySpan(r); err != nil {
				return err
			}
			r.span += drop
		}
	}
	src.Advance(len(frame))
	r.noted = src.Pos()
	t.partial.rest, t.partial.restSwallow = total-len(frame), v != pass
	t.partial.restUncounted = typ == wire.ErrorResponse || typ == wire.NoticeResponse
	if v != pass || t.partial.restUncounted && drop > 0 {
		t.partial.restSwallow = true
		r.span = src.Pos()
	}
	if t.isSyntheticNext() {
		if err := s.passRelaySpan(r); err != nil {
			return err
		}
		s.sendSyntheticReplies()
	}
	return nil
}

// errorHead is how many bytes of a long ErrorResponse or NoticeResponse must arrive before Sluice handles the frame.
const errorHead = 1 << 10

// isPlainReply reports whether a frame of this type only advances the pending replies. If so, no output of Sluice's
// own precedes it, and Sluice can send it together with the frames before it.
func isPlainReply(typ byte) bool {
	switch typ {
	case wire.CommandComplete, wire.BindComplete, wire.RowDescription, wire.ReadyForQuery, wire.ParseComplete, wire.NoData:
		return true
	}
	return false
}

// hasFramesBeforeReady reports whether notifications or changed parameters may have to precede a ReadyForQuery.
func (s *session) hasFramesBeforeReady() bool {
	return len(s.b.notifications) > 0 || !s.dedicated && (s.tx.resets.ArePossible() || s.b.settings.MayReport(&s.settings))
}

// mayReplaceReply reports whether Sluice may replace or drop the server's next answer instead of passing it.
func (t *turn) mayReplaceReply() bool {
	q := &t.owed
	return q.empty() || q.first().swallow || q.first().reply != nil || t.rec.tx.job.IsOpen() || t.output.batches != nil || t.server.internalTx.on
}

// finishSpan sends the client the backend's bytes from span up to the read position. If the turn is over, the session
// first returns the backend, to serve the next client during this write. Before that it detaches the backend's
// buffer, which holds the answer. An error ends the session, or comes from an index job's backend.
func (s *session) finishSpan(span int) error {
	t := s.t
	src := &s.b.src
	data := src.BytesSince(span)
	switch {
	case t.settled && t.rec.phase != phaseLive:
		t.settled, t.attempt.serverAt = false, atReady // an attempt of the replay has ended, not the client's turn
		return nil
	case t.settled && s.tx.job.IsWaiting():
		if err := s.sendOrWithhold(data); err != nil {
			return err
		}
		return s.settleIndexJob()
	case t.settled && t.output.batches != nil:
		if err := s.sendOrWithhold(data); err != nil {
			return err
		}
		return s.settleBatches()
	case t.settled && t.restoresSettings:
		if err := s.sendOrWithhold(data); err != nil {
			return err
		}
		return s.settleRestoringSettings()
	}
	if !t.settled || src.Buffered() > 0 {
		if err := s.sendOrWithhold(data); err != nil {
			return err
		}
		if !t.settled {
			s.limitWithholding()
			return s.flushBuffered()
		}
		return s.settleTurn(s.b.status)
	}
	buf := src.Detach()
	if err := s.settleTurn(s.b.status); err != nil {
		wire.PutBuffer(buf)
		return err
	}
	err := s.sendOrWithhold(notice.InsertReports(&s.settings, data))
	wire.PutBuffer(buf)
	return err
}
