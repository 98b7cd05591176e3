package proxy

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file relays COPY FROM STDIN. It also has the two waits in which client and server may both send: inside a turn
// (fillClientWhileRelaying), and between turns while the session has a backend (awaitClientOrServer).
// readWatchingBackend waits for two connections at a time.

// isTimeout reports whether a read ended at its deadline, which another goroutine usually sets to wake the session.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// startCopyIn begins the relay of COPY data after the server's CopyInResponse. The data is not logged, so that the
// transaction cannot be replayed. The server ignores a Sync that arrives during COPY, and the client sends another one
// later. A Sync already sent is therefore removed from the pending replies.
func (t *turn) startCopyIn() {
	t.server.copying = true
	if t.rec.logs {
		t.rec.tx.log.RefuseReplay(retry.CopyFrom)
	}
	if t.owed.first().kind == wire.Execute && t.owed.len() == 2 && t.owed.items[len(t.owed.items)-1].kind == wire.Sync {
		t.owed.items = t.owed.items[:len(t.owed.items)-1]
		t.owed.seq--
		t.server.outcome.RemoveSync()
		t.request.ended = false
	}
}

// relayCopyIn relays COPY data until the client ends the COPY or the server fails it. It first flushes all output,
// since the client waits for CopyInResponse. After nil the COPY's answer is still pending, or the turn is over. An
// error ends the session or is a lost backend.
func (s *session) relayCopyIn() error {
	t := s.t
	if err := s.flushToClient(); err != nil {
		return err
	}
	for t.server.copying && !t.settled {
		typ, total, err := s.nextFrame()
		if err == errTurnOver {
			return nil
		}
		if err != nil {
			return err
		}
		// If the server has failed the COPY meanwhile, the client's frame stays unread until the client has the error.
		if !t.server.copying {
			break
		}
		switch typ {
		case wire.CopyData:
			t.server.earlySyncs = 0
			if err := s.forwardBytes(total); err != nil {
				return err
			}
		case wire.CopyDone, wire.CopyFail:
			t.server.earlySyncs = 0
			if err := s.forwardBytes(total); err != nil {
				return err
			}
			t.server.copying = false
			if err := s.flushToBackend(); err != nil {
				return err
			}
		case wire.Flush, wire.Sync:
			if err := s.discardBytes(total); err != nil { // as the server does
				return err
			}
			if typ == wire.Sync && t.server.copying {
				t.server.earlySyncs++
			}
		case wire.Terminate:
			return errTerminated
		default:
			return s.endOnProtocolError(errNotCopyFrame(typ))
		}
	}
	return nil
}

// sendEarlySync sends the server the first Sync that the client sent among the data of a failed COPY, and reports
// whether there was one. The server ignores a Sync among data, but reads this one after its error. The Sync ends the
// turn of an extended COPY.
func (t *turn) sendEarlySync() bool {
	if t.server.earlySyncs == 0 || t.request.ended {
		return false
	}
	t.server.earlySyncs--
	t.request.ended, t.server.skip = true, false
	t.owed.push(wire.Sync)
	t.server.outcome.RecordSync()
	t.addToBatch(wire.FrameSync)
	return true
}

// answerExtraSyncs answers each further Sync after the data of a failed COPY with ReadyForQuery, as the server would.
// The COPY's own turn is over.
func (l *link) answerExtraSyncs() error {
	t := l.t
	for ; t.settled && t.server.earlySyncs > 0; t.server.earlySyncs-- {
		if err := l.sendOrWithhold(wire.AppendReadyForQuery(nil, l.txStatus())); err != nil {
			return err
		}
	}
	return nil
}

// isCopyFromStdin reports whether a plan is a COPY FROM STDIN. Before the next Sync only COPY data may follow it.
func isCopyFromStdin(plan *rewrite.Plan) bool {
	st := plan.SingleStatement()
	return st != nil && st.Copy == rewrite.CopyFromClient
}

// handleStrayCopyFrame handles a COPY frame that arrives while no COPY runs. If an Execute since the last Sync may
// start a COPY, it first awaits the answer. Otherwise the frame belongs to a failed COPY, and Sluice drops it.
func (s *session) handleStrayCopyFrame(total int) error {
	if s.t.touched && !s.t.server.skip && !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.copying || s.t.settled {
			return err
		}
	}
	return s.discardBytes(total)
}

