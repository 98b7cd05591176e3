package ddltx

import (
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Position describes the session's transaction when a text arrives.
type Position struct {
	// Next is the state of the block in which the text's first statement will run.
	Next block.Block
	// InBlock means that the client is in a block.
	InBlock bool
	// Failed means that the client has the status of a failed block. Unserved means that no server has that block.
	Failed, Unserved bool
	// Outside means that the text does not belong to the client's block.
	Outside bool
	// Sent means that the session has sent the server earlier statements of the pipeline.
	Sent bool
	// PureReads means that no statement that looks like a read has changed anything.
	PureReads bool
}

// Route says in which transaction, or transactions, Sluice runs a text.
type Route uint8

const (
	// InPart is the route of a text in a block's open part (since its last early commit), or in the next part.
	InPart Route = iota
	// AsItIs is the route of a text that the server refuses in any transaction. Sluice commits nothing for it.
	AsItIs
	// InGroups is the route of a multi-statement query that runs in groups of statements.
	InGroups
	// OutsideBlock is the route of a statement that runs outside any transaction, between two early commits of a block.
	OutsideBlock
)

// Concerns reports whether Sluice may have to commit a transaction in several parts for a simple Query. For a single
// statement outside a block the result is false, except for transaction control such as BEGIN.
func Concerns(plan *rewrite.Plan, inBlock bool) bool {
	st := plan.SingleStatement()
	return st == nil || st.Tx.Verb != rewrite.NoVerb || inBlock
}

// Route returns how Sluice runs a plan for which Concerns is true. groups are the groups of statements for InGroups.
func (x *Tx) Route(plan *rewrite.Plan, at *Position) (route Route, groups [][2]int) {
	switch {
	case x.mustSplitFailed(plan, at):
		return InGroups, plan.CutIntoGroups()
	case at.Outside || at.Sent || at.Failed:
		return InPart, nil
	}
	// No part is committed for a text that the server refuses. A multi-statement query is refused as a whole.
	if _, ok := plan.Demand(); !ok {
		return AsItIs, nil
	}
	if groups := x.groups(plan, at.InBlock); groups != nil {
		return InGroups, groups
	}
	if st := plan.SingleStatement(); st != nil && at.InBlock && x.mustLeave(st, &at.Next) { // a READ ONLY block never gets here
		return OutsideBlock, nil
	}
	return InPart, nil
}

// mustSplitFailed reports whether a query that ends a failed block must run in groups of statements. A part of the
// block may be committed, or the query's remaining statements may be too many for one transaction.
func (x *Tx) mustSplitFailed(plan *rewrite.Plan, at *Position) bool {
	if at.Outside || at.Sent || at.Unserved || !at.Failed {
		return false
	}
	return len(plan.Statements) > 1 && (x.HasCommittedPart() && hasTxBoundary(plan) || plan.ExceedsTransaction() && plan.Statements[0].Tx.Verb.EndsBlock())
}

// groups returns the groups in which a text's statements must run, or nil if the text runs as a whole. If a part of the
// block is or may become committed, the block's end is a group of its own, with its own warnings.
func (x *Tx) groups(plan *rewrite.Plan, inBlock bool) [][2]int {
	groups := plan.TxGroups()
	switch {
	case groups != nil && (inBlock || plan.ExceedsTransaction()):
		return groups
	case len(plan.Statements) > 1 && inBlock && (x.HasCommittedPart() || x.openDemand.DDL) && hasTxBoundary(plan):
		return plan.CutIntoGroups()
	}
	return nil
}

// hasTxBoundary reports whether a text begins or ends a transaction.
func hasTxBoundary(plan *rewrite.Plan) bool {
	return plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb == rewrite.Begin || st.Tx.Verb.EndsBlock() })
}

// MustRunOutside reports whether a statement must run outside its block, after an early commit of the block so far. A
// portal's statement runs at the Sync, and only the BEGIN may precede it in its pipeline. x may be nil.
func (x *Tx) MustRunOutside(st *rewrite.Statement, at *Position) bool {
	return x != nil && !at.Sent && at.InBlock && x.mustLeave(st, &at.Next)
}

