package access

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Turn is the access mode in one turn of a client, and what Turn.Check has found in the client's last text. The zero
// Turn is in the mode ReadWrite and has checked no text.
type Turn struct {
	// Mode is the access mode of a transaction that begins at the client's next statement.
	Mode Mode
	// denied is the error of a statement of a multi-statement query that the access mode forbids, or nil.
	denied *wire.Error
	// beginReadOnly means that Sluice sends a BEGIN in the text as BEGIN READ ONLY.
	beginReadOnly bool
}

// Position describes the session in which a client's text arrives.
type Position struct {
	// Block is the session's block before the text.
	Block block.Block
	// Failed means that the block has failed, so that only a statement that ends the block can succeed.
	Failed bool
	// First means that the text begins the turn.
	First bool
	// Settings has the client's settings.
	Settings *settings.Client
}

// BeginCheck begins the check of a plan's text. It reports whether Check must be called: for most texts it need not.
func (t *Turn) BeginCheck(plan *rewrite.Plan) (needed bool) {
	t.denied, t.beginReadOnly = nil, false
	st := plan.SingleStatement()
	return t.Mode != ReadWrite || len(plan.Statements) > 1 || st != nil && st.Tx.Verb == rewrite.Begin
}

// Check returns the error of a text that may write outside a block in a READ ONLY transaction, or nil. A text that
// looks like a read may still write (ErrMayWrite). In a multi-statement query only the refused statement fails, by
// the error that ScriptError returns, and no later statement runs.
func (t *Turn) Check(plan *rewrite.Plan, at Position) *wire.Error {
	if at.Failed && (len(plan.Statements) == 0 || !plan.Statements[0].Tx.Verb.EndsBlock()) {
		return nil
	}
	if len(plan.Statements) == 0 && plan.Kind == rewrite.Unknown && t.Mode != ReadWrite && !at.Block.IsOpen() {
		return ErrMayWrite
	}
	c := check{t: t, settings: at.Settings, mode: t.Mode, at: at.Block, first: at.First, several: len(plan.Statements) > 1}
	for i := range plan.Statements {
		err := c.checkStatement(&plan.Statements[i])
		if err != nil && (err.Code == CodeReadOnly || err == errModesLate) && c.several {
			t.denied = err // the first refused statement fails, after the earlier statements have run
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AddsReadOnly reports whether Sluice sends a BEGIN outside a block as BEGIN READ ONLY. Inside a block a second BEGIN
// does not change the access mode, as in PostgreSQL.
func (t *Turn) AddsReadOnly(tx *rewrite.TxControl) bool { return t.Mode == ReadOnly && LacksMode(tx) }

// BeginsReadOnly reports whether Sluice sends the BEGIN in the checked text as BEGIN READ ONLY.
func (t *Turn) BeginsReadOnly() bool { return t.beginReadOnly }

// NeedsSubstitutes reports whether Sluice must not send the checked text without replacing one of its statements.
func (t *Turn) NeedsSubstitutes() bool { return t.denied != nil || t.beginReadOnly }

// ScriptError returns the error for a checked text in which Sluice should replace a statement but does not, or nil.
func (t *Turn) ScriptError() *wire.Error {
	switch {
	case t.denied != nil:
		return t.denied
	case t.beginReadOnly:
		return errModeInString
	}
	return nil
}

// AnswersShow reports whether Sluice itself answers a SHOW of the setting name, with "on": name shows the access
// mode, which is READ ONLY. In a block the server answers, according to the BEGIN that it got.
func (t *Turn) AnswersShow(name string, inBlock bool) bool {
	return name == Setting && t.Mode == ReadOnly && !inBlock
}

// check tracks the session's block through the statements of a text. mode is the access mode of a transaction outside a
// block. first means that the statement is the first of its transaction. several means that the text is a
// multi-statement query, in which no statement runs after a failed one.
type check struct {
	t        *Turn
	settings *settings.Client
	mode     Mode
	at       block.Block
	first    bool
	several  bool
	changed  bool // an earlier statement changes the mode of later transactions
	unknown  bool // a transaction has ended after that change, so that the next mode is unknown
}

// checkStatement returns the error of one statement in a READ ONLY transaction, or nil.
func (c *check) checkStatement(st *rewrite.Statement) *wire.Error {
	if c.unknown {
		return errModeInString
	}
	var err *wire.Error
	switch tx := &st.Tx; {
	case tx.Verb == rewrite.Begin:
		err = c.checkBegin(tx)
	case tx.Verb.EndsBlock():
		c.mode, c.unknown = NextMode(c.settings), c.changed
	case c.several && isDDLInReadOnly(&c.at, st):
		err = WriteError(st, ReadOnly)
	case c.at.IsOpen() || c.mode == ReadWrite:
	case c.several && tx.Verb == rewrite.SetTransaction && tx.ReadWrite:
		err = errModeInString // READ WRITE would count for later statements, and DSQL does not accept it
	default:
		err = WriteError(st, c.mode)
	}
	c.at.RecordStatement(st)
	c.changed, c.first = c.changed || mayChangeMode(st, c.settings), false
	return err
}

// checkBegin returns the error of a BEGIN, or nil. READ WRITE after other statements is too late, as in PostgreSQL.
func (c *check) checkBegin(tx *rewrite.TxControl) *wire.Error {
	switch {
	case isModeTooLate(&c.at, tx):
		return errModesLate
	case c.at.IsOpen() || c.mode == ReadWrite:
	case c.mode == Unsure && LacksMode(tx):
		return errModeUnsure
	case c.mode == ReadOnly && tx.ReadWrite && !c.first:
		return errBeginInPipeline
	case c.mode == ReadOnly && LacksMode(tx):
		c.t.beginReadOnly = true
	}
	return nil
}
