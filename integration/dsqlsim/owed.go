package dsqlsim

import (
	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// prepared is a prepared statement of the client's.
type prepared struct {
	text *dialect.Text
	// plan is that of its one statement, nil when it has no locking clause.
	plan *occ.Plan
	// types are the parameter types of its Parse, as they stand in the frame.
	types []byte
}

// statement is the one that it consists of, nil when it has another number.
func (p *prepared) statement() *dialect.Statement {
	if p == nil || len(p.text.Statements) != 1 {
		return nil
	}
	return &p.text.Statements[0]
}

// portal is a bound statement. started is true from its first Execute on.
type portal struct {
	of      *prepared
	bind    []byte // body of its Bind
	epoch   int    // of the session: an older portal is gone
	started bool
	sent    int // bytes of its Bind
}

// debt is the reply that one frame of ours to PostgreSQL will get.
type debt struct {
	kind byte // the frame's type
	// from is the client's frame that this one stands for.
	from frame
	text *dialect.Text
	// index is the statement of a Query that PostgreSQL works at.
	index int
	// inPlace is what the marker in the frame stands for.
	inPlace *failure
	// instead replaces the reply of statement instead.at, a ROLLBACK that took a
	// COMMIT's place, by an error.
	instead *replaced
	// mid is a fault in the middle of this reply, if one was planned.
	mid *interruption
	// sent is how many bytes the client has sent for it.
	sent int
	// silent: the client did not send this frame and gets no reply to it.
	silent bool
	// preamble: it is the savepoint's. quiet: it is a BEGIN that was answered.
	preamble, quiet bool
	// more: statements of the client's Query follow, and its ReadyForQuery later.
	more bool
	// offset is what an error's position in the client's text is behind ours.
	offset int32
	// status and rules are those in front of the statement.
	status byte
	rules  dialect.Transaction
	// effect is what to remember of the statement if it succeeds.
	effect *effect
	// guess tells that the statement's outcome is only guessed.
	guess *occ.Guess
	// mayWait: the statement may wait for another transaction.
	mayWait bool
	// alone: nothing of an implicit transaction stands in front of it.
	alone bool
	// name, previous and portal undo a Parse, Bind or Close that failed or was
	// skipped. Of an Execute portal is what it began with.
	name     string
	previous *prepared
	portal   *portal
}

type replaced struct {
	at int
	by *failure
}

// statement is the one that PostgreSQL works at, nil when nobody knows.
func (d *debt) statement() *dialect.Statement {
	if d.text == nil || d.index >= len(d.text.Statements) {
		return nil
	}
	return &d.text.Statements[d.index]
}

// endsTurn tells whether the reply ends in ReadyForQuery.
func (d *debt) endsTurn() bool { return d.kind == 'S' || d.kind == 'Q' || d.kind == 'F' }

// owed is the queue of replies to come.
type owed struct {
	debts []debt
	head  int
	bytes int // of the frames that are on their way
	waits int // how many of them may wait for another transaction
}

func (o *owed) push(d debt, bytes int) {
	o.debts = append(o.debts, d)
	o.bytes += bytes
	if d.mayWait {
		o.waits++
	}
}

// first is the reply that comes next, nil if none is owed.
func (o *owed) first() *debt {
	if o.head == len(o.debts) {
		return nil
	}
	return &o.debts[o.head]
}

func (o *owed) last() *debt {
	if o.head == len(o.debts) {
		return nil
	}
	return &o.debts[len(o.debts)-1]
}

func (o *owed) pop() {
	o.head++
	if o.head == len(o.debts) {
		o.clear()
	}
}

func (o *owed) clear() {
	clear(o.debts)
	*o = owed{debts: o.debts[:0]}
}

// skip removes what PostgreSQL will not answer after an error, up to the next
// Sync, newest first, and tells whether there is such a Sync.
func (o *owed) skip(each func(*debt)) bool {
	end := o.head
	for end < len(o.debts) && o.debts[end].kind != 'S' {
		end++
	}
	for i := end - 1; i >= o.head; i-- {
		each(&o.debts[i])
	}
	if end == o.head {
		return o.first() != nil
	}
	o.head = end - 1
	o.pop()
	return o.first() != nil
}

// dropSync forgets the next Sync, which PostgreSQL will not answer.
func (o *owed) dropSync() {
	for i := o.head; i < len(o.debts); i++ {
		if o.debts[i].kind == 'S' {
			o.debts = append(o.debts[:i], o.debts[i+1:]...)
			return
		}
	}
}
