package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Executes of the extended protocol that Sluice answers.

// executeLocal runs a local portal up to that many rows; 0 is all. An error is for the
// client; with nil its frame is answered or skipped. Where the statement changes something,
// all that went before in the group is answered first: behind an error the statement would
// not have run.
func (s *session) executeLocal(name []byte, p portal, limit uint32) error {
	st := p.plan.Single()
	h := &s.srv.handlers[st.Does]
	switch {
	case s.status() == 'E' && !s.endsFailed(p.plan):
		return s.errInFailed(p.plan)
	case p.done:
		return s.executeAgain(name, st)
	}
	// With a limit of one row the server would suspend a SHOW, which makes nothing visible:
	// see counter.go.
	if !h.reads || limit != 1 {
		s.increment()
	}
	if done, err := s.executeLogged(name, p, limit); done {
		return err
	}
	if !h.reads && !s.t.owed.empty() { // an error of what went before would skip this
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return err
		}
	}
	if !h.reads && s.t.logs {
		s.tx.log.Refuse(retry.Pinned) // what it changes here is not undone
	}
	p.done = true
	s.keepPortal(name, p)
	if h.execute != nil {
		return h.execute(s, st, p.text)
	}
	// From now on a DISCARD ALL of the group comes behind another statement.
	s.t.ranLocal = true
	s.t.call = &p
	defer func() { s.t.call = nil }()
	if limit == 1 && h.columns != nil { // as PostgreSQL, which does not look for a second
		frames, err := s.perform(st, false, false)
		if err != nil {
			return err
		}
		return s.tell(append(frames[:len(frames)-1], wire.FramePortalSuspended)...)
	}
	return s.runLocal(st, false, false)
}

// executeLogged is Execute of what a replay does again, and what is undone with its transaction:
// a savepoint, which ends the turn of the log by itself (cutTurn), and what is done to cursors.
// done is false for any other portal.
func (s *session) executeLogged(name []byte, p portal, limit uint32) (done bool, err error) {
	st := p.plan.Single()
	savepoint := s.emulates(p.plan)
	if !savepoint && !s.runsCursor(st) {
		return false, nil
	}
	p.done = true
	s.keepPortal(name, p)
	if savepoint {
		return true, s.savepoint(st)
	}
	s.t.ranLocal = true
	return true, s.executeCursor(st, p.formats, limit)
}

// executeDiscard is Execute of DISCARD ALL, which PostgreSQL runs in a transaction of its
// own: it commits at once, and what follows in the group is the first statement of another.
func executeDiscard(s *session, st *rewrite.Statement, _ string) error {
	if err := s.runLocal(st, false, false); err != nil {
		return err
	}
	s.settings.EndKept(false) // it commits at once
	s.startsAnew()
	s.t.executed, s.t.ranLocal = false, false
	return nil
}

// executeAgain is Execute of a portal that has run: of one row there is none left. Any
// statement without rows cannot be run again, as at the server.
func (s *session) executeAgain(name []byte, st *rewrite.Statement) error {
	if again := s.srv.handlers[st.Does].again; again != nil {
		if tag := again(st); tag != "" {
			return s.tell(wire.AppendCommand(nil, tag))
		}
	}
	return errPortalDone(name)
}

// executeControl ends a block that has failed and that no backend knows. A portal that was
// bound in such a block, and is run behind its end, is there no more.
func (s *session) executeControl(st *rewrite.Statement, sql string) error {
	s.t.ranLocal = true
	switch {
	case s.state == idle && s.holdsBegin(st):
		return s.beginHeldBack(st, []byte(sql))
	case s.foldsNow(st):
		return s.foldModes(st)
	case s.state != failed:
		return errNoPortal(nil)
	case st.Tx.Verb == rewrite.RollbackTo:
		return s.errReturnFailed(st)
	}
	s.t.executed, s.t.ranLocal = false, false
	return s.endFailed(st)
}
