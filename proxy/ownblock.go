package proxy

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file opens a block of Sluice's own around a write that a client with an advisory lock sends outside a block.
// Only in a block does FOR KEY SHARE surely conflict with the deletion of the lock's row.
//
//	begin    fenced sends BEGIN in front of the turn's first fence: a frame of the log, for nobody
//	end      endOwn sends COMMIT behind the server's ReadyForQuery, or ROLLBACK behind an error
//	answer   the client gets the ReadyForQuery of that end, whose status is 'I'
//
// The client sees no block: session.inBlock reports false, and statements that open or end a block are refused in the
// turn (underLock). A conflict at the block's COMMIT causes a replay of the turn. If the backend is lost before that
// COMMIT, nothing was applied.
//
// PostgreSQL sends the last tag of a simple Query after the commit. That tag is therefore withheld until the COMMIT has
// succeeded. The tags of a Sync group precede the commit in PostgreSQL too.

// ownBlock is the state of Sluice's own block in the current turn; zero: none. A replay starts with zero and sets it by
// sending the log's frames.
type ownBlock struct {
	// on: its BEGIN was sent. open: the server has run it, and the block has not ended since.
	on, open bool
	// tag is the withheld tag of a simple Query; nil: none.
	tag []byte
}

// Plans of the statements that begin and end Sluice's own block.
var (
	ownCommit   = endPlan(rewrite.Commit)
	ownRollback = endPlan(rewrite.Rollback)
	ownBegin    = endPlan(rewrite.Begin)
)

// endPlan returns the plan of a transaction control statement that consists of verb alone.
func endPlan(verb rewrite.Verb) *rewrite.Plan {
	return &rewrite.Plan{Kind: rewrite.Control, Statements: []rewrite.Statement{{Kind: rewrite.Control, Tx: rewrite.Transaction{Verb: verb}}}}
}

// withholds reports whether a tag must wait for the COMMIT, because it ends the last statement of a simple Query. It
// then copies the tag.
func (b *ownBlock) withholds(o *owed, statement int, tag []byte) bool {
	if !b.on || o.kind != wire.Query || o.plan == nil || statement < len(o.plan.Statements) {
		return false
	}
	b.tag = bytes.Clone(tag)
	return true
}

// withheld returns swallow if the tag must wait for the COMMIT, else v.
func (b *ownBlock) withheld(o *owed, statement int, tag []byte, v verdict) verdict {
	if b.withholds(o, statement, tag) {
		return swallow
	}
	return v
}

// tellTagged sends the client Sluice's own answer to a statement, in the place of the server's tag for o. t.statement
// already counts the statement. The last of frames is its tag.
func (s *session) tellTagged(o *owed, frames ...[]byte) error {
	rows, tag := frames[:len(frames)-1], frames[len(frames)-1]
	if s.t.ownTx.withholds(o, s.t.statement, tag) {
		return s.synthesize(slices.Concat(rows...))
	}
	return s.synthesize(slices.Concat(frames...))
}

// undoesOwn reports whether only the ROLLBACK of Sluice's own block is unanswered. The client has the block's error,
// and if the backend is lost the block is rolled back too.
func (t *turn) undoesOwn() bool {
	return t.errorTold && t.owed.len() == 1 && t.owed.first().plan == ownRollback
}

// openOwn sends the BEGIN of Sluice's own block, before a fence. The backend is lent.
func (s *session) openOwn(begin *template) {
	s.sendOwn(begin, logEntry{plan: ownBegin, silent: true, own: opensOwn{expectBegin}})
	s.t.ownTx.on = true
	s.t.outcome.Execute(ownBegin, false)
}

// opensOwn handles the answer to the Execute of that BEGIN.
type opensOwn struct{ *expected }

func (r opensOwn) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	v, err := r.expected.frame(s, o, f)
	if f.Means != answer.Completes || v != undecided {
		return v, err
	}
	if v, err = s.answered(f.Means, f.Type, f.Bytes, f.Total); err == nil {
		s.t.ownTx.open = true
		s.t.outcome.Executed(ownBegin, false, nil)
	}
	return v, err
}

// endsOwn reports whether Sluice's own block must be ended after a ReadyForQuery with status. abortAttempt ends failed
// blocks.
func (s *session) endsOwn(status byte) bool {
	return s.t.ownTx.open && s.t.phase == live && status != 'I'
}

// endOwn sends COMMIT, or ROLLBACK for status 'E', after the ReadyForQuery of Sluice's own block. The turn continues. A
// replay that answered less than the client has received commits nothing.
func (s *session) endOwn(status byte) error {
	t := s.t
	t.owed.pop()
	t.outcome.Ready(status)
	t.copying, t.statement = false, 0
	if s.noting() && s.tx.log.Behind() {
		s.b.status = status
		t.fail(retry.Delivered)
		t.stand = atReady
		return nil
	}
	plan, sql := ownCommit, "COMMIT"
	if status == 'E' {
		plan, sql = ownRollback, "ROLLBACK"
	}
	o := t.owed.push(wire.Query)
	o.plan, o.swallow, o.reply = plan, true, ownEnd{}
	t.outcome.Query(plan)
	s.add(wire.AppendStrings(nil, wire.Query, sql))
	return s.flushUp()
}

// ownEnd handles the answer to the COMMIT or ROLLBACK of Sluice's own block. Its tag releases the withheld tag, and its
// ReadyForQuery goes to the client. Any other tag, or a ReadyForQuery within a block, means that the backend is out of
// step, and the outcome is unknown.
type ownEnd struct{ asSent }

func (ownEnd) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	switch {
	case f.Means == answer.CompletesOne:
		want := frameCommit
		if o.plan == ownRollback {
			want = frameRollback
		}
		if s.tagTooMany(o) {
			return swallow, s.desync(f.Type)
		}
		if s.completed(o, f.Type, f.Bytes); !bytes.Equal(f.Bytes, want) {
			return swallow, s.desync(wire.CommandComplete)
		}
		withheld := s.t.ownTx.tag
		s.t.ownTx = ownBlock{}
		return swallow, s.passSpan(withheld)
	case f.Means == answer.Settles && (f.Bytes[wire.HeaderLen] != 'I' || s.endsUntagged(o)):
		return swallow, s.desync(f.Type)
	case f.Means == answer.Settles:
		return s.settles(pass, f.Bytes)
	}
	return undecided, nil
}
