package proxy

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/mapping"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file verifies parts of a transaction that ROLLBACK TO has discarded (retry.savepoints strict). The client may
// remember rows that it read in that part. So these must be the same in the snapshot of the transaction that commits.
// The part's writes must not be made. saveDiscardedPart saves a log of the part and all before it until the
// transaction ends. Each replay runs that log on a second backend, the witness, compares the answers, and rolls back
// (verifyDiscardedParts). If the answers agree, the rows were the same before and after the snapshot.

// If ROLLBACK TO has discarded parts of a transaction, a replay of the transaction has these steps:
//
//	reborrowBackend       acquires the session's backend, idle, with the session's settings
//	borrowVerifyBackend   acquires a second backend, the witness, likewise
//	rerunSettledTurns     sends the remaining log to the session's backend, and compares
//	forceSnapshot         makes that backend take its snapshot even if that log was empty
//	verifyDiscardedParts  sends each part to the witness, from its BEGIN on; the client gets no answers,
//	                      and the session's state is restored
//	returnVerifyBackend   returns the witness, whatever the outcome
//
// Meanwhile the session's log, progress and backend are those of the part (verifyPart), so that sending and comparing
// need no second version. As in any replay of settled turns, the client's settings and names stay unchanged.

// verifyBackendWait bounds the wait for a second backend while the session holds its own. Several sessions that each
// hold one backend would otherwise wait forever. After this time the session returns its backend and begins again.
const verifyBackendWait = time.Second

// verifyTimeLimit bounds how long a replay verifies the parts that ROLLBACK TO has discarded. On a server with row
// locks, the part could wait for the transaction, and the transaction for the part.
const verifyTimeLimit = 20 * time.Second

// saveDiscardedPart saves the replay log of the part after the i-th savepoint, which ROLLBACK TO is about to discard.
// It saves no part whose answers say nothing about data. The result is false if the log has no room.
func (s *session) saveDiscardedPart(i int) bool {
	l := s.tx.log
	from := l.TurnsKeptByRollback(i)
	blind := func(turn int) bool { return turn >= from && !s.t.rec.turnObservesData(turn) }
	// Sluice does not verify last turns of the part that say nothing about data, such as a failed INSERT (23505).
	last := l.TurnCount()
	for last > from && blind(last-1) {
		last--
	}
	if last == from || s.b == nil {
		return true
	}
	beside := 0
	for _, part := range s.tx.parts {
		beside += part.Bytes()
	}
	part, ok := l.Fork(beside, blind)
	if ok {
		s.tx.parts = append(s.tx.parts, part)
	}
	return ok
}

// turnObservesData reports whether the answer to a turn in the replay log says anything about data.
func (r *recorder) turnObservesData(turn int) bool {
	frames, bound := r.tx.log.TurnFrames(turn), map[string]bool{}
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			if f.Type == wire.Bind {
				bound[f.Note.name] = true
			}
			if isUnparsedFrame(f) { // the server has refused the text: see forbidReplayOfUnparsed
				continue
			}
			if values.DependsOnData(r.planner, r.clientText(f), f.Note.names) {
				return true
			}
		case wire.Execute: // a portal of another turn: its text is not looked up
			if name, _, _ := bytes.Cut(r.loggedPayload(f), []byte{0}); !bound[string(name)] {
				return true
			}
		case 0, wire.Parse, wire.Describe, wire.Close, wire.Sync:
		default:
			return true
		}
	}
	return false
}

// isUnparsedFrame reports whether Sluice's parser failed on the text of a logged Query or Bind. The result is false for
// a text that Sluice reads only word by word, since a newer server may support that text.
func isUnparsedFrame(f *retry.LoggedFrame[logEntry]) bool {
	plan := f.Note.plan
	if f.Note.tmpl != nil {
		plan = f.Note.tmpl.Plan
	}
	return plan != nil && plan.Kind == rewrite.Unknown
}

// closeDiscardedParts closes the logs of parts that ROLLBACK TO has discarded. It runs whenever a transaction ends.
func (sp *savepointState) closeDiscardedParts() {
	for _, part := range sp.parts {
		part.Close()
	}
	sp.parts = nil
}