// expectsCopyData reports whether the server, or a feature such as package copyin, expects COPY data of the client.
func (t *turn) expectsCopyData() bool { return t.server.copying || t.request.featureReads }

// errNotCopyFrame returns the error of a client's frame that is not allowed during COPY.
func errNotCopyFrame(typ byte) *wire.Error {
	return &wire.Error{Code: "08P01", Message: fmt.Sprintf("unexpected message type 0x%02X during COPY from stdin", typ)}
}

// errSynchronizationLost ends a session after errNotCopyFrame, the error of a frame that is not allowed during COPY.
var errSynchronizationLost = &wire.Error{Fatal: true, Code: "08P01", Message: "terminating connection because protocol synchronization was lost"}

// endOnProtocolError sends e, the error of a frame that is not allowed during COPY, and ends the session. PostgreSQL
// ends it too, since it cannot find the start of the next frame.
func (s *session) endOnProtocolError(e *wire.Error) error {
	s.sendErrorNow(e)
	if err := s.flushBuffered(); err != nil {
		return err
	}
	return errSynchronizationLost
}

// fillClientWhileRelaying waits for bytes of the client, and relays the backend's frames meanwhile. It returns when
// the client has sent more bytes, perhaps during a write, or when the turn is over (its COPY failed).
func (s *session) fillClientWhileRelaying() error {
	c := &s.client
	had := c.Buffered()
	if c.IsPlain() && c.Raw.Peek() != rawconn.Quiet {
		if err := c.Fill(); !isTimeout(err) {
			return err
		}
	}
	// The client has sent nothing more, so that Sluice flushes its gathered frames to the backend.
	if err := s.flushToBackend(); err != nil {
		return err
	}
	for {
		if err := s.relayArrivedFrames(); err != nil {
			return err
		}
		if err := s.flushBuffered(); err != nil {
			return err
		}
		if s.t.settled && !s.t.partial.midFrame || c.Buffered() > had {
			return nil
		}
		if s.b == nil || s.t.owed.empty() {
			return s.fillClientOnly()
		}
		err := s.readWatchingBackend(c.Fill)
		s.waits.Arm()
		if err == nil || !isTimeout(err) {
			return err
		}
		// A drain (shutdown) wakes sessions by a read deadline of the client. Within a turn that would end every read.
		c.Conn.SetReadDeadline(time.Time{})
		if s.waits.IsCut() {
			return errCut
		}
		if err := s.onReadDeadline(); err != nil {
			return err
		}
	}
}

// fillClientOnly waits for the client while no reply is pending, when a cancel has nothing to stop. It ignores
// wake-ups within a turn, except at the end of a drain (shutdown), which ends the session.
func (l *link) fillClientOnly() error {
	if !l.t.request.featureReads {
		defer l.waits.Suspend()()
	}
	for {
		err := l.client.Fill()
		if err == nil || !isTimeout(err) {
			return err
		}
		l.client.Conn.SetReadDeadline(time.Time{})
		if l.waits.IsCut() {
			return errCut
		}
	}
}

// relayArrivedFrames relays to the client the frames that have already arrived from the backend, without waiting.
func (s *session) relayArrivedFrames() error {
	for s.b != nil {
		err := s.b.readAvailable()
		s.waits.Arm()
		if isTimeout(err) {
			return nil
		}
		if err != nil {
			return &lostError{err: err}
		}
		if err := s.relayBuffered(); err != nil || s.t.owed.empty() && !s.t.server.copying {
			return err // after the last answer, a loss belongs to the client's next request
		}
	}
	return nil
}

// awaitClientOrServer waits for the client between turns, and relays frames that the server sends unasked:
// notifications, parameters, a final error. After nil the client has sent something. A timeout error means that the
// server has sent something, or that Sluice woke the session. A backend that the session does not need may be lost.
func (s *session) awaitClientOrServer() error {
	if err := s.relayIdleFrames(); err != nil {
		return err
	}
	if s.b == nil {
		return s.client.WaitIdle()
	}
	return s.readWatchingBackend(s.client.WaitIdle)
}

