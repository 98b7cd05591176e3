package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/ddltx"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

// This file emulates savepoints for a server without them. A savepoint is a position in the transaction's log. For
// ROLLBACK TO, Sluice sends ROLLBACK and BEGIN, and replays the log up to that position. No answer may differ.

// With retry.savepoints strict, a replay also compares the answers of statements that ROLLBACK TO has discarded.

// savepointState is the session's state about the savepoints of its transaction, besides the replay log.
type savepointState struct {
	marks []savepointMark // one for each savepoint of the log
	binds uint64          // number of portals bound so far in the transaction
	// cursors means that the transaction declared a cursor. moved is 1 plus the last turn that ran a portal or cursor
	// older than the last savepoint. It is 0 if there is no such turn.
	cursors bool
	moved   int
	parts   []*retry.ReplayLog[logEntry] // logs of the parts that ROLLBACK TO discarded
	// earlierTime is the transaction time (now()) that the client got before a ROLLBACK TO. It is nil if the client got no
	// time, or if the server's transaction still has the same time.
	earlierTime *txtime.Time
	asked       queriedTxTime
}

// savepointMark is a copy of the session's state at a savepoint, for a ROLLBACK TO.
type savepointMark struct {
	staged    settings.Staged
	parts     *ddltx.Mark
	stood     *settings.Snapshot
	txParsing serversettings.TxParsing
	binds     uint64
	cursors   bool
	reports   *settings.Reports // parameter values that the client had
}

// hasEmulatedSavepoint reports whether a text has savepoint commands that Sluice carries out itself.
func (s *session) hasEmulatedSavepoint(plan *rewrite.Plan) bool {
	return s.srv.emulatesSavepoints() && !s.dedicated && plan.Kind >= rewrite.Control &&
		slices.ContainsFunc(plan.Statements, isSavepoint)
}

// emulatesSavepoints reports whether Sluice carries out savepoint commands, instead of the server.
func (srv *Server) emulatesSavepoints() bool {
	return srv.pool.replays != nil && srv.pool.replays.cfg.Savepoints != retry.NoSavepoints
}

// isSavepoint reports whether a statement is SAVEPOINT, RELEASE or ROLLBACK TO.
func isSavepoint(st rewrite.Statement) bool { return savepointNames[st.Tx.Verb] != "" }

// savepointNames are the names of the savepoint commands in PostgreSQL's errors.
var savepointNames = map[rewrite.TxVerb]string{rewrite.Savepoint: "SAVEPOINT",
	rewrite.ReleaseSavepoint: "RELEASE SAVEPOINT", rewrite.RollbackTo: "ROLLBACK TO SAVEPOINT"}

// runSavepointQuery carries out a simple Query of savepoint commands alone. It refuses other statements in the Query: a
// savepoint lies between two turns, and one Query is one turn. After success the turn is over, or skips its frames.
func (s *session) runSavepointQuery(plan *rewrite.Plan) error {
	t := s.t
	for i := range plan.Statements {
		if !isSavepoint(plan.Statements[i]) {
			return block.ErrSavepointMixed
		}
	}
	for i := range plan.Statements {
		if err := s.runSavepointCommand(&plan.Statements[i]); err != nil || t.server.skip || t.settled {
			return err
		}
	}
	return s.endSimpleQuery()
}

// endSimpleQuery ends the turn of a simple Query that the server got as frames of the extended protocol, or not at all.
// If the result is nil, the turn is over.
func (s *session) endSimpleQuery() error {
	t := s.t
	if !t.touched {
		return s.endTurnLocally()
	}
	t.owed.push(wire.Sync)
	t.server.outcome.RecordSync()
	s.t.rec.logFrame(wire.Sync, logEntry{commits: t.server.outcome.MayCommit()}, nil)
	s.t.addToBatch(wire.FrameSync)
	return s.finishTurn()
}

