package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file runs nested turns: a Query of Sluice's own, or a part of a client's text, within the client's turn. A
// nested turn has a log, replays, timeouts and errors like any. The client's turn must have sent the server nothing.
//
// A nested turn starts in the session's state between two turns. Code of the client's turn must read the session's
// state, backend and block again after the nested turn.

// nestedTurn describes a turn that Sluice runs within the client's. In the client's own turn it is the zero value.
type nestedTurn struct {
	// on means that the turn is nested. Sluice does not send its ReadyForQuery to the client.
	on bool
	// hiddenAnswer reads the server's answer and passes only notices and the like to the client. If hiddenAnswer is nil,
	// the client gets the whole answer.
	hiddenAnswer *silent.Answer
	// outsideBlock means that the nested turn's statement does not belong to the client's block (parts.go).
	outsideBlock bool
	// amidOthers means that the nested turn's text is only a part of a multi-statement query, which PostgreSQL runs as
	// one transaction.
	amidOthers bool
	// optsOut means that the client's text has the comment that turns replay off.
	optsOut bool
	// committedBefore lists earlier statements of the client's text that are committed outside a block, or is nil.
	committedBefore *listing.Statements
	// shift is the number of characters in the client's text before the part that this nested turn runs.
	shift int
	// asksTime means that the nested turn's statement is a COMMIT, before which Sluice asks the server for the
	// transaction's time.
	asksTime bool
	// timed is the transaction time that the client's text sees outside a block. nil means the server's own time.
	timed *txtime.Time
}

// stripReady removes a nested turn's ReadyForQuery from the end of its output. b must hold the last bytes of a turn
// that got its ReadyForQuery, so that the frame is complete.
func (n *nestedTurn) stripReady(b []byte) []byte {
	if at := len(b) - wire.HeaderLen - 1; n.on && at >= 0 && bytes.HasPrefix(b[at:], frameReadyHead) {
		return b[:at]
	}
	return b
}

// frameReadyHead is the header of a ReadyForQuery, without the status byte.
var frameReadyHead = wire.AppendReadyForQuery(nil, 'I')[:wire.HeaderLen]

// runNestedTurn runs a turn within the client's turn, which must not have sent anything to its backend. step handles
// the nested turn's frames. A returned error ends the session. The client gets even a hidden answer's errors.
func (s *session) runNestedTurn(how nestedTurn, step func() error) (feature.NestedResult, error) {
	if err := s.flushToClient(); err != nil {
		return feature.NestedResult{}, err
	}
	outer := s.t
	s.t = s.newTurn()
	s.waits.UseClock(&s.t.clock)
	s.t.nested = how
	s.t.nested.on = true
	s.t.request.midClient = outer.request.midClient
	if !how.outsideBlock {
		s.t.access.Mode = outer.access.Mode
	}
	if how.hiddenAnswer != nil { // the client's statement waits, so its timeout applies
		s.t.clock, s.t.observed = outer.clock.Nested(), outer.observed
	}
	err := s.runTurn(step)
	end := feature.NestedResult{Failed: s.t.server.errorTold, Stopped: s.t.request.pendingCancel, Answer: how.hiddenAnswer}
	ended := s.t.request.ended
	s.t.returnToPool()
	s.t = outer
	s.waits.UseClock(&outer.clock)
	var said *wire.Error // an error of the server, or its replacement
	if how.hiddenAnswer != nil {
		said, end.Err = how.hiddenAnswer.LastError(), how.hiddenAnswer.CheckOutcome()
	}
	if end.Err != nil && said == nil && err == nil {
		s.srv.log.Error("backend answered otherwise than asked", append(s.logAttrs(), "asked", how.hiddenAnswer.ExpectedWord(), "said", how.hiddenAnswer.DescribeActual())...)
	}
	if err == nil && s.pin.IsLost() && said == nil { // otherwise the client already has the reason
		err = s.pinLostError()
	}
	if err != nil && said != nil {
		s.sendOrWithhold(said.Append(nil)) // the next write reports a write error again
	}
	if err == errCut && end.Failed && ended { // as in endTurnOnCut: the client gets its answer first
		s.t.server.errorTold = true
		s.endTurnLocally()
	}
	return end, err
}

// runSilentCommand runs a COMMIT, BEGIN or similar command without sending the client its answer. want is the expected
// answer. The client's statement timeout starts again.
func (s *session) runSilentCommand(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	s.t.clock.Start(s.settings.StatementTimeout())
	return s.runNestedQuery(sql, nestedTurn{hiddenAnswer: silent.NewAnswer(want), outsideBlock: true})
}

// runAsQuery handles a text as if the client had sent it as a simple Query.
func (s *session) runAsQuery(sql string) error {
	q := simpleQuery{frame: wire.AppendStrings(nil, wire.Query, sql), plan: unreadPlan}
	q.total = len(q.frame)
	s.t.request.ended = true
	if done, err := s.planQuery(&q); done || err != nil {
		return err
	}
	return s.runQuery(&q)
}

// failBlock makes the client's block fail at the server, after Sluice met an error. Its error ends the session.
func (s *session) failBlock() error {
	end, err := s.runNestedTurn(nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectFailure)}, func() error {
		s.t.request.ended = true
		return sqlerror.Aborted
	})
	if err == nil && end.Err != nil {
		return errNotFailed
	}
	return err
}

// errNotFailed ends the session if failBlock could not make the block fail, since the client must not continue in it.
var errNotFailed = &wire.Error{Fatal: true, Code: "25000", Message: "the server did not have the transaction fail, in which Sluice has met an error"}

// runNestedQuery runs a text as a simple Query in a nested turn.
func (s *session) runNestedQuery(sql string, how nestedTurn) (feature.NestedResult, error) {
	return s.runNestedTurn(how, func() error { return s.runAsQuery(sql) })
}
