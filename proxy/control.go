package proxy

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Transaction control that Sluice answers itself: a BEGIN, which is sent only in front of the first statement that
// needs a server; the end of a block that no server has seen; and everything in a block that failed without a server,
// or whose backend was lost (state failed).

// failedHere reports whether Sluice answers a text for the block being a failed one: no server knows of the block, or
// none would say why it does not take the text.
func (s *session) failedHere(plan *rewrite.Plan) bool {
	return s.state == failed || s.chainsInFailed(plan)
}

// answerFailed answers a Query in a block whose backend was lost, or that failed before it
// had one, or that begins with AND CHAIN on DSQL: the end of the block, or an error. With nil the turn is over.
func (s *session) answerFailed(plan *rewrite.Plan) error {
	switch st := plan.Single(); {
	case plan.Kind == rewrite.Empty:
		if err := s.tell(wire.FrameEmptyQuery); err != nil {
			return err
		}
	case st != nil && endsBlock(st.Tx.Verb) && s.chains(st):
		if err := s.endFailed(st); err != nil {
			return err
		}
	case len(plan.Statements) > 0 && plan.Statements[0].Tx.Verb == rewrite.RollbackTo:
		return s.errReturnFailed(&plan.Statements[0])
	default:
		return s.errInFailed(plan)
	}
	return s.ready()
}

// behindEnd is a string of statements whose first ends the block, without that one, where the block's backend was lost:
// the others are run. nil for any other text. Spaces take the first one's place, so that positions in errors, which
// count characters, are those in the client's text.
func (s *session) behindEnd(plan *rewrite.Plan, sql []byte) []byte {
	if s.state != failed || len(plan.Statements) < 2 || s.emulates(plan) {
		return nil
	}
	st := &plan.Statements[0]
	if !endsBlock(st.Tx.Verb) || !s.chains(st) || st.End == 0 {
		return nil
	}
	behind := append([]byte(nil), sql[:st.Start]...)
	for range utf8.RuneCount(sql[st.Start:st.End]) {
		behind = append(behind, ' ')
	}
	return append(behind, sql[st.End:]...)
}

// chains reports whether st, the end of a block that has failed here, can be what it says. Of a block whose backend was
// lost nobody knows what AND CHAIN would begin; of one that never had a backend the BEGIN is known (unserved).
func (s *session) chains(st *rewrite.Statement) bool {
	return !st.Tx.Chain || s.unserved != nil && s.srv.cfg.Kind != DSQL
}

// chainsInFailed reports whether a text begins with AND CHAIN in a failed block of DSQL, which takes AND NO CHAIN
// only. A cluster may refuse the text there with 25P02, which does not say why the block stays open.
func (s *session) chainsInFailed(plan *rewrite.Plan) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && s.status() == 'E' && len(plan.Statements) > 0 && plan.Statements[0].Tx.Chain
}

// errInFailed is the error of a text that a failed block does not take.
func (s *session) errInFailed(plan *rewrite.Plan) *wire.Error {
	if s.chainsInFailed(plan) {
		return errNoChain
	}
	return errAborted
}

// errReturnFailed is the error of ROLLBACK TO in such a block: a block that no backend has served has no savepoint
// (3B001), and of those of a lost block nobody knows (25P02). Savepoints that Sluice emulates do not get here.
func (s *session) errReturnFailed(st *rewrite.Statement) *wire.Error {
	if s.unserved == nil {
		return errAborted
	}
	return errNoSavepoint(st.Tx.Name)
}

// endFailed is COMMIT, ROLLBACK or PREPARE TRANSACTION of a block whose backend was lost, or that had none. Each is
// answered ROLLBACK, as in any failed block, and takes back what Sluice has answered in the block. AND CHAIN begins the
// same block again. The caller ends the turn.
func (s *session) endFailed(st *rewrite.Statement) error {
	s.endTransaction(false)
	s.settings.Staged.Rollback()
	s.txParsing = settings.Parsing{}
	s.settings.EndKept(true)
	s.startsAnew()
	if err := s.move(endAnswered); err != nil {
		return err
	}
	if st.Tx.Chain {
		s.deferredBegin = s.unserved
		if err := s.move(beginAnswered); err != nil {
			return err
		}
	}
	s.unserved = nil
	s.srv.observers.ended(s, false)
	return s.tell(wire.AppendCommand(nil, "ROLLBACK"))
}

// controlLocally answers BEGIN, and the end of a block that no server has seen. Everything else goes to the server
// (done is false): so does any command while a backend is held, since that one knows the block.
func (s *session) controlLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	st := plan.Single()
	if st == nil || s.b != nil {
		return false, nil
	}
	switch {
	case st.Tx.DeferrableBegin():
		if s.state == begun {
			if err := s.beginAgain(st, sql); err != nil {
				return true, err
			}
			break
		}
		if err := s.beginHeldBack(st, sql); err != nil {
			return true, err
		}
	case s.state == begun && !st.Tx.Chain && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback):
		s.srv.metrics.LocalAnswer(metrics.LocalEnd)
		s.deferredBegin = nil
		s.endTransaction(false)
		s.srv.observers.ended(s, false)
		s.settings.EndKept(st.Tx.Verb == rewrite.Rollback)
		s.startsAnew()
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
	case s.foldsNow(st):
		if err := s.foldModes(st); err != nil {
			return true, err
		}
	case s.state == idle && s.foldsModes(st):
		if err := s.modesOutside(); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return true, s.ready()
}