// runSavepointCommand carries out one savepoint command of a Query or a portal. Afterwards the turn may be over, or
// Sluice may skip its other frames. The caller sends an error to the client.
func (s *session) runSavepointCommand(st *rewrite.Statement) error {
	if err := s.cutLogTurn(); err != nil || s.t.server.skip || s.t.settled {
		return err
	}
	verb, name, l := st.Tx.Verb, st.Tx.Name, s.tx.log
	switch {
	case !s.inBlock():
		return &wire.Error{Code: "25P01", Message: savepointNames[verb] + " can only be used in transaction blocks"}
	case s.txStatus() == 'E' && verb != rewrite.RollbackTo:
		return sqlerror.Aborted
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalSavepoint)
	if l.FindSavepoint(name) < 0 {
		if done, err := s.handleCommittedSavepoint(verb, name); done {
			return err
		}
	}
	switch verb {
	case rewrite.Savepoint:
		return s.setSavepoint(name)
	case rewrite.ReleaseSavepoint:
		i := l.FindSavepoint(name)
		if i < 0 {
			return block.ErrNoSavepoint(name)
		}
		l.ReleaseSavepoint(i)
		s.tx.marks = s.tx.marks[:i]
		return s.queueReply(wire.AppendCommandComplete(nil, "RELEASE"))
	}
	return s.rollBackToSavepoint(name)
}

// cutLogTurn ends a turn of the replay log within the client's turn, because a savepoint lies between two turns of the
// log. It awaits the pending replies and sends them to the client. A replay compares the answers up to this point. If
// the client's turn has sent nothing, it does nothing.
func (s *session) cutLogTurn() error {
	t := s.t
	if !t.touched {
		return nil
	}
	ended := t.request.ended
	t.request.ended = false // if an earlier frame fails, Sluice skips the command
	if err := s.flushAndRelay(); err != nil || t.server.skip {
		return err
	}
	t.request.ended = ended
	if err := s.flushToClient(); err != nil || s.tx.log.CutTurn() {
		return err
	}
	s.failOnDifference()
	return s.runAttempts()
}

// setSavepoint carries out SAVEPOINT. It fails and changes nothing if a later ROLLBACK TO would not be possible.
func (s *session) setSavepoint(name string) error {
	if s.tx.log == nil && s.b == nil {
		s.openLog() // the server has seen nothing yet
	}
	if s.tx.pin.IsHeld() {
		s.tx.log.RefuseReplay(retry.Pinned)
	}
	if l := s.tx.log; !l.AddSavepoint(name) {
		return &wire.Error{Code: retry.StateUnsupported, Message: fmt.Sprintf("savepoint \"%s\" is not possible in this transaction", name),
			Detail: l.RefusalReason().Detail(retry.ReplayDifference{}), Hint: "Sluice returns to a savepoint by running the transaction again: see retry.savepoints."}
	}
	s.tx.marks = append(s.tx.marks, savepointMark{staged: s.settings.Staged.Snapshot(), parts: s.parts.Mark(), stood: s.settings.Snapshot(), txParsing: s.txParsing,
		binds: s.tx.binds, cursors: s.tx.cursors, reports: s.settings.Reported})
	return s.queueReply(wire.AppendCommandComplete(nil, "SAVEPOINT"))
}

// rollBackToSavepoint carries out ROLLBACK TO SAVEPOINT. In the session it undoes changes of settings, portals and
// cursors. If the server has seen anything of the transaction, a replay undoes the changes there. The caller sends a
// returned error to the client. After an error the transaction is unchanged, or has failed.
func (s *session) rollBackToSavepoint(name string) error {
	l := s.tx.log
	i := l.FindSavepoint(name)
	switch {
	case i < 0: // no such savepoint, or the log was dropped with a lost backend
		return block.ErrNoSavepoint(name)
	case !l.CanRollbackTo():
		return block.ErrCannotReturn(name, l.RefusalReason().Detail(retry.ReplayDifference{}))
	case s.pin.IsPinned():
		return block.ErrCannotReturn(name, retry.Pinned.Detail(retry.ReplayDifference{}))
	case s.tx.moved > 0 && l.RollbackDropsTurn(i, s.tx.moved-1):
		return block.ErrCannotReturn(name, "A cursor or portal that was open at the savepoint was run since.")
	case s.srv.pool.replays.cfg.Savepoints == retry.Strict && !s.saveDiscardedPart(i):
		return block.ErrCannotReturn(name, retry.LogFull.Detail(retry.ReplayDifference{}))
	}
	m := &s.tx.marks[i]
	// staged.Changes are the settings that Sluice sent to the server. It never sends settings that it enforces itself.
	onlyRead := l.TurnsKeptByRollback(i) == l.TurnCount() && len(s.settings.Staged.Changes) == len(m.staged.Changes) && s.hasOnlyReadSince(l.FirstTurnAfter(i))
	l.RollbackTo(i)
	s.tx.marks = s.tx.marks[:i+1]
	s.settings.Staged, s.txParsing = m.staged.Snapshot(), m.txParsing
	s.parts.Restore(m.parts)
	if s.portals.unnamed.seq > m.binds {
		s.portals.unnamed = portal{}
	}
	for name, p := range s.portals.named {
		if p.seq > m.binds {
			s.portals.drop(name)
		}
	}
	s.renewTxEpoch()
	if done, err := s.returnToSavepoint(name, onlyRead); done || err != nil {
		return err
	}
	s.settings.RestoreLocal(m.stood)
	return s.queueReply(wire.AppendCommandComplete(nil, "ROLLBACK"))
}

