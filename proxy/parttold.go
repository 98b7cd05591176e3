package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What a client is told of a transaction that is committed in parts (parts.go): warnings, errors,
// and the statements in them.

// partly is what the client is told in the place of a conflict, where a part of its transaction
// is committed: to send the whole again would apply that part twice. nil for any other error.
func (s *session) partly(class retry.Class, payload []byte) []byte {
	if class != retry.Conflict {
		return nil
	}
	if done := s.doneBefore(); !done.Empty() {
		return errPartly(toldBy(payload), done).Append(nil)
	}
	return nil
}

// doneBefore are the statements that are committed of what the client would send again: those of its
// transaction, or in front of the statement at hand in a string that is none any more.
func (s *session) doneBefore() *listing.Statements {
	switch {
	case s.partlyDone():
		return &s.parts.stays
	case s.t.nested.done != nil:
		return s.t.nested.done
	}
	return &listing.Statements{}
}

// retryHint is what a conflict that is told says to do; nothing where errPartly says it.
func (s *session) retryHint() string {
	if s.doneBefore().Empty() {
		return retry.Hint
	}
	return ""
}

// partlyRefused is partly for an error of Sluice's own.
func (s *session) partlyRefused(e *wire.Error) *wire.Error {
	if e.Code != retry.StateConflict {
		return e
	}
	if done := s.doneBefore(); !done.Empty() {
		return errPartly(e, done)
	}
	return e
}

// warnPart is told with each early commit.
func warnPart(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction",
		Detail: "Committed: " + l.String() + ".", Hint: rewrite.InTransactionsKey + " says so. A ROLLBACK does not take that part back."}
}

// warnStays is told with a ROLLBACK, and where a string has stopped.
func warnStays(l *listing.Statements) *wire.Error {
	return &wire.Error{Code: "01000", Message: "what was committed before stays (" + rewrite.InTransactionsKey + ")", Detail: "Committed: " + l.String() + "."}
}

// codePartly stands for that of a conflict (40001) where a part of what the client would send again is
// committed.
const codePartly = "25000"

// errPartly is told in the place of a conflict.
func errPartly(conflict *wire.Error, l *listing.Statements) *wire.Error {
	return &wire.Error{Code: codePartly, Message: "the rest of a transaction that is committed in part met a conflict: " + conflict.Message,
		Detail: "Committed: " + l.String() + ".", Hint: "Do not send the whole transaction again: go on behind what is committed."}
}

// errDropsEarly refuses to commit a DROP that its client has not committed.
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
