package cursor

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// The errors of statements about cursors, which Sluice sends to the client.
var (
	// ErrDeclareOutside is PostgreSQL's error for a DECLARE without WITH HOLD outside a block.
	ErrDeclareOutside = &wire.Error{Code: "25P01", Message: "DECLARE CURSOR can only be used in transaction blocks"}
	// ErrForwardOnly is PostgreSQL's error for a NO SCROLL cursor that is to move back.
	ErrForwardOnly = &wire.Error{Code: "55000", Message: "cursor can only scan forward",
		Hint: "Declare it with SCROLL option to enable backward scan."}
	// ErrFetchElsewhere refuses a FETCH or MOVE that does not go forward, since a portal cannot do it.
	ErrFetchElsewhere = &wire.Error{Code: retry.StateUnsupported, Message: "cursors go forward only, by a number of rows or to the end",
		Detail: "DSQL has no cursors: Sluice carries them out over portals of the protocol.",
		Hint:   "FETCH FORWARD n, FETCH NEXT or FETCH ALL; to go back, run the query again."}
	// ErrFetchLimited refuses the Execute of a FETCH with a row limit. PostgreSQL would move the cursor by the whole
	// FETCH, and return the rest at the next Execute.
	ErrFetchLimited = &wire.Error{Code: retry.StateUnsupported, Message: "FETCH cannot be executed with a limit on rows",
		Hint: "Give the number of rows in FETCH alone, and set no fetch size."}
	// ErrFormats refuses another result format for a cursor that has been read, or that would miss a write.
	ErrFormats = &wire.Error{Code: retry.StateUnsupported, Message: "this cursor can no longer be read in another format",
		Detail: "The format of a cursor's rows is settled by the first FETCH, which must come before anything is written.",
		Hint:   "Fetch from the cursor in one format, text or binary; and FETCH once before the transaction writes, if it is to be binary."}
	// ErrHoldInScript refuses a multi-statement query with the COMMIT of a transaction that has a cursor WITH HOLD.
	ErrHoldInScript = &wire.Error{Code: retry.StateUnsupported, Message: "the COMMIT of a transaction with a cursor WITH HOLD must not share a string with other statements",
		Detail: "What is left of the cursor's rows is read in front of the COMMIT.", Hint: "Send COMMIT by itself."}
	// ErrHoldScrolls refuses a SCROLL cursor WITH HOLD in a block.
	ErrHoldScrolls = &wire.Error{Code: retry.StateUnsupported, Message: "a cursor WITH HOLD that scrolls cannot be declared inside a transaction",
		Detail: "Until the COMMIT Sluice carries it out over a portal of the protocol, which goes forward only.",
		Hint:   "Declare it outside of the transaction, or NO SCROLL."}
	// ErrUnparsed refuses a cursor whose query Sluice cannot parse.
	ErrUnparsed = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor cannot be read as it stands",
		Hint: "Leave standard_conforming_strings on and the client's encoding at UTF8."}
	// ErrSplit refuses a cursor whose query Sluice would send as two statements, since a cursor has one portal.
	ErrSplit = &wire.Error{Code: retry.StateUnsupported, Message: "this cluster takes FOR UPDATE in a cursor on one table only",
		Hint: "Lock the rows in a statement of their own, and declare the cursor without the clause."}
	// ErrSequence refuses currval and lastval in the query of a cursor.
	ErrSequence = &wire.Error{Code: retry.StateUnsupported, Message: "currval and lastval are not supported in the query of a cursor",
		Hint: "Ask for the number by a SELECT of its own."}
	// ErrDeclareLong refuses the Describe of a DECLARE whose description is longer than Sluice may store.
	ErrDeclareLong = &wire.Error{Code: retry.StateUnsupported, Message: "the query of this cursor has too many columns to be described",
		Hint: "Name fewer columns."}
)

// ErrNotDeclared refuses FETCH, MOVE and CLOSE of a portal that the client has bound by the protocol. Sluice does
// not know that portal's result formats.
func ErrNotDeclared(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("portal \"%s\" is no cursor of DECLARE", name),
		Hint: "Execute and close it by the protocol."}
}

// ErrPortalDone returns PostgreSQL's error for the Execute of a portal that has already run.
func ErrPortalDone(name []byte) *wire.Error {
	return &wire.Error{Code: "55000", Message: fmt.Sprintf("portal \"%s\" cannot be run", name)}
}

// ErrStoredFormats refuses a stored cursor's rows in binary format. The cursor has not moved: the client may ask for
// text.
var ErrStoredFormats = &wire.Error{Code: retry.StateUnsupported, Message: "rows of this cursor cannot be had in the binary format",
	Detail: "The rows of a cursor WITH HOLD are kept as text. Of numbers, booleans, texts, dates, times, bytea, uuid, json and jsonb there is a binary form, unless extra_float_digits was set below 1, or DateStyle was not ISO, or IntervalStyle not postgres.",
	Hint:   "Ask for the text format, or cast the column."}

// ErrStoredFull is the error of a cursor WITH HOLD whose rows exceed the limit.
func ErrStoredFull(client, total int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "the rows of this cursor WITH HOLD are more than may be kept",
		Detail: fmt.Sprintf("The cursors WITH HOLD of a session may have %d bytes, those of all sessions %d.", client, total),
		Hint:   "Read it without WITH HOLD inside a transaction, page by key, or raise cursor.stored_bytes and cursor.stored_total_bytes."}
}
