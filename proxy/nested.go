package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// A nested turn runs a Query of Sluice's own, or a part of a client's, within the client's turn. It has a log,
// replays, timeouts and errors like a turn of the client. The client's turn has sent nothing before, and goes on
// behind it.
//
// The nested turn finds the session in the state between two turns. The outer turn looks at the state, its backend
// and its block again afterwards.

// nested is how a nested turn differs from a turn of the client, whose value is the zero value.
type nested struct {
	// on: the turn is nested. Its ReadyForQuery is not for the client.
	on bool
	// own takes the answer, and lets news for the client through; nil: all of the answer is the client's.
	own *silent.Answer
	// outside: the statement is no part of the client's block (parts.go).
	outside bool
	// optsOut: the client's text has the comment that turns replay off.
	optsOut bool
	// done lists the earlier parts of the client's text that are committed, if no block is around; nil for none.
	done *listing.Statements
	// shift is the number of characters of the client's text before this part.
	shift int
	// asksTime: the statement is a COMMIT, and the server is asked for the time of its transaction first.
	asksTime bool
	// timed is the time of the client's text, if the turn is no block; nil: its own.
	timed *toldTime
}

// withoutReady returns what the client gets of the end of a turn: the last ReadyForQuery is that of the outer
// turn. b must be the last span of a settled turn, so that a frame of that type at its end is whole.
func (n *nested) withoutReady(b []byte) []byte {
	if at := len(b) - wire.HeaderLen - 1; n.on && at >= 0 && bytes.HasPrefix(b[at:], frameReadyHead) {
		return b[:at]
	}
	return b
}

// frameReadyHead is a ReadyForQuery without its status.
var frameReadyHead = wire.AppendReady(nil, 'I')[:wire.HeaderLen]

// runNested runs a turn within the current one, which must have sent its backend nothing. step handles its frames.
// An error ends the session. If the server's error is its cause, the client gets that error of a silent turn too.
func (s *session) runNested(how nested, step func() error) (feature.Result, error) {
	if err := s.flushToClient(); err != nil {
		return feature.Result{}, err
	}
	outer := s.t
	s.t = turnPool.Get().(*turn)
	s.t.nested = how
	s.t.nested.on = true
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

// command runs a silent COMMIT, BEGIN or the like with the expected answer want. The statement timeout of the
// client begins with it.
func (s *session) command(sql string, want silent.Want) (feature.Result, error) {
	s.startClock()
	return s.nest(sql, nested{own: silent.New(want), outside: true})
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
	end, err := s.runNested(nested{own: silent.New(silent.Refused)}, func() error {
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
