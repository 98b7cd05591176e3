package ddltx

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file records which statements are in the open part of a block, which is not committed yet.

// Add adds a text's statements to the open (uncommitted) part of a block. If the text ends a transaction, Add adds
// only the statements after that end. A BEGIN also includes earlier statements of its pipeline. next is the block's
// state before the text. If sql is "", Add does not list the statements.
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

// addStatement adds a text to the uncommitted part of a block. A text that fails later does not matter: a failed
// block commits no part. mayWrite means that the text looks like a read, but its functions or views may change rows.
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

// changing returns the statements of the block's open (uncommitted) part that may have changed something. pureReads
// says that no statement that looks like a read has changed anything.
func (x *Tx) changing(pureReads bool) listing.Statements {
	if pureReads {
		return x.openStatements.WithoutReads()
	}
	return x.openStatements
}
