package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file runs one turn of a session. step takes the client's frames one by one. recovered handles errors after which
// the session goes on. serve (session.go) calls turn. The handlers of single frames are in query.go and extended.go.

// turn runs one turn. It calls step for each frame of the client and relays the server's answers, until a
// ReadyForQuery. An error ends the session. If an oversized turn started a writer goroutine, turn waits for its end.
func (s *session) turn(step func() error) error {
	if !s.t.nested.on {
		s.startsAnew()
	}
	err := s.exchangeFrames(step)
	if s.t.uplink != nil {
		if err != nil && s.b != nil {
			s.leaveBackend(0) // the session ends, whether or not the server takes all that was written
		}
		s.closeUplink() // the client already got the error of a failed write, or needs none
	}
	if conn := s.t.orphan; conn != nil {
		s.askToStop(conn)
	}
	if !s.t.nested.on {
		s.client.Release()
		if s.t.read != nil {
			wire.PutBuffer(s.t.read) // the uplink writes from this buffer no longer
			s.t.read = nil
		}
	}
	return err
}

// exchangeFrames handles frames until the turn is settled and its answer is written. recovered handles each error that
// need not end the session. If the server skips the client's other frames after an error, the client gets the error at
// once.
func (s *session) exchangeFrames(step func() error) error {
	for !s.t.settled {
		var err error
		if s.t.ended { // the backend was lost after the turn's last frame; another backend answers the rest
			err = s.finish()
		} else {
			err = step()
		}
		if err != nil {
			// recovered sends the error of the current frame to the client. If the turn is not settled, it continues with the
			// client's next frame, or with the answers of a new backend.
			err = s.recovered(err)
			if err == nil && s.pinLost && !s.t.settled {
				err = s.pinGone()
			}
			if err == nil && s.t.skip && !s.t.settled {
				// After a Flush the client may be waiting for the error.
				if err = s.flush(); err != nil {
					if err = s.recovered(err); err == nil && !s.t.settled {
						err = s.flushToClient()
					}
				}
			}
		}
		if err == errCut {
			err = s.cutShort()
		}
		if err != nil {
			// The session ends. The client gets the answers so far. After half a row it gets nothing: it would read further
			// bytes as the second half.
			if s.t.rest == 0 || s.t.phase == aborting {
				s.releaseWithheld() // the next write reports a write error again
				s.flushDown()
			}
			return err
		}
	}
	if err := s.readyAgain(); err != nil {
		return err
	}
	if err := s.releaseWithheld(); err != nil {
		return err
	}
	return s.flushDown()
}

// recovered sends an error to the client, or replaces a lost backend, and returns nil. It returns the error if the
// session must end. Another backend may be lost while recovered works, hence the loop. A loss without a backend ends
// the session.
func (s *session) recovered(err error) error {
	gone, lost := errors.AsType[*lostError](err)
	if out, told := errors.AsType[*wire.Error](err); told && !lost && !out.Fatal {
		err = s.refuse(out)
		gone, lost = errors.AsType[*lostError](err)
	}
	for lost && s.b != nil {
		if err = s.backendLost(gone); s.dedicated {
			break
		}
		gone, lost = errors.AsType[*lostError](err)
	}
	return err
}

// step handles the client's next frame. If the transaction failed at the backend before, step first tries a replay. The
// frame then reaches the new attempt.
func (s *session) step() error {
	typ, total, err := s.nextFrame()
	if err != nil {
		return err
	}
	if err := s.flushFull(); err != nil || s.t.settled {
		return err
	}
	if s.t.phase == aborting {
		if err := s.resolve(); err != nil || s.t.settled {
			return err
		}
	}
	return s.handle(typ, total)
}
