package proxy

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// answerLocally answers a simple Query that no server need see. done is false
// when one must.
func (s *session) answerLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	t := s.t
	if s.emulates(plan) {
		return true, s.savepointQuery(plan)
	}
	if s.state == failed {
		return true, s.answerFailed(plan)
	}
	if t.touched {
		return false, nil
	}
	if st := plan.Single(); st != nil && st.Tag != "" && s.localStatement(st) {
		if err := s.runLocal(st, true); err != nil {
			return true, err
		}
		return true, s.ready()
	}
	switch plan.Kind {
	case rewrite.Empty:
		s.srv.metrics.LocalAnswer("empty")
		if err := s.tell(frameEmptyQuery); err != nil {
			return true, err
		}
		return true, s.ready()
	case rewrite.Control:
		return s.controlLocally(plan, sql)
	case rewrite.Setting, rewrite.Read:
		if len(plan.Statements) == 0 || plan.Kind == rewrite.Read && plan.Statements[0].Show == "" {
			return false, nil
		}
		for i := range plan.Statements {
			if !s.localStatement(&plan.Statements[i]) {
				return s.resetLocally(plan)
			}
		}
		for i := range plan.Statements {
			if err := s.runLocal(&plan.Statements[i], true); err != nil {
				return true, err
			}
		}
		return true, s.ready()
	}
	return false, nil
}

// answerFailed answers in a block whose backend was lost.
func (s *session) answerFailed(plan *rewrite.Plan) error {
	switch st := plan.Single(); {
	case plan.Kind == rewrite.Empty:
		if err := s.tell(frameEmptyQuery); err != nil {
			return err
		}
	case st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback) && !st.Tx.Chain:
		if err := s.endFailed(); err != nil {
			return err
		}
	default:
		return errAborted
	}
	return s.ready()
}

// endFailed is COMMIT or ROLLBACK of a block whose backend was lost.
func (s *session) endFailed() error {
	s.endTransaction(false)
	s.staged.Rollback()
	s.salt = 0
	if err := s.move(endAnswered); err != nil {
		return err
	}
	return s.tell(appendCommand(nil, "ROLLBACK"))
}

// controlLocally answers BEGIN, and the end of a block that no server has seen.
func (s *session) controlLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	st := plan.Single()
	if st == nil || s.b != nil {
		return false, nil
	}
	switch {
	case st.Tx.DeferrableBegin():
		if s.state == begun {
			if err := s.tell(warnInTransaction.appendWarning(nil)); err != nil {
				return true, err
			}
		} else {
			s.begin = s.template(sql, noOIDs)
		}
		s.srv.metrics.LocalAnswer("begin")
		if err := s.move(beginAnswered); err != nil {
			return true, err
		}
		tag := frameBegin
		if text := sql[min(st.Start, len(sql)):]; len(text) >= 5 && strings.EqualFold(string(text[:5]), "start") {
			tag = frameStart
		}
		if err := s.tell(tag); err != nil {
			return true, err
		}
	case s.state == begun && !st.Tx.Chain && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback):
		s.srv.metrics.LocalAnswer("end")
		s.begin = nil
		s.endTransaction(false)
		if err := s.foldLocal(st.Tx.Verb == rewrite.Rollback); err != nil {
			return true, err
		}
		if err := s.move(endAnswered); err != nil {
			return true, err
		}
		tag := frameCommit
		if st.Tx.Verb == rewrite.Rollback {
			tag = frameRollback
		}
		if err := s.tell(tag); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return true, s.ready()
}

var (
	frameBegin    = appendCommand(nil, "BEGIN")
	frameStart    = appendCommand(nil, "START TRANSACTION")
	frameCommit   = appendCommand(nil, "COMMIT")
	frameRollback = appendCommand(nil, "ROLLBACK")
)

// maybeLocal reports whether a statement of that plan is answered locally at
// least sometimes, so that its Parse is: a server accepts any such text.
func maybeLocal(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && (plan.Kind == rewrite.Setting || st.Show != "" || st.Tag != "")
}

// localNow reports whether the single statement of a plan is answered locally
// as things stand.
func (s *session) localNow(plan *rewrite.Plan) bool {
	return maybeLocal(plan) && s.localStatement(plan.Single())
}

