package proxy

import (
	"math"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How the session stands, as package block follows it: in the turn at hand by what was sent (outcome),
// between two turns by what the transaction keeps (transaction.at), and of a BEGIN that is held back by
// that. Whoever must know of what transaction a statement is, or of which modes, asks here.

// standing is how the session stands where its backend has that status, and the turn has sent nothing.
func (s *session) standing(status byte) block.Block {
	at := s.tx.at
	at.Ready(status)
	return at.Turn().Usual(s.usualModes())
}

// usualModes are those of a transaction of which the client says nothing.
func (s *session) usualModes() (m block.Modes) {
	if s.t != nil && s.t.mode == readOnly {
		m.Access = block.ReadOnly
	}
	return m
}

// position is how the session stands for what is sent next.
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

// keptToReading reports whether the server lets what is sent next write nothing: a BEGIN or SET TRANSACTION says
// READ ONLY of the block that is open.
func (s *session) keptToReading() bool {
	at := s.position()
	return keepsToReading(&at)
}

// behindItsEnd reports whether an end of the transaction that was open in front of the turn, or that the
// turn has begun first, was sent in the turn: what is sent next is of another.
func (s *session) behindItsEnd() bool {
	return s.t.outcome.Started() && s.t.outcome.Ends() > 0
}

// ofTransaction counts the statements of a text that is sent next, from its beginning, which are of the
// transaction that was open in front of the turn, or that the turn has begun first: up to the one that ends
// it. What nobody has read is of that transaction.
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
