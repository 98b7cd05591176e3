package proxy

import (
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file has transaction control that Sluice answers itself. Sluice answers a BEGIN at once, and sends it before
// the first statement that needs a server. It also answers the end of a block that no server has seen. It answers
// every statement in a block that failed without a server, or whose backend was lost (state failed).

// mustAnswerInFailedBlock reports whether Sluice itself answers a query in a failed block. Sluice must if no server has
// the block, or if the server's error would not explain the refusal.
func (s *session) mustAnswerInFailedBlock(plan *rewrite.Plan) bool {
	return s.state == failed || s.chainsInFailedBlock(plan)
}

// answerInFailedBlock answers a Query in a block that failed in Sluice, not at the server. On DSQL it answers an AND
// CHAIN in any failed block. The end of the block succeeds. Other queries get an error. After nil the turn is over.
func (s *session) answerInFailedBlock(plan *rewrite.Plan) error {
	switch st := plan.SingleStatement(); {
	case plan.Kind == rewrite.Empty:
		if err := s.queueReply(wire.FrameEmptyQuery); err != nil {
			return err
		}
	case st != nil && st.Tx.Verb.EndsBlock() && s.canEndWithChain(st):
		if err := s.endFailedBlock(st); err != nil {
			return err
		}
	case len(plan.Statements) > 0 && plan.Statements[0].Tx.Verb == rewrite.RollbackTo:
		return s.errRollbackToInFailed(&plan.Statements[0])
	default:
		return s.errInFailedBlock(plan)
	}
	return s.endTurnLocally()
}

// textAfterEnd returns the rest of a multi-statement query whose first statement ends a block of a lost backend
// (ROLLBACK; SELECT 1). Sluice runs that rest. Spaces replace the first statement, so that positions in errors match
// the client's query. For any other query it returns nil.
func (s *session) textAfterEnd(plan *rewrite.Plan, sql []byte) []byte {
	if s.state != failed || len(plan.Statements) < 2 || s.hasEmulatedSavepoint(plan) {
		return nil
	}
	st := &plan.Statements[0]
	if !st.Tx.Verb.EndsBlock() || !s.canEndWithChain(st) || st.End == 0 {
		return nil
	}
	behind := append([]byte(nil), sql[:st.Start]...)
	for range utf8.RuneCount(sql[st.Start:st.End]) {
		behind = append(behind, ' ')
	}
	return append(behind, sql[st.End:]...)
}

// canEndWithChain reports whether Sluice can carry out st, the end of a failed block, with or without AND CHAIN. AND
// CHAIN needs the block's BEGIN, which Sluice knows only if no backend had the block (s.failedBegin).
func (s *session) canEndWithChain(st *rewrite.Statement) bool {
	return !st.Tx.Chain || s.failedBegin != nil && s.srv.cfg.Kind != DSQL
}

// chainsInFailedBlock reports whether a query begins with COMMIT or ROLLBACK AND CHAIN in a failed block on DSQL, which
// refuses AND CHAIN. The cluster's error 25P02 would not give that reason.
func (s *session) chainsInFailedBlock(plan *rewrite.Plan) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && s.txStatus() == 'E' && len(plan.Statements) > 0 && plan.Statements[0].Tx.Chain
}

// errInFailedBlock returns the error of a query that is not allowed in a failed block.
func (s *session) errInFailedBlock(plan *rewrite.Plan) *wire.Error {
	if s.chainsInFailedBlock(plan) {
		return sqlerror.NoChain
	}
	return sqlerror.Aborted
}

// errRollbackToInFailed returns the error of ROLLBACK TO in a block that failed in Sluice, not at the server. It is
// 25P02 if a lost backend had the block, otherwise 3B001. Emulated savepoints have another error.
func (p *pairing) errRollbackToInFailed(st *rewrite.Statement) *wire.Error {
	if p.failedBegin == nil {
		return sqlerror.Aborted
	}
	return block.ErrNoSavepoint(st.Tx.Name)
}

