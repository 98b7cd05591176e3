package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs texts in nested turns when transactions are committed in parts (parts.go). runOutsideBlock runs a
// statement outside its block. runStatementGroups runs a multi-statement query in groups.

// portalRunsOutsideBlock reports whether a portal's statement must run outside its block. It runs at the Sync, and
// since the last Sync only the BEGIN may precede it.
func (s *session) portalRunsOutsideBlock(st *rewrite.Statement) bool {
	if !s.parts.IsOn() {
		return false
	}
	at := s.txPosition()
	return s.parts.MustRunOutside(st, &at)
}

// runOutsideAtSync runs a portal's statement outside its block, at the Sync.
func (s *session) runOutsideAtSync(st *rewrite.Statement) error {
	closing := s.t.request.closing
	text, _ := st.StepTextAndTag()
	return s.runOutsideBlock(st, text, func() (feature.NestedResult, error) {
		return s.runNestedTurn(nestedTurn{outsideBlock: true}, func() error {
			s.t.request.ended = true
			if err := s.runDeferredAlter(st, closing); err != nil {
				return err
			}
			return s.endTurnLocally()
		})
	})
}

// runOutsideBlock commits what a block has not committed yet, calls run to run st outside a block, and begins the
// block again. Then the turn is over. sql is the text of st.
func (s *session) runOutsideBlock(st *rewrite.Statement, sql string, run func() (feature.NestedResult, error)) error {
	failed, err := s.parts.RunOutside(partRunner{s}, st, sql, run)
	if err != nil {
		return err
	}
	if failed {
		s.t.server.errorTold = true
		if err := s.failBlock(); err != nil {
			return err
		}
	}
	return s.endTurnLocally()
}

// runStatementGroups runs a multi-statement query in groups (a nested turn each) until one fails or the client
// cancels, and ends the turn. It drops comments between groups, but one that turns replay off applies to all groups.
func (s *session) runStatementGroups(plan *rewrite.Plan, sql string, bounds [][2]int) error {
	groups, err := s.parts.Split(s.blockForNextStatement(), plan, sql, bounds)
	if err != nil {
		return err
	}
	failed, err := groups.Run(&groupRunner{partRunner{s}, s.t.nested.optsOut || s.srv.pool.replays != nil && retry.HasNoRetryComment([]byte(sql))})
	s.t.server.errorTold = s.t.server.errorTold || failed
	if err != nil {
		return err
	}
	return s.endTurnLocally()
}

// partRunner runs the commands that package ddltx chooses, such as COMMIT, in a session.
type partRunner struct{ s *session }

func (r partRunner) RunSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	return r.s.runSilentCommand(sql, want)
}

func (r partRunner) Warn(warning *wire.Error, early bool) error {
	if early {
		r.s.srv.metrics.CountEarlyCommit()
	}
	return r.s.queueReply(warning.AppendNotice(nil, "WARNING"))
}

func (r partRunner) OpenPart() ddltx.OpenPart {
	s := r.s
	return ddltx.OpenPart{Savepoints: s.tx.log.SavepointNames(), Empty: s.emptySavepoints(), Options: s.currentOptions(), OptedOut: s.tx.optedOut,
		SeenTime: s.tx.earlierTime, AskedTime: s.tx.asked.instant}
}

func (r partRunner) PureReads() bool { return r.s.srv.pool.purity.WasPure() }

func (r partRunner) ReadsClock() bool { return r.s.partReadsClock() }

func (r partRunner) Commit(asksTime bool) (feature.NestedResult, error) {
	r.s.t.clock.Start(r.s.settings.StatementTimeout())
	return r.s.runNestedQuery("COMMIT", nestedTurn{hiddenAnswer: silent.NewAnswer(silent.ExpectCommit), outsideBlock: true, asksTime: asksTime})
}

func (r partRunner) CommitSkipped() bool { return r.s.b != nil && r.s.b.status != 'I' }

func (r partRunner) Begin(optedOut bool, t *txtime.Time) (begun feature.NestedResult, err error) {
	s := r.s
	if s.pin.IsLost() { // the session ends
		return begun, nil
	}
	begun, err = s.runSilentCommand("BEGIN", silent.ExpectBegin)
	s.tx.optOutOfReplay(optedOut)
	s.tx.earlierTime = t
	s.tx.watched = s.tx.watched || !s.stored.IsEmpty() // endStoredCursors
	return begun, err
}

// groupRunner runs a multi-statement query in groups, for package ddltx.
type groupRunner struct {
	partRunner
	optsOut bool // of replay
}

func (r *groupRunner) InBlock() bool { return r.s.inBlock() }

func (r *groupRunner) FixesTime() bool { return r.s.srv.pool.keeper.Maps() }

func (r *groupRunner) RunGroup(g ddltx.Group) (feature.NestedResult, error) {
	return r.s.runNestedQuery(g.Text, nestedTurn{amidOthers: true, optsOut: r.optsOut, shift: r.s.t.nested.shift + g.Before, timed: g.Time, committedBefore: g.Committed})
}

func (r *groupRunner) BlockBegun(l listing.Statements, t *txtime.Time) {
	s := r.s
	if !s.inBlock() {
		t = nil
	}
	if s.parts.JoinBlock(l, t); t != nil {
		s.tx.earlierTime = t
	}
}
