package proxy

import (
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Texts that are run in nested turns, where transactions are committed in parts
// (parts.go): statements outside of their block (runOutside), and strings in groups (runGroups).

// stepsOutside reports whether a statement of a block is run outside of it: one that takes
// several transactions, and one whose job is awaited, unless nothing is beside it so far.
func (s *session) stepsOutside(st *rewrite.Statement) bool {
	p := s.parts
	return !s.staysWhole() && (st.Alters() && !(st.Numbered != nil && st.Numbered.MayStay()) ||
		st.Job == rewrite.AwaitedJob && (p.open.DDL || p.open.Rows || !p.stays.Empty()))
}

// holdsBegin reports a BEGIN that is held back also where it comes by the extended protocol, so
// that what stands behind it in its group may still be run outside of the block, and the modes of
// a SET TRANSACTION may go into it: JDBC puts BEGIN in front of the first statement.
func (s *session) holdsBegin(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && st.Tx.DeferrableBegin()
}

// beginsHere reports whether such a BEGIN is held back as things stand.
func beginsHere(s *session, st *rewrite.Statement) bool {
	return s.holdsBegin(st) && s.state == idle && !s.t.touched
}

// altersOutside is stepsOutside for a portal: it is run at the Sync, with nothing else in its
// group but the BEGIN in front of it.
func (s *session) altersOutside(st *rewrite.Statement) bool {
	return s.commitsParts() && !s.t.touched && s.inBlock() && s.stepsOutside(st)
}

// isOutside reports whether a text is such a statement, and so no part of the block.
func (s *session) isOutside(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Alters() && s.altersOutside(st)
}

// syncOutside is the Sync behind such a portal.
func (s *session) syncOutside(st *rewrite.Statement) error {
	closing := s.t.closing
	text, _ := st.Altered()
	return s.runOutside(st, text, func() (feature.Result, error) {
		return s.runNested(nested{outside: true}, func() error {
			s.t.ended = true
			if err := s.runAltering(st, closing); err != nil {
				return err
			}
			return s.ready()
		})
	})
}

// runOutside runs a statement of a block outside of it: what the block holds is committed, the statement, of that
// text, is run as if no block were open, and the block goes on. The turn is over then. run does it.
func (s *session) runOutside(st *rewrite.Statement, sql string, run func() (feature.Result, error)) error {
	p := s.parts
	if err := s.mayLeave(); err != nil {
		return err
	}
	// What it drops itself is committed at once too: DROP COLUMN among several commands, for one.
	if st.Demand().Drops && p.how != rewrite.CommitDrops {
		var own listing.Statements
		own.Add(sql)
		return errDropsEarly(&own)
	}
	lists := p.listed(s.srv.reads())
	left, err := s.leaveBlock()
	if err != nil {
		return err
	}
	stopped := left.Why()
	if left.Err == nil && !lists.Empty() {
		if err := s.tellPart(&lists); err != nil {
			return err
		}
	}
	var ran feature.Result
	if stopped == nil {
		if ran, err = run(); err != nil {
			return err
		}
	}
	if err := s.beginAnew(); err != nil {
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
		return s.ready()
	}
	var own listing.Statements
	own.Add(sql)
	p.stays.Join(own)
	if err := s.tellPart(&own); err != nil {
		return err
	}
	return s.ready()
}

// runGroups runs a string in groups, until one fails or the client has it stopped. The turn is over then. A comment
// between two groups goes with neither, but one that turns replay off counts for all.
func (s *session) runGroups(plan *rewrite.Plan, sql string, groups [][2]int) error {
	if err := s.mayCut(plan, sql, groups); err != nil {
		return err
	}
	how := nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut([]byte(sql)), shift: s.t.shift}
	var done listing.Statements // of the transactions that no block was around
	begins := true
	for i, g := range groups {
		first := &plan.Statements[g[0]]
		if begins {
			timed, err := s.timeOfGroups(plan, groups[i:])
			if err != nil {
				return err
			}
			how.timed = timed
		}
		begins = endsBlock(first.Tx.Verb)
		from, to := extent(plan, groups, i)
		passed := 0
		if i > 0 {
			passed, _ = extent(plan, groups, i-1)
		}
		how.shift += utf8.RuneCountInString(sql[passed:from])
		how.done = &done
		ran, err := s.nest(sql[from:to], how)
		switch {
		case err != nil:
			return err
		case ran.Failed:
			s.t.errorTold = true
			return s.stopGroups(&done)
		}
		if first.Tx.Verb == rewrite.Begin { // in PostgreSQL the block has what the string has done before
			s.parts.stays.Join(done)
			done = listing.Statements{}
			s.takesTime(how.timed)
		}
		if !s.inBlock() && first.Tx.Verb == rewrite.NoVerb {
			var group listing.Statements
			group.Add(sql[from:to])
			done.Join(group)
			if i+1 < len(groups) {
				err = s.tellPart(&group)
			}
		}
		if err == nil && ran.Stopped != nil && i+1 < len(groups) {
			err = ran.Stopped
		}
		if err != nil {
			return err
		}
	}
	return s.ready()
}

// stopGroups ends the turn of a string at a group that has failed.
func (s *session) stopGroups(done *listing.Statements) error {
	if !done.Empty() && !s.inBlock() {
		if err := s.tell(warnStays(done).AppendNotice(nil, "WARNING")); err != nil {
			return err
		}
	}
	return s.ready()
}

// extent is where a group of a string begins and ends, in bytes.
func extent(plan *rewrite.Plan, groups [][2]int, i int) (from, to int) {
	return plan.Statements[groups[i][0]].Start, plan.Statements[groups[i][1]-1].End
}

// mayCut refuses a string, before anything of it runs, that would lose by being cut what its client counts on: where
// no block is open, a string is a transaction. Within a block makeRoom says so, of what the whole block holds.
func (s *session) mayCut(plan *rewrite.Plan, sql string, groups [][2]int) error {
	at, local := s.position(), false
	for i, g := range groups {
		first, ends := &plan.Statements[g[0]], at.Ends()
		if at.Step(first); first.Tx.Verb == rewrite.Begin || at.Ends() != ends {
			local = false
			continue
		}
		if at.In() {
			continue
		}
		var want rewrite.Demand
		for n := g[0]; n < g[1]; n++ {
			want = want.And(plan.Statements[n].Demand())
		}
		local = local || want.Local
		switch last := i+1 == len(groups); {
		case last:
		case local:
			return errLocalInParts
		case want.Drops && s.parts.policy() != rewrite.CommitDrops:
			from, to := extent(plan, groups, i)
			var name listing.Statements
			name.Add(sql[from:to])
			return errDropsEarly(&name)
		}
	}
	return nil
}

// nest runs a text as a nested turn.
func (s *session) nest(sql string, how nested) (feature.Result, error) {
	return s.runNested(how, func() error { return s.ask(sql) })
}
