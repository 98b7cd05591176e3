package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file replays a transaction: it sends the frames of its log again, turn by turn, and the log compares the
// answers. Some functions decide whether a Sync group (frames up to a Sync) is several transactions.

// rerunTransaction sends the logged transaction again. First it sends every finished turn, whose answers must not
// differ. Then it sends the client's frames of the turn in progress, whose answers the client gets. The backend must be
// idle and have the session's settings. If the result is nil, the server has repeated all that the client has, or the
// attempt (isAttemptOver) or the turn is over.
func (s *session) rerunTransaction() error {
	t := s.t
	t.server = serverProgress{outcome: outcome.FromBlock(block.FromStatus('I'))}
	if done, err := s.replanLog(); done || err != nil {
		return err // Sluice still needs the last attempt's undos of statement names
	}
	t.attempt.undos = nil
	if s.tx.begin != nil {
		s.deferredBegin = s.tx.begin
		s.sendDeferredBegin()
	}
	// Sluice records that the session uses sequences, since the replayed statements may draw numbers again.
	s.sequences.RecordUse(s.id, &s.b.sequences)
	if err := s.rerunSettledTurns(); err != nil || t.isAttemptOver() {
		return err
	}
	if err := s.verifyDiscardedParts(); err != nil || t.isAttemptOver() {
		return err
	}
	t.rec.phase, t.attempt.serverAt, t.server.statement = phaseLive, midTurn, 0
	// Sluice restores the settings as they were before the turn in progress, whose frames change them again.
	s.settings.RestoreProgress(t.progress)
	s.restoreBeforeScript()
	if t.nested.asksTime {
		s.queryTxTime("")
	}
	if err := s.resendTurn(true); err != nil || t.isAttemptOver() {
		return err
	}
	if t.request.ended {
		return s.flushToBackend()
	}
	// The client's next frame may commit. First the server must repeat every answer that the client has.
	if err := s.awaitReplayedAnswers(); err != nil || t.isAttemptOver() {
		return err
	}
	if !t.owed.empty() {
		s.t.addToBatch(wire.FrameFlush)
	}
	return s.flushToBackend()
}

// rerunSettledTurns sends the server the finished turns of a transaction again. Every answer must be the same as the
// first. It skips a turn whose first answers remain valid.
func (s *session) rerunSettledTurns() error {
	t, l := s.t, s.tx.log
	t.attempt.keeping, t.attempt.keepsLast = s.surveyRepeatable(), l.HasDeliveredPart()
	if s.tx.whole == nil {
		if t.attempt.keepingWhole = t.attempt.keeping; !t.attempt.keeping.Clock || !t.attempt.keeping.Tells {
			s.forgetAskedTime() // the replay's transaction at the server has another time
		}
	}
	t.rec.phase = phaseRepeating
	for l.CurrentTurn() < l.TurnCount() {
		t.attempt.serverAt = midTurn
		if s.t.rec.canSkipTurn(l.CurrentTurn(), &s.t.attempt.keeping) {
			s.b.sequences.MarkOutdated()
			l.SkipValidTurn()
			continue
		}
		if l.IsCutTurn(l.CurrentTurn()) {
			if err := s.resendCutTurn(); err != nil || t.isAttemptOver() {
				return err
			}
			continue
		}
		if err := s.resendTurn(false); err != nil {
			return err
		}
		if q := &t.owed; l.CurrentTurn() < l.TurnCount() && l.EndedWithError(l.CurrentTurn()) && t.attempt.serverAt != atReady && (q.empty() || !q.items[len(q.items)-1].endsWithReady()) {
			q.push(wire.Sync) // a Sync ends the turn instead of its last frame, which is skipped in the replay
			s.t.addToBatch(wire.FrameSync)
		}
		if err := s.flushToBackend(); err != nil {
			return err
		}
		for t.attempt.serverAt != atReady && !t.isAttemptOver() {
			if err := s.readAndRelay(); err != nil {
				return err
			}
		}
		if t.isAttemptOver() {
			return nil
		}
		t.server = serverProgress{outcome: outcome.FromBlock(s.t.blockAtStatus(s.b.status))}
	}
	return nil
}

// resendTurn sends the frames of the log's current turn again. last means that this is the client's turn in progress.
// After an error that the client gets, resendTurn skips the frames up to a Sync.
func (s *session) resendTurn(last bool) error {
	t := s.t
	// Copy the frames, because an error that the client gets empties the log. Sluice must still send the turn's Sync.
	frames := slices.Clone(s.tx.log.TurnFrames(s.tx.log.CurrentTurn()))
	acks := 0
	t.unseen = false
	for i := range frames {
		f := &frames[i]
		if n := countAcknowledgements(f); n > 0 {
			if acks += n; last && acks <= s.tx.log.UnhashedDelivered() {
				f.Note.undoes = false // the client has the answer, so the name's new meaning stays
			}
		}
		// A finished turn inside a block commits nothing, since the block is still open.
		commits := last && f.Note.commits
		if commits {
			if err := s.awaitReplayedAnswers(); err != nil || t.isAttemptOver() {
				return err
			}
		}
		if err := s.flushIfFull(); err != nil || t.isAttemptOver() {
			return err
		}
		if t.server.skip && f.Type != wire.Sync {
			if last {
				s.undoNameChanges(frames[i:])
			}
			last = false
			continue
		}
		if last && (f.Type == wire.Query || f.Type == wire.Execute) {
			if s.repinForReplay(f.Note.plan); t.isAttemptOver() {
				return nil
			}
		}
		if err := s.resendFrame(f, last); err != nil || t.isAttemptOver() {
			return err
		}
	}
	return nil
}

