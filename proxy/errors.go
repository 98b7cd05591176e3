package proxy

import (
	"errors"
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The errors that Sluice tells clients, whatever the step that meets them. Where PostgreSQL
// has such an error, code and text are its own. Errors of one place only stand there:
// errOtherReading, errNotAsked and others.

// Every error that Sluice originates. Severity is ERROR, so that clients keep
// their connection: on FATAL lib/pq reports ErrBadConn and database/sql sends
// an autocommit statement again by itself, which after 08007 applies it twice.
var (
	errNoChain = &wire.Error{Code: retry.StateUnsupported, Message: "AND CHAIN is not supported",
		Detail: "DSQL takes AND NO CHAIN only. The transaction is still open.", Hint: "Send COMMIT or ROLLBACK, and BEGIN behind it."}
	errAborted = &wire.Error{Code: "25P02",
		Message: "current transaction is aborted, commands ignored until end of transaction block"}
	errBackendLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost inside a transaction",
		Detail:  "COMMIT had not been sent: nothing of the transaction was applied.",
		Hint:    "Roll back and run the transaction again."}
	errRestLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost behind a transaction that had ended",
		Detail:  "What was answered before this error stands. Nothing that follows it was applied.",
		Hint:    "Run again what has no answer."}
	errReadLost = &wire.Error{Code: "08006",
		Message: "the backend connection was lost while a statement that only reads was running",
		Hint:    "Run the statement again."}
	errUnsent = &wire.Error{Code: "08006",
		Message: "the backend connection was lost before the statement was sent",
		Detail:  "Nothing of the statement was applied.",
		Hint:    "Run the statement again."}
	errUnknownOutcome = &wire.Error{Code: "08007",
		Message: "the backend connection was lost while a commit was under way: its outcome is unknown",
		Hint:    "Look whether the change is there before running it again."}
	// errSchemaChanged: sent again, the statement is planned by the schema as it is. So is told
	// what stops a replay of one that was planned anew.
	errSchemaChanged = &wire.Error{Code: "40001", Message: "the schema was changed while the statement waited to be sent", Hint: retry.Hint}
	errCanceled      = &wire.Error{Code: "57014", Message: "canceling statement due to user request"}
	errTimedOut      = &wire.Error{Code: "57014", Message: "canceling statement due to statement timeout"}
	errDraining      = &wire.Error{Fatal: true, Code: "57P01",
		Message: "terminating connection due to administrator command",
		Detail:  "Sluice is shutting down."}
	errIdleInTransaction = &wire.Error{Fatal: true, Code: "25P03",
		Message: "terminating connection due to idle-in-transaction timeout"}
	errIdleClient = &wire.Error{Fatal: true, Code: "57P05",
		Message: "terminating connection due to idle-session timeout"}
	errPinLost = &wire.Error{Fatal: true, Code: "08006",
		Message: "the backend that this session had state on was lost",
		Hint:    "Connect again and rebuild the session's state."}
	errMessageFormat = &wire.Error{Code: "08P01", Message: "invalid message format"}
	errPlanChanged   = &wire.Error{Code: "0A000", Message: "cached plan must not change result type",
		Origin: wire.Origin{File: "plancache.c", Line: "722", Routine: "RevalidateCachedQuery"}}
	errInternal = feature.ErrInternal
	// errShort refuses new work of a process that has come close to its limit; FATAL to a
	// client that has just come.
	errShort = &wire.Error{Code: "53200", Message: "Sluice is short of memory and begins no new transaction",
		Detail: "More than nine tenths of GOMEMLIMIT are in use.",
		Hint:   "Retry; if it stays so, give the process more memory or lower prepared.total_bytes and retry.log_total_bytes."}
	warnNoTransaction = &wire.Error{Code: "25P01", Message: "SET LOCAL can only be used in transaction blocks"}
	warnWeakened      = &wire.Error{Code: "01000", Message: "SERIALIZABLE is taken for REPEATABLE READ",
		Detail: "Two transactions of which each reads what the other writes may both commit (write skew).",
		Hint:   "Lock FOR UPDATE what a decision rests on. rewrite.serializable: refuse has such transactions refused."}
	warnModesOutside  = &wire.Error{Code: "25P01", Message: "SET TRANSACTION can only be used in transaction blocks"}
	warnInTransaction = &wire.Error{Code: "25001", Message: "there is already a transaction in progress"}
)

// errTooManyClients refuses a startup beyond listen.max_clients. refusedReason knows it by
// its first word.
func errTooManyClients(limit int) *wire.Error {
	return &wire.Error{Fatal: true, Code: "53300", Message: "sorry, too many clients already",
		Detail: fmt.Sprintf("listen.max_clients is %d.", limit)}
}

// errNoDatabase is told of a database that is not there.
func errNoDatabase(name string) *wire.Error {
	return &wire.Error{Code: "3D000", Message: fmt.Sprintf("database \"%s\" does not exist", name)}
}

// errNotListed refuses a startup for a database that listen.databases does not have.
func errNotListed(name string) *wire.Error {
	err := errNoDatabase(name)
	err.Detail = "It is not among listen.databases."
	return err
}

// errNoBackend tells what Acquire waited for. The client may try again.
func errNoBackend(cause error) *wire.Error {
	hint := "Retry."
	if empty, ok := errors.AsType[*reservoir.EmptyError](cause); ok {
		hint = empty.Remedy()
	}
	return &wire.Error{Code: "53300", Message: "no backend connection became free in time", Detail: cause.Error(), Hint: hint}
}

