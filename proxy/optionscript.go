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

// This file runs multi-statement queries that contain choices (SETs of sluice.*, see options.go) after other
// statements. A choice affects how later statements are planned. So Sluice runs the query in pieces, each in a nested
// turn. The query is cut at each choice and at each BEGIN, COMMIT or ROLLBACK, which may take choices back.
//
// To PostgreSQL the query is one transaction, and its failure undoes a SET. So Sluice silently opens a block around
// pieces outside a client's block. The end of the query or an error ends the block. The client's own commands in the
// query have PostgreSQL's effect:
//
//	BEGIN              makes the block the client's, with all that it has done
//	COMMIT, ROLLBACK   end the block, with the warning that there is no transaction in progress
//
// In the client's own block Sluice opens none. A query for which this fails is refused before any statement has run
// (canRunPiecewise). An error of the final COMMIT follows the last statement's tag. PostgreSQL sends no tag then.

// piecewiseScript is a multi-statement query that Sluice runs in pieces, because it sets choices (sluice.*).
type piecewiseScript struct {
	s        *session
	plan     *rewrite.Plan
	sql      string
	pieces   [][2]int
	how      nestedTurn
	ranBytes int // bytes of sql that have run
	// inOwnBlock is set while the open block is one that Sluice has opened outside a client's block. Other code takes that
	// block for the client's. The turn must not end before the block has ended or has become the client's
	// (giveBlockToClient).
	inOwnBlock bool
}

// queryWithInnerOptions runs a multi-statement query in which a choice (SET of sluice.*) follows other statements. It
// may refuse such a query before any statement has run. For any other query done is false. In a failed block the
// server's error takes precedence.
func (s *session) queryWithInnerOptions(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if len(plan.Statements) < 2 || s.txStatus() == 'E' || !slices.ContainsFunc(plan.Statements, s.changesOptions) {
		return false, nil
	}
	if s.dedicated || s.t.touched || s.state == failed {
		return false, errOptionInScript
	}
	c := piecewiseScript{s: s, plan: plan, sql: string(sql)}
	c.how = nestedTurn{optsOut: s.t.optsOut || s.srv.replays != nil && retry.HasNoRetryComment(sql), shift: s.t.shift}
	// Adjacent statements other than choices (SETs of sluice.*) and transaction commands are one query for the server.
	joins := false
	for i := range plan.Statements {
		st := &plan.Statements[i]
		alone := st.Tx.Verb != rewrite.NoVerb || namesOptions(st)
		if joins && !alone {
			c.pieces[len(c.pieces)-1][1] = i + 1
		} else {
			c.pieces = append(c.pieces, [2]int{i, i + 1})
		}
		joins = !alone
	}
	if !canRunPiecewise(plan, s.blockForNextStatement(), s.b == nil) {
		return false, errOptionInScript
	}
	return true, c.runPieces()
}

// changesOptions reports whether a statement changes the client's choices (sluice.* settings).
func (s *session) changesOptions(st rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		return settings.IsProxySetting(c.Name) || c.Action == rewrite.ResetAll && !s.hasStartupOptions()
	})
}

// namesOptions reports whether a statement sets a choice (sluice.*), or may reset one (RESET ALL).
func namesOptions(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		return settings.IsProxySetting(c.Name) || c.Action == rewrite.ResetAll
	})
}

// canRunPiecewise reports whether Sluice can run a multi-statement query with its transaction commands in pieces. at is
// the session's block before the query. free says that the session has no backend, so that a BEGIN is not sent at once.
// As in PostgreSQL, the result is false for savepoints and AND CHAIN outside a client's block, and late modes in BEGIN.
func canRunPiecewise(plan *rewrite.Plan, at block.Block, free bool) bool {
	fresh := true // the transaction has only choices so far
	for i := range plan.Statements {
		switch st, tx := &plan.Statements[i], &plan.Statements[i].Tx; {
		case tx.Verb == rewrite.NoVerb:
			fresh = fresh && isOptionChange(st)
		case tx.Verb == rewrite.PrepareTransaction, !at.IsOpen() && (tx.Chain || tx.Verb > rewrite.Rollback):
			return false
		case tx.Verb != rewrite.Begin || !at.HasBegun() || at.IsOpen():
		case tx.Deferrable, tx.Isolation == rewrite.Serializable, !(fresh && free) && (tx.ReadOnly || tx.ReadWrite):
			return false
		}
		if at.RecordStatement(&plan.Statements[i]) != block.GoesOn {
			fresh, free = true, false
		}
	}
	return true
}

