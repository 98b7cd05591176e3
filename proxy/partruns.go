package proxy

import (
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs texts in nested turns when transactions are committed in parts (parts.go). runOutside runs a statement
// outside its block, runGroups a multi-statement query in groups.

// stepsOutside reports whether a statement of a block must run outside the block. That is so if it takes several
// transactions, or if its index job is awaited while the block contains anything else.
func (s *session) stepsOutside(st *rewrite.Statement) bool {
	p := s.parts
	return !s.staysWhole() && (st.Alters() && !(st.Numbered != nil && st.Numbered.MayStay()) ||
		st.Job == rewrite.AwaitedJob && (p.open.DDL || p.open.Rows || !p.stays.Empty()))
}

// holdsBegin reports whether Sluice delays a BEGIN until the next statement, also in the extended protocol. The next
// statement may then run outside the block, and SET TRANSACTION may change the BEGIN. JDBC sends BEGIN in the first
// statement's group.
func (s *session) holdsBegin(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && st.Tx.DeferrableBegin()
}

// beginsHere reports whether such a BEGIN is delayed in the session's current state.
func beginsHere(s *session, st *rewrite.Statement) bool {
	return s.holdsBegin(st) && s.state == idle && !s.t.touched
}

// altersOutside reports whether a portal's statement must run outside its block, as by stepsOutside. It runs at the
// Sync, and its group may have only the BEGIN before it.
func (s *session) altersOutside(st *rewrite.Statement) bool {
	return s.commitsParts() && !s.t.touched && s.inBlock() && s.stepsOutside(st)
}

// isOutside reports whether a text is a single statement that must run outside its block.
func (s *session) isOutside(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && st.Alters() && s.altersOutside(st)
}

// syncOutside runs such a portal's statement at the Sync.
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

// runOutside commits the open part, runs st as if no block were open by calling run, and begins the block again. Then
// the turn is over. sql is the text of st.
func (s *session) runOutside(st *rewrite.Statement, sql string, run func() (feature.Result, error)) error {
	p := s.parts
	if err := s.mayLeave(); err != nil {
		return err
	}
	// The statement's own DROP is committed early too, such as a DROP COLUMN among several commands of ALTER TABLE.
	if st.Demand().Drops && p.how != rewrite.CommitDrops {
		var own listing.Statements
		own.Add(sql)
		return errDropsEarly(&own)
	}
	lists := p.listed(s.srv.purity.readLast())
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

// runGroups runs a multi-statement query in groups until one fails or the client cancels. Then the turn is over.
// Comments between groups are dropped, but one that turns replay off applies to all groups.
func (s *session) runGroups(plan *rewrite.Plan, sql string, groups [][2]int) error {
	if err := s.mayCut(plan, sql, groups); err != nil {
		return err
	}
	how := nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut([]byte(sql)), shift: s.t.shift}
	var done listing.Statements // groups committed outside a block
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
		if first.Tx.Verb == rewrite.Begin { // in PostgreSQL the block includes the query's earlier statements
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

// stopGroups ends the turn of a multi-statement query after a group has failed.
func (s *session) stopGroups(done *listing.Statements) error {
	if !done.Empty() && !s.inBlock() {
		if err := s.tell(warnStays(done).AppendNotice(nil, "WARNING")); err != nil {
			return err
		}
	}
	return s.ready()
}

// extent returns where group i begins and ends in the text, in bytes.
func extent(plan *rewrite.Plan, groups [][2]int, i int) (from, to int) {
	return plan.Statements[groups[i][0]].Start, plan.Statements[groups[i][1]-1].End
}

// mayCut refuses a multi-statement query whose client relies on one transaction, such as after SET LOCAL, before any of
// it runs. In a block makeRoom decides instead, by what the whole block contains.
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

// nest runs a text in a nested turn.
func (s *session) nest(sql string, how nested) (feature.Result, error) {
	return s.runNested(how, func() error { return s.ask(sql) })
}
