package ddltx

import (
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Groups is a multi-statement query that runs in groups of statements, one after the other. Comments between groups are
// dropped.
type Groups struct {
	plan   *rewrite.Plan
	sql    string
	groups [][2]int
	i      int // the current group's index, or -1
	shift  int // characters in front of the current group
	// newTx means that the current group is the first of a client's transaction.
	newTx bool
	// committed lists the groups that are committed outside a block, of the client's current transaction.
	committed listing.Statements
}

// Split returns a multi-statement query that runs in groups. next is the block's state before the query. The error is
// for a client that relies on one transaction, such as after SET LOCAL. In a block Before decides that instead, by what
// the whole block contains. x may be nil.
func (x *Tx) Split(next block.Block, plan *rewrite.Plan, sql string, groups [][2]int) (*Groups, error) {
	local := false
	for i, g := range groups {
		first, ends := &plan.Statements[g[0]], next.EndedTxCount()
		if next.RecordStatement(first); first.Tx.Verb == rewrite.Begin || next.EndedTxCount() != ends {
			local = false
			continue
		}
		if next.IsOpen() {
			continue
		}
		var want rewrite.TxDemand
		for n := g[0]; n < g[1]; n++ {
			want = want.Union(plan.Statements[n].Demand())
		}
		local = local || want.Local
		switch last := i+1 == len(groups); {
		case last:
		case local:
			return nil, errLocal
		case want.Drops && x.Policy() != rewrite.CommitDrops:
			from, to := plan.GroupBounds(g)
			var name listing.Statements
			name.Add(sql[from:to])
			return nil, errDropsEarly(&name)
		}
	}
	return &Groups{plan: plan, sql: sql, groups: groups, i: -1}, nil
}

// Next goes on to the next group, the first at first. It returns false if all groups have run.
func (g *Groups) Next() bool {
	if g.i+1 == len(g.groups) {
		return false
	}
	g.newTx = g.i < 0 || g.first().Tx.Verb.EndsBlock()
	passed := 0
	if g.i >= 0 {
		passed, _ = g.plan.GroupBounds(g.groups[g.i])
	}
	g.i++
	from, _ := g.plan.GroupBounds(g.groups[g.i])
	g.shift += utf8.RuneCountInString(g.sql[passed:from])
	return true
}

// first returns the first statement of the current group.
func (g *Groups) first() *rewrite.Statement { return &g.plan.Statements[g.groups[g.i][0]] }

// Text returns the text of the current group.
func (g *Groups) Text() string {
	from, to := g.plan.GroupBounds(g.groups[g.i])
	return g.sql[from:to]
}

// Shift returns the number of characters in front of the current group.
func (g *Groups) Shift() int { return g.shift }

// BeginsTx reports whether the current group is the first of a client's transaction: the first group of all, or the
// first after the end of a block.
func (g *Groups) BeginsTx() bool { return g.newTx }

// ShareTime reports whether at least two groups, from the current one up to the end of their transaction, may store or
// return the transaction's time. They must then get the same time.
func (g *Groups) ShareTime() bool {
	readers := 0
	for _, group := range g.groups[g.i:] {
		st := &g.plan.Statements[group[0]]
		if st.Tx.Verb.EndsBlock() {
			break
		}
		if st.Tx.Verb == rewrite.Begin || !st.Demand().DDL { // statements after the query may read the time too
			readers++
		}
	}
	return readers >= 2
}

// Committed returns the list of the groups that are committed outside a block, of the client's current transaction. The
// list changes with later groups.
func (g *Groups) Committed() *listing.Statements { return &g.committed }

// IsLast reports whether the current group is the last.
func (g *Groups) IsLast() bool { return g.i+1 == len(g.groups) }

// BeginsBlock reports whether the current group is a BEGIN.
func (g *Groups) BeginsBlock() bool { return g.first().Tx.Verb == rewrite.Begin }

// Ran records that the current group has succeeded. inBlock means that the client is then in a block. In PostgreSQL the
// block of a BEGIN includes the query's earlier statements, so x gets these. The result warns the client of an early
// commit, or is nil.
func (g *Groups) Ran(x *Tx, inBlock bool) *wire.Error {
	if g.BeginsBlock() {
		x.AddCommitted(g.committed)
		g.committed = listing.Statements{}
	}
	if inBlock || g.first().Tx.Verb != rewrite.NoVerb {
		return nil
	}
	var group listing.Statements
	group.Add(g.Text())
	g.committed.AppendAll(group)
	if g.IsLast() {
		return nil
	}
	return CommittedWarning(&group)
}

// Failed returns the warning for a group that has failed while earlier groups remain committed, or nil. inBlock means
// that the client is in a block, whose end warns the client instead.
func (g *Groups) Failed(inBlock bool) *wire.Error {
	if inBlock || g.committed.IsEmpty() {
		return nil
	}
	return remainWarning(&g.committed)
}
