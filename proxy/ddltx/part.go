package ddltx

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the open part of a block: which statements are in it, and its commit.

// Add adds a text's statements to the open part of a block. If the text ends a transaction, only statements after that
// end count. A BEGIN also includes earlier statements of its pipeline. next is the block's state before the text. For
// the text "" the statements are not listed.
func (x *Tx) Add(next block.Block, plan *rewrite.Plan, sql string) {
	ends := next.EndedTxCount()
	for i := range plan.Statements {
		st := &plan.Statements[i]
		if next.RecordStatement(st); next.EndedTxCount() != ends {
			ends, x.openDemand, x.openStatements = next.EndedTxCount(), rewrite.TxDemand{}, listing.Statements{}
			continue
		}
		text := sql
		if len(plan.Statements) > 1 && sql != "" {
			text = sql[st.Start:st.End]
		}
		x.addStatement(st.Demand(), text, st.MayWrite())
	}
}

// addStatement adds a text to the open part of a block. A text that fails later does not matter, since a failed block
// commits no part. mayWrite means that the text looks like a read, but its functions or views may change rows.
func (x *Tx) addStatement(want rewrite.TxDemand, sql string, mayWrite bool) {
	x.openDemand = x.openDemand.Union(want)
	switch {
	case sql == "":
	case want.DDL || want.Rows || want.Sets:
		x.openStatements.Add(sql)
	case mayWrite:
		x.openStatements.AddRead(sql)
	}
}

// Changing returns the open part's statements that may have changed something. pureReads says that no statement that
// looks like a read has changed anything.
func (x *Tx) Changing(pureReads bool) listing.Statements {
	if pureReads {
		return x.openStatements.WithoutReads()
	}
	return x.openStatements
}

// BeginCommit records that the COMMIT of the open part is about to be sent. savepoints are the names of the part's
// savepoints, and now has the client's options, or is nil. optedOut means that the client wants no replay of its block.
func (x *Tx) BeginCommit(savepoints []string, now *rewrite.ClientOptions, optedOut bool) {
	x.commits++
	x.keepSavepoints(savepoints)
	x.options.Keep(now)
	x.optedOut = optedOut
}

// EndCommit records the outcome of the open part's COMMIT. The next part is then open, and empty. committed is false if
// the part is not committed, or the outcome is unknown. pureReads has the meaning of Changing's parameter.
func (x *Tx) EndCommit(committed, pureReads bool) {
	if committed {
		x.committed.AppendAll(x.Changing(pureReads))
	}
	x.openDemand, x.openStatements = rewrite.TxDemand{}, listing.Statements{}
}

// OptedOut reports whether the client wants no replay of the block whose next part begins.
func (x *Tx) OptedOut() bool { return x.optedOut }
