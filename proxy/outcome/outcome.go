// Package outcome says what a client's turn may have committed. An Outcome is a pure value: its owner, the
// turn of a session, reports each statement that it sends and each answer that arrives. The code that
// handles losses, replays and cancels asks it.
//
// An Outcome never says less than the truth: where servers differ, it assumes the one that may have
// committed more. TestOutcome compares it with a model of the server.
package outcome

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Outcome is what a turn may have done to the transactions of its client: what
// the server was sent, and what of that it has answered. It is a pure value: one
// assignment (from At) starts it anew.
//
// Two positions move by the same steps, one when a statement is sent, and one
// when its answer comes. Where the first has passed a commit that the second has
// not, nobody knows what the server has applied. An answer settles everything
// before it; an error settles everything up to the next ReadyForQuery, since the
// server skips that.
type Outcome struct {
	// on: the turn has sent something, or is about to.
	on         bool
	sent, seen position
	// ahead is where sent stood in front of the last Sync.
	ahead position
	// concluded: nothing but a ReadyForQuery is missing from a simple Query.
	concluded bool
	// ended: the end of a transaction was answered in this turn.
	ended bool
}

// position is where the server stands between two statements, if none before failed. Its
// methods are the steps, as PostgreSQL takes them; where servers differ, the step is the
// one that may have committed more.
type position struct {
	// at is how the session stands: the block, and the transactions that have ended in the turn.
	at block.Block
	// dirty: outside a block something was changed that is not committed yet.
	dirty bool
	// eager: some of that may be committed already, ahead of the rest (VACUUM, CALL).
	eager bool
	// commits counts the steps that may have committed something.
	commits uint32
	// last is how the last statement left its transaction.
	last block.Ending
}

// step is what matters of one statement.
type step struct {
	kind rewrite.Kind
	// tx is what it says of its transaction, and snapshot: it needs one.
	tx       *rewrite.Transaction
	snapshot bool
	// alone: its server may take it for a transaction of its own although it stands in a
	// Sync group.
	alone bool
}

// stepOf is statement i of plan; of a plan without statements, all of it.
func stepOf(plan *rewrite.Plan, i int) step {
	if i >= len(plan.Statements) {
		return step{kind: plan.Kind, tx: &noTx, snapshot: plan.Kind != rewrite.Empty}
	}
	st := &plan.Statements[i]
	return step{kind: st.Kind, tx: &st.Tx, snapshot: block.Snapshots(st)}
}

// noTx is what a statement says that says nothing about transactions.
var noTx rewrite.Transaction

// At is the outcome of a turn that has sent nothing, and finds the session like that.
func At(at block.Block) Outcome {
	p := position{at: at.Turn()}
	return Outcome{on: true, sent: p, seen: p}
}

// Begin says that a BEGIN goes in front of the client's frames, of which tx is what it says. The
// client was told that it is in a block: whatever becomes of the BEGIN, that holds.
func (o *Outcome) Begin(tx *rewrite.Transaction) {
	if !o.sent.at.In() {
		o.sent.at.Run(tx, false)
	}
	o.seen.at = o.sent.at
}

// Query says that a simple Query is sent. It takes in what a Sync group has begun: its end
// commits that too. A plan without statements is one step.
func (o *Outcome) Query(plan *rewrite.Plan) {
	o.concluded = false
	for i := range max(len(plan.Statements), 1) {
		o.sent.run(stepOf(plan, i))
	}
	o.sent.end()
}

// Call says that a FunctionCall is sent. Only ReadyForQuery tells that it is over.
func (o *Outcome) Call() {
	o.sent.run(step{kind: rewrite.Write, tx: &noTx, snapshot: true})
	o.sent.end()
}

// Execute says that a portal is run; alone: see step.
func (o *Outcome) Execute(plan *rewrite.Plan, alone bool) {
	st := stepOf(plan, 0)
	st.alone = alone
	o.sent.run(st)
}

// Sync says that a Sync is sent, which commits what stands outside a block.
func (o *Outcome) Sync() {
	o.ahead = o.sent
	o.sent.end()
}

// Unsync takes back the Sync that was sent last: the server ignores it, being about to read
// COPY data.
func (o *Outcome) Unsync() { o.sent = o.ahead }

// ForceError says that something is sent that is sure to fail: a block at the server fails,
// and what a group has done so far is undone.
func (o *Outcome) ForceError() { o.sent.abort(false) }

// Answered is told of the tag of statement i of a simple Query ("": the Query was
// empty), and returns what the statement did to its transaction.
func (o *Outcome) Answered(plan *rewrite.Plan, i int, tag []byte) block.Ending {
	if plan.Kind == rewrite.Unknown || i > 0 && i >= len(plan.Statements) {
		o.seen.last = endingOf(tag) // until ReadyForQuery nobody knows more
		return o.did(o.seen.last)
	}
	o.seen.run(stepOf(plan, i))
	did := o.did(o.seen.told(tag))
	if i+1 >= len(plan.Statements) {
		o.seen.end()
		o.concluded = true
	}
	return did
}

// Executed is told that a portal was run, to its end or as far as was asked for, with its
// tag, and returns what the statement did to its transaction.
func (o *Outcome) Executed(plan *rewrite.Plan, alone bool, tag []byte) block.Ending {
	st := stepOf(plan, 0)
	st.alone = alone
	o.seen.run(st)
	if plan.Kind == rewrite.Unknown {
		o.seen.last = endingOf(tag)
	}
	return o.did(o.seen.told(tag))
}

