package dsqlsim

import (
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// statementPosition is a position in a session: the n-th statement of its n-th transaction. A statement outside a block
// is a transaction by itself, and so is a multi-statement query or a pipeline outside a block.
type statementPosition struct {
	transaction uint64
	statement   int // BEGIN does not count
	open        bool
	block       bool   // it began with BEGIN
	failure     string // SQLSTATE of its first error
	undone      bool   // its end is a ROLLBACK
}

// advanceTo moves the position on to the session's next statement, which is of the given kind.
func (o *statementPosition) advanceTo(kind dialect.Kind) {
	if !o.open {
		if endsTransaction(kind) {
			return // there is nothing to end
		}
		*o = statementPosition{transaction: o.transaction + 1, open: true}
	}
	if kind == dialect.Begin {
		o.block = true
		return
	}
	o.statement++
}

// recordRequest moves the position on to a statement that the client has sent, and returns that statement's position.
func (o *statementPosition) recordRequest(kind dialect.Kind) statementPosition {
	o.advanceTo(kind)
	in := *o
	if endsTransaction(kind) {
		if o.open {
			o.undone = kind == dialect.Rollback
		}
		o.endTransaction()
	}
	return in
}

// endTransaction records in the position that the transaction has ended.
func (o *statementPosition) endTransaction() { o.open, o.block, o.failure = false, false, "" }

func endsTransaction(kind dialect.Kind) bool {
	return kind == dialect.Commit || kind == dialect.Rollback
}

// statementVerb returns a statement's first word, spelled as in the rules for injected faults (for example "INSERT").
func statementVerb(st *dialect.Statement) string {
	switch st.Kind {
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return canonicalVerb(st.Verb)
	}
	return st.Verb
}

// canonicalVerb returns BEGIN, COMMIT and ROLLBACK for START, END and ABORT, and other verbs in capitals.
func canonicalVerb(verb string) string {
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

// These are the outcomes of a transaction in the ledger.
const (
	wasCommitted  = "committed"
	wasRolledBack = "rolled back"
	wasLost       = "lost"    // the connection ended in front of its COMMIT
	wasUnknown    = "unknown" // the connection ended while it may have been committing
)

// sessionJournal writes the events of one session into the ledger.
type sessionJournal struct {
	ledger  *eventLedger
	metrics *metrics
	session uint64
	pid     uint32
	// requested is the position of the client's last request, and answered the position of the last answer.
	requested, answered statementPosition
}

func (j *sessionJournal) addEvent(e LedgerEvent) {
	e.Session, e.PID = j.session, j.pid
	j.ledger.addEvent(e)
}

// recordSuccess records and counts a statement that has succeeded, with the command tag that the client gets.
func (j *sessionJournal) recordSuccess(st *dialect.Statement, tag string) {
	j.recordStatement(st, tag)
	j.metrics.statements.WithLabelValues(kindLabel(st)).Inc()
	if st == nil || !endsTransaction(st.Kind) {
		return
	}
	switch tag {
	case "COMMIT":
		j.recordTransactionEnd(wasCommitted)
	case "ROLLBACK":
		j.recordTransactionEnd(wasRolledBack)
	}
}

func kindLabel(st *dialect.Statement) string {
	if st == nil {
		return "other"
	}
	switch st.Kind {
	case dialect.DML:
		return "dml"
	case dialect.DDL:
		return "ddl"
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return "transaction"
	}
	return "other"
}

// recordFailure records a statement that has failed. The end of the turn shows whether that error ended the
// transaction.
func (j *sessionJournal) recordFailure(st *dialect.Statement, code string) {
	j.recordStatement(st, code)
	if j.answered.failure == "" {
		j.answered.failure = code
	}
}

func (j *sessionJournal) recordStatement(st *dialect.Statement, outcome string) {
	e := LedgerEvent{Kind: "statement", Outcome: outcome}
	kind := dialect.Other
	if st != nil {
		kind, e.Verb, e.SQL = st.Kind, st.Verb, st.SQL
	}
	j.answered.advanceTo(kind)
	e.Transaction, e.Statement = j.answered.transaction, j.answered.statement
	j.addEvent(e)
}

// recordTurnEnd records the end of a turn; status is that of its ReadyForQuery. Outside a block, a transaction that
// began in the turn has ended as well.
func (j *sessionJournal) recordTurnEnd(status byte) {
	switch {
	case status != statusIdle:
	case j.answered.failure != "":
		j.recordTransactionEnd(wasRolledBack)
	default:
		j.recordTransactionEnd(wasCommitted)
	}
	j.requested = j.answered
}

// recordTransactionEnd records the end of the transaction, if one is open.
func (j *sessionJournal) recordTransactionEnd(outcome string) {
	if !j.answered.open {
		return
	}
	j.metrics.transactions.WithLabelValues(outcome).Inc()
	j.addEvent(LedgerEvent{
		Kind: "transaction", Transaction: j.answered.transaction, Statement: j.answered.statement,
		Outcome: outcome, Detail: j.answered.failure,
	})
	j.answered.endTransaction()
}

// recordClose records the end of the connection, and of its open transaction. unfinished means that this transaction
// cannot have committed. endless means that the client sent no frame that would end the current group (the statements
// up to a Sync).
func (j *sessionJournal) recordClose(cause error, unfinished, endless bool) {
	if j.requested.transaction > j.answered.transaction {
		j.answered = j.requested // nothing of it was answered
		j.answered.open = true
	}
	outcome := wasUnknown
	// The outcome depends on the frame that could still end the transaction. A block ends with its COMMIT, an implicit
	// transaction with a Sync or a Query. A failed transaction ends with a rollback.
	same := j.requested.transaction == j.answered.transaction
	cannot := j.requested.undone || j.answered.failure != "" || j.requested.open && (j.requested.block || endless)
	if same && cannot || unfinished {
		outcome = wasLost
	}
	j.recordTransactionEnd(outcome)
	j.addEvent(LedgerEvent{Kind: "close", Outcome: "closed", Detail: cause.Error()})
}
