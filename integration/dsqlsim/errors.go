package dsqlsim

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// These are SQLSTATEs of errors that dsqlsim sends or recognises.
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

// failure is an ErrorResponse that dsqlsim itself makes.
type failure struct {
	fatal                       bool
	code, message, detail, hint string
}

// These errors refuse a connection. Package dialect defines the marks of origin: measured, documented, presumed.
var (
	// The text of accessDenied is measured on a cluster (2026-10), and so is its SQLSTATE (2026-01).
	accessDenied = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, access denied"}
	// The text of noSNI is documented (troubleshooting page); its SQLSTATE is presumed.
	noSNI = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, sni was not received"}
	// The text of noTLS is presumed, since the documentation says only that TLS is mandatory.
	noTLS = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, ssl is required"}
	// The messages are documented (quotas page), capital letter included.
	tooFast = &failure{fatal: true, code: codeTooFast, message: "Unable to accept connection, rate exceeded."}
	tooMany = &failure{fatal: true, code: codeTooMany, message: "Unable to accept connection, too many open connections."}
	// The text of clusterWakingUp is measured on a cluster (2026-10).
	clusterWakingUp = &failure{fatal: true, code: codeConnection, message: "unable to accept connection, waking up cluster, please retry later"}
)

// These are the errors of a conflict between transactions, as real clusters sent them (recorded, September 2026).
var (
	dataConflict   = &failure{code: codeConflict, message: "change conflicts with another transaction (OC000)"}
	schemaConflict = &failure{code: codeConflict, message: "schema has been updated by another transaction (OC001)"}
)

// These errors have PostgreSQL's texts. Only planned faults cause them.
var (
	cutShort   = &failure{code: codeCancelled, message: "canceling statement due to statement timeout"}
	notAllowed = &failure{code: codeDenied, message: "permission denied"}
)

// noLockInReadOnly is PostgreSQL's error for FOR UPDATE in a READ ONLY block. A cluster's error is not known.
var noLockInReadOnly = &failure{code: codeReadOnly, message: "cannot execute SELECT FOR UPDATE in a read-only transaction"}

// noSuspension is the error for an Execute with a limit on rows under Config.WithoutSuspension. Dsqlsim invented the
// message.
var noSuspension = &failure{code: "0A000", message: "portals with a limit on rows are not supported"}

// tooOld is the error for a connection that has reached its maximum age. Dsqlsim invented it: AWS documents neither
// code nor message.
var tooOld = &failure{fatal: true, code: codeShutdown, message: "terminating connection due to its age"}

// expiredToken returns accessDenied with the hint for a token that is out of date. The beginning "Signature expired: "
// is measured; the rest follows the usual messages of AWS services.
func expiredToken(detail string) *failure {
	f := *accessDenied
	f.hint = "Signature expired: " + detail
	return &f
}

func protocolViolation(message string) *failure {
	return &failure{fatal: true, code: codeProtocol, message: message}
}

func failureOf(r *dialect.Refusal) *failure {
	return &failure{code: r.Code, message: r.Message}
}

func (f *failure) Error() string { return f.message + " (SQLSTATE " + f.code + ")" }

// wrapReason adds a reason to an error. The log and the ledger show the reason, and the client does not see it.
func wrapReason(reason string, err error) error { return fmt.Errorf("%s: %w", reason, err) }

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

// marker is a column that no table has. markerSQL names it, and is the statement that PostgreSQL gets instead of a
// statement that must fail. PostgreSQL refuses markerSQL when it analyses the statement, after the check for a
// failed block. It does so in read-only transactions too, and without a lock.
const (
	marker    = "refused by dsqlsim"
	markerSQL = `SELECT "` + marker + `"`
)

// translateError returns the error that DSQL would send instead of an error of PostgreSQL. inPlace is the client's
// error for a statement that dsqlsim made fail (by markerSQL), or nil.
func translateError(e *pgproto3.ErrorResponse, inPlace *failure) *pgproto3.ErrorResponse {
	if inPlace != nil && strings.Contains(e.Message, marker) {
		return inPlace.response()
	}
	switch e.Code {
	case codeConflict, codeDeadlock, codeLockTimeout:
		return dataConflict.response()
	}
	return cleanCatalogError(e)
}

// These are the reasons for the end of a session, besides the errors of its sockets.
var (
	errCut        = errors.New("cut by a planned fault")
	errTerminated = errors.New("client terminated")
	errAged       = errors.New("connection reached its age")
	errClosing    = errors.New("server closes")
	errUpstream   = errors.New("upstream ended the connection")
)