// borrowVerifyBackend acquires a second backend for a replay, to verify parts that ROLLBACK TO has discarded. If
// again is false, t.attempt.refusal says why there is no replay. If all backends are lent, the session returns its
// own and acquires two later. Otherwise several sessions could each hold one backend and wait forever for a second.
func (s *session) borrowVerifyBackend() (again bool, err error) {
	t := s.t
	for end := time.Now().Add(s.srv.pool.replays.cfg.Policy.MaxElapsed); ; {
		// Acquire the second backend. The refusal retry.Exhausted means here that all backends are lent.
		own := s.swapBackend(nil)
		again, err = s.reborrowWith(s.acquireVerifyConn)
		s.witness = s.swapBackend(own)
		if again || err != nil || t.attempt.refusal != retry.Exhausted {
			return again, err
		}
		if t.attempt.refusal = retry.NoBackend; time.Now().After(end) || s.keepsBackend() {
			return false, nil
		}
		t.attempt.refusal = retry.Replayable
		s.releaseBackend()
		if err := s.pauseWithoutBackend(time.Duration(5+rand.IntN(50)) * time.Millisecond); err != nil {
			return false, s.recordNoReplay(err)
		}
		if again, err := s.reborrowBackend(); !again {
			return false, err
		}
	}
}

// pauseWithoutBackend pauses after the session has returned its backend, so that another session gets that backend.
// The error is the reason to stop the turn. The pause is not one of the replay's policy.
func (s *session) pauseWithoutBackend(d time.Duration) error {
	ctx, over := s.waitContext(time.Now().Add(d), lookEvery)
	defer over()
	<-ctx.Done()
	if err := s.waits.Error(ctx); err != interrupt.ErrLimit {
		return err
	}
	return nil
}

