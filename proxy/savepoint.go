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
)

// This file emulates savepoints for a server without savepoints. A savepoint is a position in the transaction's log.
// For ROLLBACK TO, Sluice sends ROLLBACK and BEGIN and replays the log up to that position; no answer may differ.

// With retry.savepoints strict, a replay also compares the answers of discarded statements, on a second backend.

// savepointState is the session's state about the savepoints of its transaction, besides the log.
type savepointState struct {
	marks []savepointMark // one for each savepoint of the log
	binds uint64          // portals bound so far in the transaction
	// cursors means that the transaction declared a cursor. moved is 0, or 1 plus the last turn that ran a portal or
	// cursor older than the last savepoint.
	cursors bool
	moved   int
	parts   []*retry.ReplayLog[logEntry] // discarded parts: discarded.go
	// earlierTime is the transaction time (now()) that the client got before a ROLLBACK TO. It is nil if the client got
	// none, or if the server's transaction still has the same.
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
	reports   *settings.Reports // parameters that the client had been sent
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

// runSavepointQuery carries out a simple Query of savepoint commands alone. It refuses other statements, since a
// savepoint lies between two turns and one Query is one turn. After nil the turn is over, or its frames are skipped.
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
// After nil the turn is over.
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
// its frames may be skipped. The caller sends an error to the client.
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

// cutLogTurn ends the log's turn within the client's turn, because a savepoint lies between two turns of the log. It
// waits for the pending replies and sends the client these answers, which a replay compares up to here. A turn that has
// sent nothing is not cut.
func (s *session) cutLogTurn() error {
	t := s.t
	if !t.touched {
		return nil
	}
	ended := t.request.ended
	t.request.ended = false // if an earlier frame failed, the command is skipped
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

// setSavepoint carries out SAVEPOINT. If a later ROLLBACK TO would not be possible, it fails and changes nothing.
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

// rollBackToSavepoint carries out ROLLBACK TO SAVEPOINT. In the session it undoes what the client has set and opened
// since the savepoint. At the server a replay undoes the changes, unless the transaction has sent nothing. The
// caller sends an error to the client; after it the transaction is unchanged, or has failed.
func (s *session) rollBackToSavepoint(name string) error {
	l := s.tx.log
	i := l.FindSavepoint(name)
	switch {
	case i < 0: // or the log is gone with a lost backend
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
// nothing to undo: a replay would only take a newer snapshot. done means that the client has its answer.
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

// hasOnlyReadSince reports whether the server has only read since the given turn of the log. If so, a ROLLBACK TO
// has nothing to undo there. Portals do not count. The caller checks changed settings. Unparsed text and cursors
// count as writes; logPlan and trackSavepointTag record a DECLARE as a write.
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
// pause, and does not queue for contended rows. An error of the replay for the client names the savepoint.
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

// mayRegenerateValues reports whether the replay may differ because of values that the server generates, such as
// sequence numbers. The SQL of the turn that differs decides, since with such SQL each replay differs.
func (r *recorder) mayRegenerateValues(diff retry.ReplayDifference) bool {
	if diff.Kind == retry.Outcome {
		return false
	}
	frames := r.tx.log.TurnFrames(r.tx.log.CurrentTurn())
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query:
			if rewrite.MayGenerateValues(r.loggedPayload(f)) {
				return true
			}
		case wire.Bind:
			if rewrite.MayGenerateValues([]byte(f.Note.tmpl.SQL)) {
				return true
			}
		}
	}
	return false
}

// resendCutTurn sends a turn again that cutLogTurn had ended early in the log. No ReadyForQuery ends this turn. A Flush
// makes the server answer, and the log then compares the answers.
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

// trackSavepointTag records the command tag of a statement for savepoints. ROLLBACK TO does not move a cursor back.
// So a ROLLBACK TO is impossible once a cursor that is older than the savepoint has moved.
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

// trackPortalRun records that a portal runs. From then on, a portal that is older than the last savepoint has moved.
func (r *recorder) trackPortalRun(p portal) {
	if n := len(r.tx.marks); n > 0 && p.seq <= r.tx.marks[n-1].binds && r.logs {
		r.tx.moved = r.tx.log.TurnCount() + 1
	}
}

// emptySavepoints returns, in order, the latest savepoints of a block's uncommitted part after which no statement
// ran. A statement that Sluice answers, such as SET or DECLARE, counts too.
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

// handleCommittedSavepoint answers RELEASE of a savepoint in a part of the block that Sluice has committed, and
// refuses ROLLBACK TO it. done is false for other names.
func (s *session) handleCommittedSavepoint(verb rewrite.TxVerb, name string) (done bool, err error) {
	ended, refusal := s.parts.Savepoint(verb, name)
	switch {
	case !ended:
		return false, nil
	case refusal != "":
		return true, block.ErrCannotReturn(name, refusal)
	}
	if s.tx.log.SavepointCount() > 0 { // these are later savepoints
		s.tx.log.ReleaseSavepoint(0)
		s.tx.marks = nil
	}
	return true, s.queueReply(wire.AppendCommandComplete(nil, "RELEASE"))
}
