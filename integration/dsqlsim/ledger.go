package dsqlsim

import (
	"strings"
	"sync"
	"time"
)

// maxLedgerSQL is how much of a statement's text the ledger keeps.
const maxLedgerSQL = 200

// Event is one thing that happened on one connection.
type Event struct {
	// Seq numbers the events of a server from 1, in the order in which they ended.
	Seq uint64 `json:"seq"`
	// Session numbers the connections from 1.
	Session uint64 `json:"session"`
	// PID is the PostgreSQL process, 0 before there is one.
	PID  uint32    `json:"pid,omitempty"`
	Time time.Time `json:"time"`
	// Kind is connect, refuse, statement, transaction (its end), cancel, fault or close.
	Kind string `json:"kind"`
	// Transaction and Statement number a statement in its session and in its
	// transaction, as a Fault does. Of a transaction Statement is how many it had.
	Transaction uint64 `json:"transaction,omitempty"`
	Statement   int    `json:"statement,omitempty"`
	// Verb is the first word of a statement.
	Verb string `json:"verb,omitempty"`
	// SQL is how the statement's text begins, without parameters.
	SQL string `json:"sql,omitempty"`
	// Fault is the name of the fault that happened, if it has one.
	Fault string `json:"fault,omitempty"`
	// Outcome of a statement is the command tag or SQLSTATE that was sent, of a
	// transaction: committed, rolled back, lost (the connection ended before its
	// COMMIT) or unknown (it ended while the transaction may have been
	// committing); of anything else a word.
	Outcome string `json:"outcome"`
	// Detail of a transaction is the SQLSTATE of its first error.
	Detail string `json:"detail,omitempty"`
}

// ledger is the bounded list of what happened, the newest events.
type ledger struct {
	mu     sync.Mutex
	last   uint64
	events []Event // a ring once it is full: event n is at (n-1) % cap
}

func newLedger(size int) *ledger { return &ledger{events: make([]Event, 0, size)} }

func (l *ledger) add(e Event) {
	// The text of a statement may be part of a long message: keep none of it.
	e.SQL = strings.Clone(e.SQL[:min(len(e.SQL), maxLedgerSQL)])
	e.Time = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq = l.last
	if len(l.events) < cap(l.events) {
		l.events = append(l.events, e)
		return
	}
	l.events[int((e.Seq-1)%uint64(cap(l.events)))] = e
}

// after copies the events with a greater number, oldest first.
func (l *ledger) after(seq uint64) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := uint64(len(l.events))
	first := max(seq, l.last-size)
	found := make([]Event, 0, l.last-min(first, l.last))
	for n := first; n < l.last; n++ {
		found = append(found, l.events[int(n%uint64(cap(l.events)))])
	}
	return found
}

// Ledger lists what happened after event seq, oldest first, as far as it is
// remembered.
func (s *Server) Ledger(seq uint64) []Event { return s.ledger.after(seq) }
