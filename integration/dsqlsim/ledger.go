package dsqlsim

import (
	"strings"
	"sync"
	"time"
)

// maxLedgerSQL is the greatest number of bytes of a statement's text that the ledger stores.
const maxLedgerSQL = 200

// LedgerEvent is one event of a connection in the ledger.
type LedgerEvent struct {
	// Seq is the number of the event, from 1, in the order in which the events of a server ended.
	Seq uint64 `json:"seq"`
	// Session is the number of the connection, from 1.
	Session uint64 `json:"session"`
	// PID is the process id of the session's PostgreSQL backend, or 0 before the session has a backend.
	PID  uint32    `json:"pid,omitempty"`
	Time time.Time `json:"time"`
	// Kind is connect, refuse, statement, transaction (its end), cancel, fault or close.
	Kind string `json:"kind"`
	// Transaction and Statement are the numbers of a statement in its session and in its transaction, as in a Fault. In an
	// event of kind transaction, Statement is the number of its statements.
	Transaction uint64 `json:"transaction,omitempty"`
	Statement   int    `json:"statement,omitempty"`
	// Verb is the first word of a statement.
	Verb string `json:"verb,omitempty"`
	// SQL is the beginning of the statement's text, without parameters.
	SQL string `json:"sql,omitempty"`
	// Fault is the name of the fault that happened, or "" if the fault has no name.
	Fault string `json:"fault,omitempty"`
	// Outcome of a statement is the command tag or SQLSTATE that was sent. Outcome of a transaction is committed, rolled
	// back, lost or unknown. Lost: the connection ended before the COMMIT. Unknown: the connection ended while the
	// transaction may have been committing. Other events have a word as outcome.
	Outcome string `json:"outcome"`
	// Detail is, for a transaction, the SQLSTATE of its first error.
	Detail string `json:"detail,omitempty"`
}

// eventLedger is a bounded list of the newest events of a server.
type eventLedger struct {
	mu     sync.Mutex
	last   uint64
	events []LedgerEvent // a ring once it is full: event n is at (n-1) % cap
}

func newEventLedger(size int) *eventLedger { return &eventLedger{events: make([]LedgerEvent, 0, size)} }

func (l *eventLedger) addEvent(e LedgerEvent) {
	// The ledger stores a copy of the text's beginning, since the text may be a part of a long message.
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

// eventsAfter returns copies of the events with a number greater than seq, oldest first.
func (l *eventLedger) eventsAfter(seq uint64) []LedgerEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := uint64(len(l.events))
	first := max(seq, l.last-size)
	found := make([]LedgerEvent, 0, l.last-min(first, l.last))
	for n := first; n < l.last; n++ {
		found = append(found, l.events[int(n%uint64(cap(l.events)))])
	}
	return found
}

// EventsAfter returns the events after event seq, oldest first, as far as the server remembers them.
func (s *Server) EventsAfter(seq uint64) []LedgerEvent { return s.ledger.eventsAfter(seq) }
