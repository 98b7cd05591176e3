package block

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// ErrSavepointMixed refuses a multi-statement query that mixes savepoint commands with other statements.
var ErrSavepointMixed = &wire.Error{Code: retry.StateUnsupported,
	Message: "savepoint commands must not share a string with other statements",
	Detail:  "Nothing of the string was run.", Hint: "Send them one by one."}

// ErrNoSavepoint is PostgreSQL's error for an unknown savepoint.
func ErrNoSavepoint(name string) *wire.Error {
	return &wire.Error{Code: "3B001", Message: fmt.Sprintf("savepoint \"%s\" does not exist", name)}
}

// ErrCannotReturn refuses a ROLLBACK TO because the transaction cannot be replayed any more.
func ErrCannotReturn(name, detail string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("cannot return to savepoint \"%s\"", name),
		Detail: detail, Hint: "Roll the whole transaction back."}
}

// ErrRollbackToDiffers is the error for a ROLLBACK TO SAVEPOINT whose replay was refused.
func ErrRollbackToDiffers(name string) *wire.Error {
	return &wire.Error{Code: retry.StateConflict, Message: fmt.Sprintf("could not return to savepoint \"%s\" due to concurrent update", name)}
}

// ErrValuesRegenerated is the error for a ROLLBACK TO whose replay cannot generate the same values again.
func ErrValuesRegenerated(name string, diff retry.ReplayDifference) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("cannot return to savepoint \"%s\"", name),
		Detail: "The client has the result of " + diff.DescribeStatement() + ", which may hold what the server generates anew each time: a number of a sequence, a time, a random value.",
		Hint:   "Roll the whole transaction back. Make such values in the application, or do not have them returned."}
}