// countAcknowledgements returns how many answers to a logged frame the log counts without a digest (hash), such as
// ParseComplete. For a Describe it counts a ParseComplete before the answer, and an answer that Sluice writes.
func countAcknowledgements(f *retry.LoggedFrame[logEntry]) int {
	n := &f.Note
	if n.silent {
		return 0
	}
	count := 0
	switch f.Type {
	case 0, wire.Parse, wire.Bind, wire.Close:
		count = 1
	case wire.Describe:
		plan := n.plan
		if n.tmpl != nil {
			plan = n.tmpl.Plan
		}
		if setConfigStatement(plan) != nil {
			count++
		}
		if n.parsed {
			count++
		}
	case wire.Execute:
		if n.told != nil {
			count = 1
		}
	}
	return count
}

// unansweredNameUndos returns undos of changed statement names, the newest first. Each is for a frame of the unfinished
// turn whose answer the client does not get, not even before the error (answersBefore). Without a log it returns none.
// The caller runs the undos in taken first. If taken has the unnamed statement, a failed Parse may have destroyed that
// statement. The result then has no undo for it.
func (t *turn) unansweredNameUndos(taken []nameUndo) (undos []nameUndo) {
	l := t.rec.tx.log
	if !t.rec.logs || !l.Replayable() {
		return nil
	}
	destroyed := slices.ContainsFunc(taken, func(u nameUndo) bool { return u.name == "" })
	told := l.UnhashedDelivered()
	if t.attempt.answersBefore != nil {
		told = max(told, t.attempt.acksBefore)
	}
	acks, frames := 0, l.TurnFrames(l.TurnCount())
	for i := range frames {
		acks += countAcknowledgements(&frames[i])
		if n := &frames[i].Note; n.undoes && acks > told && (n.name != "" || !destroyed) {
			undos = append(undos, nameUndo{name: n.name, prev: n.prev})
		}
	}
	slices.Reverse(undos)
	return undos
}

// undoNameChanges undoes the changes of statement names by frames that the server skips in a replay. It starts with the
// newest change, so that each name gets its oldest meaning back.
func (s *session) undoNameChanges(frames []retry.LoggedFrame[logEntry]) {
	for i := len(frames) - 1; i >= 0; i-- {
		if n := &frames[i].Note; n.undoes {
			s.statements.Set(&s.memory.account, n.name, n.prev)
		}
	}
}

// awaitReplayedAnswers awaits the server's answers in a replay, before a frame that can commit, or before the client
// continues. If the server has not repeated all answers that the client has, the attempt fails and commits nothing.
func (s *session) awaitReplayedAnswers() error {
	t, l := s.t, s.tx.log
	if !l.IsReplayBehind() {
		return nil
	}
	if err := s.flushPendingReplies(); err != nil || t.isAttemptOver() {
		return err
	}
	if l.IsReplayBehind() {
		t.abandonAttempt(retry.Delivered)
	}
	return nil
}

// flushPendingReplies sends a Flush and relays the pending replies. If a COMMIT within the turn empties the log
// meanwhile, Sluice cannot send the rest of the turn. The client then gets the error of a lost backend.
func (s *session) flushPendingReplies() error {
	t := s.t
	s.t.addToBatch(wire.FrameFlush)
	if err := s.flushToBackend(); err != nil {
		return err
	}
	for !t.owed.empty() && !t.isAttemptOver() {
		if err := s.readAndRelay(); err != nil {
			return err
		}
	}
	if t.isAttemptOver() || t.server.skip || s.tx.log.Replayable() {
		return nil
	}
	return s.abandonTurn(s.backendLossError(), reservoir.Unclean)
}

// trackExecute records that a portal is about to run. If a Sync group outside a block may now be several transactions,
// the log refuses replays from now on. trackExecute must be called before the Execute is logged.
func (s *session) trackExecute(plan *rewrite.Plan) {
	t := s.t
	outside := !t.server.outcome.InBlock()
	s.t.forbidReplayAfterCommit()
	t.server.outcome.RecordExecute(plan, s.mayAutocommit())
	if !t.rec.logs || !outside || t.server.outcome.InBlock() {
		return
	}
	if t.request.executes++; t.request.executes > 1 && !s.srv.pool.groups.IsOneTransaction() {
		s.tx.log.RefuseReplay(retry.PartialGroup)
	}
}

// forbidReplayAfterCommit makes the log refuse replays if an earlier statement of the turn may have committed alone.
func (t *turn) forbidReplayAfterCommit() {
	if t.rec.logs && t.server.outcome.MayStartNewTx() {
		t.rec.tx.log.RefuseReplay(retry.PartialGroup)
	}
}

// mayAutocommit reports whether the server may commit a statement outside a block before the Sync.
func (s *session) mayAutocommit() bool {
	return s.srv.cfg.Kind != Postgres && !s.srv.pool.groups.IsOneTransaction()
}
