package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/sluice-proxy/sluice/metrics"
)

// errCredentials is the error of a call of DynamoDB that Sluice did not make because it had no AWS credentials.
var errCredentials = errors.New("no AWS credentials")

// A TableError explains why a call of DynamoDB failed.
type TableError struct {
	Cause         string // one of metrics.LeaseCauses
	Code          string // AWS's, "" where none was given
	Table, Region string
	Err           error
}

func (e *TableError) Error() string {
	if e.Cause == metrics.CauseTableMissing {
		return "lease: there is no table " + e.Table + " in " + e.Region + ": " + remedies[e.Cause]
	}
	return "lease: table " + e.Table + " in " + e.Region + ": " + e.Err.Error()
}

func (e *TableError) Unwrap() error { return e.Err }

// Is reports whether target is ErrThrottled and DynamoDB has throttled the call. So callers need not know DynamoDB.
func (e *TableError) Is(target error) bool {
	return target == ErrThrottled && e.Cause == metrics.CauseThrottled
}

// causesByCode maps AWS error codes to causes. The SDK knows further codes of throttling.
var causesByCode = map[string]string{
	"ResourceNotFoundException":       metrics.CauseTableMissing,
	"AccessDeniedException":           metrics.CauseAccessDenied,
	"AccessDenied":                    metrics.CauseAccessDenied,
	"ExpiredTokenException":           metrics.CauseCredentials,
	"ExpiredToken":                    metrics.CauseCredentials,
	"UnrecognizedClientException":     metrics.CauseCredentials,
	"InvalidClientTokenId":            metrics.CauseCredentials,
	"InvalidSignatureException":       metrics.CauseCredentials,
	"IncompleteSignatureException":    metrics.CauseCredentials,
	"MissingAuthenticationToken":      metrics.CauseCredentials,
	"MissingAuthenticationTokenError": metrics.CauseCredentials,
	"RequestTimeout":                  metrics.CauseTimeout,
	"InternalServerError":             metrics.CauseServerError,
	"InternalFailure":                 metrics.CauseServerError,
	"ServiceUnavailable":              metrics.CauseServerError,
}

// remedies has, for each cause of a failed call, the text that says what an operator should do.
var remedies = map[string]string{
	metrics.CauseTableMissing:   "run sluice lease init, or name the right one in distributed.conn_lease_table, distributed.rate_limiter_table or AWS_REGION",
	metrics.CauseNotInitialised: "run sluice lease init for this endpoint and port",
	metrics.CauseTwoLedgers:     "its sidecars go by two names of it, and each ledger has the whole limit: give all the same backend.endpoint, restart them, and delete the settings (sk CFG) of the ledger that nobody uses any more from the table (docs/operations.md)",
	metrics.CauseAccessDenied:   "give this role dynamodb:GetItem and dynamodb:UpdateItem on the items of its cluster (deploy/iam/lease-sidecar.json)",
	metrics.CauseCredentials:    "renew the credentials of this process (role, service account, AWS_PROFILE), and see that the machine's clock is right",
	metrics.CauseThrottled:      "it passes; if it stays so, see by sluice lease status whether the table is still of format 1 (sluice lease migrate), and look at its throttled requests and the account's limits",
	metrics.CauseTimeout:        "look at the network to DynamoDB, and at distributed.call_timeout",
	metrics.CauseUnreachable:    "look at the network to DynamoDB: VPC endpoint, security groups, DNS, AWS_ENDPOINT_URL_DYNAMODB",
	metrics.CauseServerError:    "DynamoDB is in trouble: look at the AWS Health Dashboard",
	metrics.CauseSuspended:      "this process did not run for longer than its lease lasts, and goes on by itself; look for what stopped it (SIGSTOP, a paused machine, a debugger, no CPU)",
	metrics.CauseOther:          "the log has the error",
}

// noCode is the code that the AWS SDK reports for an answer without a code, for example from an HTTP proxy.
const noCode = "UnknownError"

// tableError returns a *TableError with the cause of a failed call of DynamoDB.
func tableError(table, region string, err error) *TableError {
	e := &TableError{Cause: metrics.CauseOther, Table: table, Region: region, Err: err}
	if named, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok {
		if e.Code = named.ErrorCode(); e.Code == noCode {
			e.Code = ""
		}
	}
	status, answered := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err)
	_, network := errors.AsType[net.Error](err)
	known, isKnown := causesByCode[e.Code]
	switch {
	case isKnown:
		e.Cause = known
	case errors.Is(err, errCredentials):
		e.Cause = metrics.CauseCredentials
	case retry.IsErrorThrottles(retry.DefaultThrottles).IsErrorThrottle(err) == aws.TrueTernary:
		e.Cause = metrics.CauseThrottled
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		e.Cause = metrics.CauseTimeout
	case answered && status.HTTPStatusCode() >= 500:
		e.Cause = metrics.CauseServerError
	case answered && status.HTTPStatusCode() > 0:
	case network || retry.IsErrorRetryables(retry.DefaultRetryables).IsErrorRetryable(err) == aws.TrueTernary:
		e.Cause = metrics.CauseUnreachable
	}
	return e
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// A Problem says what fails in the lease, and the remedy. Clients see the text of a Problem. So the text contains
// nothing of AWS's messages, which name accounts and roles.
type Problem struct {
	Step          string
	Cause         string // one of metrics.LeaseCauses
	Code          string // AWS's, "" where none was given
	Table, Region string
	Remedy        string
	Err           error // what the call returned

	kind storeCallKind
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Step + " failed: ")
	if p.Code != "" {
		b.WriteString(p.Code)
	} else {
		b.WriteString(strings.ReplaceAll(p.Cause, "_", " "))
	}
	if p.Table != "" {
		b.WriteString(", table " + p.Table + " in " + p.Region)
	}
	return b.String() + ": " + p.Remedy
}

