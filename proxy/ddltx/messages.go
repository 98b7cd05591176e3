package ddltx

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the warnings and errors that a client gets about a transaction committed in parts.

// codePartialCommit is the SQLSTATE that replaces a conflict's 40001 if a part of the transaction is committed.
// goOnHint is the hint of that error.
const (
	codePartialCommit = "25000"
	goOnHint          = "Do not send the whole transaction again: go on behind what is committed."
)

// Remain returns the warning for the end of a block that rolls back while earlier parts remain committed, or nil. st is
// the end of the block, and failed means that the block has failed.
func (x *Tx) Remain(st *rewrite.Statement, failed bool) *wire.Error {
	if rollsBack := st.Tx.Verb == rewrite.Rollback || failed; !rollsBack || x.committed.IsEmpty() {
		return nil
	}
	return remainWarning(&x.committed)
}

// committedWarning returns the warning that Sluice has committed a part of the client's transaction early. l lists the
// statements of the part.
func committedWarning(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction",
		Detail: "Committed: " + l.String() + ".", Hint: rewrite.InTransactionsKey + " says so. A ROLLBACK does not take that part back."}
}

// remainWarning returns the warning, at a ROLLBACK or a failed multi-statement query, that lists the statements in l,
// which remain committed.
func remainWarning(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "what was committed before stays (" + rewrite.InTransactionsKey + ")", Detail: "Committed: " + l.String() + "."}
}

// ErrPartialCommit returns the error that replaces a conflict's error if a part of the transaction is committed. A
// client that repeats the whole transaction would apply that part twice. l lists the committed statements. If l is
// empty, the result is nil.
func ErrPartialCommit(conflict *wire.Error, l *listing.Statements) *wire.Error {
	if l.IsEmpty() {
		return nil
	}
	return &wire.Error{Code: codePartialCommit, Message: "the rest of a transaction that is committed in part met a conflict: " + conflict.Message,
		Detail: "Committed: " + l.String() + ".", Hint: goOnHint}
}

// ReplaceConflict returns the error that replaces Sluice's own error e if e is a conflict and committed is not empty.
// Otherwise it returns e.
func ReplaceConflict(e *wire.Error, committed *listing.Statements) *wire.Error {
	if e.Code != retry.StateConflict {
		return e
	}
	return cmp.Or(ErrPartialCommit(e, committed), e)
}

// RetryHint returns the hint for a conflict's error, or "" if ErrPartialCommit replaces that error and its hint.
func RetryHint(committed *listing.Statements) string {
	if committed.IsEmpty() {
		return retry.Hint
	}
	return ""
}

// ErrUnknownCursor returns PostgreSQL's error for an unknown cursor. If the cursor has ended with a committed part of
// the transaction, DETAIL says so.
func (x *Tx) ErrUnknownCursor(name string) *wire.Error {
	e := &wire.Error{Code: "34000", Message: fmt.Sprintf("cursor \"%s\" does not exist", name)}
	if !x.Committed().IsEmpty() {
		e.Detail = "A part of the transaction is committed (" + rewrite.InTransactionsKey + "), and its cursors have ended with it."
		e.Hint = "Declare the cursor WITH HOLD, or read it before the next statement of DDL."
	}
	return e
}

// errDropsEarly returns the error that refuses to commit a DROP before the end of the client's transaction.
func errDropsEarly(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the transaction drops what holds rows, and would be committed before its end",
		Detail: "It holds: " + l.String() + ".", Hint: rewrite.DropsHint}
}

var (
	errInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "the transaction cannot be committed in the middle of a pipeline",
		Detail: "DSQL takes one statement of DDL in a transaction, and no change of rows beside it.", Hint: "Send a Sync in front of the statement."}
	errLocal = &wire.Error{Code: retry.StateUnsupported, Message: "a transaction with SET LOCAL cannot be committed in parts",
		Detail: "What is set until the end of the transaction would be lost.", Hint: "Write SET without LOCAL."}
)

// errNotBegun returns the error that ends the session if a block could not begin again after the COMMIT of a part.
// why is the error of the BEGIN. uncommitted is the error of that COMMIT, or nil.
func (x *Tx) errNotBegun(why, uncommitted *wire.Error) *wire.Error {
	e := &wire.Error{Fatal: true, Code: why.Code, Message: "the transaction could not be begun again: " + why.Message, Detail: why.Detail, Hint: why.Hint}
	switch {
	case uncommitted == nil:
	case uncommitted.Code == "08007":
		e.Code, e.Detail, e.Hint = uncommitted.Code, "Whether the part before is committed is not known: "+uncommitted.Message+".", uncommitted.Hint
	default:
		e.Code, e.Detail, e.Hint = uncommitted.Code, "The part before is not committed: "+uncommitted.Message+".", ""
	}
	if x.committed.IsEmpty() {
		return e
	}
	if e.Code == retry.StateConflict {
		e.Code, e.Hint = codePartialCommit, goOnHint
	}
	e.Detail = strings.TrimSpace(e.Detail + " Committed: " + x.committed.String() + ".")
	return e
}
