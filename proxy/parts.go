package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/listing"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file commits transactions with DDL in parts (ddl.in_transactions). Package ddltx decides which statement needs a
// commit in front of it, says in which order the commands run, and has the messages. The session runs the commands in
// nested turns (partruns.go). Each part has its own log and replays.

// forgetCommittedParts forgets the committed parts of a block at the end of the client's block. Sluice's own COMMIT
// between parts does not end the client's block.
func forgetCommittedParts(s *session, _ bool) {
	if !s.t.nested.outsideBlock {
		s.parts.EndBlock()
	}
}

// txPosition returns the session's position in its transaction. By it package ddltx decides what to commit first.
func (s *session) txPosition() ddltx.Position {
	return ddltx.Position{Next: s.blockForNextStatement(), InBlock: s.inBlock(), Failed: s.txStatus() == 'E', Unserved: s.state == failed,
		Outside: s.t.nested.outsideBlock, Sent: s.t.touched, PureReads: s.srv.pool.purity.WasPure()}
}

// prepareForBlockParts commits the uncommitted part of a transaction if a simple Query needs that, before Sluice
// answers or sends the Query. done means that the Query has run and the turn is over. The caller sends an error to
// the client, or ends the session. For most Querys it allocates nothing.
func (s *session) prepareForBlockParts(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if !s.parts.IsOn() || !ddltx.Concerns(plan, s.inBlock()) {
		return false, nil
	}
	at := s.txPosition()
	switch route, groups := s.parts.Route(plan, &at); route {
	case ddltx.AsItIs:
		return false, nil
	case ddltx.InGroups:
		return true, s.runStatementGroups(plan, string(sql), groups)
	case ddltx.OutsideBlock:
		st, text := plan.SingleStatement(), string(sql)
		return true, s.runOutsideBlock(st, text[st.Start:], func() (feature.NestedResult, error) {
			return s.runNestedQuery(text, nestedTurn{outsideBlock: true, shift: s.t.nested.shift})
		})
	}
	return false, s.commitPartIfNeeded(plan, string(sql), true)
}

// commitPartIfNeeded commits the open (uncommitted) part of a block before a text that cannot be in the same
// transaction. If runs is set, it adds the text to the open part. An error goes to the client, or ends the session.
func (s *session) commitPartIfNeeded(plan *rewrite.Plan, sql string, runs bool) error {
	if !s.parts.IsOn() {
		return nil
	}
	at := s.txPosition()
	step, err := s.parts.Before(plan, &at, runs)
	if err != nil {
		return err
	}
	if step.Warning != nil {
		if err := s.queueReply(step.Warning.AppendNotice(nil, "WARNING")); err != nil {
			return err
		}
	}
	if step.Commit {
		if err := s.parts.Commit(partRunner{s}); err != nil {
			return err
		}
		at.Next = s.blockForNextStatement()
	}
	if step.Adds {
		if s.t.nested.hiddenAnswer != nil {
			sql = "" // the list has the client's statement that this one is for
		}
		s.parts.Add(at.Next, plan, sql)
	}
	return nil
}

// warnPartsRemain warns the client at the end of a block that earlier parts of the transaction remain committed.
func (s *session) warnPartsRemain(st *rewrite.Statement) error {
	if warning := s.parts.Remain(st, s.txStatus() == 'E'); warning != nil {
		return s.queueReply(warning.AppendNotice(nil, "WARNING"))
	}
	return nil
}

// committedStatements lists the committed statements that the client would send again after a conflict: earlier parts
// of its transaction, or earlier groups of a multi-statement query outside a block.
func (s *session) committedStatements() *listing.Statements {
	l := s.parts.Committed()
	if before := s.t.nested.committedBefore; l.IsEmpty() && before != nil {
		return before
	}
	return l
}

// partialCommitError returns the error that replaces a conflict if a part of the transaction is committed. A client
// that repeats the whole transaction would apply that part twice. For any other error it returns nil.
func (s *session) partialCommitError(class retry.ResultClass, payload []byte) []byte {
	if class != retry.Conflict {
		return nil
	}
	if done := s.committedStatements(); !done.IsEmpty() {
		return ddltx.ErrPartialCommit(decodeErrorResponse(payload), done).Append(nil)
	}
	return nil
}
