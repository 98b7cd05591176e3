package proxy

import (
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs texts in nested turns when transactions are committed in parts (parts.go). runOutsideBlock runs a
// statement outside its block. runStatementGroups runs a multi-statement query in groups.

// mustRunOutsideBlock reports whether a statement of a block must run outside the block. One reason is that the
// statement takes several transactions. The other is that its index job is awaited, and the block has other changes.
func (s *session) mustRunOutsideBlock(st *rewrite.Statement) bool {
	p := s.parts
	return !s.mustStayWhole() && (st.MustRunInSteps() ||
		st.Job == rewrite.AwaitedJob && (p.openDemand.DDL || p.openDemand.Rows || !p.committedStatements.IsEmpty()))
}

// portalRunsOutsideBlock reports whether a portal's statement must run outside its block (mustRunOutsideBlock). The
// statement runs at the Sync, and only the BEGIN may precede it in its group.
func (s *session) portalRunsOutsideBlock(st *rewrite.Statement) bool {
	return s.mayCommitInParts() && !s.t.touched && s.inBlock() && s.mustRunOutsideBlock(st)
}

// queryRunsOutsideBlock reports whether a text is a single statement that must run outside its block.
func (s *session) queryRunsOutsideBlock(plan *rewrite.Plan) bool {
	st := plan.SingleStatement()
	return st != nil && st.MayRunInSteps() && s.portalRunsOutsideBlock(st)
}

// runOutsideAtSync runs a portal's statement outside its block, at the Sync.
func (s *session) runOutsideAtSync(st *rewrite.Statement) error {
	closing := s.t.closing
	text, _ := st.StepTextAndTag()
	return s.runOutsideBlock(st, text, func() (feature.NestedResult, error) {
		return s.runNestedTurn(nestedTurn{outsideBlock: true}, func() error {
			s.t.ended = true
			if err := s.runDeferredAlter(st, closing); err != nil {
				return err
			}
			return s.endTurnLocally()
		})
	})
}

// runOutsideBlock commits the open part of a block, calls run to run st outside a block, and begins the block again.
// Then the turn is over. sql is the text of st.
func (s *session) runOutsideBlock(st *rewrite.Statement, sql string, run func() (feature.NestedResult, error)) error {
	p := s.parts
	if err := s.checkEarlyCommit(); err != nil {
		return err
	}
	// If the statement itself contains a DROP (a DROP COLUMN in ALTER TABLE, say), that DROP would be committed early too.
	if st.Demand().Drops && p.inTransactions != rewrite.CommitDrops {
		var own listing.Statements
		own.Add(sql)
		return errDropsEarly(&own)
	}
	lists := p.changingStatements(s.srv.purity.wasPure())
	left, err := s.commitOpenPart()
	if err != nil {
		return err
	}
	stopped := left.Cause()
	if left.Err == nil && !lists.IsEmpty() {
		if err := s.warnPartCommitted(&lists); err != nil {
			return err
		}
	}
	var ran feature.NestedResult
	var own listing.Statements
	if stopped == nil {
		if ran, err = run(); err != nil {
			return err
		}
		if own.Add(sql); !ran.Failed {
			p.committedStatements.AppendAll(own)
		}
	}
	if err := s.beginNextPart(left.Err); err != nil {
		return err
	}
	switch {
	case stopped != nil:
		return stopped
	case ran.Failed:
		s.t.errorTold = true
		if err := s.failBlock(); err != nil {
			return err
		}
		return s.endTurnLocally()
	}
	if err := s.warnPartCommitted(&own); err != nil {
		return err
	}
	return s.endTurnLocally()
}

// runStatementGroups runs a multi-statement query in groups until one fails or the client cancels. Then the turn is
// over. Comments between groups are dropped, but a comment that turns replay off applies to all groups.
func (s *session) runStatementGroups(plan *rewrite.Plan, sql string, groups [][2]int) error {
	if err := s.checkSplittable(plan, sql, groups); err != nil {
		return err
	}
	how := nestedTurn{optsOut: s.t.optsOut || s.srv.replays != nil && retry.HasNoRetryComment([]byte(sql)), shift: s.t.shift}
	var done listing.Statements // groups committed outside a block
	begins := true
	for i, g := range groups {
		first := &plan.Statements[g[0]]
		if begins {
			timed, err := s.askTimeForGroups(plan, groups[i:])
			if err != nil {
				return err
			}
			how.timed = timed
		}
		begins = first.Tx.Verb.EndsBlock()
		from, to := plan.GroupBounds(g)
		passed := 0
		if i > 0 {
			passed, _ = plan.GroupBounds(groups[i-1])
		}
		how.shift += utf8.RuneCountInString(sql[passed:from])
		how.committedBefore = &done
		ran, err := s.runNestedQuery(sql[from:to], how)
		switch {
		case err != nil:
			return err
		case ran.Failed:
			s.t.errorTold = true
			return s.stopStatementGroups(&done)
		}
		if first.Tx.Verb == rewrite.Begin { // in PostgreSQL the block includes the query's earlier statements
			s.parts.committedStatements.AppendAll(done)
			done = listing.Statements{}
			s.adoptQueryTime(how.timed)
		}
		if !s.inBlock() && first.Tx.Verb == rewrite.NoVerb {
			var group listing.Statements
			group.Add(sql[from:to])
			done.AppendAll(group)
			if i+1 < len(groups) {
				err = s.warnPartCommitted(&group)
			}
		}
		if err == nil && ran.Stopped != nil && i+1 < len(groups) {
			err = ran.Stopped
		}
		if err != nil {
			return err
		}
	}
	return s.endTurnLocally()
}

// stopStatementGroups ends the turn of a multi-statement query after one of its groups of statements has failed.
func (s *session) stopStatementGroups(done *listing.Statements) error {
	if !done.IsEmpty() && !s.inBlock() {
		if err := s.queueReply(partsRemainWarning(done).AppendNotice(nil, "WARNING")); err != nil {
			return err
		}
	}
	return s.endTurnLocally()
}

// checkSplittable refuses a multi-statement query whose client relies on one transaction, such as after SET LOCAL,
// before any of its statements runs. In a block commitPartIfNeeded decides instead, by what the whole block contains.
func (s *session) checkSplittable(plan *rewrite.Plan, sql string, groups [][2]int) error {
	at, local := s.blockForNextStatement(), false
	for i, g := range groups {
		first, ends := &plan.Statements[g[0]], at.EndedTxCount()
		if at.RecordStatement(first); first.Tx.Verb == rewrite.Begin || at.EndedTxCount() != ends {
			local = false
			continue
		}
		if at.IsOpen() {
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
			return errLocalInParts
		case want.Drops && s.parts.commitPolicy() != rewrite.CommitDrops:
			from, to := plan.GroupBounds(g)
			var name listing.Statements
			name.Add(sql[from:to])
			return errDropsEarly(&name)
		}
	}
	return nil
}