// endFailedBlock answers COMMIT, ROLLBACK or PREPARE TRANSACTION of a block that failed in Sluice, not at the server.
// As in PostgreSQL the tag is ROLLBACK, and the block's settings are undone. AND CHAIN begins the same block again. The
// caller ends the turn.
func (s *session) endFailedBlock(st *rewrite.Statement) error {
	s.endTransaction(false)
	s.settings.Staged.Rollback()
	s.txParsing = serversettings.TxParsing{}
	s.settings.EndLocalChanges(true)
	s.resetAccessMode()
	if err := s.applyEvent(endAnswered); err != nil {
		return err
	}
	if st.Tx.Chain {
		s.deferredBegin = s.failedBegin
		if err := s.applyEvent(beginAnswered); err != nil {
			return err
		}
	}
	s.failedBegin = nil
	s.srv.observers.notifyEnded(s, false)
	return s.queueReply(wire.AppendCommandComplete(nil, "ROLLBACK"))
}

// answerTxControl answers BEGIN, SET TRANSACTION, and the end of a block that no server has seen. If done is false
// the server must answer. While the session has a backend, the server must answer all such commands.
func (s *session) answerTxControl(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	st := plan.SingleStatement()
	if st == nil || s.b != nil {
		return false, nil
	}
	switch {
	case st.Tx.IsDeferrableBegin():
		if s.state == begun {
			if err := s.answerSecondBegin(st, sql); err != nil {
				return true, err
			}
			break
		}
		if err := s.deferBegin(st, sql); err != nil {
			return true, err
		}
	case s.state == begun && !st.Tx.Chain && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback):
		s.srv.metrics.CountLocalAnswer(metrics.LocalEnd)
		s.deferredBegin = nil
		commits := st.Tx.Verb == rewrite.Commit
		s.endTransaction(commits)
		s.srv.observers.notifyEnded(s, commits)
		s.settings.EndLocalChanges(!commits)
		s.resetAccessMode()
		if err := s.applyEvent(endAnswered); err != nil {
			return true, err
		}
		tag := frameCommit
		if !commits {
			tag = frameRollback
		}
		if err := s.queueReply(tag); err != nil {
			return true, err
		}
	case s.canFoldModesNow(st):
		if err := s.foldModesIntoBegin(st); err != nil {
			return true, err
		}
	case s.state == idle && s.canFoldModes(st):
		if err := s.answerModesOutsideBlock(); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return true, s.endTurnLocally()
}

// answerSecondBegin answers a second BEGIN if the first was not sent to the server yet. As in PostgreSQL the client
// gets a warning, and the first BEGIN stays in force. But READ WRITE in the second takes effect.
func (s *session) answerSecondBegin(st *rewrite.Statement, sql []byte) (err error) {
	if err := s.queueReply(sqlerror.WarnInTransaction.AppendNotice(nil, "WARNING")); err != nil {
		return err
	}
	if st.Tx.ReadWrite && s.tx.log == nil {
		if s.deferredBegin, err = s.templateFor([]byte(beginReadWrite), wire.NoOIDs); err != nil {
			return err
		}
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalBegin)
	return s.answerWithWeakenedWarning(st, beginTag(st, sql))
}

// deferBegin answers a BEGIN, and stores it until Sluice must send the first statement that needs a server.
func (s *session) deferBegin(st *rewrite.Statement, sql []byte) (err error) {
	text := sql
	if s.t.access.AddsReadOnly(&st.Tx) && !s.inBlock() {
		text = []byte(access.BeginSQL(access.BeginWord(st, sql), &st.Tx, "READ ONLY"))
	}
	if s.deferredBegin, err = s.templateFor(text, wire.NoOIDs); err != nil {
		return err
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalBegin)
	if err := s.applyEvent(beginAnswered); err != nil {
		return err
	}
	return s.answerWithWeakenedWarning(st, beginTag(st, sql))
}

