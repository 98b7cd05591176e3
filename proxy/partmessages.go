package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/ddl"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the warnings and errors that a client gets about a transaction committed in parts (parts.go).

// partialCommitError returns the error that replaces a conflict if a part of the transaction is committed. A client
// that repeats the whole transaction would apply that part twice. For any other error it returns nil.
func (s *session) partialCommitError(class retry.ResultClass, payload []byte) []byte {
	if class != retry.Conflict {
		return nil
	}
	if done := s.committedStatements(); !done.IsEmpty() {
		return errPartialCommit(decodeErrorResponse(payload), done).Append(nil)
	}
	return nil
}

// committedStatements lists the committed statements that the client would send again after a conflict: earlier parts
// of its transaction, or earlier groups of a multi-statement query outside a block.
func (s *session) committedStatements() *listing.Statements {
	switch {
	case s.hasCommittedStatements():
		return &s.parts.committedStatements
	case s.t.nestedTurn.committedBefore != nil:
		return s.t.nestedTurn.committedBefore
	}
	return &listing.Statements{}
}

// retryHint returns the hint for a conflict's error, or "" if errPartialCommit replaces that error and its hint.
func (s *session) retryHint() string {
	if s.committedStatements().IsEmpty() {
		return retry.Hint
	}
	return ""
}

// replacePartialConflict returns the error that replaces Sluice's own error e if e is a conflict and a part of the
// transaction is committed. Otherwise it returns e.
func (s *session) replacePartialConflict(e *wire.Error) *wire.Error {
	if e.Code != retry.StateConflict {
		return e
	}
	if done := s.committedStatements(); !done.IsEmpty() {
		return errPartialCommit(e, done)
	}
	return e
}

// partCommittedWarning is the warning that Sluice has committed a part of the client's transaction early.
func partCommittedWarning(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction",
		Detail: "Committed: " + l.String() + ".", Hint: rewrite.InTransactionsKey + " says so. A ROLLBACK does not take that part back."}
}

// partsRemainWarning is the warning, at a ROLLBACK or a failed multi-statement query, that lists the statements in l,
// which remain committed.
func partsRemainWarning(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "what was committed before stays (" + rewrite.InTransactionsKey + ")", Detail: "Committed: " + l.String() + "."}
}

// errPartialCommit replaces a conflict's error after a part of the transaction was committed.
func errPartialCommit(conflict *wire.Error, l *listing.Statements) *wire.Error {
	return &wire.Error{Code: ddl.CodePartialCommit, Message: "the rest of a transaction that is committed in part met a conflict: " + conflict.Message,
		Detail: "Committed: " + l.String() + ".", Hint: ddl.GoOnHint}
}

// errDropsEarly refuses a commit of a DROP before the end of the client's transaction.
func errDropsEarly(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the transaction drops what holds rows, and would be committed before its end",
		Detail: "It holds: " + l.String() + ".", Hint: rewrite.DropsHint}
}

var (
	errPartInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "the transaction cannot be committed in the middle of a pipeline",
		Detail: "DSQL takes one statement of DDL in a transaction, and no change of rows beside it.", Hint: "Send a Sync in front of the statement."}
	errLocalInParts = &wire.Error{Code: retry.StateUnsupported, Message: "a transaction with SET LOCAL cannot be committed in parts",
		Detail: "What is set until the end of the transaction would be lost.", Hint: "Write SET without LOCAL."}
)
