package proxy

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// COPY from the client, and the two waits in which client and server may both speak: in the
// middle of a turn (fillEither), and between turns with a backend that is kept
// (awaitEither). watching is how one goroutine waits for two connections.

// isTimeout reports whether an error is that of a deadline: mostly a nudge, whose reason is
// to be looked for.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// startCopy is told that the server waits for COPY data, which are not kept: the
// transaction is not run again. A Sync that the client sent along is ignored by the server
// in that mode; the client sends another, so that no answer to the first is owed and the
// turn has not ended.
func (s *session) startCopy() {
	t := s.t
	t.copying = true
	if t.logs {
		s.tx.log.Refuse(retry.CopyFrom)
	}
	if t.owed.first().kind == wire.Execute && t.owed.len() == 2 && t.owed.items[len(t.owed.items)-1].kind == wire.Sync {
		t.owed.items = t.owed.items[:len(t.owed.items)-1]
		t.owed.seq--
		t.outcome.Unsync()
		t.ended = false
	}
}

// copyIn relays COPY data until the client ends it or the server gave up. The client was
// told to send: all output is let go first. With nil the COPY is over for the client, its
// answer is still owed, or the turn has settled. The error ends the session or is a lost
// backend.
func (s *session) copyIn() error {
	t := s.t
	if err := s.flushToClient(); err != nil {
		return err
	}
	for t.copying && !t.settled {
		typ, total, err := s.nextFrame()
		if err == errTurnOver {
			return nil
		}
		if err != nil {
			return err
		}
		// The server may have failed the COPY while the frame was awaited: the frame stays
		// unread, and is handled behind the error.
		if !t.copying {
			break
		}
		switch typ {
		case wire.CopyData:
			t.early = 0
			if err := s.forward(total); err != nil {
				return err
			}
		case wire.CopyDone, wire.CopyFail:
			t.early = 0
			if err := s.forward(total); err != nil {
				return err
			}
			t.copying = false
			if err := s.flushUp(); err != nil {
				return err
			}
		case wire.Flush, wire.Sync:
			if err := s.discard(total); err != nil { // as the server does
				return err
			}
			if typ == wire.Sync && t.copying {
				t.early++
			}
		case wire.Terminate:
			return errTerminated
		default:
			return s.notData(errNotData(typ))
		}
	}
	return nil
}

// earlySync sends the first Sync of those that came behind the last data of a COPY that has failed by now. A server
// ignores a Sync among data, but it has failed before it reads this one, which ends the turn of an extended
// COPY. earlySync reports whether there was one.
func (s *session) earlySync() bool {
	t := s.t
	if t.early == 0 || t.ended {
		return false
	}
	t.early--
	t.ended, t.skip = true, false
	t.owed.push(wire.Sync)
	t.outcome.Sync()
	s.add(wire.FrameSync)
	return true
}

// readyAgain answers each further Sync that came behind the last data of a failed COPY with a ReadyForQuery, as the
// server would. The turn of the COPY is over.
func (s *session) readyAgain() error {
	t := s.t
	for ; t.settled && t.early > 0; t.early-- {
		if err := s.passSpan(wire.AppendReady(nil, s.status())); err != nil {
			return err
		}
	}
	return nil
}

// takesData reports a COPY FROM STDIN: what follows it in its group is its data, or an error.
func takesData(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Copy == rewrite.CopyFromClient
}

// strayData deals with a frame of a COPY where none runs. An Execute in front of it in the same group may begin one:
// the server is asked to answer that first. Otherwise the frame is the rest of a COPY that has failed.
func (s *session) strayData(total int) error {
	if s.t.touched && !s.t.skip && !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil || s.t.copying || s.t.settled {
			return err
		}
	}
	return s.discard(total)
}

// readsData reports whether data of a COPY are awaited, by the server or by a feature.
func (s *session) readsData() bool { return s.t.copying || s.t.featureReads }

// errNotData is the error of a frame that no COPY takes.
func errNotData(typ byte) *wire.Error {
	return &wire.Error{Code: "08P01", Message: fmt.Sprintf("unexpected message type 0x%02X during COPY from stdin", typ)}
}

// errNotInStep ends a session whose client has sent a frame that no COPY takes, behind the error of that.
var errNotInStep = &wire.Error{Fatal: true, Code: "08P01", Message: "terminating connection because protocol synchronization was lost"}

// notData tells the error of such a frame. As at PostgreSQL it ends the session: the server has read the type of the
// frame, and does not know where the next one begins.
func (s *session) notData(e *wire.Error) error {
	s.say(e)
	if err := s.flushDown(); err != nil {
		return err
	}
	return errNotInStep
}

// fillEither waits for the client, and relays what the backend says meanwhile. It returns
// when more of the client has come, or when the turn has settled without it (a COPY that
// failed). A look for the client, while a write is waited for, may read ahead: that is what
// is waited for.
func (s *session) fillEither() error {
	c := &s.client
	had := c.Buffered()
	if c.Plain() && c.Raw.Peek() != rawconn.Quiet {
		if err := c.Fill(); !isTimeout(err) {
			return err
		}
	}
	// Nothing of the client is there: what was gathered for the backend waits no longer.
	if err := s.flushUp(); err != nil {
		return err
	}
	for {
		if err := s.relayArrived(); err != nil {
			return err
		}
		if err := s.flushDown(); err != nil {
			return err
		}
		if s.t.settled && !s.t.midFrame || c.Buffered() > had {
			return nil
		}
		if s.b == nil || s.t.owed.empty() {
			return s.fillClientAlone()
		}
		err := s.watching(c.Fill)
		s.alarmRead()
		if err == nil || !isTimeout(err) {
			return err
		}
		// The nudge of a drain is not for a session in a turn: left there, it would end
		// every read.
		c.Conn.SetReadDeadline(time.Time{})
		if s.cutOff.Load() {
			return errCut
		}
		if err := s.woken(); err != nil {
			return err
		}
	}
}