// localStatement decides for one statement.
func (s *session) localStatement(st *rewrite.Statement) bool {
	if s.status() == 'E' {
		return false
	}
	switch {
	case st.Tag != "":
		return true
	case st.Show != "":
		_, set := s.local[st.Show]
		how := s.srv.treat.of(st.Show)
		return how == kept || how == ignored && set
	case st.DeallocateAll:
		return !s.pinned
	case st.Deallocate != "":
		return !s.pinned || s.stmts[st.Deallocate] != nil
	case s.srv.treat.local(st):
		return true
	case st.Kind != rewrite.Setting || len(st.Changes) == 0 || s.pinned || s.state != idle || s.t.touched:
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		switch c.Action {
		case rewrite.ResetAll, rewrite.DiscardAll:
		case rewrite.Reset:
			if s.srv.treat.of(c.Name) != carried {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// runLocal answers one statement; simple says whether its rows need describing.
func (s *session) runLocal(st *rewrite.Statement, simple bool) error {
	switch {
	case st.Tag != "":
		s.srv.metrics.LocalAnswer(metrics.LocalStatement)
		if st.Tag == "DISCARD SEQUENCES" {
			s.discardedSequences(false)
		}
		return s.tell(appendCommand(nil, st.Tag))
	case st.Show != "":
		if simple {
			if err := s.tell(showDescription(st.Show)); err != nil {
				return err
			}
		}
		return s.tell(dataRow(s.shown(st.Show)), appendCommand(nil, "SHOW"))
	case st.DeallocateAll:
		s.forgetStatements()
		return s.tell(appendCommand(nil, "DEALLOCATE ALL"))
	case st.Deallocate != "":
		if s.stmts[st.Deallocate] == nil {
			return errNoStatement([]byte(st.Deallocate))
		}
		delete(s.stmts, st.Deallocate)
		return s.tell(appendCommand(nil, "DEALLOCATE"))
	}
	s.srv.metrics.LocalAnswer("setting")
	tag := "SET"
	for i := range st.Changes {
		c := &st.Changes[i]
		var err error
		switch c.Action {
		case rewrite.Set, rewrite.SetLocal:
			err = s.keep(c.Name, c.Text, c.Action == rewrite.SetLocal)
		case rewrite.Reset:
			tag = "RESET"
			err = s.resetOne(c.Name)
		case rewrite.ResetAll, rewrite.DiscardAll:
			tag = "RESET"
			if c.Action == rewrite.DiscardAll {
				tag = "DISCARD ALL"
				s.discardedSequences(false)
				s.forgetStatements()
				s.portal, s.portals = portal{}, nil
			}
			err = s.resetEverything()
		}
		if err != nil {
			return err
		}
	}
	return s.tell(appendCommand(nil, tag))
}

// executeLocal runs a local portal up to that many rows; 0 is all.
func (s *session) executeLocal(name []byte, p portal, limit uint32) error {
	st := p.plan.Single()
	switch {
	case s.status() == 'E' && !s.endsFailed(p.plan):
		return errAborted
	case p.done && st.Show != "": // there was one row
		return s.tell(appendCommand(nil, "SHOW"))
	case p.done:
		return &sqlError{code: "55000", message: fmt.Sprintf("portal \"%s\" cannot be run", name)}
	}
	if st.Show == "" || limit != 1 {
		s.increment()
	}
	if s.emulates(p.plan) {
		p.done = true
		s.keepPortal(name, p)
		return s.savepoint(st)
	}
	if st.Show == "" && !s.t.owed.empty() { // an error of what went before would skip this
		if err := s.makeAnswer(); err != nil || s.t.skip {
			return err
		}
	}
	if st.Show == "" && s.t.logs {
		s.tx.log.Refuse(retry.Pinned) // what it changes here is not undone
	}
	p.done = true
	s.keepPortal(name, p)
	if st.Show != "" && limit == 1 { // as PostgreSQL, which does not look for a second
		return s.tell(dataRow(s.shown(st.Show)), framePortalSuspended)
	}
	if st.Kind == rewrite.Control {
		if s.state != failed {
			return errNoPortal(nil)
		}
		return s.endFailed()
	}
	if !discardsAll(st) {
		s.t.ranLocal = true
		return s.runLocal(st, false)
	}
	if s.t.ranLocal {
		return &sqlError{code: "25001", message: "DISCARD ALL cannot be executed within a pipeline"}
	}
	if err := s.runLocal(st, false); err != nil {
		return err
	}
	return s.foldLocal(false) // it commits at once
}

// endsFailed reports whether a failed transaction takes a statement: PostgreSQL
// takes those that end it, in whole or in part.
func (s *session) endsFailed(plan *rewrite.Plan) bool {
	st := plan.Single()
	if st == nil || st.Tx.Chain && s.state == failed {
		return false
	}
	switch st.Tx.Verb {
	case rewrite.Commit, rewrite.Rollback:
		return true
	case rewrite.RollbackTo, rewrite.PrepareTransaction:
		return s.state != failed || s.srv.emulatesSavepoints()
	}
	return false
}

// localDescription answers Describe of a statement that is answered locally.
func localDescription(plan *rewrite.Plan) [][]byte {
	if show := plan.Single().Show; show != "" {
		return [][]byte{showDescription(show)}
	}
	return [][]byte{frameNoData}
}

// showDescription is the RowDescription of SHOW: one text column (OID 25).
func showDescription(name string) []byte {
	b := appendHeader(nil, msgRowDescription, 2+len(name)+1+18)
	b = append(b, 0, 1)
	b = append(b, name...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, 25)
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0)
}

func dataRow(value string) []byte {
	b := appendHeader(nil, msgDataRow, 2+4+len(value))
	b = append(b, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}
