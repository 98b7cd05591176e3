package dsqlsim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// SQLSTATEs.
const (
	codeConnection   = "08006"
	codeProtocol     = "08P01"
	codeNotSupported = "0A000"
	codeNoDatabase   = "3D000"
	codeConflict     = "40001"
	codeDeadlock     = "40P01"
	codeReadOnly     = "25006"
	codeUnique       = "23505"
	codeForeignKey   = "23503"
	codeCancelled    = "57014"
	codeTooMany      = "53300"
	codeTooFast      = "53400"
	codeLockTimeout  = "55P03"
	codeShutdown     = "57P01"
	codeDenied       = "42501"
	codeInternal     = "XX000"
)

// failure is an ErrorResponse that is ours to send.
type failure struct {
	fatal                       bool
	code, message, detail, hint string
}

// Refusals of a connection. "measured" and the like: see package dialect.
var (
	// measured 2026-10; SQLSTATE measured 2026-01.
	accessDenied = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, access denied"}
	// documented, troubleshooting page; SQLSTATE presumed.
	noSNI = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, sni was not received"}
	// presumed: only that TLS is mandatory is documented.
	noTLS = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, ssl is required"}
	// documented, quotas page, capital letter included.
	tooFast = &failure{fatal: true, code: codeTooFast, message: "Unable to accept connection, rate exceeded."}
	tooMany = &failure{fatal: true, code: codeTooMany, message: "Unable to accept connection, too many open connections."}
	// measured 2026-10.
	wakingUp = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, waking up cluster, please retry later"}
)

// Conflicts (recorded, September 2026).
var (
	dataConflict   = &failure{code: codeConflict, message: "change conflicts with another transaction (OC000)"}
	schemaConflict = &failure{code: codeConflict, message: "schema has been updated by another transaction (OC001)"}
)

// Errors that a plan alone has, in PostgreSQL's words.
var (
	cutShort   = &failure{code: codeCancelled, message: "canceling statement due to statement timeout"}
	notAllowed = &failure{code: codeDenied, message: "permission denied"}
)

// noLockInReadOnly is PostgreSQL's; what a cluster says is not known.
var noLockInReadOnly = &failure{code: codeReadOnly, message: "cannot execute SELECT FOR UPDATE in a read-only transaction"}

// noSuspension is the answer of Config.WithoutSuspension, in words of our own.
var noSuspension = &failure{code: "0A000", message: "portals with a limit on rows are not supported"}

// tooOld is ours: AWS documents neither code nor message for the end of a
// connection's life.
var tooOld = &failure{fatal: true, code: codeShutdown, message: "terminating connection due to its age"}

// expired is accessDenied with the hint of a token that is out of date. That it
// begins with "Signature expired: " is measured; the rest is how AWS services
// usually go on.
func expired(detail string) *failure {
	f := *accessDenied
	f.hint = "Signature expired: " + detail
	return &f
}

func protocolViolation(message string) *failure {
	return &failure{fatal: true, code: codeProtocol, message: message}
}

func refused(r *dialect.Refusal) *failure {
	return &failure{code: r.Code, message: r.Message}
}

func (f *failure) Error() string { return f.message + " (SQLSTATE " + f.code + ")" }

// because adds, for log and ledger, what the client is not told.
func because(reason string, err error) error { return fmt.Errorf("%s: %w", reason, err) }

func (f *failure) response() *pgproto3.ErrorResponse {
	severity := "ERROR"
	if f.fatal {
		severity = "FATAL"
	}
	return &pgproto3.ErrorResponse{
		Severity: severity, SeverityUnlocalized: severity,
		Code: f.code, Message: f.message, Detail: f.detail, Hint: f.hint,
	}
}

// marker is the column that no table has, and markerSQL the statement that
// PostgreSQL is given in place of one that must fail. PostgreSQL refuses it
// when it analyses it: after the check for a failed block, before it runs, in
// read-only transactions too, and without a lock.
const (
	marker    = "refused by dsqlsim"
	markerSQL = `SELECT "` + marker + `"`
)

// translate gives an error of PostgreSQL the words that DSQL has for it;
// inPlace is what the marker stands for, if it was sent.
func translate(e *pgproto3.ErrorResponse, inPlace *failure) *pgproto3.ErrorResponse {
	if inPlace != nil && strings.Contains(e.Message, marker) {
		return inPlace.response()
	}
	switch e.Code {
	case codeConflict, codeDeadlock, codeLockTimeout:
		return dataConflict.response()
	}
	return plainWords(e)
}

// How a session ends, besides the errors of its sockets.
var (
	errCut        = errors.New("cut by a planned fault")
	errTerminated = errors.New("client terminated")
	errAged       = errors.New("connection reached its age")
	errClosing    = errors.New("server closes")
	errUpstream   = errors.New("upstream ended the connection")
)