// mustLeave reports whether a statement of a block must run outside the block. One reason is that the statement takes
// several transactions. The other is that its index job is awaited, and the block has other changes.
func (x *Tx) mustLeave(st *rewrite.Statement, next *block.Block) bool {
	return !staysWhole(next) && (st.MustRunInSteps() ||
		st.Job == rewrite.AwaitedJob && (x.openDemand.DDL || x.openDemand.Rows || !x.committed.IsEmpty()))
}

// staysWhole reports whether the block cannot be committed in parts. One reason is a mode that Sluice's BEGIN would
// lose. The other is that the block's BEGIN was not recorded in next.
func staysWhole(next *block.Block) bool {
	m := next.Modes()
	return !next.HasSeenBegin() || m.Access == block.ReadOnly || m.Deferrable || m.Snapshot || m.Isolation == rewrite.Serializable
}

// Step says what Sluice does before it runs a text in a part of a block (what one early commit commits).
type Step struct {
	// Warning is a WARNING for the client, or nil.
	Warning *wire.Error
	// Commit means that Sluice must first commit the open part: what the block has run since its last early commit.
	Commit bool
	// Adds means that the text belongs to the part that is open after this step (Add).
	Adds bool
}

// Before returns what Sluice does before a text runs. runs is false for a text that the server will only parse. The
// error is for the client: an early commit is necessary but not possible, or the text is DDL in a READ ONLY
// transaction. At the end of a block, step.Warning names parts that remain committed. x may be nil.
func (x *Tx) Before(plan *rewrite.Plan, at *Position, runs bool) (step Step, err error) {
	if x == nil || at.Outside || at.Unserved && !hasTxBoundary(plan) {
		return step, nil
	}
	st := plan.SingleStatement()
	if st != nil && runs {
		switch {
		case st.Tx.Verb.EndsBlock():
			step.Warning = x.Remain(st, at.Failed)
		case st.MayRunInSteps() && at.Next.Status() == 'T' && at.Next.IsReadOnly():
			return step, access.WriteError(st, access.ReadOnly)
		}
	}
	if st != nil && st.MayRunInSteps() && x.MustRunOutside(st, at) {
		return step, nil
	}
	if at.Next.Status() == 'T' && !at.Failed && !staysWhole(&at.Next) {
		// A text that the server refuses in any case must not commit the earlier statements of its transaction.
		if _, ok := plan.Demand(); !ok {
			return step, nil
		}
		if step.Commit = !x.canAdd(demandOfTx(at.Next, plan)); step.Commit {
			err = x.checkCommit(at)
		}
	}
	step.Adds = runs
	return step, err
}

// demandOfTx returns what a text's statements need from the current transaction (DDL, changes of rows and the like).
// next is the block's state before the text.
func demandOfTx(next block.Block, plan *rewrite.Plan) (want rewrite.TxDemand) {
	ends := next.EndedTxCount()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if next.RecordStatement(st); next.EndedTxCount() != ends {
			break
		}
		want = want.Union(st.Demand())
	}
	return want
}

// canAdd reports whether statements that need want (DDL, changes of rows) fit into the block's uncommitted part.
func (x *Tx) canAdd(want rewrite.TxDemand) bool {
	return !(want.DDL && (x.openDemand.DDL || x.openDemand.Rows)) && !(want.Rows && x.openDemand.DDL)
}

// checkCommit returns an error if, before a text runs, Sluice cannot commit what the block has run so far.
func (x *Tx) checkCommit(at *Position) error {
	if at.Sent {
		return errInPipeline
	}
	return x.checkEarlyCommit(at.PureReads)
}

// checkEarlyCommit returns an error if an early commit of the block so far would do more than the client asked for.
func (x *Tx) checkEarlyCommit(pureReads bool) error {
	switch {
	case x.openDemand.Drops && x.policy != rewrite.CommitDrops:
		lists := x.changing(pureReads)
		return errDropsEarly(&lists)
	case x.openDemand.Local:
		return errLocal
	}
	return nil
}

// checkOutside returns an error if a statement cannot run outside its block, because the open part or the statement's
// own DROP must not be committed early. sql is the text of st.
func (x *Tx) checkOutside(st *rewrite.Statement, sql string, pureReads bool) error {
	if err := x.checkEarlyCommit(pureReads); err != nil {
		return err
	}
	if st.Demand().Drops && x.policy != rewrite.CommitDrops {
		var own listing.Statements
		own.Add(sql)
		return errDropsEarly(&own)
	}
	return nil
}