// fillClientAlone is fillClient once nothing is owed any more. A cancel that comes
// meanwhile finds nothing that runs. Nudges of others are not for a session in the middle
// of a turn, save the cut.
func (s *session) fillClientAlone() error {
	if !s.t.featureReads {
		defer s.answeredSoFar()()
	}
	for {
		err := s.client.Fill()
		if err == nil || !isTimeout(err) {
			return err
		}
		s.client.Conn.SetReadDeadline(time.Time{})
		if s.cutOff.Load() {
			return errCut
		}
	}
}

// relayArrived relays what the backend has sent already, without waiting.
func (s *session) relayArrived() error {
	for s.b != nil {
		err := s.b.poll()
		s.alarmRead()
		if isTimeout(err) {
			return nil
		}
		if err != nil {
			return &lostError{err: err}
		}
		if err := s.relay(); err != nil || s.t.owed.empty() && !s.t.copying {
			return err // behind the last answer a loss is told of what comes next
		}
	}
	return nil
}

// awaitEither waits for the client of a kept, idle backend, and passes on what the server
// says by itself: notifications, parameters, its farewell. With nil the client has sent
// something. An error of time says that the server has spoken, or what await makes of it.
// The backend may be gone afterwards, where the session can do without it.
func (s *session) awaitEither() error {
	if err := s.relayIdle(); err != nil {
		return err
	}
	if s.b == nil {
		return s.client.Idle()
	}
	return s.watching(s.client.Idle)
}

// relayIdle passes on what an idle backend has said. Parameters are noted instead where
// Sluice tells them itself. An error ends the session; a backend that only the pairing kept
// is given up without one.
func (s *session) relayIdle() error {
	if news := s.takeNews(); len(news) > 0 {
		if err := s.writeClient(news); err != nil {
			return err
		}
	}
	for {
		err := s.b.poll()
		if isTimeout(err) {
			return nil
		}
		if err != nil {
			if s.dedicated {
				return s.serverGone() // the farewell, if any, was relayed
			}
			return s.idleLost()
		}
		src := &s.b.src
		for {
			typ, total, err := src.Header()
			if err != nil || total > wire.BufferSize {
				return s.idleLost()
			}
			if total == 0 || total > src.Buffered() {
				break
			}
			frame := src.Peek(total)
			src.Advance(total)
			if typ == wire.ErrorResponse {
				said := farewellOf(frame[wire.HeaderLen:])
				if !s.dedicated {
					return s.idleLostBy(said)
				}
				if said != nil {
					s.b.said = said
				}
			}
			if typ == wire.ParameterStatus && !s.dedicated {
				s.b.noteParameter(frame) // it is told with the next answer
				continue
			}
			if err := s.writeClient(frame); err != nil {
				return err
			}
		}
		src.Release()
	}
}

// serverGone ends a session whose own connection the server has closed between two turns.
func (s *session) serverGone() error {
	if s.b.said == nil {
		return errServerGone
	}
	s.srv.log.Warn("backend lost between two transactions", append(s.logAttrs(), "error", s.b.said)...)
	return fmt.Errorf("%w: %w", errServerGone, s.b.said)
}

// idleLostBy is idleLost of a backend whose server has said why; nil where it has not.
func (s *session) idleLostBy(said *lastWords) error {
	if said == nil {
		return s.idleLost()
	}
	s.srv.log.Warn("backend lost between two transactions", append(s.logAttrs(), "error", said)...)
	err := s.idleLost()
	if err == errPinLost {
		return (&lostError{err: said}).toldOfLoss(errPinLost)
	}
	return err
}

// idleLost is the loss of a kept backend between transactions. Where nothing but the
// pairing kept it, the session goes on with another; else errPinLost ends the session.
func (s *session) idleLost() error {
	if s.pinned || s.dedicated {
		return errPinLost
	}
	s.srv.metrics.BackendLost(metrics.LostIdle)
	s.dropBackend(reservoir.Broken)
	return s.move(lost)
}

// watching runs a read from the client while a goroutine watches the backend's socket and
// ends the read, as by a timeout, when the server speaks first; in a turn also when
// somebody wakes the session by the backend's deadline (woken). Nothing is read from the
// backend. When it returns the goroutine has ended, and the backend has no read deadline;
// neither has the client, if it was the goroutine that ended the read.
func (s *session) watching(read func() error) error {
	client, raw := s.client.Conn, s.b.src.Raw
	inTurn := s.t != nil
	var stopping atomic.Bool
	ended := make(chan bool, 1)
	go func() {
		for {
			err := raw.WaitReadable()
			if isTimeout(err) && !inTurn && !stopping.Load() {
				raw.SetReadDeadline(time.Time{}) // a nudge meant for a turn
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
	// The watcher has to be woken, unless it has ended; its own nudge to the client may
	// come after the read.
	stopping.Store(true)
	raw.SetReadDeadline(time.Unix(1, 0))
	if <-ended {
		client.SetReadDeadline(time.Time{})
	}
	raw.SetReadDeadline(time.Time{})
	return err
}