// answerWithWeakenedWarning sends the client tag, and before that tag a warning if SERIALIZABLE was weakened.
func (s *session) answerWithWeakenedWarning(st *rewrite.Statement, tag []byte) error {
	if st.Weakened {
		return s.queueReply(s.weakenedWarning(), tag)
	}
	return s.queueReply(tag)
}

// weakenedWarning returns the warning that SERIALIZABLE was weakened to REPEATABLE READ, and counts the transaction.
func (s *session) weakenedWarning() []byte {
	s.srv.metrics.CountWeakenedIsolation()
	if !notice.WarningsWanted(&s.settings) {
		return nil
	}
	return sqlerror.WarnWeakened.AppendNotice(nil, "WARNING")
}

// beginTag returns the CommandComplete of a BEGIN, with the client's own word, BEGIN or START TRANSACTION.
func beginTag(st *rewrite.Statement, sql []byte) []byte {
	return wire.AppendCommandComplete(nil, access.BeginWord(st, sql))
}

// canFoldModes reports whether Sluice can ever add the modes of this SET TRANSACTION to a BEGIN that was not sent yet.
func (s *session) canFoldModes(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && access.CanFoldModes(&st.Tx)
}

// canFoldModesNow reports whether Sluice can add the modes of SET TRANSACTION to the session's unsent BEGIN. After a
// savepoint it cannot: the server must answer, since a return to the savepoint undoes the modes.
func (s *session) canFoldModesNow(st *rewrite.Statement) bool {
	return s.state == begun && s.tx.log == nil && s.canFoldModes(st)
}

// foldModesIntoBegin answers SET TRANSACTION READ ONLY or READ WRITE by replacing the unsent BEGIN. No mode is lost. An
// unsent BEGIN has no other mode, except the one isolation level that DSQL has.
func (s *session) foldModesIntoBegin(st *rewrite.Statement) (err error) {
	text := beginReadWrite
	if st.Tx.ReadOnly {
		text = "BEGIN READ ONLY"
	}
	if s.deferredBegin, err = s.templateFor([]byte(text), wire.NoOIDs); err != nil {
		return err
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalBegin)
	return s.answerWithWeakenedWarning(st, frameSet)
}

const beginReadWrite = "BEGIN READ WRITE"

// answerModesOutsideBlock answers SET TRANSACTION outside a block, if it is the only statement of a Query. As in
// PostgreSQL it has no effect but a warning.
func (s *session) answerModesOutsideBlock() error {
	s.srv.metrics.CountLocalAnswer(metrics.LocalSetting)
	return s.queueReply(sqlerror.WarnModesOutside.AppendNotice(nil, "WARNING"), frameSet)
}

var (
	frameCommit   = wire.AppendCommandComplete(nil, "COMMIT")
	frameRollback = wire.AppendCommandComplete(nil, "ROLLBACK")
)

// isAllowedInFailedBlock reports whether a failed block accepts the statement, as PostgreSQL does for COMMIT, ROLLBACK
// and ROLLBACK TO. If the block failed in Sluice, AND CHAIN must also be possible (canEndWithChain).
func (s *session) isAllowedInFailedBlock(plan *rewrite.Plan) bool {
	st := plan.SingleStatement()
	if st == nil || s.state == failed && !s.canEndWithChain(st) || s.chainsInFailedBlock(plan) {
		return false
	}
	return st.Tx.Verb.EndsBlock() || st.Tx.Verb == rewrite.RollbackTo
}

// mustDelayBegin reports whether Sluice delays a BEGIN until the next statement, also in the extended protocol. So
// Sluice can run the next statement outside the block, and SET TRANSACTION can change the BEGIN. JDBC sends BEGIN
// before the first statement, without a Sync between them.
func (s *session) mustDelayBegin(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && st.Tx.IsDeferrableBegin()
}

// mustDelayBeginNow reports whether Sluice delays the BEGIN st in the session's current state (mustDelayBegin).
func mustDelayBeginNow(s *session, st *rewrite.Statement) bool {
	return s.mustDelayBegin(st) && s.state == idle && !s.t.touched
}
