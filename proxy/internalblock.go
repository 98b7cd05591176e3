package proxy

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file opens a block of Sluice's own around a write that a client with an advisory lock sends outside a block.
// Only in a block does FOR KEY SHARE surely conflict with another session's deletion of the lock's row.
//
//	begin    Sluice sends BEGIN before the turn's first lock check: the log has this frame, whose answer no client gets
//	end      endInternalBlock sends COMMIT after the server's ReadyForQuery, or ROLLBACK after an error
//	answer   the client gets the ReadyForQuery of that end, whose status is 'I'
//
// The client sees no block: session.inBlock reports false, and statements that open or end a block are refused in the
// turn (checkLocksBefore). A conflict at the block's COMMIT causes a replay of the turn. If the backend is lost before
// that COMMIT, nothing was applied.
//
// PostgreSQL sends the last tag of a simple Query after the commit. Sluice therefore withholds that tag until its
// COMMIT has succeeded. In PostgreSQL too, tags of the extended protocol precede the commit at the Sync.

// internalBlock is the state in the current turn of Sluice's own block around a write. The zero value means no block.
// A replay starts with the zero value, and sets the state again as it sends the log's frames.
type internalBlock struct {
	// on means that Sluice sent the BEGIN of its own block. open means that the server has run this BEGIN, and that the
	// block has not ended.
	on, open bool
	// tag is the command tag of a simple Query that waits for the COMMIT of Sluice's own block, or nil.
	tag []byte
}

// These are the plans of the statements that begin and end Sluice's own block.
var (
	internalCommitPlan   = txControlPlan(rewrite.Commit)
	internalRollbackPlan = txControlPlan(rewrite.Rollback)
	internalBeginPlan    = txControlPlan(rewrite.Begin)
)

// txControlPlan returns the plan of a transaction control statement that consists of verb alone.
func txControlPlan(verb rewrite.TxVerb) *rewrite.Plan {
	return &rewrite.Plan{Kind: rewrite.Control, Statements: []rewrite.Statement{{Kind: rewrite.Control, Tx: rewrite.TxControl{Verb: verb}}}}
}

// tryWithholdTag reports whether a command tag must wait for the COMMIT of Sluice's own block. It must if it ends
// the last statement of a simple Query. If so, it copies the tag.
func (b *internalBlock) tryWithholdTag(o *pendingReply, statement int, tag []byte) bool {
	if !b.on || o.kind != wire.Query || o.plan == nil || statement < len(o.plan.Statements) {
		return false
	}
	b.tag = bytes.Clone(tag)
	return true
}

// verdictForTag returns swallow (discard) if the tag must wait for the COMMIT of Sluice's own block, otherwise v.
func (b *internalBlock) verdictForTag(o *pendingReply, statement int, tag []byte, v frameVerdict) frameVerdict {
	if b.tryWithholdTag(o, statement, tag) {
		return swallow
	}
	return v
}

// sendLocalAnswer sends the client Sluice's own answer to a statement, instead of the server's answer for o.
// t.server.statement already counts the statement. The last element of frames is the command tag.
func (l *link) sendLocalAnswer(o *pendingReply, frames ...[]byte) error {
	rows, tag := frames[:len(frames)-1], frames[len(frames)-1]
	if l.t.server.internalTx.tryWithholdTag(o, l.t.server.statement, tag) {
		return l.sendSynthetic(slices.Concat(rows...))
	}
	return l.sendSynthetic(slices.Concat(frames...))
}

// awaitsInternalRollback reports whether only the ROLLBACK of Sluice's own block is unanswered. If so, a lost
// backend costs the client nothing: the client has the block's error, and the loss rolls back too.
func (t *turn) awaitsInternalRollback() bool {
	return t.server.errorTold && t.owed.len() == 1 && t.owed.first().plan == internalRollbackPlan
}

// beginInternalBlock sends begin, the BEGIN of Sluice's own block, before the queries that check the session's locks.
func (s *session) beginInternalBlock(begin *statement.Template) {
	s.sendFenceQuery(begin, logEntry{plan: internalBeginPlan, silent: true, own: internalBeginReply{expectBegin}})
	s.t.server.internalTx.on = true
	s.t.server.outcome.RecordExecute(internalBeginPlan, false)
}

// internalBeginReply handles the answer to the Execute of the BEGIN that opens Sluice's own block.
type internalBeginReply struct{ *expectedTagReply }

func (r internalBeginReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	v, err := r.expectedTagReply.handleFrame(s, o, f)
	if f.Means != answer.Completes || v != undecided {
		return v, err
	}
	if v, err = s.handleAnswer(f.Means, f.Type, f.Bytes, f.Total); err == nil {
		s.t.server.internalTx.open = true
		s.t.server.outcome.RecordExecuted(internalBeginPlan, false, nil)
	}
	return v, err
}

// mustEndInternalBlock reports whether Sluice must end its own block after a ReadyForQuery with the given status. For
// a failed attempt the result is false, since abortAttempt ends the block.
func (t *turn) mustEndInternalBlock(status byte) bool {
	return t.server.internalTx.open && t.rec.phase == phaseLive && status != 'I'
}

// endInternalBlock sends COMMIT, or ROLLBACK for status 'E', after the ReadyForQuery of Sluice's own block. The turn
// continues. If a replay's answers are shorter than those the client has, the attempt fails without a COMMIT.
func (s *session) endInternalBlock(status byte) error {
	t := s.t
	t.owed.pop()
	t.server.outcome.RecordReady(status)
	t.server.copying, t.server.statement = false, 0
	if s.t.rec.isRecording() && s.tx.log.IsReplayBehind() {
		s.b.status = status
		t.abandonAttempt(retry.Delivered)
		t.attempt.serverAt = atReady
		return nil
	}
	plan, sql := internalCommitPlan, "COMMIT"
	if status == 'E' {
		plan, sql = internalRollbackPlan, "ROLLBACK"
	}
	o := t.owed.push(wire.Query)
	o.plan, o.swallow, o.reply = plan, true, internalEndReply{}
	t.server.outcome.RecordQuery(plan)
	s.t.addToBatch(wire.AppendStrings(nil, wire.Query, sql))
	return s.flushToBackend()
}

// internalEndReply handles the answer to the COMMIT or ROLLBACK of Sluice's own block. The expected tag releases the
// tag that Sluice withholds from the client, and the ReadyForQuery goes to the client. Any other tag, or a
// ReadyForQuery within a block, means that the backend is out of step and the outcome is unknown.
type internalEndReply struct{ defaultHandler }

func (internalEndReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	switch {
	case f.Means == answer.CompletesOne:
		want := frameCommit
		if o.plan == internalRollbackPlan {
			want = frameRollback
		}
		if s.t.isSurplusTag(o) {
			return swallow, s.unexpectedFrameError(f.Type)
		}
		if s.recordCompletion(o, f.Type, f.Bytes); !bytes.Equal(f.Bytes, want) {
			return swallow, s.unexpectedFrameError(wire.CommandComplete)
		}
		withheld := s.t.server.internalTx.tag
		s.t.server.internalTx = internalBlock{}
		return swallow, s.sendOrWithhold(withheld)
	case f.Means == answer.Settles && (f.Bytes[wire.HeaderLen] != 'I' || s.t.lacksTags(o)):
		return swallow, s.unexpectedFrameError(f.Type)
	case f.Means == answer.Settles:
		return s.settleAtReady(pass, f.Bytes)
	}
	return undecided, nil
}
