package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file runs one turn of a session (runTurn). handleNextFrame takes the client's frames one by one.
// handleTurnError handles errors that do not end the session. query.go and extended.go handle the single frames.

// runTurn runs one turn. It calls step for each frame of the client and relays the server's answers, until a
// ReadyForQuery. An error ends the session. If an oversized turn started a writer goroutine, runTurn waits for its end.
func (s *session) runTurn(step func() error) error {
	if !s.t.nested.on {
		s.resetAccessMode()
	}
	err := s.runTurnSteps(step)
	if s.t.sent.uplink != nil {
		if err != nil && s.b != nil {
			s.finishBackendWrite(0) // the session ends, whether or not the server takes all that was written
		}
		s.t.closeWriter() // the client already got the error of a failed write, or needs none
	}
	if conn := s.t.abandonedConn; conn != nil {
		s.cancelOnConn(conn)
	}
	if !s.t.nested.on {
		s.client.ReleaseBuffer()
		if s.t.sent.read != nil {
			wire.PutBuffer(s.t.sent.read) // the uplink writes from this buffer no longer
			s.t.sent.read = nil
		}
	}
	return err
}

// runTurnSteps handles frames until the turn is over and its answer is written. handleTurnError handles each error that
// need not end the session. If the server skips the client's other frames after an error, the error is sent at once.
func (s *session) runTurnSteps(step func() error) error {
	for !s.t.settled {
		var err error
		if s.t.request.ended { // the backend was lost after the turn's last frame; another backend answers the rest
			err = s.finishTurn()
		} else {
			err = step()
		}
		if err != nil {
			// handleTurnError sends the client the error of the current frame. If the turn is not over, it continues with the
			// client's next frame, or with the answers of a new backend.
			err = s.handleTurnError(err)
			if err == nil && s.pin.IsLost() && !s.t.settled {
				err = s.pinLostError()
			}
			if err == nil && s.t.server.skip && !s.t.settled {
				// A client that has sent a Flush may wait for the error before it sends more.
				if err = s.handleFlush(); err != nil {
					if err = s.handleTurnError(err); err == nil && !s.t.settled {
						err = s.flushToClient()
					}
				}
			}
		}
		if err == errCut {
			err = s.endTurnOnCut()
		}
		if err != nil {
			// The session ends, and the client gets the answers so far. After half a row the client gets nothing, since it would
			// read further bytes as the second half.
			if s.t.partial.rest == 0 || s.t.rec.phase == phaseAborting {
				s.releaseWithheld() // the next write reports a write error again
				s.flushBuffered()
			}
			return err
		}
	}
	if err := s.answerExtraSyncs(); err != nil {
		return err
	}
	if err := s.releaseWithheld(); err != nil {
		return err
	}
	return s.flushBuffered()
}

// handleTurnError sends the client an error, or replaces a lost backend, and returns nil. If the session must end,
// handleTurnError returns the error. The loop is needed because the new backend may be lost too. If the session has
// no backend, a lostError ends it.
func (s *session) handleTurnError(err error) error {
	gone, lost := errors.AsType[*lostError](err)
	if out, told := errors.AsType[*wire.Error](err); told && !lost && !out.Fatal {
		err = s.sendRefusal(out)
		gone, lost = errors.AsType[*lostError](err)
	}
	for lost && s.b != nil {
		if err = s.handleBackendLoss(gone); s.dedicated {
			break
		}
		gone, lost = errors.AsType[*lostError](err)
	}
	return err
}

// handleNextFrame handles the client's next frame. If the transaction has failed at the backend, handleNextFrame
// first tries a replay, and handles the frame within the new attempt.
func (s *session) handleNextFrame() error {
	typ, total, err := s.nextFrame()
	if err != nil {
		if hasClosed(err) {
			s.sendLastCommit()
		}
		return err
	}
	if err := s.flushIfFull(); err != nil || s.t.settled {
		return err
	}
	if s.t.rec.phase == phaseAborting {
		if err := s.runAttempts(); err != nil || s.t.settled {
			return err
		}
	}
	return s.handleClientFrame(typ, total)
}
