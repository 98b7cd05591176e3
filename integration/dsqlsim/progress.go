package dsqlsim

import (
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// progress is where a session stands.
type progress struct {
	asked ordinal // its client's requests
	done  ordinal // the answers
}

// ordinal is where a session stands: in the n-th statement of its n-th
// transaction. A statement outside a block is a transaction of its own, and so
// is a string or a pipeline of them.
type ordinal struct {
	transaction uint64
	statement   int // BEGIN does not count
	open        bool
	block       bool   // it began with BEGIN
	failure     string // SQLSTATE of its first error
}

// advance goes on to the next statement.
func (o *ordinal) advance(kind dialect.Kind) {
	if !o.open {
		if ends(kind) {
			return // there is nothing to end
		}
		*o = ordinal{transaction: o.transaction + 1, open: true}
	}
	if kind == dialect.Begin {
		o.block = true
		return
	}
	o.statement++
}

// end ends the transaction.
func (o *ordinal) end() { o.open, o.block, o.failure = false, false, "" }

func ends(kind dialect.Kind) bool { return kind == dialect.Commit || kind == dialect.Rollback }

// verb is a statement's first word, in the one spelling that plans know.
func verb(st *dialect.Statement) string {
	switch st.Kind {
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return canonical(st.Verb)
	}
	return st.Verb
}

// canonical turns START, END and ABORT into BEGIN, COMMIT and ROLLBACK.
func canonical(verb string) string {
	switch verb = strings.ToUpper(verb); verb {
	case "START":
		return "BEGIN"
	case "END":
		return "COMMIT"
	case "ABORT":
		return "ROLLBACK"
	}
	return verb
}

// Outcomes of a transaction in the ledger.
const (
	wasCommitted  = "committed"
	wasRolledBack = "rolled back"
	wasLost       = "lost"    // the connection ended in front of its COMMIT
	wasUnknown    = "unknown" // the connection ended while it may have been committing
)

// recordSuccess enters a statement that has succeeded into the ledger, with the
// command tag that the client gets.
func (s *session) recordSuccess(st *dialect.Statement, tag string) {
	s.recordStatement(st, tag)
	if st == nil || !ends(st.Kind) {
		return
	}
	switch tag {
	case "COMMIT":
		s.recordEnd(wasCommitted)
	case "ROLLBACK":
		s.recordEnd(wasRolledBack)
	}
}

// recordFailure is the same for a statement that has failed. Whether that ends
// the transaction is known at the end of the turn.
func (s *session) recordFailure(st *dialect.Statement, code string) {
	s.recordStatement(st, code)
	if at := &s.progress.done; at.failure == "" {
		at.failure = code
	}
}

func (s *session) recordStatement(st *dialect.Statement, outcome string) {
	e := Event{Session: s.id, PID: s.key.pid, Kind: "statement", Outcome: outcome}
	kind := dialect.Other
	if st != nil {
		kind, e.Verb, e.SQL = st.Kind, st.Verb, st.SQL
	}
	at := &s.progress.done
	at.advance(kind)
	e.Transaction, e.Statement = at.transaction, at.statement
	s.server.ledger.add(e)
}

// recordTurn is called at the end of a turn. Outside a block, what began in it has
// ended as well.
func (s *session) recordTurn() {
	at := &s.progress.done
	switch {
	case s.status != statusIdle:
	case at.failure != "":
		s.recordEnd(wasRolledBack)
	default:
		s.recordEnd(wasCommitted)
	}
	s.progress.asked, s.injection.mustFail = *at, false
}

// recordEnd enters the end of the transaction, if there is one, into the ledger.
func (s *session) recordEnd(outcome string) {
	at := &s.progress.done
	if !at.open {
		return
	}
	s.server.metrics.transactions.WithLabelValues(outcome).Inc()
	s.server.ledger.add(Event{
		Session: s.id, PID: s.key.pid, Kind: "transaction", Transaction: at.transaction, Statement: at.statement,
		Outcome: outcome, Detail: at.failure,
	})
	at.end()
}

// recordClose enters the end of the connection into the ledger, and that of the
// transaction which it leaves.
func (s *session) recordClose(cause error) {
	asked, done := &s.progress.asked, &s.progress.done
	if asked.transaction > done.transaction {
		*done = *asked // nothing of it was answered
		done.open = true
	}
	outcome := wasUnknown
	inBlock := asked.open && asked.block && asked.transaction == done.transaction
	if inBlock || s.replies.first() == nil || s.injection.mustFail {
		outcome = wasLost
	}
	s.recordEnd(outcome)
	s.server.plan.forget(s.id)
	s.server.ledger.add(Event{Session: s.id, PID: s.key.pid, Kind: "close", Outcome: "closed", Detail: cause.Error()})
}
