// Package outcome decides what a client's turn may have committed. An assignment copies an Outcome. The turn of a
// session owns its Outcome, and reports each statement that is sent and each answer that arrives. The code for losses,
// replays and cancels reads the Outcome.
//
// An Outcome never reports less than may have been committed. Where servers differ, an Outcome assumes the server that
// may have committed more. TestOutcome compares Outcome with a model of the server.
package outcome

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Outcome is the possible effect of a turn on its client's transactions: what was sent to the server, and how much of
// that was answered. An assignment copies an Outcome, and an assignment from FromBlock resets it.
//
// Two positions advance by the same steps: sent when a statement is sent, and seen when its answer arrives. While sent
// has passed a commit that seen has not, the server's state is unknown. An answer settles everything before it. An
// error settles everything up to the next ReadyForQuery, because the server skips that.
type Outcome struct {
	// on means that the turn has sent something to the server, or is about to.
	on         bool
	sent, seen serverState
	// ahead is the value that sent (the position after everything that was sent) had before the last Sync.
	ahead serverState
	// concluded means that only the ReadyForQuery is missing in the answer to a simple Query.
	concluded bool
	// ended means that the answer to the end of a transaction has arrived in this turn.
	ended bool
}

// serverState is the server's state between two statements, if no earlier statement failed. Its methods follow
// PostgreSQL's steps. Where servers differ, a method does the step that may have committed more.
type serverState struct {
	// at is the session's block at this position. at counts the transactions that have ended in the turn.
	at block.Block
	// dirty means that outside a block there is a change that is not committed yet.
	dirty bool
	// eager means that a part of the change may be committed early, for example by VACUUM or CALL.
	eager bool
	// commits is the number of steps that may have committed something.
	commits uint32
	// last is the effect of the last statement on its transaction.
	last block.TxEffect
}

// txStep is the part of a statement that matters for what a turn may have committed.
type txStep struct {
	kind rewrite.StatementKind
	// tx is the statement's transaction command. snapshot means that the statement needs a snapshot.
	tx       *rewrite.TxControl
	snapshot bool
	// alone means that the server may run the statement as a separate transaction, although it is in a Sync group, the
	// statements up to a Sync.
	alone bool
}

// stepOfPlan returns the txStep of statement i of plan. A plan without statements has one txStep.
func stepOfPlan(plan *rewrite.Plan, i int) txStep {
	if i >= len(plan.Statements) {
		return txStep{kind: plan.Kind, tx: &noTx, snapshot: plan.Kind != rewrite.Empty}
	}
	st := &plan.Statements[i]
	return txStep{kind: st.Kind, tx: &st.Tx, snapshot: block.NeedsSnapshot(st)}
}

// noTx is the value of txStep.tx for a statement that is no transaction command.
var noTx rewrite.TxControl

// FromBlock returns the Outcome of a turn that has sent nothing, in a session whose block is at.
func FromBlock(at block.Block) (o Outcome) {
	o.ResetTo(at)
	return o
}

// ResetTo makes o the Outcome that FromBlock returns, without a copy, because each turn calls ResetTo.
func (o *Outcome) ResetTo(at block.Block) {
	*o = Outcome{}
	o.on = true
	o.sent.at = at.AtRequestStart()
	o.seen.at = o.sent.at
}

// RecordBegin records that Sluice has sent a BEGIN with the command tx before the client's frames. Sluice has already
// answered the client that it is in a block, whatever happens to the BEGIN.
func (o *Outcome) RecordBegin(tx *rewrite.TxControl) {
	if !o.sent.at.IsOpen() {
		o.sent.at.RecordCommand(tx, false)
	}
	o.seen.at = o.sent.at
}

// RecordQuery records a simple Query. The Query ends an open Sync group (statements without their Sync yet), which
// commits with it. A plan without statements is one step.
func (o *Outcome) RecordQuery(plan *rewrite.Plan) {
	o.concluded = false
	for i := range max(len(plan.Statements), 1) {
		o.sent.runStep(stepOfPlan(plan, i))
	}
	o.sent.endGroup()
}

// RecordFunctionCall records a FunctionCall, whose end only the ReadyForQuery shows.
func (o *Outcome) RecordFunctionCall() {
	o.sent.runStep(txStep{kind: rewrite.Write, tx: &noTx, snapshot: true})
	o.sent.endGroup()
}

