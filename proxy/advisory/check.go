package advisory

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file decides what a session that holds advisory locks may send.
//
// Sluice refuses an unparsed query, which may be DDL or a write. It also refuses a multi-statement query of several
// transactions: a fence (a query that checks the locks) would protect only the first of them. Before DDL, Sluice
// extends the leases of the locks, since no query conflicts with DDL.

var (
	// ErrLost is the error of a transaction whose session has lost one of its advisory locks.
	ErrLost = &wire.Error{Code: retry.StateConflict, Message: "an advisory lock of this session was taken over by another session",
		Detail: "Its lease ran out before Sluice could renew it, and nothing that this transaction wrote is kept.",
		Hint:   "Connect again and take the lock; look at what was done meanwhile. The time is " + rewrite.AdvisoryKey + "_lease."}
	// ErrGone ends a session that has lost an advisory lock: in PostgreSQL a lock is lost only with its connection.
	ErrGone = &wire.Error{Fatal: true, Code: "08006", Message: ErrLost.Message, Detail: "Its lease ran out before Sluice could renew it.", Hint: ErrLost.Hint}
	// ErrInBlock refuses to take an advisory lock in a transaction that the server has begun.
	ErrInBlock = &wire.Error{Code: retry.StateUnsupported, Message: "an advisory lock cannot be taken within a transaction that has begun",
		Detail: "Sluice keeps the lock as a row (" + rewrite.AdvisoryKey + "), which a transaction that began before would not see.",
		Hint:   "Take the lock before BEGIN, or as the first statement behind it; in a pipeline, in front of all other statements."}
	// ErrSeveralWrites refuses, under an advisory lock, a multi-statement query of several transactions that write.
	ErrSeveralWrites = &wire.Error{Code: retry.StateUnsupported, Message: "a string of several transactions that write is not run under an advisory lock",
		Detail: "Each transaction of a session that holds one is checked against the lock (" + rewrite.AdvisoryKey + ").",
		Hint:   "Send BEGIN and COMMIT by themselves."}
	// ErrCursor refuses a simple Query that uses a cursor and follows a write outside of a block in the same request.
	ErrCursor = &wire.Error{Code: retry.StateUnsupported, Message: "behind a write outside of a block no cursor is used by a simple Query in the same request, under an advisory lock",
		Detail: "Sluice runs such a write between BEGIN and COMMIT of its own, and the cursor's answer would come before the outcome of the write is known.", Hint: "Send a Sync behind the write."}
	errUnread = &wire.Error{Code: retry.StateUnsupported, Message: "a statement that Sluice cannot read is not run under an advisory lock",
		Detail: "It may be DDL or a write, which are guarded in different ways (" + rewrite.AdvisoryKey + ").", Hint: "Send it in a session that holds no advisory lock."}
	errGroup = &wire.Error{Code: retry.StateUnsupported, Message: "behind a write outside of a block nothing opens or ends one in the same request, under an advisory lock",
		Detail: "Sluice runs such a write between BEGIN and COMMIT of its own, to check it against the lock (" + rewrite.AdvisoryKey + ").", Hint: "Send a Sync behind the write."}
	warnNotOwned = &wire.Error{Code: "01000", Message: "you don't own a lock of type ExclusiveLock"}
)

// Situation is the state of a session that holds advisory locks, before a query is sent.
type Situation struct {
	// Lost means that another session has taken over one of the locks.
	Lost bool
	// DDL means that a transaction with DDL is open.
	DDL bool
	// FailedBlock means that the session is in a failed block.
	FailedBlock bool
	// InternalBlock means that Sluice sends the query in a block that Sluice itself began.
	InternalBlock bool
}

// Check returns in refused the client's error for a query that must not run, or nil. extend means that the locks need
// longer leases: for DDL, and for the end of a transaction with DDL. In a failed block Check checks only a query that
// ends the block.
func (at Situation) Check(plan *rewrite.Plan) (extend bool, refused *wire.Error) {
	if at.FailedBlock && !HasEffectInFailedBlock(plan) {
		return false, nil
	}
	switch {
	case at.Lost:
		return false, ErrLost
	case at.InternalBlock && HasTxControl(plan):
		return false, errGroup
	case plan.Kind == rewrite.Unknown:
		return false, errUnread
	case plan.Kind == rewrite.DDL, at.DDL && plan.Kind > rewrite.Read:
		return true, nil
	case plan.Kind == rewrite.Write && len(plan.Statements) > 1 && HasTxControl(plan):
		return false, ErrSeveralWrites
	}
	return false, nil
}

// HasEffectInFailedBlock reports whether a query that is sent in a failed block may have an effect. The result is true
// for a query that ends the block and has more statements, and for an unparsed query.
func HasEffectInFailedBlock(plan *rewrite.Plan) bool {
	return plan.Kind == rewrite.Unknown || len(plan.Statements) > 1 && plan.Statements[0].Tx.Verb.EndsBlock()
}

// HasTxControl reports whether a query has a transaction control statement, such as BEGIN, COMMIT or SAVEPOINT.
func HasTxControl(plan *rewrite.Plan) bool {
	return plan.AnyStatement(func(st *rewrite.Statement) bool { return st.Tx.Verb != rewrite.NoVerb })
}

// WarningNotOwned returns PostgreSQL's warning, as a frame, for an unlock of a lock that the session does not hold.
func WarningNotOwned() []byte { return warnNotOwned.AppendNotice(nil, "WARNING") }
