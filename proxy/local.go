package proxy

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

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
		st := plan.Single()
		switch {
		case st == nil && plan.Substitutable():
			return s.stringLocally(plan)
		case st == nil || plan.Kind == rewrite.Read && st.Show == "" && st.Tag == "":
			return false, nil
		case !s.localStatement(st):
			return s.resetLocally(plan)
		}
		if err := s.runLocal(st, true, false); err != nil {
			return true, err
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

// behindEnd is a string of statements whose first ends the block, without that one, where
// the block's backend was lost: the others are run. nil for any other text. Spaces take
// the first one's place, so that positions in errors are those in the client's text.
func (s *session) behindEnd(plan *rewrite.Plan, sql []byte) []byte {
	if s.state != failed || len(plan.Statements) < 2 || s.emulates(plan) {
		return nil
	}
	st := &plan.Statements[0]
	if st.Tx.Verb != rewrite.Commit && st.Tx.Verb != rewrite.Rollback || st.Tx.Chain || st.End == 0 {
		return nil
	}
	behind := append([]byte(nil), sql[:st.Start]...)
	for range utf8.RuneCount(sql[st.Start:st.End]) {
		behind = append(behind, ' ')
	}
	return append(behind, sql[st.End:]...)
}

// endFailed is COMMIT or ROLLBACK of a block whose backend was lost.
func (s *session) endFailed() error {
	s.endTransaction(false)
	s.staged.Rollback()
	s.salt = parsing{}
	s.foldLocal(true)
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
		s.foldLocal(st.Tx.Verb == rewrite.Rollback)
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
		return s.shows(st.Show)
	case st.DeallocateAll:
		return !s.pinned
	case st.Deallocate != "":
		return !s.pinned || s.stmts[st.Deallocate] != nil || s.b != nil && s.b.prepared.holds(st.Deallocate)
	case s.answersSetting(st), s.discardFails(st) != nil:
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

// discardFails is PostgreSQL's error of a DISCARD ALL where it cannot run, for a server
// that knows no such statement; nil for any other.
func (s *session) discardFails(st *rewrite.Statement) *sqlError {
	switch {
	case s.srv.cfg.Kind != DSQL || !discardsAll(st) || s.status() == 'E':
		return nil
	case s.inBlock():
		return errDiscardInBlock
	case s.t.executed:
		return errDiscardInPipeline
	}
	return nil
}

// answersSetting reports whether a statement's changes of settings are all Sluice's
// to make. A session of DSQL always has its own authorization, unless it has set a role.
func (s *session) answersSetting(st *rewrite.Statement) bool {
	if len(st.Changes) == 1 && st.Changes[0].Name == "session_authorization" && st.Changes[0].Action == rewrite.Reset {
		return s.srv.cfg.Kind == DSQL && !s.pinned && s.salt.all == 0 && s.settings.vals["role"] == ""
	}
	return s.srv.treat.local(st)
}

// runLocal answers one statement: describe says whether its rows need describing,
// several that others stand in its string.
func (s *session) runLocal(st *rewrite.Statement, describe, several bool) error {
	frames, err := s.perform(st, describe, several)
	if err != nil {
		return err
	}
	return s.tell(frames...)
}

// perform does one statement and returns its answer.
func (s *session) perform(st *rewrite.Statement, describe, several bool) (frames [][]byte, err error) {
	switch {
	case st.Tag == "CLOSE CURSOR ALL" && len(s.portals) > 0:
		return nil, errPortalsOpen
	case st.Tag != "":
		s.srv.metrics.LocalAnswer(metrics.LocalStatement)
		if st.Tag == "DISCARD SEQUENCES" {
			s.discardedSequences(false)
			if s.void && s.state == held && s.b.status == 'I' {
				s.dropVoid()
				if err := s.move(settledIdle); err != nil {
					return nil, err
				}
			}
		}
		if st.Void != "" {
			frames = [][]byte{dataRow("")}
		}
	case st.Show != "":
		frames = [][]byte{dataRow(s.shown(st.Show))}
	case st.DeallocateAll:
		s.forgetStatements()
	case st.Deallocate != "":
		if s.stmts[st.Deallocate] == nil {
			return nil, errNoStatement([]byte(st.Deallocate))
		}
		if was := s.t.atString; was != nil {
			was.gone = append(was.gone, undo{name: st.Deallocate, prev: s.stmts[st.Deallocate]})
		}
		delete(s.stmts, st.Deallocate)
	default:
		if err := s.discardFails(st); err != nil {
			return nil, err
		}
		s.srv.metrics.LocalAnswer("setting")
		for i := range st.Changes {
			frame, err := s.change(&st.Changes[i], several)
			if err != nil {
				return nil, err
			}
			if frame != nil {
				frames = append(frames, frame)
			}
		}
	}
	if row := rowOf(st); row != nil && describe {
		frames = append([][]byte{row}, frames...)
	}
	return append(frames, appendCommand(nil, localTag(st))), nil
}

// change makes one change of a setting; frame is what goes in front of the tag.
func (s *session) change(c *rewrite.Change, several bool) (frame []byte, err error) {
	switch c.Action {
	case rewrite.Set, rewrite.SetLocal:
		return s.keep(c, several)
	case rewrite.Reset:
		return nil, s.resetOne(c)
	case rewrite.DiscardAll:
		s.discardedSequences(false)
		s.forgetStatements()
		s.portal, s.portals = portal{}, nil
	}
	s.resetEverything()
	return nil, nil
}

// localTag is the tag of a statement that is answered here.
func localTag(st *rewrite.Statement) string {
	switch {
	case st.Tag != "":
		return st.Tag
	case st.Column != "":
		return "SELECT 1"
	case st.Show != "":
		return "SHOW"
	case st.DeallocateAll:
		return "DEALLOCATE ALL"
	case st.Deallocate != "":
		return "DEALLOCATE"
	}
	return resetTag(&st.Changes[0])
}

// resetTag is the tag of a change of settings.
func resetTag(c *rewrite.Change) string {
	switch {
	case c.Action == rewrite.DiscardAll:
		return "DISCARD ALL"
	case c.Action == rewrite.ResetAll, c.Action == rewrite.Reset && !c.Default:
		return "RESET"
	}
	return "SET"
}

// rowOf describes the row that a statement answered here has; nil for none.
func rowOf(st *rewrite.Statement) []byte {
	const text, void = 25, 2278
	switch {
	case st.Void != "":
		return columnDescription(st.Void, void, 4)
	case st.Column != "":
		return columnDescription(st.Column, text, -1)
	case st.Show != "":
		return columnDescription(st.Show, text, -1)
	}
	return nil
}

var errPortalsOpen = &sqlError{code: retry.StateUnsupported, message: "CLOSE ALL cannot close the portals that are open in this transaction",
	hint: "Close them one by one, or end the transaction."}

// executeLocal runs a local portal up to that many rows; 0 is all.
func (s *session) executeLocal(name []byte, p portal, limit uint32) error {
	st := p.plan.Single()
	switch {
	case s.status() == 'E' && !s.endsFailed(p.plan):
		return errAborted
	case p.done && st.Show != "" && st.Column == "": // there was one row
		return s.tell(appendCommand(nil, "SHOW"))
	case p.done && (st.Column != "" || st.Void != ""):
		return s.tell(appendCommand(nil, "SELECT 0"))
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
	if limit == 1 && rowOf(st) != nil { // as PostgreSQL, which does not look for a second
		frames, err := s.perform(st, false, false)
		if err != nil {
			return err
		}
		return s.tell(frames[0], framePortalSuspended)
	}
	if st.Kind == rewrite.Control {
		if s.state != failed {
			return errNoPortal(nil)
		}
		s.t.executed, s.t.ranLocal = false, false
		return s.endFailed()
	}
	if !discardsAll(st) {
		s.t.ranLocal = true
		return s.runLocal(st, false, false)
	}
	if s.t.ranLocal {
		return errDiscardInPipeline
	}
	if err := s.runLocal(st, false, false); err != nil {
		return err
	}
	s.foldLocal(false) // it commits at once
	s.t.executed, s.t.ranLocal = false, false
	return nil
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
	if row := rowOf(plan.Single()); row != nil {
		return [][]byte{row}
	}
	return [][]byte{frameNoData}
}

// columnDescription is the RowDescription of one column of a type, by its OID and
// size.
func columnDescription(name string, typ uint32, size int16) []byte {
	b := appendHeader(nil, msgRowDescription, 2+len(name)+1+18)
	b = append(b, 0, 1)
	b = append(b, name...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, typ)
	b = binary.BigEndian.AppendUint16(b, uint16(size))
	return append(b, 0xff, 0xff, 0xff, 0xff, 0, 0)
}

func dataRow(value string) []byte {
	b := appendHeader(nil, msgDataRow, 2+4+len(value))
	b = append(b, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}
