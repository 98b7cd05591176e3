package pin

import (
	"strings"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Failure is a server's error for a text of the client.
type Failure struct {
	// Payload is the payload of the ErrorResponse.
	Payload []byte
	// IsSyntaxError means that the server reports a syntax error in a text that Sluice could not parse either.
	IsSyntaxError bool
	// Statement is the failed statement of the text, if no earlier statement of the text can leave state, or nil
	// (FailedStatement).
	Statement *rewrite.Statement
	// IsDSQL means that the server is DSQL.
	IsDSQL bool
}

// MayUnpin reports whether UnpinAfterError may remove the session's pin.
func (p *State) MayUnpin(t *Turn) bool { return p.pinned && (t.fresh || t.unread) }

// UnpinAfterError removes the pin if the error shows that the statement left nothing on the backend. In a block the
// session still keeps the backend until the block ends.
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

// FailedStatement returns statement n of a text, which has failed, if the text has a Pin and no earlier statement of
// the text can leave state. Otherwise it returns nil. plan may be nil.
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

// showsNotRun reports whether an error shows that its statement did not run at all. DSQL refused the statement (0A000),
// or the server found a wrong name or type at a position in the text. DO, CALL and LOAD are included, which may leave
// state on the backend if they fail halfway.
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