func (p *Problem) Unwrap() error { return p.Err }

// LogValue returns the problem as a group for a log line.
func (p *Problem) LogValue() slog.Value {
	return slog.GroupValue(slog.String("cause", p.Cause), slog.String("step", p.Step), slog.String("code", p.Code), slog.String("table", p.Table),
		slog.String("region", p.Region), slog.String("remedy", p.Remedy), slog.String("error", p.Err.Error()))
}

// needsOperator reports whether only an operator can end the problem. If callChange, which renews the lease, fails
// for long, every backend is closed in the end.
func (p *Problem) needsOperator() bool {
	switch p.Cause {
	case metrics.CauseAccessDenied, metrics.CauseCredentials, metrics.CauseTableMissing, metrics.CauseNotInitialised, metrics.CauseTwoLedgers:
		return true
	}
	return false
}

// newProblem returns the Problem for the error of a call of the Store.
func newProblem(k *storeCall, err error) *Problem {
	p := &Problem{Step: k.description(), Cause: metrics.CauseOther, Err: err, kind: k.kind}
	e, ok := errors.AsType[*TableError](err)
	switch {
	case ok:
		p.Cause, p.Code, p.Table, p.Region = e.Cause, e.Code, e.Table, e.Region
	case errors.Is(err, ErrNoSettings):
		p.Cause = metrics.CauseNotInitialised
	case errors.Is(err, ErrThrottled):
		p.Cause = metrics.CauseThrottled
	case errors.Is(err, context.DeadlineExceeded):
		p.Cause = metrics.CauseTimeout
	}
	p.Remedy = remedies[p.Cause]
	return p
}

// suspendedProblem returns the problem of a lease that ran out although no call of DynamoDB failed.
func suspendedProblem(unrenewed time.Duration) *Problem {
	return &Problem{Step: (&storeCall{kind: callChange, part: &ownRecord{}}).description(), Cause: metrics.CauseSuspended, Remedy: remedies[metrics.CauseSuspended],
		Err: fmt.Errorf("nothing was renewed for %v", unrenewed.Round(time.Millisecond)), kind: callChange}
}

// description returns the purpose of a call of the Store in words.
func (c *storeCall) description() string {
	switch {
	case c.kind == callSettings:
		return "reading the settings of the lease"
	case c.kind == callLook:
		return "looking at slots of others"
	case c.kind == callReserve:
		return "reserving tickets of the connection rate"
	case c.part == nil:
		return "freeing slots of the dead"
	case c.change.Take > 0:
		return "taking slots"
	case c.change.Take < 0:
		return "giving slots back"
	}
	return "renewing the lease"
}

// problemsByKind holds, for each kind of call of the Store, the problem of its last call, or nil after a success.
type problemsByKind [callReserve + 1]*Problem

// recordOutcome records the outcome of a call of the Store. apart says that tickets (rights to dial) are in a
// DynamoDB table separate from the slots.
//
// A success ends problems whose cause concerns all calls. A missing right may concern reads or writes alone, and a
// missing table one of two tables. So only a write ends such problems, and only problems of its own table. A problem
// that persists is recorded again by the next call of its kind.
func (t *problemsByKind) recordOutcome(k *storeCall, err error, apart bool) {
	if err != nil {
		t[k.kind] = newProblem(k, err)
		return
	}
	t[k.kind] = nil
	for kind, p := range t {
		if p == nil || p.Cause == metrics.CauseNotInitialised {
			continue // only a read of the settings ends it
		}
		own := p.Cause == metrics.CauseAccessDenied || p.Cause == metrics.CauseTableMissing
		wrote := k.kind == callChange || k.kind == callReserve
		sameTable := !apart || (k.kind == callReserve) == (storeCallKind(kind) == callReserve)
		if !own || wrote && sameTable {
			t[kind] = nil
		}
	}
}

// worst returns the most important problem for a report, or nil. Problems of the calls that renew the lease come first.
func (t *problemsByKind) worst() *Problem {
	for _, kind := range []storeCallKind{callChange, callSettings, callReserve, callLook} {
		if t[kind] != nil {
			return t[kind]
		}
	}
	return nil
}