// acquireVerifyConn acquires a second backend, to verify parts that ROLLBACK TO has discarded, within
// verifyBackendWait. The error is interrupt.ErrLimit, or the reason to stop the turn.
func (s *session) acquireVerifyConn() (*reservoir.Conn, error) {
	for {
		ctx, over := s.waitContext(time.Now().Add(verifyBackendWait), lookEvery)
		conn, err := s.srv.pool.backends.AcquireAhead(ctx)
		if err != nil {
			if ended := s.waits.Error(ctx); ended != nil {
				err = ended
			}
			over()
			return nil, err
		}
		over()
		if s.srv.backendOf(conn).isUsable() {
			return conn, nil
		}
		s.srv.metrics.CountBackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// swapBackend changes the session's backend to b, which may be nil, and returns the earlier one. From then on,
// cancels and deadlines apply to b. The caller must bring the earlier backend back: no other reference to it exists.
func (l *link) swapBackend(b *backend) (was *backend) {
	was = l.b
	if l.b = b; b == nil {
		l.waits.Swap(nil)
	} else {
		l.waits.Swap(b.conn)
	}
	return was
}

// returnVerifyBackend returns the second backend of a replay, the witness, if there is one. It discards the witness
// if that is in a transaction, because the session ended during verifyPart.
func (s *session) returnVerifyBackend() {
	if s.witness == nil {
		return
	}
	own := s.swapBackend(s.witness)
	s.witness = nil
	if s.b.status == 'I' && !s.b.isBroken() {
		s.releaseBackend()
	} else {
		s.dropBackend(reservoir.Unclean)
	}
	s.swapBackend(own)
}

// verifyDiscardedParts replays on the witness, the second backend, the parts that ROLLBACK TO has discarded, after
// the finished turns. If the client has cancelled, the attempt ends. If a part's answers differ, the attempt fails.
func (s *session) verifyDiscardedParts() error {
	t := s.t
	if len(s.tx.parts) == 0 {
		return nil
	}
	if err := s.forceSnapshot(); err != nil || t.isAttemptOver() {
		return err
	}
	if s.witness == nil || s.waits.IsCancelRequested() {
		t.abandonAttempt(retry.NoBackend)
		if s.waits.IsCancelRequested() {
			t.attempt.refusal = retry.Cancelled
		}
		return nil
	}
	course, attempt, phase, deadline := t.server, t.attempt, t.rec.phase, t.clock.Deadline()
	s.tx.whole = s.tx.log
	own := s.swapBackend(s.witness)
	s.witness = nil
	// The time limit for the parts matters only on servers with row locks. The client's own timeout still applies.
	t.clock.SetDeadline(interrupt.Earlier(deadline, time.Now().Add(verifyTimeLimit)))
	s.waits.Arm()
	var err error
	for _, part := range s.tx.parts {
		s.tx.log = part
		if err = s.verifyPart(); err != nil || t.isAttemptOver() {
			break
		}
	}
	if t.isAbandoned() { // the client has its error, and the transaction is closed
		s.swapBackend(own)
		s.dropBackend(reservoir.Unclean)
		return err
	}
	// All parts were verified, or one failed. So the transaction's replay goes on, or fails for the same reason.
	s.witness = s.swapBackend(own)
	s.tx.log, s.tx.whole = s.tx.whole, nil
	ended, failed := t.attempt, t.rec.phase == phaseAborting
	t.server, t.attempt, t.rec.phase = course, attempt, phase
	t.clock.SetDeadline(deadline)
	if failed {
		s.b.suspect = s.b.suspect || ended.refusal == retry.Cancelled // the cancel may have hit either backend
		t.abandonAttempt(ended.refusal)
		t.attempt.pause, t.attempt.discardedDiff = ended.pause, ended.discardedDiff
	}
	s.waits.Arm()
	return err
}

// forceSnapshot makes the server take the transaction's snapshot, if it has not yet, and awaits all pending replies.
func (s *session) forceSnapshot() error {
	const text = "SELECT 1 WHERE false"
	plan := s.srv.pool.planner.PlanWithNames([]byte(text), mapping.NoNames())
	name := s.prepareOnBackend(s.srv.pool.templates.Template(&s.t.scratch, []byte(text), wire.NoOIDs, s.parsingKey(), mapping.NoNames().ID(), 0, plan), false).Name
	s.t.owed.push(wire.Bind).swallow = true
	s.t.addToBatch(request.AppendBindWithoutParams(nil, name))
	o := s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, expectSelect
	s.t.addToBatch(wire.FrameExecuteAll)
	if err := s.flushPendingReplies(); err != nil || s.t.isAttemptOver() || s.t.sent.uplink == nil {
		return err
	}
	s.t.sent.flushed = 0
	return s.t.closeWriter()
}

// verifyPart replays a part that ROLLBACK TO has discarded, and rolls it back. The session's log is the part's log.
// After nil the second backend is idle, or the attempt has failed, as after a loss of that backend. After a schema
// conflict the same backend runs the part again. It has the new catalog now, which other backends may lack.
func (s *session) verifyPart() error {
	for {
		if err := s.tryVerifyPart(); err != nil || s.t.isAbandoned() {
			return err
		}
		if t := s.t; s.b == nil || t.rec.phase != phaseAborting || t.attempt.refusal != retry.Replayable || !t.attempt.renewed {
			break
		}
	}
	outcome := metrics.PartSame
	switch t := s.t; {
	case t.rec.phase == phaseAborting && t.attempt.refusal == retry.Differs:
		outcome = metrics.PartDiffers
	case t.rec.phase == phaseAborting:
		outcome = metrics.PartFailed
	}
	s.srv.metrics.CountDiscardedPart(outcome)
	return nil
}

// tryVerifyPart replays a part that ROLLBACK TO has discarded, without retrying, on the session's second backend.
func (s *session) tryVerifyPart() error {
	t := s.t
	s.tx.log.BeginReplay()
	t.rec.phase, t.attempt.refusal, t.attempt.renewed = phaseRepeating, retry.Replayable, false
	t.server, t.attempt.undos = serverProgress{outcome: outcome.FromBlock(block.FromStatus('I'))}, nil
	done, err := s.replanLog()
	if !done && err == nil {
		if s.tx.begin != nil { // else BEGIN is a frame of the log
			s.deferredBegin = s.tx.begin
			s.sendDeferredBegin()
		}
		s.sequences.RecordUse(s.id, &s.b.sequences)
		err = s.rerunSettledTurns()
	}
	var gone *lostError
	switch {
	case errors.As(err, &gone):
		s.recordLoss(gone, lossDuringReplay)
		s.dropBackend(reservoir.Broken)
		t.abandonAttempt(s.decideReplay(retry.BackendLost, 0))
	case err != nil:
		return err
	case t.isAbandoned():
		return nil
	case t.rec.phase == phaseAborting && t.attempt.refusal == retry.Differs:
		diff := s.tx.log.Difference()
		t.attempt.discardedDiff = &discardedDiff{diff: diff, drew: s.t.rec.mayRegenerateValues(diff)}
	}
	// The part ends like a failed attempt: the session reads the remaining answers, and then sends ROLLBACK.
	phase, refusal := t.rec.phase, t.attempt.refusal
	t.rec.phase = phaseAborting
	if err := s.abortAttempt(); err != nil || t.isAbandoned() {
		return err
	}
	if s.b != nil {
		if stop := s.rollBackOrDrop(s.exchangeInTurn); stop != nil {
			phase, refusal = phaseAborting, noReplayReason(stop)
		}
	}
	if t.rec.phase, t.attempt.refusal = phase, refusal; s.b == nil && phase != phaseAborting {
		t.abandonAttempt(s.decideReplay(retry.BackendLost, 0))
	}
	return nil
}

// discardedDiff says where a replay's answers to a part that ROLLBACK TO discarded differ from the first answers.
type discardedDiff struct {
	diff retry.ReplayDifference
	drew bool
}
