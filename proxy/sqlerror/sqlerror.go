// Package sqlerror has the errors and warnings that Sluice itself sends to clients. If PostgreSQL has the same error,
// code and text are PostgreSQL's.
package sqlerror

import (
	"errors"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has the errors and warnings that Sluice sends to clients from several places. If PostgreSQL has the same
// error, code and text are PostgreSQL's. An error of a single place, such as errOtherReading, is declared at that
// place.

// These are errors for clients. The severity is ERROR wherever the connection can continue. On FATAL, lib/pq reports
// ErrBadConn, and database/sql sends an autocommit statement again. After 08007 this could apply the statement twice.
var (
	NoChain = &wire.Error{Code: retry.StateUnsupported, Message: "AND CHAIN is not supported",
		Detail: "DSQL takes AND NO CHAIN only. The transaction is still open.", Hint: "Send COMMIT or ROLLBACK, and BEGIN behind it."}
	Aborted = &wire.Error{Code: "25P02",
		Message: "current transaction is aborted, commands ignored until end of transaction block"}
	BackendLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost inside a transaction",
		Detail:  "COMMIT had not been sent: nothing of the transaction was applied.",
		Hint:    "Roll back and run the transaction again."}
	RestLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost behind a transaction that had ended",
		Detail:  "What was answered before this error stands. Nothing that follows it was applied.",
		Hint:    "Run again what has no answer."}
	ReadLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost while a statement that only reads was running",
		Hint:    "Run the statement again."}
	Unsent = &wire.Error{Code: "08006",
		Message: "the backend connection was lost before the statement was sent",
		Detail:  "Nothing of the statement was applied.",
		Hint:    "Run the statement again."}
	UnknownOutcome = &wire.Error{Code: "08007",
		Message: "the backend connection was lost while a commit was under way: its outcome is unknown",
		Hint:    "Look whether the change is there before running it again."}
	// SchemaChanged makes the client send the statement again, which Sluice then plans by the new schema. It also ends a
	// replay of a statement whose plan has changed.
	SchemaChanged = &wire.Error{Code: "40001", Message: "the schema was changed while the statement waited to be sent", Hint: retry.Hint}
	Draining      = &wire.Error{Fatal: true, Code: "57P01",
		Message: "terminating connection due to administrator command",
		Detail:  "Sluice is shutting down."}
	IdleInTransaction = &wire.Error{Fatal: true, Code: "25P03",
		Message: "terminating connection due to idle-in-transaction timeout"}
	IdleClient = &wire.Error{Fatal: true, Code: "57P05",
		Message: "terminating connection due to idle-session timeout"}
	PinLost = &wire.Error{Fatal: true, Code: "08006",
		Message: "the backend that this session had state on was lost",
		Hint:    "Connect again and rebuild the session's state."}
	MessageFormat = &wire.Error{Code: "08P01", Message: "invalid message format"}
	PlanChanged   = &wire.Error{Code: "0A000", Message: "cached plan must not change result type",
		Origin: wire.SourceLocation{File: "plancache.c", Line: "722", Routine: "RevalidateCachedQuery"}}
	// LowMemory refuses new transactions while the process is close to its memory limit. For new clients it is FATAL.
	LowMemory = &wire.Error{Code: "53200", Message: "Sluice is short of memory and begins no new transaction",
		Detail: "More than nine tenths of GOMEMLIMIT are in use.",
		Hint:   "Retry; if it stays so, give the process more memory or lower prepared.total_bytes and retry.log_total_bytes."}
	WarnNoTransaction = &wire.Error{Code: "25P01", Message: "SET LOCAL can only be used in transaction blocks"}
	WarnWeakened      = &wire.Error{Code: "01000", Message: "SERIALIZABLE is taken for REPEATABLE READ",
		Detail: "Two transactions of which each reads what the other writes may both commit (write skew).",
		Hint:   "Lock FOR UPDATE what a decision rests on. rewrite.serializable: refuse has such transactions refused."}
	WarnModesOutside  = &wire.Error{Code: "25P01", Message: "SET TRANSACTION can only be used in transaction blocks"}
	WarnInTransaction = &wire.Error{Code: "25001", Message: "there is already a transaction in progress"}
)

// TooManyClients refuses a startup beyond listen.max_clients. opening.RefusalLabel recognizes the word "sorry".
func TooManyClients(limit int) *wire.Error {
	return &wire.Error{Fatal: true, Code: "53300", Message: "sorry, too many clients already",
		Detail: fmt.Sprintf("listen.max_clients is %d.", limit)}
}

// NoDatabase refuses a startup for a database that does not exist.
func NoDatabase(name string) *wire.Error {
	return &wire.Error{Code: "3D000", Message: fmt.Sprintf("database \"%s\" does not exist", name)}
}

// DatabaseNotListed refuses a startup for a database that is not in listen.databases.
func DatabaseNotListed(name string) *wire.Error {
	err := NoDatabase(name)
	err.Detail = "It is not among listen.databases."
	return err
}

// NoBackend returns the error that no backend became free in time, with the cause. The client may try again.
func NoBackend(cause error) *wire.Error {
	hint := "Retry."
	if empty, ok := errors.AsType[*reservoir.NoBackendError](cause); ok {
		hint = empty.Remedy()
	}
	return &wire.Error{Code: "53300", Message: "no backend connection became free in time", Detail: cause.Error(), Hint: hint}
}

// TooManyPins refuses to pin a session to its backend if limit sessions are pinned. why says what needs the pin.
func TooManyPins(limit int, why string) *wire.Error {
	return &wire.Error{Code: "53300",
		Message: "too many sessions keep a backend of their own",
		Detail:  fmt.Sprintf("This statement needs one (%s) and pins.max is %d.", why, limit)}
}

