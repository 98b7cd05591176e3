package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome says how a transaction ended, as far as its client knows.
type Outcome uint8

const (
	// Aborted means that the client got an error that excludes a commit, or rolled back.
	Aborted Outcome = iota
	Committed
	// Unknown means that the client got 08007, or no answer to a statement that commits.
	Unknown
)

func (o Outcome) String() string {
	return [...]string{"aborted", "committed", "unknown"}[o]
}

// OpKind says what an operation of a transaction (Op) did, for example a read or a write.
type OpKind uint8

const (
	// Read is an operation that read the list Seen under Key, with the transaction's own writes.
	Read OpKind = iota
	// Lock is a Read with FOR UPDATE.
	Lock
	// Append is an operation that added the element Write to the list under Key.
	Append
	// Missed is an Append that matched no row, so the database must not contain the element.
	Missed
	// Mark is an operation that inserted the row Write with values that the server made. Value has the first or all of
	// these values as the client got them, "" if it got none.
	Mark
	// Drawn is an operation that got Value from the server as a unique number.
	Drawn
	// Now is an operation that got Value from the server as the time now() of the transaction.
	Now
	// Save is an operation that set the savepoint Write, and Back one that returned to that savepoint. Back undoes the
	// writes and locks since the savepoint, but not the reads.
	Save
	Back
)

func (k OpKind) String() string {
	return [...]string{"read", "lock", "append", "missed", "mark", "drawn", "now", "savepoint", "rollback to"}[k]
}

// Op is one operation of a transaction, with the values that the client got in answer.
type Op struct {
	Kind  OpKind
	Key   int
	Write int
	Seen  []int
	Value string
}

func (o Op) String() string {
	switch o.Kind {
	case Read, Lock:
		return fmt.Sprintf("%v %d: %s", o.Kind, o.Key, formatList(o.Seen))
	case Append, Missed:
		return fmt.Sprintf("%v %d to %d", o.Kind, o.Write, o.Key)
	case Mark:
		return fmt.Sprintf("mark %d %s", o.Write, o.Value)
	case Save, Back:
		return fmt.Sprintf("%v %d", o.Kind, o.Write)
	}
	return fmt.Sprintf("%v %s", o.Kind, o.Value)
}

// formatList returns a text with the length and the end of a list, where the latest writes are.
func formatList(ids []int) string {
	const enough = 8
	if len(ids) <= enough {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%d, the last %v", len(ids), ids[len(ids)-enough:])
}

// Txn is one transaction with everything that its client knows about it.
type Txn struct {
	ID int
	// Began and Ended are readings of one clock for all clients, before the first request and after the last answer. No
	// two readings are equal.
	Began, Ended int64
	Outcome      Outcome
	// Ops are the operations in the order of the requests, including those that were sent and not answered.
	Ops []Op
	// Story is a log for people: the client, its requests and the answers.
	Story []string
}

func (t *Txn) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "T%d [%d, %d] %v\n", t.ID, t.Began, t.Ended, t.Outcome)
	for _, line := range t.Story {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	for _, op := range t.Ops {
		fmt.Fprintf(&b, "    . %v\n", op)
	}
	return b.String()
}

// requestsChange reports whether the transaction has tried to change the database.
func (t *Txn) requestsChange() bool {
	return slices.ContainsFunc(t.Ops, func(op Op) bool { return op.Kind == Append || op.Kind == Missed || op.Kind == Mark })
}

// undoneOps returns for each operation whether a Back (a return to a savepoint) has undone that operation.
func (t *Txn) undoneOps() []bool {
	undone := make([]bool, len(t.Ops))
	for i, op := range t.Ops {
		if op.Kind != Back {
			continue
		}
		for j := i - 1; j >= 0 && !(t.Ops[j].Kind == Save && t.Ops[j].Write == op.Write); j-- {
			undone[j] = true
		}
	}
	return undone
}

// History is what all clients know about their transactions, with the final content of the database.
type History struct {
	Txns  []*Txn
	Lists map[int][]int  // of each key
	Marks map[int]string // values of each row
	Times map[int]string // now() as each row has it; "" for none
}

// BrokenRule names a rule that a history breaks.
type BrokenRule string

const (
	Lost       BrokenRule = "an acknowledged write is missing"
	Twice      BrokenRule = "a write was applied twice"
	Undead     BrokenRule = "a write of a transaction that did not commit is there"
	Partial    BrokenRule = "a transaction is there in part"
	Alien      BrokenRule = "a write that nobody made is there"
	Phantom    BrokenRule = "a read of what never was committed"
	Torn       BrokenRule = "a read of half a transaction"
	LostUpdate BrokenRule = "a write on top of what the transaction did not read"
	Cycle      BrokenRule = "no order of snapshots and commits explains it"
	Untrue     BrokenRule = "a value told is not the value committed"
	NotUnique  BrokenRule = "two transactions were told one number of a sequence"
	SentTwice  BrokenRule = "one transaction committed more than once"
	SentAfter  BrokenRule = "sent again after its outcome was unknown"
	Unlogged   BrokenRule = "told and recorded outcome differ"
)

// Violation says which rule a history breaks, how, and in which transactions.
type Violation struct {
	Rule BrokenRule
	Text string
	Txns []*Txn // those in it
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Rule, v.Text)
	for _, t := range v.Txns {
		b.WriteString(t.String())
	}
	return b.String()
}

// CheckHistory returns the violations that it finds, the simplest first. Of several cycles in the graph of snapshots
// and commits it returns only the shortest.
func CheckHistory(h *History) []Violation {
	c := &historyChecker{history: h, writes: make(map[listElement]*listWrite)}
	c.indexWrites()
	c.checkFinalLists()
	c.settleOutcomes()
	c.checkMarks()
	for _, t := range c.txns {
		c.checkReads(t)
	}
	if cycle := c.findCycle(); cycle != nil {
		c.found = append(c.found, *cycle)
	}
	return c.found
}

// listElement names an element of a list: by the list's key, and by the number of the write that appended it.
type listElement struct{ key, write int }

// listWrite is one write to a list: an Append, or a Missed (a write that matched no row).
type listWrite struct {
	by     *checkedTxn
	missed bool  // or undone
	at     []int // where it stands in the final list
}

// checkedTxn is a transaction with what the checker has derived about it.
type checkedTxn struct {
	*Txn
	number int
	// applied means that the transaction has certainly committed. If its client does not know the outcome, the final
	// content of the database decides.
	applied bool
	writes  []listElement // in order
	marks   []int
	undone  []bool // of its ops
}

type historyChecker struct {
	history *History
	txns    []*checkedTxn
	writes  map[listElement]*listWrite
	found   []Violation
	edges   []orderEdge
}

func (c *historyChecker) addViolation(v BrokenRule, txns []*checkedTxn, format string, args ...any) {
	each := make([]*Txn, 0, len(txns))
	for _, t := range txns {
		if t != nil && !slices.Contains(each, t.Txn) {
			each = append(each, t.Txn)
		}
	}
	c.found = append(c.found, Violation{v, fmt.Sprintf(format, args...), each})
}
