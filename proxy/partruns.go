package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs texts in nested turns when transactions are committed in parts (parts.go). runOutsideBlock runs a
// statement outside its block. runStatementGroups runs a multi-statement query in groups.

// portalRunsOutsideBlock reports whether a portal's statement must run outside its block. The statement runs at the
// Sync, and only the BEGIN may precede it in its group.
func (s *session) portalRunsOutsideBlock(st *rewrite.Statement) bool {
	if !s.mayCommitInParts() {
		return false
	}
	at := s.txPosition()
	return s.parts.RunsOutside(st, &at)
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
	if err := s.parts.CheckOutside(st, sql, s.srv.purity.wasPure()); err != nil {
		return err
	}
	lists := s.parts.Changing(s.srv.purity.wasPure())
	left, err := s.commitOpenPart()
	if err != nil {
		return err
	}
	stopped := left.Cause()
	if left.Err == nil && !lists.IsEmpty() {
		if err := s.warnPartCommitted(ddltx.CommittedWarning(&lists)); err != nil {
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
			s.parts.AddCommitted(own)
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
	if err := s.warnPartCommitted(ddltx.CommittedWarning(&own)); err != nil {
		return err
	}
	return s.endTurnLocally()
}

// runStatementGroups runs a multi-statement query in groups until one fails or the client cancels. Then the turn is
// over. Comments between groups are dropped, but a comment that turns replay off applies to all groups.
func (s *session) runStatementGroups(plan *rewrite.Plan, sql string, bounds [][2]int) error {
	groups, err := s.parts.Split(s.blockForNextStatement(), plan, sql, bounds)
	if err != nil {
		return err
	}
	how := nestedTurn{optsOut: s.t.optsOut || s.srv.replays != nil && retry.HasNoRetryComment([]byte(sql)), committedBefore: groups.Committed()}
	for groups.Next() {
		if groups.BeginsTx() {
			if how.timed, err = s.askTimeForGroups(groups); err != nil {
				return err
			}
		}
		how.shift = s.t.shift + groups.Shift()
		ran, err := s.runNestedQuery(groups.Text(), how)
		switch {
		case err != nil:
			return err
		case ran.Failed:
			s.t.errorTold = true
			return s.stopStatementGroups(groups)
		}
		warning := groups.Ran(s.parts, s.inBlock())
		if groups.BeginsBlock() {
			s.adoptQueryTime(how.timed)
		}
		if warning != nil {
			err = s.warnPartCommitted(warning)
		}
		if err == nil && ran.Stopped != nil && !groups.IsLast() {
			err = ran.Stopped
		}
		if err != nil {
			return err
		}
	}
	return s.endTurnLocally()
}

// stopStatementGroups ends the turn of a multi-statement query after one of its groups of statements has failed.
func (s *session) stopStatementGroups(groups *ddltx.Groups) error {
	if warning := groups.Failed(s.inBlock()); warning != nil {
		if err := s.queueReply(warning.AppendNotice(nil, "WARNING")); err != nil {
			return err
		}
	}
	return s.endTurnLocally()
}