// runPieces runs the pieces of the query until one fails or the client cancels. After nil the turn is over. A returned
// error goes to the client.
func (c *piecewiseScript) runPieces() error {
	s := c.s
	for i := range c.pieces {
		last := i+1 == len(c.pieces)
		done, err := c.handleTxCommand(i)
		if err == nil && !done {
			err = c.openOwnBlockFor(i, last)
		}
		if err != nil {
			return err
		}
		if done {
			continue
		}
		ran, err := c.runPiece(i)
		stopped := ran.Stopped
		if last && !c.inOwnBlock { // the cancel came too late
			stopped = nil
		}
		switch {
		case err != nil:
			return err
		case ran.Failed, stopped != nil:
			// ROLLBACK of Sluice's block undoes its statements and SETs of sluice.*. Sluice does not end a block of the client.
			if err := c.endOwnBlock("ROLLBACK"); err != nil {
				return err
			}
			if !ran.Failed {
				return stopped
			}
			s.t.errorTold = true
			return s.endTurnLocally()
		}
		// The remaining pieces belong to a new transaction, which starts with the current settings.
		if c.firstStatement(i).Tx.Verb.EndsBlock() {
			s.resetAccessMode()
		}
	}
	if err := c.endOwnBlock("COMMIT"); err != nil {
		return err
	}
	return s.endTurnLocally()
}

// firstStatement returns the first statement of piece i. A SET of sluice.* or transaction command is a piece by itself.
func (c *piecewiseScript) firstStatement(i int) *rewrite.Statement {
	return &c.plan.Statements[c.pieces[i][0]]
}

// runPiece runs piece i of the query as a nested turn. Positions in its errors count from the start of the whole query.
func (c *piecewiseScript) runPiece(i int) (feature.NestedResult, error) {
	from, to := c.plan.GroupBounds(c.pieces[i])
	c.how.shift += utf8.RuneCountInString(c.sql[c.ranBytes:from])
	c.ranBytes = from
	return c.s.runNestedQuery(c.sql[from:to], c.how)
}

// openOwnBlockFor opens a block of Sluice if piece i needs one. The last piece is a transaction by itself and needs
// none, except a SET LOCAL. SET LOCAL alone would cause a warning that PostgreSQL does not send here.
func (c *piecewiseScript) openOwnBlockFor(i int, last bool) error {
	st := c.firstStatement(i)
	if c.s.inBlock() || st.Tx.Verb != rewrite.NoVerb || last && (!namesOptions(st) || isOptionChange(st)) {
		return nil
	}
	end, err := c.runSilently("BEGIN", silent.ExpectBegin)
	if err != nil {
		return err
	}
	c.inOwnBlock = c.s.inBlock()
	if why := end.Cause(); why != nil {
		return cmp.Or(c.endOwnBlock("ROLLBACK"), why)
	}
	return nil
}

// handleTxCommand handles BEGIN, COMMIT or ROLLBACK of the client inside a block that Sluice has opened. BEGIN makes
// the block the client's, and done is true. COMMIT and ROLLBACK cause a warning, and the caller runs them.
func (c *piecewiseScript) handleTxCommand(i int) (done bool, err error) {
	st := c.firstStatement(i)
	switch {
	case !c.inOwnBlock:
	case st.Tx.Verb == rewrite.Begin:
		c.inOwnBlock = false
		return true, c.s.giveBlockToClient(st, []byte(c.sql))
	case st.Tx.Verb.EndsBlock():
		c.inOwnBlock = false
		return false, c.s.queueReply(warnNoOpenTransaction.AppendNotice(nil, "WARNING"))
	}
	return false, nil
}

// giveBlockToClient answers a client's BEGIN, and makes the block that Sluice has opened the client's. The BEGIN's
// modes apply if the block has run no statement yet (canRunPiecewise).
func (s *session) giveBlockToClient(st *rewrite.Statement, sql []byte) (err error) {
	if tx := &st.Tx; (tx.ReadOnly || tx.ReadWrite) && s.state == begun {
		text := beginReadWrite
		if tx.ReadOnly {
			text = "BEGIN READ ONLY"
		}
		if s.deferredBegin, err = s.templateFor([]byte(text), wire.NoOIDs); err != nil {
			return err
		}
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalBegin)
	return s.answerWithWeakenedWarning(st, beginTag(st, sql))
}

// endOwnBlock ends the block that Sluice opened around pieces, if it is open, with sql (COMMIT or ROLLBACK). The client
// gets the error.
func (c *piecewiseScript) endOwnBlock(sql string) error {
	if !c.inOwnBlock {
		return nil
	}
	c.inOwnBlock = false
	want := silent.ExpectCommit
	if sql == "ROLLBACK" {
		want = silent.ExpectRollback
	}
	end, err := c.runSilently(sql, want)
	if err == nil && end.Err != nil {
		err = end.Err
	}
	return err
}

// runSilently runs BEGIN, COMMIT or ROLLBACK of a block that Sluice has opened. The client gets only warnings.
func (c *piecewiseScript) runSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error) {
	c.s.startStatementTimeout()
	return c.s.runNestedQuery(sql, nestedTurn{hiddenAnswer: silent.NewAnswer(want), optsOut: c.how.optsOut})
}

var warnNoOpenTransaction = &wire.Error{Code: "25P01", Message: "there is no transaction in progress"}

var errOptionInScript = &wire.Error{Code: retry.StateUnsupported, Message: "a setting of Sluice's own cannot be changed in this string of several statements",
	Detail: "The statements behind it are planned when it is in force, each in a turn of its own: what the string says about transactions does not go with that, or it comes behind other requests of a pipeline. Nothing of the string was run.",
	Hint:   "Put it first in the string, without LOCAL, or send it by itself; or give the value at the startup: options=-c sluice.<key>=<value>."}
