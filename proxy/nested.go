package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file runs nested turns: a Query of Sluice's own, or a part of a client's, within the client's turn. A nested
// turn has a log, replays, timeouts and errors like any turn. The client's turn must not have sent anything before, and
// continues afterwards.
//
// A nested turn finds the session in the state between two turns. The outer turn must read the session's state, backend
// and block again afterwards.

// nestedTurn describes how a nested turn differs from a client's turn, for which it is zero.
type nestedTurn struct {
	// on: the turn is nested. Its ReadyForQuery is not for the client.
	on bool
	// hiddenAnswer reads the answer and passes only news to the client; nil: the client gets the whole answer.
	hiddenAnswer *silent.Answer
	// outsideBlock: the statement does not belong to the client's block (parts.go).
	outsideBlock bool
	// optsOut: the client's text has the comment that turns replay off.
	optsOut bool
	// committedBefore lists earlier parts of the client's text that are committed outside a block; nil: none.
	committedBefore *listing.Statements
	// shift is the number of characters of the client's text before this part.
	shift int
	// asksTime: the statement is a COMMIT, before which the server is asked for its transaction's time.
	asksTime bool
	// timed is the time that the client's text has outside a block; nil: the server's.
	timed *txtime.Time
}

// stripReady removes a nested turn's ReadyForQuery from the end of its output. b must be the last span of a settled
// turn, so that a frame of that type at its end is complete.
func (n *nestedTurn) stripReady(b []byte) []byte {
	if at := len(b) - wire.HeaderLen - 1; n.on && at >= 0 && bytes.HasPrefix(b[at:], frameReadyHead) {
		return b[:at]
	}
	return b
}

// frameReadyHead is a ReadyForQuery without its status.
var frameReadyHead = wire.AppendReadyForQuery(nil, 'I')[:wire.HeaderLen]

// runNestedTurn runs a turn within the current one, which must not have sent anything to its backend. step handles its
// frames. An error ends the session. If a server's error caused it, the client gets that error even from a silent turn.
func (s *session) runNestedTurn(how nestedTurn, step func() error) (feature.NestedResult, error) {
	if err := s.flushToClient(); err != nil {
		return feature.NestedResult{}, err
	}
	outer := s.t
	s.t = turnPool.Get().(*turn)
	s.t.nestedTurn = how
	s.t.nestedTurn.on = true
	s.t.midClient = outer.midClient
	if !how.outsideBlock {
		s.t.mode = outer.mode
	}
	if how.hiddenAnswer != nil { // the client's statement waits, so its timeout applies
		s.t.statementTimer = outer.statementTimer
	}
	err := s.runTurn(step)
	end := feature.NestedResult{Failed: s.t.errorTold, Stopped: s.t.pendingCancel, Answer: how.hiddenAnswer}
	ended := s.t.ended
	s.t.returnToPool()
	s.t = outer
	var said *wire.Error // an error of the server, or its replacement
	if how.hiddenAnswer != nil {
		said, end.Err = how.hiddenAnswer.LastError(), how.hiddenAnswer.CheckOutcome()
	}
	if end.Err != nil && said == nil && err == nil {
		s.srv.log.Error("backend answered otherwise than asked", append(s.logAttrs(), "asked", how.hiddenAnswer.ExpectedWord(), "said", how.hiddenAnswer.DescribeActual())...)
	}
	if err == nil && s.pinLost && said == nil { // otherwise the client already has the reason
		err = s.pinLostError()
	}
	if err != nil && said != nil {
		s.sendOrWithhold(said.Append(nil)) // the next write reports a write error again
	}
	if err == errCut && end.Failed && ended { // as in endTurnOnCut: the client gets its answer first
		s.t.errorTold = true
		s.endTurnLocally()
	}
	return end, err
}

// runSilentCommand runs a COMMIT, BEGIN or the like, whose answer the client does not get. want is the expected answer.
// The client's statement timeout starts again.
func (s *session) runSilentCommand(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	s.startStatementTimeout()
	return s.runNestedQuery(sql, nestedTurn{hiddenAnswer: silent.NewAnswer(want), outsideBlock: true})
}

// runAsQuery handles a text as if the client had sent it as a simple Query.
func (s *session) runAsQuery(sql string) error {
	q := simpleQuery{frame: wire.AppendStrings(nil, wire.Query, sql), plan: unreadPlan}
	q.total = len(q.frame)
	s.t.ended = true
	if done, err := s.planQuery(&q); done || err != nil {
		return err
	}
	return s.runQuery(&q)
}

// failBlock makes the client's block fail at the server, after an error that the server does not know. The error of
// failBlock ends the session.
func (s *session) failBlock() error {
	end, err := s.runNestedTurn(nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectFailure)}, func() error {
		s.t.ended = true
		return errAborted
	})
	if err == nil && end.Err != nil {
		return errNotFailed
	}
	return err
}

// errNotFailed ends the session if the block could not be made to fail, since the client must not continue in it.
var errNotFailed = &wire.Error{Fatal: true, Code: "25000", Message: "the server did not have the transaction fail, in which Sluice has met an error"}