// relayIdleFrames relays frames that an idle backend has sent. Parameters are only recorded, unless each client has a
// dedicated backend. An error ends the session. The loss of a backend without state of the session is no error.
func (s *session) relayIdleFrames() error {
	if news := s.takeNotifications(); len(news) > 0 {
		if err := s.writeClient(news); err != nil {
			return err
		}
	}
	for {
		err := s.b.readAvailable()
		if isTimeout(err) {
			return nil
		}
		if err != nil {
			if s.dedicated {
				return s.dedicatedClosedError() // the farewell, if any, was relayed
			}
			return s.handleIdleLoss()
		}
		src := &s.b.src
		for {
			typ, total, err := src.NextHeader()
			if err != nil || total > wire.BufferSize {
				return s.handleIdleLoss()
			}
			if total == 0 || total > src.Buffered() {
				break
			}
			frame := src.Peek(total)
			src.Advance(total)
			if typ == wire.ErrorResponse {
				said := parseServerFatal(frame[wire.HeaderLen:])
				if !s.dedicated {
					return s.handleIdleLossBy(said)
				}
				if said != nil {
					s.b.closingError = said
				}
			}
			if typ == wire.ParameterStatus && !s.dedicated {
				s.b.recordParameter(frame) // the client gets it with its next answer
				continue
			}
			if err := s.writeClient(frame); err != nil {
				return err
			}
		}
		src.ReleaseBuffer()
	}
}

// dedicatedClosedError returns the error that ends a session whose dedicated backend was closed between turns.
func (s *session) dedicatedClosedError() error {
	if s.b.closingError == nil {
		return errServerGone
	}
	s.srv.log.Warn("backend lost between two transactions", append(s.logAttrs(), "error", s.b.closingError)...)
	return fmt.Errorf("%w: %w", errServerGone, s.b.closingError)
}

// handleIdleLossBy handles the loss of an idle backend. said is the server's reason for closing it, or nil.
func (s *session) handleIdleLossBy(said *serverFatalError) error {
	if said == nil {
		return s.handleIdleLoss()
	}
	s.srv.log.Warn("backend lost between two transactions", append(s.logAttrs(), "error", said)...)
	err := s.handleIdleLoss()
	if err == sqlerror.PinLost {
		return (&lostError{err: said}).withServerReason(sqlerror.PinLost)
	}
	return err
}

// handleIdleLoss handles the loss of a backend between transactions. A session whose state is on the backend ends with
// sqlerror.PinLost. Any other session continues with a new backend.
func (s *session) handleIdleLoss() error {
	if s.pin.IsPinned() || s.dedicated {
		return sqlerror.PinLost
	}
	s.srv.metrics.CountBackendLost(metrics.LostIdle)
	s.dropBackend(reservoir.Broken)
	return s.applyEvent(lost)
}

// readWatchingBackend runs read, which reads from the client, and ends it early if the backend's socket becomes
// readable. A goroutine watches the socket without reading. Within a turn, the backend's read deadline ends the read
// too. On return the goroutine has ended, and the backend has no read deadline. Nor has the client after an early end.
func (l *link) readWatchingBackend(read func() error) error {
	client, raw := l.client.Conn, l.b.src.Raw
	inTurn := l.t != nil
	var stopping atomic.Bool
	ended := make(chan bool, 1)
	go func() {
		for {
			err := raw.WaitReadable()
			if isTimeout(err) && !inTurn && !stopping.Load() {
				raw.SetReadDeadline(time.Time{}) // the wake-up was meant for a turn
				if !stopping.Load() {
					continue
				}
			}
			nudges := !stopping.Load()
			if nudges {
				client.SetReadDeadline(time.Unix(1, 0))
			}
			ended <- nudges
			return
		}
	}()
	err := read()
	// Wake the goroutine that watches the backend, unless it has ended. It may set the client's deadline even now.
	stopping.Store(true)
	raw.SetReadDeadline(time.Unix(1, 0))
	if <-ended {
		client.SetReadDeadline(time.Time{})
	}
	raw.SetReadDeadline(time.Time{})
	return err
}
