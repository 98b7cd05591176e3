package dsqlsim

import (
	"slices"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// pendingReply is the reply that one frame of ours to PostgreSQL will get.
type pendingReply struct {
	kind byte // the frame's type
	// from is the client's frame that this one stands for.
	from frame
	text *dialect.Text
	// index is the statement of a Query that PostgreSQL works at.
	index int
	// marked is what the marker in the frame stands for.
	marked *failure
	// replaced: the reply of statement replaced.at, a ROLLBACK that took a COMMIT's
	// place, becomes an error.
	replaced *replacement
	// interruption is a fault in the middle of this reply, if one was planned.
	interruption *interruption
	// bytes is how many the client has sent for it.
	bytes int
	// silent: the client did not send this frame and gets no reply to it.
	silent bool
	// savepoint: it is that of our savepoint. begin: it is that of a BEGIN which was
	// answered before.
	savepoint, begin bool
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

type replacement struct {
	at int
	by *failure
}

// statement is the one that PostgreSQL works at, nil when nobody knows.
func (r *pendingReply) statement() *dialect.Statement {
	if r.text == nil || r.index >= len(r.text.Statements) {
		return nil
	}
	return &r.text.Statements[r.index]
}

// endsTurn tells whether the reply ends in ReadyForQuery.
func (r *pendingReply) endsTurn() bool { return r.kind == 'S' || r.kind == 'Q' || r.kind == 'F' }

// replyQueue holds the replies to come.
type replyQueue struct {
	list  []pendingReply
	head  int
	bytes int // of the frames that are on their way
	waits int // how many of them may wait for another transaction
}

func (q *replyQueue) push(r pendingReply, bytes int) {
	q.list = append(q.list, r)
	q.bytes += bytes
	if r.mayWait {
		q.waits++
	}
}

// rest are the replies to come.
func (q *replyQueue) rest() []pendingReply { return q.list[q.head:] }

// endTurn tells whether any of the replies to come ends in ReadyForQuery.
func (q *replyQueue) endTurn() bool {
	return slices.ContainsFunc(q.rest(), func(r pendingReply) bool { return r.endsTurn() })
}

// first is the reply that comes next, nil if none is pending.
func (q *replyQueue) first() *pendingReply {
	if q.head == len(q.list) {
		return nil
	}
	return &q.list[q.head]
}

func (q *replyQueue) last() *pendingReply {
	if q.head == len(q.list) {
		return nil
	}
	return &q.list[len(q.list)-1]
}

func (q *replyQueue) pop() {
	q.head++
	if q.head == len(q.list) {
		q.clear()
	}
}

func (q *replyQueue) clear() {
	clear(q.list)
	*q = replyQueue{list: q.list[:0]}
}

// skip removes what PostgreSQL will not answer after an error, up to the next
// Sync, newest first, and tells whether there is such a Sync.
func (q *replyQueue) skip(each func(*pendingReply)) bool {
	end := q.head
	for end < len(q.list) && q.list[end].kind != 'S' {
		end++
	}
	for i := end - 1; i >= q.head; i-- {
		each(&q.list[i])
	}
	if end == q.head {
		return q.first() != nil
	}
	q.head = end - 1
	q.pop()
	return q.first() != nil
}

// dropSync forgets the next Sync, which PostgreSQL will not answer.
func (q *replyQueue) dropSync() {
	for i := q.head; i < len(q.list); i++ {
		if q.list[i].kind == 'S' {
			q.list = append(q.list[:i], q.list[i+1:]...)
			return
		}
	}
}
