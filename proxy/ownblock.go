package proxy

import (
	"bytes"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A block that Sluice opens around what a client writes outside of one, under an advisory lock.
// Only in a block is FOR KEY SHARE known to conflict with the deletion of the lock's row.
//
//	begin    fenced sends BEGIN in front of the turn's first fence: a frame of the log, for nobody
//	end      endOwn sends COMMIT behind the server's ReadyForQuery, or ROLLBACK behind an error
//	answer   the client gets the ReadyForQuery of that end, whose status is 'I'
//
// For the client there is no block: session.inBlock reports false, and statements that open or end
// one are refused behind its begin (underLock). The block is part of the turn: a conflict at its
// COMMIT has the turn run again, and a loss in front of that COMMIT has undone everything.
//
// PostgreSQL sends the last tag of a simple Query behind the commit. So that tag is withheld until
// the COMMIT has succeeded, whoever has made it. Tags of a Sync group come in front of the commit there too.

// ownBlock is such a block of the turn at hand. The zero value is none. A new attempt of the turn
// begins with the zero value, and sends the frames of the log that set it.
type ownBlock struct {
	// on: its BEGIN was sent. open: the server has run it, and the block has not ended since.
	on, open bool
	// tag is the withheld tag of a simple Query; nil: none.
	tag []byte
}

// The ends of such a block, by whether it has failed.
var (
	ownCommit   = endPlan(rewrite.Commit)
	ownRollback = endPlan(rewrite.Rollback)
	ownBegin    = endPlan(rewrite.Begin)
)

// endPlan is the plan of a statement about transactions that has nothing but its verb.
func endPlan(verb rewrite.Verb) *rewrite.Plan {
	return &rewrite.Plan{Kind: rewrite.Control, Statements: []rewrite.Statement{{Kind: rewrite.Control, Tx: rewrite.Transaction{Verb: verb}}}}
}

// withholds reports whether the tag that ended the newest statement of o stays here until the block
// is committed: it is the last of a simple Query. The tag is copied.
func (b *ownBlock) withholds(o *owed, statement int, tag []byte) bool {
	if !b.on || o.kind != wire.Query || o.plan == nil || statement < len(o.plan.Statements) {
		return false
	}
	b.tag = bytes.Clone(tag)
	return true
}

// withheld is what becomes of such a tag: v, unless it stays here.
func (b *ownBlock) withheld(o *owed, statement int, tag []byte, v verdict) verdict {
	if b.withholds(o, statement, tag) {
		return swallow
	}
	return v
}

// tellTagged sends the client the answer to a statement that Sluice has made, in the place of the server's
// tag to o, which t.statement counts already. The last of frames is the statement's tag.
func (s *session) tellTagged(o *owed, frames ...[]byte) error {
	rows, tag := frames[:len(frames)-1], frames[len(frames)-1]
	if s.t.ownTx.withholds(o, s.t.statement, tag) {
		return s.synthesize(slices.Concat(rows...))
	}
	return s.synthesize(slices.Concat(frames...))
}

// undoesOwn reports whether nothing is owed but the answer to such a block's ROLLBACK. The client has the
// error that the block fails with, and the loss of the backend rolls back as well.
func (t *turn) undoesOwn() bool {
	return t.errorTold && t.owed.len() == 1 && t.owed.first().plan == ownRollback
}

// openOwn sends the BEGIN of such a block, in front of a fence. The backend is lent.
func (s *session) openOwn(begin *template) {
	s.sendOwn(begin, logEntry{plan: ownBegin, silent: true, own: opensOwn{expectBegin}})
	s.t.ownTx.on = true
	s.t.outcome.Execute(ownBegin, false)
}

// opensOwn is the answer to the Execute of such a BEGIN.
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

// endsOwn reports whether a ReadyForQuery of that status leaves such a block to end; abortAttempt ends failed ones.
func (s *session) endsOwn(status byte) bool {
	return s.t.ownTx.open && s.t.phase == live && status != 'I'
}

// endOwn is told of such a ReadyForQuery, and sends the end of the block: the turn goes on. A replay
// that has answered less than its client was sent commits nothing.
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

// ownEnd is the answer to such an end. Its tag sends the client the tag that waited for a COMMIT. Any other
// tag than the one asked for leaves the outcome unknown: the backend is out of step. So does a ReadyForQuery
// that leaves the block open. Else that frame is the client's.
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
