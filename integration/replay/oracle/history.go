package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome of a transaction, as its client was told.
type Outcome uint8

const (
	// Aborted: told an error that rules a commit out, or rolled back.
	Aborted Outcome = iota
	Committed
	// Unknown: told 08007, or nothing after something that commits was sent.
	Unknown
)

func (o Outcome) String() string {
	return [...]string{"aborted", "committed", "unknown"}[o]
}

// Kind of an Op.
type Kind uint8

const (
	// Read saw Seen under Key, the transaction's own writes included.
	Read Kind = iota
	// Lock is a Read with FOR UPDATE.
	Lock
	// Append wrote Write behind what Key held.
	Append
	// Missed is an Append that matched no row: nothing may be there of it.
	Missed
	// Mark inserted a row Write with values that the server made; Value is what
	// was told of them, the first of them or all, "" if nothing was.
	Mark
	// Drawn was told Value as a number that nobody else gets.
	Drawn
	// Now was told Value as the time of the transaction.
	Now
	// Save set the savepoint Write, and Back returned to it: what was written and locked in
	// between is undone, and what was read there stays read.
	Save
	Back
)

func (k Kind) String() string {
	return [...]string{"read", "lock", "append", "missed", "mark", "drawn", "now", "savepoint", "rollback to"}[k]
}

// Op is something that a transaction did, or was told.
type Op struct {
	Kind  Kind
	Key   int
	Write int
	Seen  []int
	Value string
}

func (o Op) String() string {
	switch o.Kind {
	case Read, Lock:
		return fmt.Sprintf("%v %d: %s", o.Kind, o.Key, list(o.Seen))
	case Append, Missed:
		return fmt.Sprintf("%v %d to %d", o.Kind, o.Write, o.Key)
	case Mark:
		return fmt.Sprintf("mark %d %s", o.Write, o.Value)
	case Save, Back:
		return fmt.Sprintf("%v %d", o.Kind, o.Write)
	}
	return fmt.Sprintf("%v %s", o.Kind, o.Value)
}

// list shows the end of a list, where the news are.
func list(ids []int) string {
	const enough = 8
	if len(ids) <= enough {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%d, the last %v", len(ids), ids[len(ids)-enough:])
}

// Txn is one transaction, as its client knows it.
type Txn struct {
	ID int
	// Began and Ended are readings of one clock for all clients that never shows
	// the same twice: before the first request, after the last answer.
	Began, Ended int64
	Outcome      Outcome
	// Ops in the order of the requests. Those that were sent and not answered
	// count as well.
	Ops []Op
	// Story is for people: who asked, what was sent, what was told.
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

// writes reports whether it asked for a change.
func (t *Txn) writes() bool {
	return slices.ContainsFunc(t.Ops, func(op Op) bool { return op.Kind == Append || op.Kind == Missed || op.Kind == Mark })
}

// undone says of each op whether a Back has undone it.
func (t *Txn) undone() []bool {
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

// History is what all clients know, and what the database holds after them.
type History struct {
	Txns  []*Txn
	Lists map[int][]int  // of each key
	Marks map[int]string // values of each row
	Times map[int]string // now() as each row has it; "" for none
}

// Verdict names a rule that a history breaks.
type Verdict string

const (
	Lost       Verdict = "an acknowledged write is missing"
	Twice      Verdict = "a write was applied twice"
	Undead     Verdict = "a write of a transaction that did not commit is there"
	Partial    Verdict = "a transaction is there in part"
	Alien      Verdict = "a write that nobody made is there"
	Phantom    Verdict = "a read of what never was committed"
	Torn       Verdict = "a read of half a transaction"
	LostUpdate Verdict = "a write on top of what the transaction did not read"
	Cycle      Verdict = "no order of snapshots and commits explains it"
	Untrue     Verdict = "a value told is not the value committed"
	NotUnique  Verdict = "two transactions were told one number of a sequence"
	SentTwice  Verdict = "one transaction committed more than once"
	SentAfter  Verdict = "sent again after its outcome was unknown"
	Unlogged   Verdict = "told and recorded outcome differ"
)

// Violation is one breach.
type Violation struct {
	Verdict Verdict
	Text    string
	Txns    []*Txn // those in it
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Verdict, v.Text)
	for _, t := range v.Txns {
		b.WriteString(t.String())
	}
	return b.String()
}

// Check returns every breach that it finds, the plainest first: of the cycles the
// shortest one.
func Check(h *History) []Violation {
	c := &checker{history: h, writes: make(map[place]*write)}
	c.gather()
	c.final()
	c.settle()
	c.marks()
	for _, t := range c.txns {
		c.reads(t)
	}
	if cycle := c.cycle(); cycle != nil {
		c.found = append(c.found, *cycle)
	}
	return c.found
}

// place is an element of a list.
type place struct{ key, write int }

// write is an Append or a Missed.
type write struct {
	by     *txn
	missed bool  // or undone
	at     []int // where it stands in the final list
}

// txn is what the checker knows of a transaction.
type txn struct {
	*Txn
	number int
	// applied: it certainly committed. Unknown outcomes are settled by what is there.
	applied bool
	writes  []place // in order
	marks   []int
	undone  []bool // of its ops
}

type checker struct {
	history *History
	txns    []*txn
	writes  map[place]*write
	found   []Violation
	edges   []edge
}

func (c *checker) violate(v Verdict, txns []*txn, format string, args ...any) {
	each := make([]*Txn, 0, len(txns))
	for _, t := range txns {
		if t != nil && !slices.Contains(each, t.Txn) {
			each = append(each, t.Txn)
		}
	}
	c.found = append(c.found, Violation{v, fmt.Sprintf(format, args...), each})
}
