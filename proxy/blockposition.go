package proxy

import (
	"math"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds the session's position in its transaction (block.Block). In a turn, serverProgress.outcome has the
// position after all sent frames. Between two turns transaction.at has it, without a BEGIN that was not sent yet.
// blockForNextStatement returns the position, including the transaction's modes.

// blockAtStatus returns the block of a turn that has sent nothing, given the transaction status ('I', 'T' or 'E').
func (t *turn) blockAtStatus(status byte) block.Block {
	at := t.rec.tx.at
	at.RecordReady(status)
	return at.AtRequestStart().WithDefaults(t.defaultModes())
}

// defaultModes returns the modes, such as READ ONLY, of a transaction for which the client names no modes.
func (t *turn) defaultModes() (m block.TxModes) {
	if t.access.Mode == access.ReadOnly {
		m.Access = block.ReadOnly
	}
	return m
}

// blockForNextStatement returns the block in which the client's next statement runs. The session must be in a turn.
func (p *pairing) blockForNextStatement() block.Block {
	switch {
	case p.t.server.outcome.HasStarted():
		return p.t.server.outcome.SentBlock()
	case p.state == begun && p.deferredBegin != nil:
		at := p.t.blockAtStatus('I')
		at.RecordCommand(&p.deferredBegin.Plan.SingleStatement().Tx, false)
		return at
	case p.state == begun:
		return p.t.blockAtStatus('T')
	case p.state == failed:
		return p.t.blockAtStatus('E')
	}
	return p.t.blockAtStatus(p.txStatus())
}

// isInReadOnlyBlock reports whether the next statement is in a block that BEGIN or SET TRANSACTION made READ ONLY.
func (p *pairing) isInReadOnlyBlock() bool {
	at := p.blockForNextStatement()
	return access.IsReadOnlyBlock(&at)
}

// hasFirstTxEnded reports whether the turn's first transaction has ended in this turn, so that the next statement
// belongs to another transaction.
func (t *turn) hasFirstTxEnded() bool {
	return t.server.outcome.HasStarted() && t.server.outcome.SentTxEnds() > 0
}

// countInFirstTx returns how many of the plan's statements belong to the turn's first transaction, up to its COMMIT
// or ROLLBACK. A text that Sluice cannot parse belongs to that transaction as a whole.
func (p *pairing) countInFirstTx(plan *rewrite.Plan) uint16 {
	switch {
	case p.t.hasFirstTxEnded():
		return 0
	case len(plan.Statements) == 0:
		return math.MaxUint16
	case len(plan.Statements) == 1:
		return 1
	}
	at := p.blockForNextStatement()
	for i := range plan.Statements {
		if at.RecordStatement(&plan.Statements[i]); at.EndedTxCount() > 0 {
			return uint16(min(i+1, math.MaxUint16))
		}
	}
	return math.MaxUint16
}
