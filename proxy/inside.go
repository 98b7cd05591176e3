package proxy

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Turns inside a turn. The state of the session is that of a session between two turns as far as
// the inner one can tell, and the turn around takes it up from there: it looks at the state, at
// its backend and at its block anew.
//
// A Query of Sluice's own, or a part of a client's, as a turn of its own inside the client's
// turn: with a log, replays, timeouts and errors like any other. The client's turn has sent
// nothing yet, and goes on behind it. parts.go says which.

// inside is how a turn inside another differs from a client's. The zero value is a client's.
type inside struct {
	// on: the turn is inside another, whose ReadyForQuery is the client's.
	on bool
	// silent: what the client would be sent is kept in kept.
	silent bool
	kept   []byte
	// outside: what it runs is no part of the client's block (parts.go).
	outside bool
	// optsOut: the text that it is a part of has the comment that turns replay off.
	optsOut bool
	// done are the parts of the client's string in front of this one that are committed, with no block
	// around; nil: none.
	done *labels
	// shift is how many characters of the client's text stand in front of this part.
	shift int
}

// mostSilent bounds what a silent turn keeps: the answer to COMMIT, notices of its triggers.
const mostSilent = 64 << 10

// keep takes what the client would be sent; false where the client is to be sent it.
func (i *inside) keep(b []byte) bool {
	if i.silent && len(i.kept)+len(b) <= mostSilent {
		i.kept = append(i.kept, b...)
	}
	return i.silent
}

// withoutReady is what the client is sent of the end of a turn: the last ReadyForQuery is
// that of the turn around. b is the last span of a turn that has settled, so that a frame of
// that type at its end is no part of another.
func (i *inside) withoutReady(b []byte) []byte {
	if n := len(b) - wire.HeaderLen - 1; i.on && n >= 0 && bytes.HasPrefix(b[n:], frameReadyHead) {
		return b[:n]
	}
	return b
}

// frameReadyHead is a ReadyForQuery without its status.
var frameReadyHead = wire.AppendReady(nil, 'I')[:wire.HeaderLen]

// insideEnd is how a turn inside another has ended.
type insideEnd struct {
	// failed: the client was told an error, or would have been; told is that of a silent turn.
	failed bool
	told   *wire.Error
	// kept are the frames of a silent turn, as far as they were kept.
	kept []byte
	// stopped is the cancel or timeout that has come meanwhile and that the turn did not heed,
	// since nothing could be stopped; nil for none. It holds for what the client waits for.
	stopped *wire.Error
}

// why is the error with which the client's statement ends, where a silent turn in front of it has
// ended so; nil for none.
func (e *insideEnd) why() error {
	switch {
	case e.told != nil:
		return e.told
	case e.stopped != nil:
		return e.stopped
	}
	return nil
}

// turnInside runs a turn inside the one at hand, which has sent its backend nothing; step is
// what it does. What a silent turn has kept of news for the client is sent on, and its error
// too where the session ends with it. An error ends the session.
func (s *session) turnInside(how inside, step func() error) (insideEnd, error) {
	if err := s.flushToClient(); err != nil {
		return insideEnd{}, err
	}
	outer := s.t
	s.t = turnPool.Get().(*turn)
	s.t.inside = how
	s.t.inside.on = true
	s.t.midClient = outer.midClient
	if !how.outside {
		s.t.mode = outer.mode
	}
	if how.silent { // the client's statement waits for it, and its time runs
		s.t.clock = outer.clock
	}
	err := s.turn(step)
	end := insideEnd{failed: s.t.errorTold, stopped: s.t.unheeded}
	end.kept = s.t.kept
	end.told, how.kept = sift(s.t.kept)
	s.t.free()
	s.t = outer
	if err == nil && s.pinLost && end.told == nil { // the client was told why
		err = errPinLost
	}
	if err != nil && end.told != nil {
		how.kept = end.told.Append(how.kept)
	}
	if perr := s.passSpan(how.kept); err == nil {
		err = perr
	}
	if err == errCut && end.failed && s.t.ended { // as cutShort: the client has its answer, and then the end
		s.t.errorTold = true
		s.ready()
	}
	return end, err
}

// framesOf goes through frames that were kept. The last may have been cut.
func framesOf(kept []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(kept) > wire.HeaderLen {
			n := 1 + int(binary.BigEndian.Uint32(kept[1:]))
			if n > len(kept) || !yield(kept[:n]) {
				return
			}
			kept = kept[n:]
		}
	}
}

// sift goes through what a silent turn has kept: the error, and what the client is to be sent
// all the same, which is news of parameters, and notices.
func sift(kept []byte) (told *wire.Error, rest []byte) {
	for frame := range framesOf(kept) {
		switch frame[0] {
		case wire.ErrorResponse:
			told = toldBy(frame[wire.HeaderLen:])
		case wire.ParameterStatus, wire.NoticeResponse:
			rest = append(rest, frame...)
		}
	}
	return told, rest
}

// command runs a command of Sluice's own in silence: COMMIT, BEGIN. The time of the client's
// statement begins with it.
func (s *session) command(sql string) (insideEnd, error) {
	s.startClock()
	return s.turnInside(inside{silent: true, outside: true}, func() error { return s.ask(sql) })
}

// ask is the client's simple Query of a text that Sluice sends in its name.
func (s *session) ask(sql string) error {
	q := simple{frame: wire.AppendStrings(nil, wire.Query, sql), plan: unread}
	q.total = len(q.frame)
	s.t.ended = true
	if done, err := s.readQuery(&q); done || err != nil {
		return err
	}
	return s.runQuery(&q)
}

// failBlock has the block that the client is in fail, where it does not know of an error.
func (s *session) failBlock() error {
	_, err := s.turnInside(inside{silent: true}, func() error {
		s.t.ended = true
		return errAborted
	})
	return err
}
