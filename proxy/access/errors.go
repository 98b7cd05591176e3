package access

import (
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// WriteError returns the error for a statement that may write although its transaction's mode forbids it, or nil.
func WriteError(st *rewrite.Statement, mode Mode) *wire.Error {
	switch command, known := st.ReadOnlyViolation(); {
	case mode == ReadWrite:
		return nil
	case mode == Unsure && (command != "" || !known):
		return errModeUnsure
	case command != "":
		return &wire.Error{Code: CodeReadOnly, Message: "cannot execute " + command + " in a read-only transaction"}
	case !known:
		return ErrMayWrite
	}
	return nil
}

// StatementError returns the error for one statement of a multi-statement query if the transaction's access mode,
// mode, forbids it, or nil. The parameter at is the block before the statement.
func StatementError(at *block.Block, st *rewrite.Statement, mode Mode) *wire.Error {
	switch {
	case isModeTooLate(at, &st.Tx):
		return errModesLate
	case isDDLInReadOnly(at, st):
		return WriteError(st, ReadOnly)
	}
	return WriteError(st, mode)
}

// isModeTooLate reports whether PostgreSQL refuses a BEGIN READ ONLY with an isolation level, because a query of the
// same text or pipeline precedes the BEGIN. DSQL would commit the earlier writes together with a READ ONLY block.
func isModeTooLate(at *block.Block, tx *rewrite.TxControl) bool {
	return tx.Verb == rewrite.Begin && !at.IsOpen() && tx.ReadOnly && tx.Isolation != rewrite.DefaultIsolation && at.RefusalCode(tx) == block.CodeActive
}

// isDDLInReadOnly reports whether a statement is DDL in a READ ONLY block of a multi-statement query. PostgreSQL
// refuses such DDL before it checks anything else. DSQL would first refuse types and statement forms that it lacks.
func isDDLInReadOnly(at *block.Block, st *rewrite.Statement) bool {
	command, _ := st.ReadOnlyViolation()
	return st.Kind == rewrite.DDL && command != "" && at.IsOpen() && at.IsReadOnly()
}

// IsReadOnlyBlock reports whether a block is certainly READ ONLY, because BEGIN or SET TRANSACTION made it so.
func IsReadOnlyBlock(at *block.Block) bool {
	return at.IsOpen() && at.HasSeenBegin() && at.IsReadOnly()
}

// unknownType is the SQLSTATE that a server reports for an unknown type.
const unknownType = "42704"

// FormError returns PostgreSQL's error 25006 in place of payload, the server's error for a statement in a READ ONLY
// block. The server must have refused the statement's form or an unknown type such as serial. PostgreSQL checks the
// access mode first. For any other error the result is nil. st may be nil.
func FormError(st *rewrite.Statement, payload []byte, at *block.Block) *wire.Error {
	if st == nil || !IsReadOnlyBlock(at) {
		return nil
	}
	if code := string(retry.ErrorField(payload, 'C')); code != retry.StateUnsupported && code != unknownType {
		return nil
	}
	if command, _ := st.ReadOnlyViolation(); command == "" {
		return nil
	}
	return WriteError(st, ReadOnly)
}

// ErrMayWrite refuses a statement outside a block that may write, although its text looks like a read.
var ErrMayWrite = &wire.Error{Code: retry.StateUnsupported, Message: "what may write is not run outside of a transaction while " + rewrite.ReadOnlyDefault + " is on",
	Detail: "The server does not know the setting, and the text does not show that the statement only reads.",
	Hint:   "Send it between BEGIN READ ONLY and COMMIT, where the server judges it; or SET " + rewrite.ReadOnlyDefault + " TO off."}

var (
	errModeUnsure = &wire.Error{Code: retry.StateUnsupported, Message: "it is not known yet whether the transaction begins READ ONLY",
		Detail: "The transaction before it has changed " + rewrite.ReadOnlyDefault + ", and its end is not answered yet.",
		Hint:   "Wait for the answer to COMMIT or ROLLBACK; or write READ ONLY or READ WRITE behind BEGIN."}
	errModeInString = &wire.Error{Code: retry.StateUnsupported, Message: "a string of several transactions cannot change whether they begin READ ONLY",
		Detail: "Nothing of the string was run.", Hint: "Send SET " + rewrite.ReadOnlyDefault + " by itself, and write READ ONLY or READ WRITE behind BEGIN."}
	errModesLate = &wire.Error{Code: block.CodeActive, Message: "SET TRANSACTION ISOLATION LEVEL must be called before any query",
		Hint: "Send the BEGIN in front of the first statement, or behind COMMIT."}
	errBeginInPipeline = &wire.Error{Code: retry.StateUnsupported, Message: "BEGIN cannot say here whether the transaction is READ ONLY, behind other statements of it",
		Hint: "Send it by itself, or as the first statement of the string or pipeline."}
)