// RecordExecute records the execution of a portal. alone means that the server may run the statement as a separate
// transaction.
func (o *Outcome) RecordExecute(plan *rewrite.Plan, alone bool) {
	st := stepOfPlan(plan, 0)
	st.alone = alone
	o.sent.runStep(st)
}

// RecordSync records a Sync, which commits changes outside a block.
func (o *Outcome) RecordSync() {
	o.ahead = o.sent
	o.sent.endGroup()
}

// RemoveSync removes the last Sync from the Outcome. The server ignores that Sync, because the server is about to read
// COPY data.
func (o *Outcome) RemoveSync() { o.sent = o.ahead }

// RecordForcedError records that a message was sent which fails for certain. A block at the server fails, and the
// changes of a Sync group, the statements up to a Sync, are undone.
func (o *Outcome) RecordForcedError() { o.sent.applyError(false) }

// RecordTag records the tag of statement i of a simple Query, or "" for an empty Query. RecordTag returns the
// statement's effect on its transaction.
func (o *Outcome) RecordTag(plan *rewrite.Plan, i int, tag []byte) block.TxEffect {
	if plan.Kind == rewrite.Unknown || i > 0 && i >= len(plan.Statements) {
		o.seen.last = endingOfTag(tag) // more is unknown until ReadyForQuery
		return o.recordEnding(o.seen.last)
	}
	o.seen.runStep(stepOfPlan(plan, i))
	did := o.recordEnding(o.seen.correctByTag(tag))
	if i+1 >= len(plan.Statements) {
		o.seen.endGroup()
		o.concluded = true
	}
	return did
}

// RecordExecuted records the tag of a portal that was executed, at its end or at a row limit. RecordExecuted returns
// the statement's effect on its transaction.
func (o *Outcome) RecordExecuted(plan *rewrite.Plan, alone bool, tag []byte) block.TxEffect {
	st := stepOfPlan(plan, 0)
	st.alone = alone
	o.seen.runStep(st)
	if plan.Kind == rewrite.Unknown {
		o.seen.last = endingOfTag(tag)
	}
	return o.recordEnding(o.seen.correctByTag(tag))
}

// recordEnding records the effect e of a statement that was answered, and returns e.
func (o *Outcome) recordEnding(e block.TxEffect) block.TxEffect {
	o.ended = o.ended || e != block.GoesOn
	return e
}

// endingOfTag returns the effect of an unparsed statement on its transaction, by its tag.
func endingOfTag(tag []byte) block.TxEffect {
	switch string(tag) {
	case "COMMIT":
		return block.Commits
	case "ROLLBACK":
		return block.RollsBack
	}
	return block.GoesOn
}

// RecordFailure records an error of the server. atEnd says that the failed statement ends a block even when it fails.
// The server skips everything that was sent after the failed statement, so sent and seen are equal again.
func (o *Outcome) RecordFailure(atEnd bool) {
	o.seen.applyError(atEnd)
	o.sent, o.concluded = o.seen, true
}

// RecordCaughtUp records that everything that was sent is answered, without a ReadyForQuery.
func (o *Outcome) RecordCaughtUp() { o.seen = o.sent }

// RecordReady records a ReadyForQuery, whose status has precedence over o. Nothing is left to be answered.
func (o *Outcome) RecordReady(status byte) {
	o.seen.at.RecordReady(status)
	o.seen.commits, o.seen.dirty, o.seen.eager = o.sent.commits, false, false
	o.sent = o.seen
}

// SentBlock returns the block after everything that was sent, if nothing fails.
func (o *Outcome) SentBlock() block.Block { return o.sent.at }

// SeenBlock returns the block after everything that was answered.
func (o *Outcome) SeenBlock() block.Block { return o.seen.at }

// SentTxEnds returns the number of ends of transactions that the turn has sent.
func (o *Outcome) SentTxEnds() uint32 { return o.sent.at.EndedTxCount() }

// HasEnded reports whether the server has answered the end of a transaction in this turn.
func (o *Outcome) HasEnded() bool { return o.ended }

