package proxy

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file runs multi-statement queries with choices (choices.go) in their midst. Statements after a choice are
// planned by it, so that the query is run in pieces, each in a nested turn. It is cut at each choice and at each BEGIN,
// COMMIT or ROLLBACK, which may take choices back.
//
// To PostgreSQL such a query is one transaction, and its failure undoes a SET. So Sluice silently opens a block around
// pieces outside a client's block. The end of the query or an error ends the block. The client's own commands in the
// query have PostgreSQL's effect:
//
//	BEGIN              makes the block the client's, with all that it has done
//	COMMIT, ROLLBACK   end the block, with the warning that there is no transaction in progress
//
// In the client's own block Sluice opens none. A query that cannot be run so is refused before any of it
// (mayChooseInside). An error of the final COMMIT follows the last statement's tag; PostgreSQL sends it in place of the
// tag.

// choiceString is a multi-statement query that is run in pieces.
type choiceString struct {
	s      *session
	plan   *rewrite.Plan
	sql    string
	groups [][2]int
	how    nested
	at     int // bytes of sql that have run
	// around is set while the open block is Sluice's, around pieces outside a client's block. Other code takes it for
	// the client's. So the turn must not end before the block has ended or has become the client's (leaves, takesOver).
	around bool
}

// choosesInString runs a multi-statement query with a choice in it, or refuses it before any of it has run. done is
// false for any other text. In a failed block the server's error comes first.
func (s *session) choosesInString(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if len(plan.Statements) < 2 || s.status() == 'E' || !slices.ContainsFunc(plan.Statements, s.changesChoices) {
		return false, nil
	}
	if s.dedicated || s.t.touched || s.state == failed {
		return false, errChoiceInString
	}
	c := choiceString{s: s, plan: plan, sql: string(sql)}
	c.how = nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut(sql), shift: s.t.shift}
	// Adjacent statements other than choices and transaction commands stay one multi-statement query for the server.
	joins := false
	for i := range plan.Statements {
		st := &plan.Statements[i]
		alone := st.Tx.Verb != rewrite.NoVerb || namesChoices(st)
		if joins && !alone {
			c.groups[len(c.groups)-1][1] = i + 1
		} else {
			c.groups = append(c.groups, [2]int{i, i + 1})
		}
		joins = !alone
	}
	if !mayChooseInside(plan, s.position(), s.b == nil) {
		return false, errChoiceInString
	}
	return true, c.run()
}

// changesChoices reports whether a statement changes the client's choices.
func (s *session) changesChoices(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool {
		return settings.IsOwn(c.Name) || c.Action == rewrite.ResetAll && !s.choosesAsAtStart()
	})
}

// namesChoices reports whether a statement sets a choice, or may reset one (RESET ALL).
func namesChoices(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return settings.IsOwn(c.Name) || c.Action == rewrite.ResetAll })
}

// mayChooseInside reports whether Sluice's block can follow the transaction commands in a multi-statement query. at is
// the session's block before the query; free says that the session has no backend, so that a BEGIN is not sent at once.
// As PostgreSQL does, it refuses savepoints and AND CHAIN outside a client's block, and modes in BEGIN after a query.
func mayChooseInside(plan *rewrite.Plan, at block.Block, free bool) bool {
	fresh := true // the transaction has only choices so far
	for i := range plan.Statements {
		switch st, tx := &plan.Statements[i], &plan.Statements[i].Tx; {
		case tx.Verb == rewrite.NoVerb:
			fresh = fresh && isChoice(st)
		case tx.Verb == rewrite.PrepareTransaction, !at.In() && (tx.Chain || tx.Verb > rewrite.Rollback):
			return false
		case tx.Verb != rewrite.Begin || !at.Began() || at.In():
		case tx.Deferrable, tx.Isolation == rewrite.Serializable, !(fresh && free) && (tx.ReadOnly || tx.ReadWrite):
			return false
		}
		if at.Step(&plan.Statements[i]) != block.GoesOn {
			fresh, free = true, false
		}
	}
	return true
}