// notParsed reports whether an error says that the server's grammar does not take the
// text of head, which nobody has read: then nothing of it has run. A function that runs
// such a text fails with a context, and its query is an internal one.
func notParsed(head *owed, payload []byte) bool {
	plan := head.plan
	if head.kind == wire.Parse && head.tmpl != nil {
		plan = head.tmpl.plan
	}
	return (head.kind == wire.Parse || head.kind == wire.Query) && plan != nil && plan.Kind == rewrite.Unknown && string(retry.Field(payload, 'R')) == "scanner_yyerror" &&
		retry.Field(payload, 'P') != nil && retry.Field(payload, 'q') == nil && retry.Field(payload, 'W') == nil
}

// errTooManyPins refuses a statement that would have the session keep a backend; why is the
// name of the reason.
func errTooManyPins(limit int, why string) *wire.Error {
	return &wire.Error{Code: "53300",
		Message: "too many sessions keep a backend of their own",
		Detail:  fmt.Sprintf("This statement needs one (%s) and pins.max is %d.", why, limit)}
}

// errNotApplied is the server's refusal of a setting that the client has made before.
func errNotApplied(refusal []byte) *wire.Error {
	return &wire.Error{Code: string(retry.Field(refusal, 'C')), Message: string(retry.Field(refusal, 'M')),
		Detail: "A setting of this session was refused by the server.", Hint: string(retry.Field(refusal, 'H'))}
}

// errSeveral is PostgreSQL's error of a Parse whose text has several statements. It comes in front of any other of
// the text that parses, in a failed block too.
var errSeveral = &wire.Error{Code: "42601", Message: "cannot insert multiple commands into a prepared statement"}

// errStatementExists refuses a Parse under a name that is taken.
func errStatementExists(name []byte) *wire.Error {
	return &wire.Error{Code: "42P05", Message: fmt.Sprintf("prepared statement \"%s\" already exists", name)}
}

// errNoStatement is told of a name that is no statement's. Drivers know by the routine that
// to prepare again helps.
func errNoStatement(name []byte) *wire.Error {
	if len(name) == 0 {
		return &wire.Error{Code: "26000", Message: "unnamed prepared statement does not exist"}
	}
	return &wire.Error{Code: "26000", Message: fmt.Sprintf("prepared statement \"%s\" does not exist", name),
		Origin: wire.Origin{File: "prepare.c", Line: "451", Routine: "FetchPreparedStatement"}}
}

// errParameterCount refuses a Bind with n parameters where its statement takes want.
func errParameterCount(n, want int, statement []byte) *wire.Error {
	return &wire.Error{Code: "08P01",
		Message: fmt.Sprintf("bind message supplies %d parameters, but prepared statement \"%s\" requires %d", n, statement, want)}
}

// errNoPortal is told of a name that is no portal's.
func errNoPortal(name []byte) *wire.Error {
	return &wire.Error{Code: "34000", Message: fmt.Sprintf("portal \"%s\" does not exist", name)}
}

// errPortalExists refuses a Bind under a name that is taken, which PostgreSQL calls a
// cursor's.
func errPortalExists(name []byte) *wire.Error {
	return &wire.Error{Code: "42P03", Message: fmt.Sprintf("cursor \"%s\" already exists", name)}
}

// errJobGoesOn is the end of a wait for a job, not of the job: its index could not be dropped.
func errJobGoesOn(why *wire.Error) *wire.Error {
	return &wire.Error{Code: why.Code, Message: why.Message, Detail: "The index could not be dropped, and may still be built: see sys.jobs.",
		Hint: "See pg_index.indisvalid before you rely on the index, or drop it."}
}

// errTooManyStatements refuses a Parse beyond prepared.per_client.
func errTooManyStatements(limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "too many prepared statements in one session",
		Detail: fmt.Sprintf("prepared.per_client is %d.", limit)}
}

// errTextsOfClient refuses a Parse whose text one client may not keep besides its others;
// errTextsOfAll refuses a Parse or Describe when all clients together keep too much.
func errTextsOfClient(limit int) *wire.Error {
	return &wire.Error{Code: "53200", Message: "the prepared statements of this session are too long",
		Detail: fmt.Sprintf("Their texts are bounded by prepared.bytes_per_client, %d.", limit),
		Hint:   "Deallocate statements that are not used any more, or send parameters in the place of long constants."}
}

// errTextsOfAll is the error of a Parse for whose text no client's share of the memory is left.
func errTextsOfAll(limit int) *wire.Error {
	return &wire.Error{Code: "53200", Message: "the prepared statements of all sessions are too long",
		Detail: fmt.Sprintf("Their texts and the descriptions of their columns are bounded by prepared.total_bytes, %d.", limit),
		Hint:   "Retry, or raise prepared.total_bytes."}
}

// errStatementTooLong refuses a frame of n bytes that would have to be held whole.
func errStatementTooLong(n, limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "statement too long to be prepared",
		Detail: fmt.Sprintf("It has %d bytes and rewrite.max_bytes is %d.", n, limit)}
}

// errMessageTooLong refuses a message of n bytes that the server would not take.
func errMessageTooLong(n, limit int) *wire.Error {
	return &wire.Error{Code: "54000", Message: "message too long for the backend",
		Detail: fmt.Sprintf("It has %d bytes and backend.max_message_bytes is %d.", n, limit),
		Hint:   "Send the data in several statements. A transaction of Aurora DSQL changes at most 10 MiB."}
}

// errSettingRefused refuses a startup with a setting that the cluster does not take.
func errSettingRefused(name string) *wire.Error {
	e := &wire.Error{Fatal: true, Code: "0A000", Message: fmt.Sprintf("setting configuration parameter %q not supported", name)}
	switch name {
	case "role", "session_authorization":
		e.Hint = rewrite.RoleHint
	case "default_transaction_isolation":
		e.Hint = "Transactions are REPEATABLE READ: leave it out, or give that level or a weaker one."
	}
	return e
}
