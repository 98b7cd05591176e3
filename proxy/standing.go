package proxy

import (
	"math"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Where the session is in its transaction, as package block follows it. In a turn, outcome has the state after what
// was sent. Between two turns transaction.at has it, plus a deferred BEGIN. position returns the state, including the
// transaction's modes.

// standing returns the session's block for a backend with that status, if the turn has sent nothing.
func (s *session) standing(status byte) block.Block {
	at := s.tx.at
	at.Ready(status)
	return at.Turn().Usual(s.usualModes())
}

// usualModes returns the modes of a transaction for which the client names none.
func (s *session) usualModes() (m block.Modes) {
	if s.t != nil && s.t.mode == readOnly {
		m.Access = block.ReadOnly
	}
	return m
}

// position returns the state of the block for the next statement.
func (s *session) position() block.Block {
	switch {
	case s.t != nil && s.t.outcome.Started():
		return s.t.outcome.Sent()
	case s.state == begun && s.deferredBegin != nil:
		at := s.standing('I')
		at.Run(&s.deferredBegin.plan.Single().Tx, false)
		return at
	case s.state == begun:
		return s.standing('T')
	case s.state == failed:
		return s.standing('E')
	}
	return s.standing(s.status())
}

// keptToReading reports whether the next statement is in a READ ONLY block, by its BEGIN or SET TRANSACTION.
func (s *session) keptToReading() bool {
	at := s.position()
	return keepsToReading(&at)
}

// behindItsEnd reports whether the turn's first transaction has ended in this turn, so that the next statement
// belongs to another one.
func (s *session) behindItsEnd() bool {
	return s.t.outcome.Started() && s.t.outcome.Ends() > 0
}

// ofTransaction counts the first statements of a text that belong to the turn's first transaction, up to its COMMIT
// or ROLLBACK. Unparsed text belongs to it whole.
func (s *session) ofTransaction(plan *rewrite.Plan) uint16 {
	switch {
	case s.behindItsEnd():
		return 0
	case len(plan.Statements) == 0:
		return math.MaxUint16
	case len(plan.Statements) == 1:
		return 1
	}
	at := s.position()
	for i := range plan.Statements {
		if at.Step(&plan.Statements[i]); at.Ends() > 0 {
			return uint16(min(i+1, math.MaxUint16))
		}
	}
	return math.MaxUint16
}