// returnToSavepoint makes the backend, if there is one, return to the savepoint. onlyRead means that the server has
// nothing to undo: a replay would only take a newer snapshot of the data. done means that the client has its answer.
func (s *session) returnToSavepoint(name string, onlyRead bool) (done bool, err error) {
	if s.b != nil {
		s.b.sequences.History.RecordTxControl(rewrite.RollbackTo)
		if onlyRead {
			return false, nil
		}
		err = s.replayToSavepoint(name)
		return s.t.server.skip || s.t.settled, err
	}
	if s.state == failed {
		if err := s.applyEvent(rolledBackTo); err != nil {
			return false, err
		}
	}
	s.deferredBegin = s.tx.begin
	return false, nil
}

// hasOnlyReadSince reports whether the server has only read since the given turn of the log. If so, a ROLLBACK TO has
// nothing to undo there. It ignores portals and changed settings, which the caller checks. Unparsed text and cursors
// count as writes: logPlan and trackSavepointTag record a DECLARE as a write.
func (s *session) hasOnlyReadSince(turn int) bool {
	l := s.tx.log
	if !l.Replayable() || s.txStatus() != 'T' {
		return false
	}
	for ; turn < l.TurnCount(); turn++ {
		frames := l.TurnFrames(turn)
		for i := range frames {
			if !isReadFrame(&frames[i]) {
				return false
			}
		}
	}
	return true
}

// isReadFrame reports whether a logged frame makes the server run nothing, or only a read.
func isReadFrame(f *retry.LoggedFrame[logEntry]) bool {
	plan := f.Note.plan
	switch f.Type {
	case wire.Query:
	case wire.Bind:
		plan = f.Note.tmpl.Plan
	case wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Flush, wire.Sync:
		return true
	default:
		return false
	}
	return plan != nil && plan.Kind == rewrite.Read
}

// replayToSavepoint ends the transaction on the backend and replays the log up to the savepoint. The replay makes no
// pause, and does not queue for contended rows. If the replay fails, the client's error names the savepoint.
func (s *session) replayToSavepoint(name string) error {
	t := s.t
	fresh := !t.touched
	if err := s.ensureBackend(); err != nil {
		return err
	}
	t.progress = s.settings.TxProgress()
	t.abandonAttempt(retry.Replayable)
	if t.attempt.serverAt = midTurn; fresh {
		t.attempt.serverAt = atReady
	}
	t.attempt.pause, t.attempt.forRollbackTo = 0, true
	s.tx.attempts.StartRequest(time.Now())
	t.attempt.originalError, t.attempt.statusAfter, t.attempt.returnSavepoint = ddltx.ReplaceConflict(block.ErrRollbackToDiffers(name), s.committedStatements()).Append(nil), 'E', name
	if err := s.runAttempts(); err != nil || t.isAbandoned() {
		return err
	}
	t.attempt.originalError, t.attempt.statusAfter, t.attempt.returnSavepoint = nil, 0, "" // a later conflict gets its own error
	if t.attempt.keepingWhole.Clock && t.attempt.keepingWhole.Tells {
		s.tx.earlierTime = t.attempt.keepingWhole.Time
	}
	return nil
}

