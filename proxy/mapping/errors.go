package mapping

import (
	"errors"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// RefusedError is the server's error for a query that reads the schema. The backend remains usable.
type RefusedError struct{ Code, Message string }

// Error returns the server's SQLSTATE and message, for the log.
func (e *RefusedError) Error() string { return serverSaid + e.Code + ": " + e.Message }

// serverSaid is the start of a RefusedError's text.
const serverSaid = "the server said "

// isRefusal reports whether err is the text of a RefusedError: reading the schema failed with the server's error.
func isRefusal(err error) bool { return err != nil && strings.HasPrefix(err.Error(), serverSaid) }

// NoAnswerError means that a session's own backend did not answer a query that reads the schema. Err is the error of
// the Query.
type NoAnswerError struct{ Err error }

// Error returns the text of the error for the log.
func (e *NoAnswerError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the Query.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// ErrLate means that reading the schema from the server took longer than a session waits for the schema.
var ErrLate = errors.New("the answer took too long")

// errReaderLeft is the error of a reading of the schema whose session was stopped, or lost its backend.
var errReaderLeft = errors.New("whoever read them was stopped, or lost its backend")

// notReadMessage is the message of NotRead, by which IsNotRead recognizes that error.
const notReadMessage = "the relations of the database could not be read"

// NotRead returns the error for the client if Sluice does not know which relations a text's names refer to. cause
// says why. If cause has a method Remedy, the hint begins with the remedy.
func NotRead(cause error) *wire.Error {
	e := &wire.Error{Code: "53300", Message: notReadMessage, Detail: cause.Error(), Hint: "Retry."}
	if remedied, ok := errors.AsType[interface {
		error
		Remedy() string
	}](cause); ok {
		e.Hint = remedied.Remedy()
	}
	e.Hint += " Columns are mapped (rewrite.bytea), and what a name stands for must be known before the text is sent."
	if isRefused(e) {
		e.Hint += " A database without mapped columns needs no reading with rewrite.bytea: off."
	}
	return e
}

// isRefused reports whether err says that the schema is unknown because the server refused to return it.
func isRefused(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == notReadMessage && strings.HasPrefix(e.Detail, serverSaid)
}

// IsNotRead reports whether err is an error of NotRead, which says that Sluice could not read the schema.
func IsNotRead(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	return ok && e.Message == notReadMessage
}

// ErrBehindDDL refuses a text after DDL of its own transaction, if the schema cannot be read between the two.
var ErrBehindDDL = &wire.Error{Code: retry.StateUnsupported, Message: "the statement follows a schema change of its own transaction that it may depend on",
	Detail: "The change may concern columns that are stored as text (rewrite.bytea), and Sluice cannot read the schema in front of the statement.",
	Hint:   "Send the schema change in a transaction of its own."}
