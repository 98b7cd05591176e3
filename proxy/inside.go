package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
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
	// own takes in what the client would be sent, and lets news through; nil: all is the client's.
	own *silent.Answer
	// outside: what it runs is no part of the client's block (parts.go).
	outside bool
	// optsOut: the text that it is a part of has the comment that turns replay off.
	optsOut bool
	// done are the parts of the client's string in front of this one that are committed, with no block
	// around; nil: none.
	done *labels
	// shift is how many characters of the client's text stand in front of this part.
	shift int
	// asksTime: it is a COMMIT, in front of which the server is asked for the time of its transaction.
	asksTime bool
	// timed is the time that the client's string has, where what the turn runs is no block; nil: its own.
	timed *toldTime
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

// turnInside runs a turn inside the one at hand, which has sent its backend nothing; step is
// what it does. The error of a silent turn is sent on where the session ends with it. An error ends the
// session.
func (s *session) turnInside(how inside, step func() error) (feature.Result, error) {
	if err := s.flushToClient(); err != nil {
		return feature.Result{}, err
	}
	outer := s.t
	s.t = turnPool.Get().(*turn)
	s.t.inside = how
	s.t.inside.on = true
	s.t.midClient = outer.midClient
	if !how.outside {
		s.t.mode = outer.mode
	}
	if how.own != nil { // the client's statement waits for it, and its time runs
		s.t.clock = outer.clock
	}
	err := s.turn(step)
	end := feature.Result{Failed: s.t.errorTold, Stopped: s.t.unheeded, Answer: how.own}
	ended := s.t.ended
	s.t.free()
	s.t = outer
	var said *wire.Error // by the server, or in its place
	if how.own != nil {
		said, end.Err = how.own.Told(), how.own.Outcome()
	}
	if end.Err != nil && said == nil && err == nil {
		s.srv.log.Error("backend answered otherwise than asked", append(s.logAttrs(), "asked", how.own.Asked(), "said", how.own.Said())...)
	}
	if err == nil && s.pinLost && said == nil { // the client was told why
		err = s.pinGone()
	}
	if err != nil && said != nil {
		s.passSpan(said.Append(nil)) // a write error shows again at the next write
	}
	if err == errCut && end.Failed && ended { // as cutShort: the client has its answer, and then the end
		s.t.errorTold = true
		s.ready()
	}
	return end, err
}

// command runs a command of Sluice's own in silence, which is to be answered as want says: COMMIT,
// BEGIN. The time of the client's statement begins with it.
func (s *session) command(sql string, want silent.Want) (feature.Result, error) {
	s.startClock()
	return s.part(sql, inside{own: silent.New(want), outside: true})
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

// failBlock has the block that the client is in fail, where it does not know of an error. An error
// ends the session.
func (s *session) failBlock() error {
	end, err := s.turnInside(inside{own: silent.New(silent.Refused)}, func() error {
		s.t.ended = true
		return errAborted
	})
	if err == nil && end.Err != nil {
		return errNotFailed
	}
	return err
}

// errNotFailed ends the session of a client that must not go on in its block.
var errNotFailed = &wire.Error{Fatal: true, Code: "25000", Message: "the server did not have the transaction fail, in which Sluice has met an error"}