// mayRegenerateValues reports whether a replay may differ because the server generates values again, such as sequence
// numbers. It looks for SQL that generates values in the turn that differs. With such SQL every replay differs.
func (r *recorder) mayRegenerateValues(diff retry.ReplayDifference) bool {
	if diff.Kind == retry.Outcome {
		return false
	}
	frames := r.tx.log.TurnFrames(r.tx.log.CurrentTurn())
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query:
			if parse.MayGenerateValues(r.loggedPayload(f)) {
				return true
			}
		case wire.Bind:
			if parse.MayGenerateValues([]byte(f.Note.tmpl.SQL)) {
				return true
			}
		}
	}
	return false
}

// resendCutTurn sends the server a turn again that cutLogTurn had ended early in the log. No ReadyForQuery ends this
// turn. A Flush makes the server answer, and the log then compares the answers.
func (s *session) resendCutTurn() error {
	t := s.t
	if err := s.resendTurn(false); err != nil || t.isAttemptOver() {
		return err
	}
	if err := s.flushPendingReplies(); err != nil || t.isAttemptOver() {
		return err
	}
	if !s.tx.log.CutTurn() {
		s.failOnDifference()
	}
	t.server.outcome.RecordCaughtUp()
	return nil
}

// trackSavepointTag records a statement's command tag for later savepoint commands. ROLLBACK TO cannot move a cursor
// back. So a ROLLBACK TO is impossible once a cursor that is older than the savepoint has moved.
func (s *session) trackSavepointTag(tag []byte) {
	t := s.t
	if !t.rec.logs || !s.srv.emulatesSavepoints() {
		return
	}
	word, _, _ := bytes.Cut(tag, []byte(" "))
	switch string(word) {
	case "COMMIT", "ROLLBACK":
		if s.tx.log != nil {
			s.tx.log.ReleaseSavepoint(0)
		}
		s.tx.closeDiscardedParts()
		s.tx.savepointState = savepointState{binds: s.tx.binds}
	case "DECLARE":
		s.tx.cursors = true
		s.tx.log.RecordWrite() // ROLLBACK TO closes the cursor
	case "FETCH", "MOVE", "CLOSE":
		if n := len(s.tx.marks); n > 0 && s.tx.marks[n-1].cursors {
			s.tx.moved = s.tx.log.TurnCount() + 1
		}
	}
}

// trackPortalRun records that a portal runs, which makes ROLLBACK TO a savepoint younger than the portal impossible.
func (r *recorder) trackPortalRun(p portal) {
	if n := len(r.tx.marks); n > 0 && p.seq <= r.tx.marks[n-1].binds && r.logs {
		r.tx.moved = r.tx.log.TurnCount() + 1
	}
}

// emptySavepoints returns the block's latest savepoints after which no statement ran, in order. It ignores parts of the
// block that Sluice has committed. SET, DECLARE and other statements that Sluice answers count as statements.
func (s *session) emptySavepoints() []string {
	l := s.tx.log
	if !l.Replayable() {
		return nil
	}
	i := l.SavepointCount()
	for ; i > 0; i-- {
		m := &s.tx.marks[i-1]
		if l.FirstTurnAfter(i-1) != l.TurnCount() || m.cursors != s.tx.cursors || m.txParsing != s.txParsing ||
			len(m.staged.Changes) != len(s.settings.Staged.Changes) || !s.settings.IsUnchangedSince(m.stood) {
			break
		}
	}
	return l.SavepointNames()[i:]
}

// handleCommittedSavepoint handles a command on a savepoint in a part of the block that Sluice has committed. It
// answers RELEASE and refuses ROLLBACK TO. For any other name done is false.
func (s *session) handleCommittedSavepoint(verb rewrite.TxVerb, name string) (done bool, err error) {
	ended, refusal := s.parts.Savepoint(verb, name)
	switch {
	case !ended:
		return false, nil
	case refusal != "":
		return true, block.ErrCannotReturn(name, refusal)
	}
	if s.tx.log.SavepointCount() > 0 { // the log has only later savepoints, which RELEASE also drops
		s.tx.log.ReleaseSavepoint(0)
		s.tx.marks = nil
	}
	return true, s.queueReply(wire.AppendCommandComplete(nil, "RELEASE"))
}
