package options

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file cuts multi-statement queries that set options. An option affects how later statements are planned. So
// Sluice runs the query in pieces, each in a nested turn.
//
// A query that only begins with options, as a migration file may (SET sluice.x = 'y'; CREATE TABLE ...), is cut after
// each of them. The rest is one query. Any other query is cut at each SET of an option and at each BEGIN, COMMIT or
// ROLLBACK, which may take options back.
//
// To PostgreSQL the query is one transaction, and its failure undoes a SET. So Sluice silently opens a block around
// pieces outside a client's block. The end of the query or an error ends the block. The client's own commands in the
// query have PostgreSQL's effect:
//
//	BEGIN              makes the block the client's, with all that it has done
//	COMMIT, ROLLBACK   end the block, with the warning that there is no transaction in progress
//
// Inside the client's own block Sluice opens no block. A query that Sluice cannot run in pieces is refused before any
// of its statements has run (canRunPiecewise). An error of the final COMMIT follows the last statement's tag. In this
// case PostgreSQL sends no tag.

// Script is a multi-statement query that Sluice runs in pieces, because it sets options.
type Script struct {
	plan     *rewrite.Plan
	sql      string
	pieces   [][2]int // of each piece, its first statement and the one after its last
	ranBytes int      // bytes of sql that have run, or are running
	chars    int      // characters of sql that have run, or are running
	// leading means that the query begins with all of its options, so that Sluice opens no block.
	leading bool
	// settings are the client's settings. before is the state of the settings that a failure restores, or nil if it
	// restores none.
	settings *settings.Client
	before   *settings.Snapshot
	// inOwnBlock is set while the open block is one that Sluice has opened outside a client's block. Other code takes that
	// block for the client's. The turn must not end before the block has ended or has become the client's.
	inOwnBlock bool
}

// Place says in which state of its session a multi-statement query arrives. The session's block has not failed.
type Place struct {
	// Block is the session's block before the query.
	Block block.Block
	// InBlock means that the client is in a block.
	InBlock bool
	// Free means that the session has no backend, so that a BEGIN is not sent at once.
	Free bool
	// Busy means that no nested turn can run: other requests of the turn precede the query, or Sluice relays the session's
	// frames unread.
	Busy bool
}

// Concern reports whether a text of several statements may set or reset options.
func Concern(plan *rewrite.Plan) bool {
	return len(plan.Statements) > 1 && plan.AnyStatement(namesOptions)
}

// Cut returns the Script of a multi-statement query that sets options, or nil for any other query. from says in which
// state the session is. The error is for the client, and refuses the query before any statement has run.
func (at *State) Cut(plan *rewrite.Plan, sql []byte, from Place) (*Script, *wire.Error) {
	if n, ends := countLeading(plan); n > 0 && (!ends || from.InBlock) && !from.Busy {
		return at.cutLeading(plan, sql, n, from.InBlock), nil
	}
	switch {
	case !plan.AnyStatement(at.changes):
		return nil, nil
	case from.Busy || !canRunPiecewise(plan, from.Block, from.Free):
		return nil, ErrInScript
	}
	c := &Script{plan: plan, sql: string(sql)}
	// Adjacent statements other than options (SETs of sluice.*) and transaction commands are one query for the server.
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
	return c, nil
}

// cutLeading returns the Script of a query that begins with n options and sets no others.
func (at *State) cutLeading(plan *rewrite.Plan, sql []byte, n int, inBlock bool) *Script {
	c := &Script{plan: plan, sql: string(sql), leading: true, settings: at.Settings}
	for i := range n {
		c.pieces = append(c.pieces, [2]int{i, i + 1})
	}
	c.pieces = append(c.pieces, [2]int{n, len(plan.Statements)})
	if !inBlock { // in a block the client's ROLLBACK takes the options back, like other settings
		c.before = at.Settings.Snapshot()
	}
	return c
}

// changes reports whether a statement changes the client's options.
func (at *State) changes(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		return settings.IsProxySetting(c.Name) || c.Action == rewrite.ResetAll && !equal(at.Current, at.Settings.StartupOptions())
	})
}

// equal reports whether two clients' options have equal values. nil means the configuration's options.
func equal(a, b *rewrite.ClientOptions) bool { return a == b || a != nil && b != nil && *a == *b }

// countLeading returns how many options (SETs of sluice.*) a multi-statement query begins with. If a later statement is
// also one, it returns 0. ends reports whether a later statement begins or ends a transaction. SET LOCAL is not
// counted, since it needs a transaction. set_config is not counted, since it returns a row.
func countLeading(plan *rewrite.Plan) (n int, ends bool) {
	// The parser has produced no list of statements for a query that it could not parse.
	if len(plan.Statements) < 2 || plan.Kind == rewrite.Unknown || !setsForSession(&plan.Statements[0]) {
		return 0, false
	}
	for n < len(plan.Statements) && setsForSession(&plan.Statements[n]) {
		n++
	}
	for i := n; i < len(plan.Statements); i++ {
		if ends = ends || plan.Statements[i].Tx.Verb != rewrite.NoVerb; namesOptions(&plan.Statements[i]) {
			return 0, false
		}
	}
	if n == len(plan.Statements) {
		n-- // the last option takes the place of the rest
	}
	return n, ends
}

// setsForSession reports whether a statement is SET or RESET of a setting of Sluice (sluice.*), other than SET LOCAL.
func setsForSession(st *rewrite.Statement) bool {
	return st.SetConfigColumns == nil && len(st.Changes) == 1 && settings.IsProxySetting(st.Changes[0].Name) && (st.Changes[0].Action == rewrite.Set || st.Changes[0].Action == rewrite.Reset)
}

// namesOptions reports whether a statement sets an option (sluice.*), or may reset one (RESET ALL).
func namesOptions(st *rewrite.Statement) bool {
	return slices.ContainsFunc(st.Changes, func(c rewrite.SettingChange) bool {
		return settings.IsProxySetting(c.Name) || c.Action == rewrite.ResetAll
	})
}

// canRunPiecewise reports whether Sluice can run a multi-statement query with its transaction commands in pieces. at is
// the session's block before the query. free says that the session has no backend, so that a BEGIN is not sent at once.
// As in PostgreSQL, the result is false for savepoints and AND CHAIN outside a client's block, and late modes in BEGIN.
func canRunPiecewise(plan *rewrite.Plan, at block.Block, free bool) bool {
	fresh := true // the transaction has only options so far
	for i := range plan.Statements {
		switch st, tx := &plan.Statements[i], &plan.Statements[i].Tx; {
		case tx.Verb == rewrite.NoVerb:
			fresh = fresh && setsForSession(st)
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

// ErrInScript is the error for a change of options that a multi-statement query cannot make.
var ErrInScript = &wire.Error{Code: retry.StateUnsupported, Message: "a setting of Sluice's own cannot be changed in this string of several statements",
	Detail: "The statements behind it are planned when it is in force, each in a turn of its own: what the string says about transactions does not go with that, or it comes behind other requests of a pipeline. Nothing of the string was run.",
	Hint:   "Put it first in the string, without LOCAL, or send it by itself; or give the value at the startup: options=-c sluice.<key>=<value>."}

// warnNoOpenTransaction warns of a client's COMMIT or ROLLBACK without a block of the client.
var warnNoOpenTransaction = &wire.Error{Code: "25P01", Message: "there is no transaction in progress"}
