package dsqlsim

import "github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"

// portal is a bound statement. started is true from its first Execute on.
type portal struct {
	text    *dialect.Text
	started bool
}

// debt is the reply that one frame of ours to PostgreSQL will get.
type debt struct {
	kind byte // the frame's type
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
	// silent: the client did not send this frame and gets no reply to it.
	silent bool
	// name and previous undo a Parse or Close that failed or was skipped.
	name     string
	previous *dialect.Text
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
}

func (o *owed) push(d debt, bytes int) {
	o.debts = append(o.debts, d)
	o.bytes += bytes
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
		clear(o.debts)
		o.debts, o.head, o.bytes = o.debts[:0], 0, 0
	}
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
