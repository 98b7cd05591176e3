package proxy

import (
	"errors"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// One turn of a session: the client's frames are taken one by one, up to the one that ends
// the turn, and errors that are not the session's end are mended in between. serve
// (session.go) calls turn; the handlers of the frames are in query.go and extended.go.

// turn relays one turn: the client's frames up to the one that ends it, which step takes one
// by one, and everything that answers them. An error ends the session. The writer of an
// oversized turn is gone when turn returns.
func (s *session) turn(step func() error) error {
	if !s.t.nested.on {
		s.startsAnew()
	}
	err := s.exchangeFrames(step)
	if s.t.uplink != nil {
		if err != nil && s.b != nil {
			s.leaveBackend(0) // the session ends, whatever the server takes
		}
		s.closeUplink() // the turn is over: a failed write has been told, or no longer matters
	}
	if conn := s.t.orphan; conn != nil {
		s.askToStop(conn)
	}
	if !s.t.nested.on {
		s.client.Release()
		if s.t.read != nil {
			wire.PutBuffer(s.t.read) // the uplink is done with it
			s.t.read = nil
		}
	}
	return err
}

// exchangeFrames handles frames until the turn has settled and its answer is written. An
// error that is not the session's end is mended here (recovered). Where the rest of the
// client's frames is then skipped, the client is sent the error at once.
func (s *session) exchangeFrames(step func() error) error {
	for !s.t.settled {
		var err error
		if s.t.ended { // the backend was lost, and its successor owes the rest
			err = s.finish()
		} else {
			err = step()
		}
		if err != nil {
			// recovered has answered the frame at hand. A turn that has not settled goes on
			// with the next frame of the client, or with what a new backend owes.
			err = s.recovered(err)
			if err == nil && s.pinLost && !s.t.settled {
				err = s.pinGone()
			}
			if err == nil && s.t.skip && !s.t.settled {
				// A client may wait for the error behind a Flush.
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
			// The session ends, and the client gets what was answered; but not behind the
			// first half of a row, where more bytes would be taken for its rest.
			if s.t.rest == 0 || s.t.phase == aborting {
				s.releaseWithheld() // a write error shows again at the next write
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

// recovered goes on after an error that is not the session's end, and returns one that is.
// A backend may be lost while an error is told, and another while the first one's loss is
// mended. A loss with no backend left to lose is the session's end.
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

// step handles the next frame of the client. While the frame was awaited, or what was
// gathered before it was written, the backend may have failed the transaction: then an attempt
// to run it again is made first, so that the frame meets the new one.
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
