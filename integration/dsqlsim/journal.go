package dsqlsim

import (
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// ordinal is a position in a session: the n-th statement of its n-th transaction. A statement outside a block is a
// transaction by itself, and so is a multi-statement query or a pipeline outside a block.
type ordinal struct {
	transaction uint64
	statement   int // BEGIN does not count
	open        bool
	block       bool   // it began with BEGIN
	failure     string // SQLSTATE of its first error
	undone      bool   // its end is a ROLLBACK
}

// advance moves the position on to the next statement.
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

// ask moves the position on to a statement that the client has sent, and returns that statement's position.
func (o *ordinal) ask(kind dialect.Kind) ordinal {
	o.advance(kind)
	in := *o
	if ends(kind) {
		if o.open {
			o.undone = kind == dialect.Rollback
		}
		o.end()
	}
	return in
}

// end ends the transaction.
func (o *ordinal) end() { o.open, o.block, o.failure = false, false, "" }

func ends(kind dialect.Kind) bool { return kind == dialect.Commit || kind == dialect.Rollback }

// verb returns a statement's first word, in the spelling that faults use.
func verb(st *dialect.Statement) string {
	switch st.Kind {
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return canonical(st.Verb)
	}
	return st.Verb
}

// canonical returns BEGIN, COMMIT and ROLLBACK for START, END and ABORT, and other verbs in capitals.
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

// The outcomes of a transaction in the ledger.
const (
	wasCommitted  = "committed"
	wasRolledBack = "rolled back"
	wasLost       = "lost"    // the connection ended in front of its COMMIT
	wasUnknown    = "unknown" // the connection ended while it may have been committing
)

// journal writes the events of one session into the ledger.
type journal struct {
	ledger  *ledger
	metrics *metrics
	session uint64
	pid     uint32
	// asked is the position of the client's requests, done the position of the answers.
	asked, done ordinal
}

func (j *journal) add(e Event) {
	e.Session, e.PID = j.session, j.pid
	j.ledger.add(e)
}

// success records and counts a statement that has succeeded, with the command tag that the client gets.
func (j *journal) success(st *dialect.Statement, tag string) {
	j.statement(st, tag)
	j.metrics.statements.WithLabelValues(kindLabel(st)).Inc()
	if st == nil || !ends(st.Kind) {
		return
	}
	switch tag {
	case "COMMIT":
		j.end(wasCommitted)
	case "ROLLBACK":
		j.end(wasRolledBack)
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

// failure records a statement that has failed. The end of the turn shows whether that error ended the transaction.
func (j *journal) failure(st *dialect.Statement, code string) {
	j.statement(st, code)
	if j.done.failure == "" {
		j.done.failure = code
	}
}

func (j *journal) statement(st *dialect.Statement, outcome string) {
	e := Event{Kind: "statement", Outcome: outcome}
	kind := dialect.Other
	if st != nil {
		kind, e.Verb, e.SQL = st.Kind, st.Verb, st.SQL
	}
	j.done.advance(kind)
	e.Transaction, e.Statement = j.done.transaction, j.done.statement
	j.add(e)
}

// endTurn records the end of a turn. Outside a block, a transaction that began in the turn has ended as well.
func (j *journal) endTurn(status byte) {
	switch {
	case status != statusIdle:
	case j.done.failure != "":
		j.end(wasRolledBack)
	default:
		j.end(wasCommitted)
	}
	j.asked = j.done
}

// end records the end of the transaction, if one is open.
func (j *journal) end(outcome string) {
	if !j.done.open {
		return
	}
	j.metrics.transactions.WithLabelValues(outcome).Inc()
	j.add(Event{
		Kind: "transaction", Transaction: j.done.transaction, Statement: j.done.statement,
		Outcome: outcome, Detail: j.done.failure,
	})
	j.done.end()
}

// close records the end of the connection, and of its open transaction. unfinished reports that this transaction cannot
// have committed. endless reports that no pending frame would end a group of the extended protocol.
func (j *journal) close(cause error, unfinished, endless bool) {
	if j.asked.transaction > j.done.transaction {
		j.done = j.asked // nothing of it was answered
		j.done.open = true
	}
	outcome := wasUnknown
	// A block ends with its COMMIT, an implicit transaction with a Sync or a Query. A failed transaction ends with a
	// rollback.
	same := j.asked.transaction == j.done.transaction
	cannot := j.asked.undone || j.done.failure != "" || j.asked.open && (j.asked.block || endless)
	if same && cannot || unfinished {
		outcome = wasLost
	}
	j.end(outcome)
	j.add(Event{Kind: "close", Outcome: "closed", Detail: cause.Error()})
}
