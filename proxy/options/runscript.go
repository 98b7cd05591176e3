package options

import (
	"cmp"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Runner is what a Script sees of the session that runs it. An error of a Runner's method ends the Script.
type Runner interface {
	// InBlock reports whether a block is open, of the client or of the Script.
	InBlock() bool
	// Run runs a part of the client's text in a nested turn. before is the number of characters in the text before the
	// part: positions in errors count from the start of the whole text.
	Run(sql string, before int) (feature.NestedResult, error)
	// RunSilently runs BEGIN, COMMIT or ROLLBACK of a block of the Script. The client gets only warnings.
	RunSilently(sql string, want silent.ExpectedAnswer) (feature.NestedResult, error)
	// GiveBlockToClient answers a client's BEGIN, and makes the block of the Script the client's. The BEGIN's modes apply
	// if the block has run no statement yet.
	GiveBlockToClient(begin *rewrite.Statement) error
	// Warn sends the client a warning.
	Warn(warning *wire.Error) error
	// TransactionEnded is the method that a Script calls after a client's COMMIT or ROLLBACK. The next piece belongs to
	// a new transaction, which starts with the current settings.
	TransactionEnded()
}

// Run runs the pieces of the query until one fails or the client cancels. failed means that a piece failed, whose error
// the client has. Without an error the query is over, and the caller ends the turn. The error is for the client, or
// ends the session.
func (c *Script) Run(r Runner) (failed bool, err error) {
	for i := range c.pieces {
		last := i+1 == len(c.pieces)
		done, err := c.handleTxCommand(r, i)
		if err == nil && !done {
			err = c.openOwnBlockFor(r, i, last)
		}
		if err != nil {
			return false, err
		}
		if done {
			continue
		}
		ran, err := c.runPiece(r, i)
		stopped := ran.Stopped
		if last && !c.inOwnBlock { // the cancel came too late
			stopped = nil
		}
		switch {
		case err != nil:
			return false, err
		case ran.Failed, stopped != nil:
			if err := c.undo(r); err != nil {
				return false, err
			}
			if !ran.Failed {
				return false, stopped
			}
			return true, nil
		}
		if !c.leading && c.firstStatement(i).Tx.Verb.EndsBlock() {
			r.TransactionEnded()
		}
	}
	return false, c.endOwnBlock(r, "COMMIT")
}

// undo undoes the statements and options of a query of which a piece has failed or was stopped. Sluice does not end a
// block of the client.
func (c *Script) undo(r Runner) error {
	if c.before != nil {
		c.settings.RestoreLocal(c.before)
	}
	return c.endOwnBlock(r, "ROLLBACK")
}

// firstStatement returns the first statement of piece i. A SET of sluice.* or transaction command is a piece by itself.
func (c *Script) firstStatement(i int) *rewrite.Statement {
	return &c.plan.Statements[c.pieces[i][0]]
}

// runPiece runs piece i of the query as a nested turn.
func (c *Script) runPiece(r Runner, i int) (feature.NestedResult, error) {
	from, to := c.plan.GroupBounds(c.pieces[i])
	if c.leading && i+1 == len(c.pieces) { // as if the client had sent that rest alone
		to = len(c.sql)
	}
	c.chars += utf8.RuneCountInString(c.sql[c.ranBytes:from])
	c.ranBytes = from
	return r.Run(c.sql[from:to], c.chars)
}

// openOwnBlockFor opens a block of Sluice if piece i needs one. The last piece is a transaction by itself and needs
// none, except a SET LOCAL. SET LOCAL alone would cause a warning that PostgreSQL does not send here.
func (c *Script) openOwnBlockFor(r Runner, i int, last bool) error {
	st := c.firstStatement(i)
	if c.leading || r.InBlock() || st.Tx.Verb != rewrite.NoVerb || last && (!namesOptions(st) || setsForSession(st)) {
		return nil
	}
	end, err := r.RunSilently("BEGIN", silent.ExpectBegin)
	if err != nil {
		return err
	}
	c.inOwnBlock = r.InBlock()
	if why := end.Cause(); why != nil {
		return cmp.Or(c.endOwnBlock(r, "ROLLBACK"), why)
	}
	return nil
}

// handleTxCommand handles BEGIN, COMMIT or ROLLBACK of the client inside a block that Sluice has opened. BEGIN makes
// the block the client's, and done is true. COMMIT and ROLLBACK cause a warning, and the caller runs them.
func (c *Script) handleTxCommand(r Runner, i int) (done bool, err error) {
	st := c.firstStatement(i)
	switch {
	case !c.inOwnBlock:
	case st.Tx.Verb == rewrite.Begin:
		c.inOwnBlock = false
		return true, r.GiveBlockToClient(st)
	case st.Tx.Verb.EndsBlock():
		c.inOwnBlock = false
		return false, r.Warn(warnNoOpenTransaction)
	}
	return false, nil
}

// endOwnBlock ends the block that Sluice opened around pieces, if it is open, with sql (COMMIT or ROLLBACK). The error
// is for the client, or ends the session.
func (c *Script) endOwnBlock(r Runner, sql string) error {
	if !c.inOwnBlock {
		return nil
	}
	c.inOwnBlock = false
	want := silent.ExpectCommit
	if sql == "ROLLBACK" {
		want = silent.ExpectRollback
	}
	end, err := r.RunSilently(sql, want)
	if err == nil && end.Err != nil {
		err = end.Err
	}
	return err
}