// run runs the pieces until one fails or the client cancels. With nil the turn is over. An error is for the client.
func (c *choiceString) run() error {
	s := c.s
	for i := range c.groups {
		last := i+1 == len(c.groups)
		done, err := c.stands(i)
		if err == nil && !done {
			err = c.opens(i, last)
		}
		if err != nil {
			return err
		}
		if done {
			continue
		}
		ran, err := c.piece(i)
		stopped := ran.Stopped
		if last && !c.around { // the cancel came too late
			stopped = nil
		}
		switch {
		case err != nil:
			return err
		case ran.Failed, stopped != nil:
			// ROLLBACK of Sluice's block undoes its statements and choices. A block of the client's is left to the
			// client.
			if err := c.leaves("ROLLBACK"); err != nil {
				return err
			}
			if !ran.Failed {
				return stopped
			}
			s.t.errorTold = true
			return s.ready()
		}
		// The next pieces are of a new transaction, which starts with the current settings.
		if endsBlock(c.first(i).Tx.Verb) {
			s.startsAnew()
		}
	}
	if err := c.leaves("COMMIT"); err != nil {
		return err
	}
	return s.ready()
}

// first returns the first statement of a piece. A choice or transaction command is a piece of its own.
func (c *choiceString) first(i int) *rewrite.Statement { return &c.plan.Statements[c.groups[i][0]] }

// piece runs a piece as a nested turn. Positions in its errors count from the start of the whole text.
func (c *choiceString) piece(i int) (feature.Result, error) {
	from, to := extent(c.plan, c.groups, i)
	c.how.shift += utf8.RuneCountInString(c.sql[c.at:from])
	c.at = from
	return c.s.nest(c.sql[from:to], c.how)
}

// opens opens Sluice's block if the piece needs one. The last piece is a transaction by itself and needs none. SET
// LOCAL is the exception: alone it would draw a warning that PostgreSQL does not send here.
func (c *choiceString) opens(i int, last bool) error {
	st := c.first(i)
	if c.s.inBlock() || st.Tx.Verb != rewrite.NoVerb || last && (!namesChoices(st) || isChoice(st)) {
		return nil
	}
	end, err := c.silently("BEGIN", silent.Begin)
	if err != nil {
		return err
	}
	c.around = c.s.inBlock()
	if why := end.Why(); why != nil {
		return cmp.Or(c.leaves("ROLLBACK"), why)
	}
	return nil
}

// stands handles BEGIN, COMMIT or ROLLBACK of the client inside Sluice's block. BEGIN makes the block the client's, and
// done is true; COMMIT and ROLLBACK draw a warning, and are still to be run.
func (c *choiceString) stands(i int) (done bool, err error) {
	st := c.first(i)
	switch {
	case !c.around:
	case st.Tx.Verb == rewrite.Begin:
		c.around = false
		return true, c.s.takesOver(st, []byte(c.sql))
	case endsBlock(st.Tx.Verb):
		c.around = false
		return false, c.s.tell(warnNoneBegun.AppendNotice(nil, "WARNING"))
	}
	return false, nil
}

// takesOver answers a BEGIN of the client by giving it the block that Sluice has opened. The BEGIN's modes apply if the
// block has run nothing yet (mayChooseInside).
func (s *session) takesOver(st *rewrite.Statement, sql []byte) (err error) {
	if tx := &st.Tx; (tx.ReadOnly || tx.ReadWrite) && s.state == begun {
		text := beginReadWrite
		if tx.ReadOnly {
			text = "BEGIN READ ONLY"
		}
		if s.deferredBegin, err = s.template([]byte(text), wire.NoOIDs); err != nil {
			return err
		}
	}
	s.srv.metrics.LocalAnswer(metrics.LocalBegin)
	return s.tellWeakened(st, beginTag(st, sql))
}

// leaves ends Sluice's block with COMMIT or ROLLBACK, if it is open. An error is for the client.
func (c *choiceString) leaves(sql string) error {
	if !c.around {
		return nil
	}
	c.around = false
	want := silent.Commit
	if sql == "ROLLBACK" {
		want = silent.Rollback
	}
	end, err := c.silently(sql, want)
	if err == nil && end.Err != nil {
		err = end.Err
	}
	return err
}

// silently runs BEGIN, COMMIT or ROLLBACK of Sluice's block. The client gets only warnings.
func (c *choiceString) silently(sql string, want silent.Want) (feature.Result, error) {
	c.s.startClock()
	return c.s.nest(sql, nested{own: silent.New(want), optsOut: c.how.optsOut})
}

var warnNoneBegun = &wire.Error{Code: "25P01", Message: "there is no transaction in progress"}

var errChoiceInString = &wire.Error{Code: retry.StateUnsupported, Message: "a setting of Sluice's own cannot be changed in this string of several statements",
	Detail: "The statements behind it are planned when it is in force, each in a turn of its own: what the string says about transactions does not go with that, or it comes behind other requests of a pipeline. Nothing of the string was run.",
	Hint:   "Put it first in the string, without LOCAL, or send it by itself; or give the value at the startup: options=-c sluice.<key>=<value>."}
