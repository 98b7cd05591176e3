package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file answers Executes of the extended protocol whose portals Sluice itself runs.

// executeLocalPortal executes a portal that Sluice runs, up to limit rows (0: all). A returned error goes to the
// client. After nil, Sluice has answered or skipped the Execute. Before a statement that changes state, it awaits the
// answers to earlier frames since the last Sync. After an error among these answers, the statement must not run.
func (s *session) executeLocalPortal(name []byte, p portal, limit uint32) error {
	st := p.plan.SingleStatement()
	h := &s.srv.handlers[st.Does]
	switch {
	case s.txStatus() == 'E' && !s.isAllowedInFailedBlock(p.plan):
		return s.errInFailedBlock(p.plan)
	case p.done:
		return s.executeDonePortal(name, st)
	}
	// If a SHOW has a limit of one row, a server suspends its portal, and earlier writes do not become visible.
	if !h.changesNothing || limit != 1 {
		s.bumpCommandCounter()
	}
	if done, err := s.executeByFrames(name, p, limit); done {
		return err
	}
	if !h.changesNothing && !s.t.owed.empty() { // an error of what went before would skip this
		if err := s.flushAndRelay(); err != nil || s.t.server.skip {
			return err
		}
	}
	if !h.changesNothing && s.t.rec.logs {
		s.tx.log.RefuseReplay(retry.Pinned) // what it changes here is not undone
	}
	p.done = true
	s.portals.update(name, p)
	if h.execute != nil {
		return h.execute(s, st, p.text)
	}
	// Sluice refuses a later DISCARD ALL before the Sync, since it follows another statement.
	s.t.request.ranLocal = true
	s.t.request.call = &p
	defer func() { s.t.request.call = nil }()
	if limit == 1 && h.columns != nil { // as PostgreSQL, which does not look for a second
		frames, err := s.runLocalStatement(st, false, false)
		if err != nil {
			return err
		}
		return s.queueReply(append(frames[:len(frames)-1], wire.FramePortalSuspended)...)
	}
	return s.answerLocalStatement(st, false, false)
}

// executeByFrames executes a portal of an emulated savepoint, or of a statement with a framedHandler. For others done
// is false. A replay repeats the statement, and a rollback undoes it. A savepoint starts a new turn of the log.
func (s *session) executeByFrames(name []byte, p portal, limit uint32) (done bool, err error) {
	st := p.plan.SingleStatement()
	savepoint, framed := s.hasEmulatedSavepoint(p.plan), s.framedHandlerFor(st)
	if !savepoint && framed == nil {
		return false, nil
	}
	p.done = true
	s.portals.update(name, p)
	if savepoint {
		return true, s.runSavepointCommand(st)
	}
	s.t.request.ranLocal = true
	return true, framed.execute(s, st, p.formats, limit)
}

// executeDiscardAll executes DISCARD ALL, which PostgreSQL runs in a separate transaction. DISCARD ALL commits at
// once, and the next statement, even before the Sync, is the first of another transaction.
func executeDiscardAll(s *session, st *rewrite.Statement, _ string) error {
	if err := s.answerLocalStatement(st, false, false); err != nil {
		return err
	}
	s.settings.EndLocalChanges(false) // it commits at once
	s.resetAccessMode()
	s.t.request.executed, s.t.request.ranLocal = false, false
	return nil
}

// executeDonePortal answers the Execute of a portal that has already run. A portal that returned its one row returns
// no more rows. As in PostgreSQL, a portal of a statement without rows cannot run again.
func (s *session) executeDonePortal(name []byte, st *rewrite.Statement) error {
	if again := s.srv.handlers[st.Does].againTag; again != nil {
		if tag := again(st); tag != "" {
			return s.queueReply(wire.AppendCommandComplete(nil, tag))
		}
	}
	return cursor.ErrPortalDone(name)
}

// executeTxControl executes BEGIN, SET TRANSACTION, or the end of a failed block that no backend has. A portal that was
// bound in a block does not exist after the block's end.
func (s *session) executeTxControl(st *rewrite.Statement, sql string) error {
	s.t.request.ranLocal = true
	switch {
	case s.state == idle && s.mustDelayBegin(st):
		return s.deferBegin(st, []byte(sql))
	case s.canFoldModesNow(st):
		return s.foldModesIntoBegin(st)
	case s.state != failed:
		return sqlerror.NoPortal(nil)
	case st.Tx.Verb == rewrite.RollbackTo:
		return s.errRollbackToInFailed(st)
	}
	s.t.request.executed, s.t.request.ranLocal = false, false
	return s.endFailedBlock(st)
}
