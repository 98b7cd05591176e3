package pin

import (
	"strings"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Failure is the error with which the server answered an SQL text of the client.
type Failure struct {
	// Payload is the payload of the ErrorResponse.
	Payload []byte
	// IsSyntaxError means that the server reports a syntax error in a text that Sluice could not parse either.
	IsSyntaxError bool
	// Statement is the result of FailedStatement: the statement that failed, if no earlier statement of its text can
	// leave state. Otherwise it is nil.
	Statement *rewrite.Statement
	// IsDSQL means that the server is DSQL.
	IsDSQL bool
}

// MayUnpin reports whether UnpinAfterError may remove the session's pin: the turn t has made it.
func (p *State) MayUnpin(t *Turn) bool { return p.pinned && (t.fresh || t.unread) }

// UnpinAfterError removes the session's pin if the error e shows that the failed text left nothing on the backend. In
// a block the session still retains the backend until the block ends.
func (p *State) UnpinAfterError(t *Turn, e *Failure, pins *Counter) {
	switch {
	case !p.MayUnpin(t):
	case t.unread:
		// A text that Sluice could not parse has left nothing on the backend if the server reports a syntax error in it.
		if left := &t.left; left.TagCount() == 0 && e.IsSyntaxError || isErrorOfStatement(e.Payload) && left.LeavesNothing() {
			p.unpin(t, pins)
		}
		t.unread = false // a function may have failed after it left something
	case e.Statement != nil && (e.Statement.Pin == rewrite.NoPin || e.showsNotRun()):
		p.unpin(t, pins)
	}
}

// FailedStatement returns the failed statement, at index n of the text with the plan. It returns nil if plan is nil
// or has no Pin, or if an earlier statement of the text can leave state.
func FailedStatement(plan *rewrite.Plan, n int) *rewrite.Statement {
	if plan == nil || plan.Pin == rewrite.NoPin || n >= len(plan.Statements) {
		return nil
	}
	for i := range n {
		if plan.Statements[i].Pin != rewrite.NoPin {
			return nil
		}
	}
	return &plan.Statements[n]
}

// showsNotRun reports whether the error e proves that its statement did not run at all: DSQL refused the statement
// (0A000), or the server found a wrong name or type in the text. In either case even DO, CALL and LOAD, which may
// fail halfway, have left no state on the backend.
func (e *Failure) showsNotRun() bool {
	code := string(retry.ErrorField(e.Payload, 'C'))
	return e.IsDSQL && code == retry.StateUnsupported ||
		strings.HasPrefix(code, "42") && retry.ErrorField(e.Payload, 'P') != nil && isErrorOfStatement(e.Payload)
}

// isErrorOfStatement reports whether a server's error comes from the client's statement itself, not from a function
// that the statement calls.
func isErrorOfStatement(payload []byte) bool {
	return retry.ErrorField(payload, 'q') == nil && retry.ErrorField(payload, 'W') == nil
}
