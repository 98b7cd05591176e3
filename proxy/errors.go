package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Every error that Sluice originates. Severity is ERROR, so that clients keep
// their connection: on FATAL lib/pq reports ErrBadConn and database/sql sends
// an autocommit statement again by itself, which after 08007 applies it twice.
var (
	errAborted = &sqlError{code: "25P02",
		message: "current transaction is aborted, commands ignored until end of transaction block"}
	errBackendLost = &sqlError{code: "08006",
		message: "the backend connection was lost inside a transaction",
		detail:  "COMMIT had not been sent: nothing of the transaction was applied.",
		hint:    "Roll back and run the transaction again."}
	errRestLost = &sqlError{code: "08006",
		message: "the backend connection was lost behind a transaction that had ended",
		detail:  "What was answered before this error stands. Nothing that follows it was applied.",
		hint:    "Run again what has no answer."}
	errReadLost = &sqlError{code: "08006",
		message: "the backend connection was lost while a statement that only reads was running",
		hint:    "Run the statement again."}
	errUnknownOutcome = &sqlError{code: "08007",
		message: "the backend connection was lost while a commit was under way: its outcome is unknown",
		hint:    "Look whether the change is there before running it again."}
	errCanceled = &sqlError{code: "57014", message: "canceling statement due to user request"}
	errTimedOut = &sqlError{code: "57014", message: "canceling statement due to statement timeout"}
	errDraining = &sqlError{fatal: true, code: "57P01",
		message: "terminating connection due to administrator command",
		detail:  "Sluice is shutting down."}
	errIdleInTransaction = &sqlError{fatal: true, code: "25P03",
		message: "terminating connection due to idle-in-transaction timeout"}
	errIdleClient = &sqlError{fatal: true, code: "57P05",
		message: "terminating connection due to idle-session timeout"}
	errPinLost = &sqlError{fatal: true, code: "08006",
		message: "the backend that this session had state on was lost",
		hint:    "Connect again and rebuild the session's state."}
	errMessageFormat = &sqlError{code: "08P01", message: "invalid message format"}
	errPlanChanged   = &sqlError{code: "0A000", message: "cached plan must not change result type",
		source: source15{"plancache.c", "722", "RevalidateCachedQuery"}}
	errInternal = &sqlError{fatal: true, code: "XX000", message: "Sluice met a state that it does not know and closed the connection",
		hint: "Please report this with Sluice's log line."}
	warnNoTransaction = &sqlError{code: "25P01", message: "SET LOCAL can only be used in transaction blocks"}
	warnInTransaction = &sqlError{code: "25001", message: "there is already a transaction in progress"}
)

func errTooManyClients(limit int) *sqlError {
	return &sqlError{fatal: true, code: "53300", message: "sorry, too many clients already",
		detail: fmt.Sprintf("listen.max_clients is %d.", limit)}
}

func errNoDatabase(name string) *sqlError {
	return &sqlError{fatal: true, code: "3D000", message: fmt.Sprintf("database \"%s\" does not exist", name),
		detail: "It is not among listen.databases."}
}

// errNoBackend tells what Acquire waited for.
func errNoBackend(cause error) *sqlError {
	return &sqlError{code: "53300", message: "no backend connection became free in time",
		detail: cause.Error(), hint: "Retry; if it stays so, raise reservoir.max_open or look at the reservoir's metrics."}
}

// notParsed reports whether an error says that the server's grammar does not take the
// text of head, which nobody has read: then nothing of it has run. A function that runs
// such a text fails with a context, and its query is an internal one.
func notParsed(head *owed, payload []byte) bool {
	plan := head.plan
	if head.kind == msgParse && head.tmpl != nil {
		plan = head.tmpl.plan
	}
	return (head.kind == msgParse || head.kind == msgQuery) && plan != nil && plan.Pin == rewrite.PinUnparsed && string(retry.Field(payload, 'R')) == "scanner_yyerror" &&
		retry.Field(payload, 'P') != nil && retry.Field(payload, 'q') == nil && retry.Field(payload, 'W') == nil
}

func errTooManyPins(limit int, why string) *sqlError {
	return &sqlError{code: "53300",
		message: "too many sessions keep a backend of their own",
		detail:  fmt.Sprintf("This statement needs one (%s) and pins.max is %d.", why, limit)}
}

func errStatementExists(name []byte) *sqlError {
	return &sqlError{code: "42P05", message: fmt.Sprintf("prepared statement \"%s\" already exists", name)}
}

func errNoStatement(name []byte) *sqlError {
	if len(name) == 0 {
		return &sqlError{code: "26000", message: "unnamed prepared statement does not exist"}
	}
	return &sqlError{code: "26000", message: fmt.Sprintf("prepared statement \"%s\" does not exist", name),
		source: source15{"prepare.c", "451", "FetchPreparedStatement"}}
}

func errParameterCount(n, want int, statement []byte) *sqlError {
	return &sqlError{code: "08P01",
		message: fmt.Sprintf("bind message supplies %d parameters, but prepared statement \"%s\" requires %d", n, statement, want)}
}

func errNoPortal(name []byte) *sqlError {
	return &sqlError{code: "34000", message: fmt.Sprintf("portal \"%s\" does not exist", name)}
}

func errPortalExists(name []byte) *sqlError {
	return &sqlError{code: "42P03", message: fmt.Sprintf("cursor \"%s\" already exists", name)}
}

// errJobFailed is a CREATE INDEX whose background job failed.
func errJobFailed(status, details string) *sqlError {
	return &sqlError{code: "58000", message: "the index was not built: its job is " + status, detail: details,
		hint: "Drop the index, which is not valid, and create it again."}
}

// errJobGoesOn is the end of a wait for a job, not of the job.
func errJobGoesOn(why *sqlError) *sqlError {
	return &sqlError{code: why.code, message: why.message, detail: "The index is still being built: see sys.jobs."}
}

func errTooManyStatements(limit int) *sqlError {
	return &sqlError{code: "54000", message: "too many prepared statements in one session",
		detail: fmt.Sprintf("prepared.per_client is %d.", limit)}
}

func errStatementTooLong(n, limit int) *sqlError {
	return &sqlError{code: "54000", message: "statement too long to be prepared",
		detail: fmt.Sprintf("It has %d bytes and rewrite.max_bytes is %d.", n, limit)}
}

func errSettingRefused(name string) *sqlError {
	return &sqlError{fatal: true, code: "0A000", message: fmt.Sprintf("setting configuration parameter %q not supported", name)}
}