// PinBehindDiscard refuses a statement that leaves state on a backend which the session gives up at the turn's end.
var PinBehindDiscard = &wire.Error{Code: retry.StateUnsupported, Message: "the statement cannot run behind DISCARD ALL in the same request",
	Detail: "It would leave something at the backend that the session gives up for DISCARD ALL.", Hint: "Send a Sync in front of the statement."}

// SettingNotApplied returns the server's error for a client's earlier setting that Sluice applied to a new backend.
func SettingNotApplied(refusal []byte) *wire.Error {
	return &wire.Error{Code: string(retry.ErrorField(refusal, 'C')), Message: string(retry.ErrorField(refusal, 'M')),
		Detail: "A setting of this session was refused by the server.", Hint: string(retry.ErrorField(refusal, 'H'))}
}

// MultipleCommands is PostgreSQL's error for a Parse of several statements. It precedes any other error except a
// syntax error, also in a failed block.
var MultipleCommands = &wire.Error{Code: "42601", Message: "cannot insert multiple commands into a prepared statement"}

// StatementExists refuses a Parse whose statement name is in use.
func StatementExists(name []byte) *wire.Error {
	return &wire.Error{Code: "42P05", Message: fmt.Sprintf("prepared statement \"%s\" already exists", name)}
}

// NoStatement refuses a prepared statement's name that does not exist. Drivers recognize the Routine field and
// prepare the statement again.
func NoStatement(name []byte) *wire.Error {
	if len(name) == 0 {
		return &wire.Error{Code: "26000", Message: "unnamed prepared statement does not exist"}
	}
	return &wire.Error{Code: "26000", Message: fmt.Sprintf("prepared statement \"%s\" does not exist", name),
		Origin: wire.SourceLocation{File: "prepare.c", Line: "451", Routine: "FetchPreparedStatement"}}
}

// NoPortal refuses a portal name that does not exist.
func NoPortal(name []byte) *wire.Error {
	return &wire.Error{Code: "34000", Message: fmt.Sprintf("portal \"%s\" does not exist", name)}
}

// PortalExists refuses a Bind whose portal name is in use. PostgreSQL calls the portal a cursor.
func PortalExists(name []byte) *wire.Error {
	return &wire.Error{Code: "42P03", Message: fmt.Sprintf("cursor \"%s\" already exists", name)}
}

// IndexJobContinues ends a CREATE INDEX if Sluice could not drop the index after the wait for its job had ended.
func IndexJobContinues(why *wire.Error) *wire.Error {
	return &wire.Error{Code: why.Code, Message: why.Message, Detail: "The index could not be dropped, and may still be built: see sys.jobs.",
		Hint: "See pg_index.indisvalid before you rely on the index, or drop it."}
}

// TooManyStatements refuses a Parse that exceeds prepared.per_client, the number of a client's statements.
func TooManyStatements(limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "too many prepared statements in one session",
		Detail: fmt.Sprintf("prepared.per_client is %d.", limit)}
}

// ClientTextsTooLong refuses a Parse that exceeds prepared.bytes_per_client, the bytes of a client's statements.
func ClientTextsTooLong(limit int) *wire.Error {
	return &wire.Error{Code: "53200", Message: "the prepared statements of this session are too long",
		Detail: fmt.Sprintf("Their texts are bounded by prepared.bytes_per_client, %d.", limit),
		Hint:   "Deallocate statements that are not used any more, or send parameters in the place of long constants."}
}

// TotalTextsTooLong refuses a Parse or Describe that exceeds prepared.total_bytes, the bound for all clients.
func TotalTextsTooLong(limit int) *wire.Error {
	return &wire.Error{Code: "53200", Message: "the prepared statements of all sessions are too long",
		Detail: fmt.Sprintf("Their texts and the descriptions of their columns are bounded by prepared.total_bytes, %d.", limit),
		Hint:   "Retry, or raise prepared.total_bytes."}
}

// StatementTooLong refuses a frame of n bytes that Sluice would have to hold in memory as a whole.
func StatementTooLong(n, limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "statement too long to be prepared",
		Detail: fmt.Sprintf("It has %d bytes and rewrite.max_bytes is %d.", n, limit)}
}

// MessageTooLong refuses a message of n bytes, which is longer than the server accepts.
func MessageTooLong(n, limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "message too long for the backend",
		Detail: fmt.Sprintf("It has %d bytes and backend.max_message_bytes is %d.", n, limit),
		Hint:   "Send the data in several statements. A transaction of Aurora DSQL changes at most 10 MiB."}
}

// LocalSettingQueried refuses a query that asks the server for a setting, if only Sluice has the session's value.
func LocalSettingQueried(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the server does not know the session's value of \"" + name + "\", which Sluice keeps",
		Hint: "Ask by SHOW " + name + ", or by SELECT current_setting('" + name + "') in a query of its own."}
}

// PortalsOpen refuses CLOSE ALL while protocol-level portals are open, which CLOSE ALL would have to close too.
var PortalsOpen = &wire.Error{Code: retry.StateUnsupported, Message: "CLOSE ALL cannot close the portals that are open in this transaction",
	Hint: "Close them one by one, or end the transaction."}

// These refuse statements at a wrong place, with PostgreSQL's codes and texts.
var (
	DiscardInBlock    = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot run inside a transaction block"}
	DiscardInPipeline = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot be executed within a pipeline"}
	LockOutside       = &wire.Error{Code: "25P01", Message: "LOCK TABLE can only be used in transaction blocks"}
)

// StatementRefused returns the error with which Sluice refuses the statement st, whose Refusal is not nil.
func StatementRefused(st *rewrite.Statement) *wire.Error {
	r := st.Refusal
	return &wire.Error{Code: r.Code, Message: r.Message, Detail: r.Detail, Hint: r.Hint}
}