// did notes that the end of a transaction was answered.
func (o *Outcome) did(e block.Ending) block.Ending {
	o.ended = o.ended || e != block.GoesOn
	return e
}

// endingOf is what a tag says of a statement that nobody has read.
func endingOf(tag []byte) block.Ending {
	switch string(tag) {
	case "COMMIT":
		return block.Commits
	case "ROLLBACK":
		return block.RollsBack
	}
	return block.GoesOn
}

// Failed is told of an error; atEnd says that the statement that failed is one that ends a
// block: it does so all the same. The server skips all that was sent behind the failed
// statement: the two positions are one again.
func (o *Outcome) Failed(atEnd bool) {
	o.seen.abort(atEnd)
	o.sent, o.concluded = o.seen, true
}

// CaughtUp is told that all that was sent is answered, where no ReadyForQuery says so.
func (o *Outcome) CaughtUp() { o.seen = o.sent }

// Ready is told of a ReadyForQuery: nothing is open, and the server's own word for the
// block counts.
func (o *Outcome) Ready(status byte) {
	o.seen.at.Ready(status)
	o.seen.commits, o.seen.dirty, o.seen.eager = o.sent.commits, false, false
	o.sent = o.seen
}

// Sent returns the block as it is behind all that was sent, if nothing fails.
func (o *Outcome) Sent() block.Block { return o.sent.at }

// Seen returns the block as it is behind all that was answered.
func (o *Outcome) Seen() block.Block { return o.seen.at }

// Ends returns how many ends of transactions the turn has sent.
func (o *Outcome) Ends() uint32 { return o.sent.at.Ends() }

// Ended reports whether the end of a transaction was answered in this turn.
func (o *Outcome) Ended() bool { return o.ended }

// Concluded reports whether nothing but a ReadyForQuery is missing from a simple Query.
func (o *Outcome) Concluded() bool { return o.concluded }

// Started reports whether anything is known. The zero value is that of a turn in which
// nothing was sent.
func (o *Outcome) Started() bool { return o.on }

// InBlock reports whether the client, which has sent what it has sent, believes itself in a
// block, be it a failed one.
func (o *Outcome) InBlock() bool { return o.sent.at.In() }

// Unknown reports whether something may have been committed that no answer tells of: then a
// loss is an unknown outcome (08007).
func (o *Outcome) Unknown() bool { return o.sent.commits != o.seen.commits || o.seen.eager }

// MayCommit reports whether anything of the turn may have been committed, told or
// not: then it must not be sent again.
func (o *Outcome) MayCommit() bool { return o.sent.commits > 0 }

// SyncCommits reports whether a Sync that was sent now would commit what was sent, be it
// that something was read.
func (o *Outcome) SyncCommits() bool { return o.on && !o.sent.at.In() }

// Apart reports whether what is sent next may belong to another transaction than
// what the Sync group has sent.
func (o *Outcome) Apart() bool { return o.sent.eager }

// Loses reports whether the loss of the server now undoes something, or may: then the
// client has to be told so.
func (o *Outcome) Loses() bool {
	return o.InBlock() || o.sent.dirty || o.seen.dirty || o.seen.at.In()
}

// RolledBack reports whether the transaction that ended last was rolled back, as far as
// answers tell.
func (o *Outcome) RolledBack() bool { return o.seen.last == block.RollsBack }

// run is one statement. Outside a block DDL, and what may stand alone, may be committed
// before the rest of its group; in a block nothing is committed before the end.
func (p *position) run(st step) {
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
	if p.last = p.at.Run(st.tx, st.snapshot); p.last != block.GoesOn {
		p.dirty, p.eager = false, false
		return
	}
	switch {
	case failed, inBlock, st.kind <= rewrite.Read, verb == rewrite.Begin, st.kind == rewrite.Control && !prepared(verb):
	case st.kind == rewrite.DDL || st.alone || prepared(verb):
		p.dirty, p.eager = true, true
		p.commits++
	default:
		p.dirty = true
	}
}

// prepared reports a verb that ends the transaction of somebody else, at once.
func prepared(v rewrite.Verb) bool {
	return v == rewrite.CommitPrepared || v == rewrite.RollbackPrepared
}

// end is a Sync, or the end of a simple Query: outside a block it commits.
func (p *position) end() {
	if p.at.In() {
		return
	}
	if p.dirty {
		p.commits++
	}
	p.at.End()
	p.dirty, p.eager = false, false
	if p.last == block.GoesOn {
		p.last = block.Commits
	}
}

// told corrects by its tag what a statement did: COMMIT of a failed block rolls back, and
// says so.
func (p *position) told(tag []byte) block.Ending {
	if p.last == block.Commits && string(tag) == "ROLLBACK" {
		p.last = block.RollsBack
	}
	return p.last
}

// abort is an error: a block fails, or ends where its end has failed, and outside one all
// that is not committed is undone.
func (p *position) abort(atEnd bool) {
	p.at.Fail(atEnd)
	p.dirty, p.eager = false, false
	if p.last == block.GoesOn {
		p.last = block.RollsBack
	}
}
