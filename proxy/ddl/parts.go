package ddl

import (
	"strings"

	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// CodePartialCommit is the SQLSTATE that replaces a conflict's 40001 if a part of the transaction is committed.
// GoOnHint is the hint of that error.
const (
	CodePartialCommit = "25000"
	GoOnHint          = "Do not send the whole transaction again: go on behind what is committed."
)

// ErrNotBegun ends the session if a block could not begin again after a part of it. uncommitted is the error of that
// part's COMMIT, or nil. l lists the committed statements of the block.
func ErrNotBegun(why, uncommitted *wire.Error, l *listing.Statements) *wire.Error {
	e := &wire.Error{Fatal: true, Code: why.Code, Message: "the transaction could not be begun again: " + why.Message, Detail: why.Detail, Hint: why.Hint}
	switch {
	case uncommitted == nil:
	case uncommitted.Code == "08007":
		e.Code, e.Detail, e.Hint = uncommitted.Code, "Whether the part before is committed is not known: "+uncommitted.Message+".", uncommitted.Hint
	default:
		e.Code, e.Detail, e.Hint = uncommitted.Code, "The part before is not committed: "+uncommitted.Message+".", ""
	}
	if l.IsEmpty() {
		return e
	}
	if e.Code == retry.StateConflict {
		e.Code, e.Hint = CodePartialCommit, GoOnHint
	}
	e.Detail = strings.TrimSpace(e.Detail + " Committed: " + l.String() + ".")
	return e
}