// beginAgain answers a BEGIN behind one that is held back. PostgreSQL only warns of it, and the first
// stays in force, but its modes count.
func (s *session) beginAgain(st *rewrite.Statement, sql []byte) (err error) {
	if err := s.tell(warnInTransaction.AppendNotice(nil, "WARNING")); err != nil {
		return err
	}
	if st.Tx.ReadWrite && s.tx.log == nil {
		if s.deferredBegin, err = s.template([]byte(beginReadWrite), wire.NoOIDs); err != nil {
			return err
		}
	}
	s.srv.metrics.LocalAnswer(metrics.LocalBegin)
	return s.tellWeakened(st, beginTag(st, sql))
}

// beginHeldBack answers BEGIN, of that text, and keeps it for the first statement that needs a server.
func (s *session) beginHeldBack(st *rewrite.Statement, sql []byte) (err error) {
	text := sql
	if s.beginsReadOnly(&st.Tx) {
		text = []byte(asReadOnly(st, sql))
	}
	if s.deferredBegin, err = s.template(text, wire.NoOIDs); err != nil {
		return err
	}
	s.srv.metrics.LocalAnswer(metrics.LocalBegin)
	if err := s.move(beginAnswered); err != nil {
		return err
	}
	return s.tellWeakened(st, beginTag(st, sql))
}

// tellWeakened tells the tag of a statement about transactions, behind the warning of a level that is taken for less.
func (s *session) tellWeakened(st *rewrite.Statement, tag []byte) error {
	if st.Weakened {
		return s.tell(s.warnsWeakened(), tag)
	}
	return s.tell(tag)
}

// warnsWeakened is the warning of a transaction that asks for SERIALIZABLE and gets REPEATABLE READ
// (rewrite.serializable). Each is counted.
func (s *session) warnsWeakened() []byte {
	s.srv.metrics.Weakened()
	const level = "client_min_messages"
	if s.settings.Shows(level) && s.settings.Shown(level) == "error" {
		return nil
	}
	return warnWeakened.AppendNotice(nil, "WARNING")
}

// beginTag repeats the word that the client has used.
func beginTag(st *rewrite.Statement, sql []byte) []byte {
	return wire.AppendCommand(nil, beginWord(st, sql))
}

func beginWord(st *rewrite.Statement, sql []byte) string {
	if text := sql[min(st.Start, len(sql)):]; len(text) >= 5 && strings.EqualFold(string(text[:5]), "start") {
		return "START TRANSACTION"
	}
	return "BEGIN"
}

// foldsModes reports a SET TRANSACTION whose modes can go into a BEGIN that is held back: DSQL has
// them behind BEGIN only. Of levels there is one, so that nothing but READ ONLY and READ WRITE counts.
func (s *session) foldsModes(st *rewrite.Statement) bool {
	tx := &st.Tx
	return s.srv.cfg.Kind == DSQL && tx.Verb == rewrite.SetTransaction && (tx.ReadOnly || tx.ReadWrite) &&
		tx.Isolation != rewrite.Serializable && tx.Snapshot == "" && !tx.Deferrable
}

// foldsNow reports whether they go there now. Behind a savepoint they would end with the return to
// it, and the server is asked.
func (s *session) foldsNow(st *rewrite.Statement) bool {
	return s.state == begun && s.tx.log == nil && s.foldsModes(st)
}

// foldModes answers such a statement: what is held back is another BEGIN from now on. What was in it is not lost, since
// a BEGIN that is held back says no other mode, and no level that DSQL does not have anyway.
func (s *session) foldModes(st *rewrite.Statement) (err error) {
	text := beginReadWrite
	if st.Tx.ReadOnly {
		text = "BEGIN READ ONLY"
	}
	if s.deferredBegin, err = s.template([]byte(text), wire.NoOIDs); err != nil {
		return err
	}
	s.srv.metrics.LocalAnswer(metrics.LocalBegin)
	return s.tellWeakened(st, frameSet)
}

const beginReadWrite = "BEGIN READ WRITE"

// modesOutside answers such a statement outside of a block, where it does nothing, as PostgreSQL
// does: in a Query of its own.
func (s *session) modesOutside() error {
	s.srv.metrics.LocalAnswer(metrics.LocalSetting)
	return s.tell(warnModesOutside.AppendNotice(nil, "WARNING"), frameSet)
}

var (
	frameCommit   = wire.AppendCommand(nil, "COMMIT")
	frameRollback = wire.AppendCommand(nil, "ROLLBACK")
)

// endsFailed reports whether a failed transaction takes a statement: PostgreSQL takes those that end it, in whole or in
// part. Where the block has failed here alone, AND CHAIN is taken only if it can be done.
func (s *session) endsFailed(plan *rewrite.Plan) bool {
	st := plan.Single()
	if st == nil || s.state == failed && !s.chains(st) || s.chainsInFailed(plan) {
		return false
	}
	return endsBlock(st.Tx.Verb) || st.Tx.Verb == rewrite.RollbackTo
}

// endsBlock reports a verb that ends the whole of a block. In a failed one each rolls back.
func endsBlock(v rewrite.Verb) bool {
	return v == rewrite.Commit || v == rewrite.Rollback || v == rewrite.PrepareTransaction
}
