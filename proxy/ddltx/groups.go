package ddltx

import (
	"cmp"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Groups is a multi-statement query that Sluice runs in groups of statements, one after the other. Sluice drops
// comments between groups.
type Groups struct {
	plan   *rewrite.Plan
	sql    string
	groups [][2]int
	// committed lists those groups of the client's current transaction that are committed, outside a block.
	committed listing.Statements
}

// Split returns the Groups of a multi-statement query. next is the block's state before the query. The error is for a
// client that relies on one transaction, such as after SET LOCAL. In a block Before checks for that instead, by what
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
	return &Groups{plan: plan, sql: sql, groups: groups}, nil
}

// A GroupRunner is what Groups see of the session that runs them.
type GroupRunner interface {
	CommandRunner
	// InBlock reports whether the client is in a block.
	InBlock() bool
	// FixesTime reports whether Sluice gives all statements of a transaction the same time.
	FixesTime() bool
	// RunGroup runs a group in a nested turn.
	RunGroup(g Group) (feature.NestedResult, error)
	// BlockBegun is the method that Groups call after a group that is a BEGIN. l lists the earlier groups that are
	// committed, and t is their transaction time, or nil (JoinBlock).
	BlockBegun(l listing.Statements, t *txtime.Time)
}

// Group is the group of statements of a multi-statement query that runs now.
type Group struct {
	// Text is the group's text. Before is the number of characters of the query in front of it.
	Text   string
	Before int
	// Time is the transaction time (of now()) that the groups of a client's transaction share, or nil.
	Time *txtime.Time
	// Committed lists those groups of the client's current transaction that are committed, outside a block.
	Committed *listing.Statements
}

// Run runs the groups until one fails or the client cancels. failed means that a group has failed, whose error the
// client has. The error is for the client, or ends the session.
func (g *Groups) Run(r GroupRunner) (failed bool, err error) {
	now, passed := Group{Committed: &g.committed}, 0
	for i, group := range g.groups {
		first, last := &g.plan.Statements[group[0]], i+1 == len(g.groups)
		if i == 0 || g.plan.Statements[g.groups[i-1][0]].Tx.Verb.EndsBlock() { // a transaction of the client begins
			if now.Time, err = g.askTime(r, i); err != nil {
				return false, err
			}
		}
		from, to := g.plan.GroupBounds(group)
		now.Text, now.Before = g.sql[from:to], now.Before+utf8.RuneCountInString(g.sql[passed:from])
		passed = from
		ran, err := r.RunGroup(now)
		switch {
		case err != nil:
			return false, err
		case ran.Failed:
			return true, g.warnFailed(r)
		}
		if first.Tx.Verb == rewrite.Begin { // in PostgreSQL the block includes the query's earlier statements
			r.BlockBegun(g.committed, now.Time)
			g.committed = listing.Statements{}
		}
		if !r.InBlock() && first.Tx.Verb == rewrite.NoVerb {
			err = g.addCommitted(r, now.Text, last)
		}
		if err == nil && ran.Stopped != nil && !last {
			err = ran.Stopped
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// addCommitted records a group that is committed outside a block, and warns the client of that unless the group is the
// last.
func (g *Groups) addCommitted(r GroupRunner, text string, last bool) error {
	var group listing.Statements
	group.Add(text)
	g.committed.AppendAll(group)
	if last {
		return nil
	}
	return r.Warn(committedWarning(&group), true)
}

// warnFailed warns the client of earlier groups that remain committed after a group has failed. In a block the end of
// the block warns the client instead.
func (g *Groups) warnFailed(r GroupRunner) error {
	if g.committed.IsEmpty() || r.InBlock() {
		return nil
	}
	return r.Warn(remainWarning(&g.committed), false)
}

// askTime asks the server for the transaction time that groups share, from group i up to their transaction's end. The
// result is nil in a block, and if the groups need no common time. The error is for the client, or ends the session.
func (g *Groups) askTime(r GroupRunner, i int) (*txtime.Time, error) {
	if r.InBlock() || !r.FixesTime() || !g.shareTime(i) {
		return nil, nil
	}
	asked, err := r.RunSilently(timeQuery, silent.ExpectSelect)
	if why := asked.Cause(); err != nil || why != nil {
		return nil, cmp.Or(err, why)
	}
	of := &txtime.Time{Committed: true}
	for row := range asked.Answer.Rows() {
		if v, ok := timeOfRow(row); ok {
			of.Instant = v
		}
	}
	return of, nil
}

// shareTime reports whether at least two groups, from group i up to the end of their transaction, may store or return
// the transaction's time.
func (g *Groups) shareTime(i int) bool {
	readers := 0
	for _, group := range g.groups[i:] {
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

// JoinBlock adds to a block the statements that precede its BEGIN in a multi-statement query. l lists those of them
// that are committed, and t is their transaction time, or nil.
func (x *Tx) JoinBlock(l listing.Statements, t *txtime.Time) {
	x.committed.AppendAll(l)
	if t != nil {
		x.timed = t
	}
}