// IsConcluded reports whether only the ReadyForQuery is missing in the answer to a simple Query.
func (o *Outcome) IsConcluded() bool { return o.concluded }

// HasStarted reports whether the turn has sent anything, or is about to. The zero Outcome has not.
func (o *Outcome) HasStarted() bool { return o.on }

// InBlock reports whether the client, after everything that it has sent, expects to be in a block, even a failed one.
func (o *Outcome) InBlock() bool { return o.sent.at.IsOpen() }

// IsUnknown reports whether something may have been committed without an answer. If so, a loss of the server now has
// an unknown outcome (08007).
func (o *Outcome) IsUnknown() bool { return o.sent.commits != o.seen.commits || o.seen.eager }

// MayCommit reports whether any part of the turn may have been committed, answered or not. If so, the turn must not
// be sent again.
func (o *Outcome) MayCommit() bool { return o.sent.commits > 0 }

// WouldSyncCommit reports whether a Sync now would commit what was sent, even if that was only reads.
func (o *Outcome) WouldSyncCommit() bool { return o.on && !o.sent.at.IsOpen() }

// MayStartNewTx reports whether the next statement may belong to another transaction than the earlier statements of its
// Sync group, the statements up to a Sync.
func (o *Outcome) MayStartNewTx() bool { return o.sent.eager }

// WouldLoseWork reports whether the loss of the server now undoes something, or may undo something. If so, the
// client must get an error.
func (o *Outcome) WouldLoseWork() bool {
	return o.InBlock() || o.sent.dirty || o.seen.dirty || o.seen.at.IsOpen()
}

// IsRolledBack reports whether the last transaction was rolled back, according to the answers.
func (o *Outcome) IsRolledBack() bool { return o.seen.last == block.RollsBack }

// runStep advances the state p past one statement. Outside a block, DDL and statements that may run alone may be
// committed before the other statements up to the Sync. In a block nothing is committed before the end.
func (p *serverState) runStep(st txStep) {
	p.last = block.GoesOn
	if st.kind == rewrite.Unknown { // it may do anything
		p.dirty, p.eager = true, true
		p.commits++
		return
	}
	failed, inBlock, verb := p.at.Status() == 'E', p.at.Status() == 'T', st.tx.Verb
	ends := verb == rewrite.Commit || verb == rewrite.PrepareTransaction
	if ends && !failed && (inBlock || p.dirty) {
		p.commits++
	}
	if p.last = p.at.RecordCommand(st.tx, st.snapshot); p.last != block.GoesOn {
		p.dirty, p.eager = false, false
		return
	}
	switch {
	case failed, inBlock, st.kind <= rewrite.Read, verb == rewrite.Begin, st.kind == rewrite.Control && !endsPrepared(verb):
	case st.kind == rewrite.DDL || st.alone || endsPrepared(verb):
		p.dirty, p.eager = true, true
		p.commits++
	default:
		p.dirty = true
	}
}

// endsPrepared reports whether a verb is COMMIT PREPARED or ROLLBACK PREPARED, which end another session's transaction
// at once.
func endsPrepared(v rewrite.TxVerb) bool {
	return v == rewrite.CommitPrepared || v == rewrite.RollbackPrepared
}

// endGroup advances the state p past a Sync, or past the end of a simple Query. Outside a block that end commits.
func (p *serverState) endGroup() {
	if p.at.IsOpen() {
		return
	}
	if p.dirty {
		p.commits++
	}
	p.at.RecordSync()
	p.dirty, p.eager = false, false
	if p.last == block.GoesOn {
		p.last = block.Commits
	}
}

// correctByTag corrects the effect of the last statement by its tag. COMMIT of a failed block rolls back, and its tag
// is ROLLBACK.
func (p *serverState) correctByTag(tag []byte) block.TxEffect {
	if p.last == block.Commits && string(tag) == "ROLLBACK" {
		p.last = block.RollsBack
	}
	return p.last
}

// applyError advances the state p past an error. A block fails, or ends if the failed statement was its end. Outside
// a block all uncommitted changes are undone.
func (p *serverState) applyError(atEnd bool) {
	p.at.RecordError(atEnd)
	p.dirty, p.eager = false, false
	if p.last == block.GoesOn {
		p.last = block.RollsBack
	}
}
