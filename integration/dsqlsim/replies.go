package dsqlsim

import (
	"slices"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// pendingReply is the reply to one frame of the session that PostgreSQL has not completed yet.
type pendingReply struct {
	kind byte // the frame's type
	// from is the client's frame because of which the session sent the frame that this reply answers.
	from frame
	text *dialect.Text
	// index is the number of the statement in a Query that PostgreSQL runs now.
	index int
	// marked is the error that replaces PostgreSQL's error for the marker (a statement that must fail), or nil.
	marked *failure
	// replaced is the error that replaces the reply of statement replaced.at, a ROLLBACK sent instead of a COMMIT.
	replaced *failedCommit
	// interruption is a planned fault in the middle of this reply, nil if there is none.
	interruption *resultInterruption
	// bytes is the number of bytes that the client has sent for the statement.
	bytes int
	// silent means that the client did not send this frame and gets no reply to it.
	silent bool
	// savepoint marks the reply to dsqlsim's SAVEPOINT. begin marks the reply to a BEGIN that the client already has
	// an answer to.
	savepoint, begin bool
	// more means that further statements of the client's Query follow, so that its ReadyForQuery comes later.
	more bool
	// offset is added to an error's position, because PostgreSQL got only a part of the client's text.
	offset int32
	// status and rules are the transaction status and the dialect's rules before the statement.
	status byte
	rules  dialect.Transaction
	// effect is the log entry of the statement, appended if the statement succeeds.
	effect *loggedEffect
	// guess is set if dsqlsim only guesses the statement's outcome.
	guess *occ.GuessQuery
	// mayWait reports that the statement may wait for another transaction.
	mayWait bool
	// alone means that no earlier statement belongs to the same implicit transaction.
	alone bool
	// name, previous and portal say how to revert a Parse, Bind or Close that failed or that PostgreSQL skipped. For an
	// Execute, portal is the portal that it started.
	name     string
	previous *preparedStatement
	portal   *portal
}

type failedCommit struct {
	at int
	by *failure
}

// currentStatement returns the statement that PostgreSQL runs now, nil when it is unknown.
func (r *pendingReply) currentStatement() *dialect.Statement {
	if r.text == nil || r.index >= len(r.text.Statements) {
		return nil
	}
	return &r.text.Statements[r.index]
}

// endsTurn reports whether the reply ends in ReadyForQuery.
func (r *pendingReply) endsTurn() bool { return r.kind == 'S' || r.kind == 'Q' || r.kind == 'F' }

// replyQueue holds the replies that PostgreSQL has not sent yet.
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

// pendingReplies returns the replies that PostgreSQL has not completed yet, in order.
func (q *replyQueue) pendingReplies() []pendingReply { return q.list[q.head:] }

// hasTurnEnd reports whether any pending reply ends in ReadyForQuery, the end of a turn.
func (q *replyQueue) hasTurnEnd() bool {
	return slices.ContainsFunc(q.pendingReplies(), func(r pendingReply) bool { return r.endsTurn() })
}

// first returns the reply that comes next, nil if none is pending.
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

// skipToSync removes the replies up to the next Sync, which PostgreSQL will not send after an error. It calls the
// function each for the removed replies, newest first, and reports whether there is a Sync.
func (q *replyQueue) skipToSync(each func(*pendingReply)) bool {
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

// dropSync removes the reply to the next Sync, which PostgreSQL will not send.
func (q *replyQueue) dropSync() {
	for i := q.head; i < len(q.list); i++ {
		if q.list[i].kind == 'S' {
			q.list = append(q.list[:i], q.list[i+1:]...)
			return
		}
	}
}
