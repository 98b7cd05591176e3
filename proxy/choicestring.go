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

// Strings with choices (choices.go) in their midst. What stands behind a choice is planned when it
// is in force: so a string is run in pieces, each in a nested turn, cut at each choice
// and at each command about transactions, whose end may take choices back.
//
// To PostgreSQL such a string is one transaction, and a SET in it is undone where it fails. So
// Sluice opens a block around the pieces that the client has opened none for, in silence, and ends
// it with the string, or with the error; a BEGIN or COMMIT of the client's in there does to it what
// it does to that transaction:
//
//	BEGIN              makes the transaction the client's block, with all that it has done
//	COMMIT, ROLLBACK   end it, with PostgreSQL's warning that nobody has begun it
//
// In the client's own block nothing is opened: its pieces are what they would be one by one. What
// cannot be done so is refused before anything is run (mayChooseInside). The error of the COMMIT at
// the end comes behind the last statement's tag, where PostgreSQL has it in the place of that.

// choiceString is a string that is run so.
type choiceString struct {
	s      *session
	plan   *rewrite.Plan
	sql    string
	groups [][2]int
	how    nested
	at     int // how far the string is run, in bytes
	// around: the block that is open is Sluice's, around what the client has opened none for. It
	// is open to the whole of the session, in which a block has no owner: hence the turn must not
	// be over before it is ended, or is the client's (leaves, takesOver).
	around bool
}

// choosesInString runs a string with a choice beside other statements, or refuses it before any of
// it is run; done is false for any other text. In a failed block the server's own error comes
// first.
func (s *session) choosesInString(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if len(plan.Statements) < 2 || s.status() == 'E' || !slices.ContainsFunc(plan.Statements, s.changesChoices) {
		return false, nil
	}
	if s.dedicated || s.t.touched || s.state == failed {
		return false, errChoiceInString
	}
	c := choiceString{s: s, plan: plan, sql: string(sql)}
	c.how = nested{optsOut: s.t.optsOut || s.srv.replays != nil && retry.OptsOut(sql), shift: s.t.shift}
	// Statements that are about neither choices nor transactions stay together: to the server they
	// are one string, as in the client's text.
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

// changesChoices reports whether a statement changes what the client has chosen.
func (s *session) changesChoices(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool {
		return settings.IsOwn(c.Name) || c.Action == rewrite.ResetAll && !s.choosesAsAtStart()
	})
}

// namesChoices reports a statement that is about choices, or may be behind one.
func namesChoices(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.Change) bool { return settings.IsOwn(c.Name) || c.Action == rewrite.ResetAll })
}

// mayChooseInside reports whether the commands about transactions in a string are such as a block
// around it can follow. at is how the session stands in front of it; free: it has no backend, so that a BEGIN is
// held back. Outside of its blocks PostgreSQL takes no savepoint and no AND CHAIN, and behind a
// query it refuses modes.
func mayChooseInside(plan *rewrite.Plan, at block.Block, free bool) bool {
	fresh := true // nothing but choices is in front in the same transaction
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

// run runs the pieces until one fails or the client has it stopped. The turn is over then. An error
// is for the client.
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
		if last && !c.around { // it has come too late
			stopped = nil
		}
		switch {
		case err != nil:
			return err
		case ran.Failed, stopped != nil:
			// What was done in the block around is undone, and with it what was chosen there. In a
			// block of the client's own that is left to the client.
			if err := c.leaves("ROLLBACK"); err != nil {
				return err
			}
			if !ran.Failed {
				return stopped
			}
			s.t.errorTold = true
			return s.ready()
		}
		// The pieces behind it are of another transaction, which begins as the settings say by now.
		if endsBlock(c.first(i).Tx.Verb) {
			s.startsAnew()
		}
	}
	if err := c.leaves("COMMIT"); err != nil {
		return err
	}
	return s.ready()
}

// first is the first statement of a piece; of a choice and of a command about transactions the only
// one.
func (c *choiceString) first(i int) *rewrite.Statement { return &c.plan.Statements[c.groups[i][0]] }

// piece runs a piece as a turn of its own. Positions in its errors are those of the whole text.
func (c *choiceString) piece(i int) (feature.Result, error) {
	from, to := extent(c.plan, c.groups, i)
	c.how.shift += utf8.RuneCountInString(c.sql[c.at:from])
	c.at = from
	return c.s.nest(c.sql[from:to], c.how)
}

// opens opens the block around a piece that no block is around. The last piece needs none: it is a
// transaction by itself, but for a SET LOCAL, of which PostgreSQL does not warn in a string.
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

// stands does what a BEGIN does to the block around, and tells what an end of it is told. done:
// there is nothing to run.
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

// takesOver answers a BEGIN of the client's in a block that Sluice has opened for it. Its modes
// count where the block has run nothing, so that its BEGIN is held back (mayChooseInside).
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

// leaves ends the block around, if it is open. An error is that of its COMMIT, and is for the
// client.
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

// silently runs a command about the block around, as if the client had sent it, and tells it
// nothing but warnings.
func (c *choiceString) silently(sql string, want silent.Want) (feature.Result, error) {
	c.s.startClock()
	return c.s.nest(sql, nested{own: silent.New(want), optsOut: c.how.optsOut})
}

var warnNoneBegun = &wire.Error{Code: "25P01", Message: "there is no transaction in progress"}

var errChoiceInString = &wire.Error{Code: retry.StateUnsupported, Message: "a setting of Sluice's own cannot be changed in this string of several statements",
	Detail: "The statements behind it are planned when it is in force, each in a turn of its own: what the string says about transactions does not go with that, or it comes behind other requests of a pipeline. Nothing of the string was run.",
	Hint:   "Put it first in the string, without LOCAL, or send it by itself; or give the value at the startup: options=-c sluice.<key>=<value>."}
