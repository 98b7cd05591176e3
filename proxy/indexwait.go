package proxy

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file delays the answer to CREATE INDEX until its background job is done. The wait begins after the ReadyForQuery
// of the statement's transaction: only then has the server started the job. constraint.PendingJob knows which tag to
// delay, and constraint.IndexJob follows the job.
//
// A cancelled or timed out statement leaves no index, as in PostgreSQL. If the client leaves, Sluice waits for the job
// for a limited time, then drops an index that is not valid.

// sendDelayedTag sends a CREATE INDEX's delayed tag without a wait for the index job, since other answers follow.
func (s *session) sendDelayedTag() error {
	ends := s.tx.job.IsCommitted()
	now := s.tx.job.ReleaseTag()
	if ends && !s.tx.job.IsCommitted() {
		s.commitAllSettings()
	}
	return s.sendOrWithhold(now)
}

// delayTag decides about a command tag while a CREATE INDEX's job is pending. It delays the tag of the COMMIT: the
// client gets it after the job. For tags that need no delay it returns v.
func (s *session) delayTag(v frameVerdict, tag []byte) (frameVerdict, error) {
	holds, now := s.tx.job.HoldTag(tag, s.t.server.outcome.InBlock())
	if holds {
		s.t.output.inspectsFrames = true // if another answer follows, the tag must be sent before it
		return swallow, nil
	}
	if now != nil {
		s.commitAllSettings()
	}
	return v, s.sendOrWithhold(now)
}

// recordIndexTxEnd records that the transaction of a pending CREATE INDEX has ended, and whether it was committed.
func recordIndexTxEnd(s *session, committed bool) { s.tx.job.RecordTxEnd(committed) }

// recordIndexTxStatement records another statement in the transaction of a pending CREATE INDEX.
func recordIndexTxStatement(s *session, o *pendingReply, st *rewrite.Statement, _ []byte) {
	switch {
	case st == nil:
		s.tx.job.RecordStatement(o.plan.Kind)
	case st.Job == rewrite.NoJob:
		s.tx.job.RecordStatement(st.Kind)
	}
}

// prepareIndexJobWait makes a ReadyForQuery wait for the pending index job, if the client must wait for that job.
func (l *link) prepareIndexJobWait(status byte) error {
	if l.t.rec.phase != phaseLive {
		return nil
	}
	return l.sendOrWithhold(l.tx.job.RecordReady(status))
}

// verdictForReady returns swallow (hide) if an index job, batches or settings delay the ReadyForQuery, otherwise v.
func (s *session) verdictForReady(v frameVerdict) frameVerdict {
	if s.tx.job.IsWaiting() || s.t.output.batches != nil || s.t.restoresSettings {
		return swallow
	}
	return v
}

// settleIndexJob waits for the index job after the server's ReadyForQuery. After that wait it ends the turn with
// Sluice's own answer and ReadyForQuery. If the backend is lost meanwhile, the client gets 08007 (backendLossError).
func (s *session) settleIndexJob() error {
	answer, told, err := s.awaitIndexJob()
	if err != nil {
		return err
	}
	if told != nil {
		s.t.server.errorTold = true
		s.srv.metrics.CountErrorSent(told.Code)
		// The server has committed the transaction's settings, although the client gets an error. So the backend is suspect.
		s.b.suspect = s.b.suspect || slices.ContainsFunc(s.settings.Staged.Changes, func(c rewrite.SettingChange) bool { return c.Action != rewrite.SetLocal })
	}
	if err := s.sendOrWithhold(answer); err != nil {
		return err
	}
	if err := s.reportParametersAtReady(); err != nil {
		return err
	}
	status := s.b.status
	if err := s.settleTurn(status); err != nil {
		return err
	}
	return s.sendOrWithhold(wire.AppendReadyForQuery(notice.AppendReports(&s.settings, nil, status), status))
}

// awaitIndexJob polls the job of a CREATE INDEX on the idle backend until the job is done. It returns the frames of the
// answer: the tag, or the error of a failed job. A cancel, the statement timeout and the client's leaving end the wait.
// err is a lost backend, or ends the session.
func (s *session) awaitIndexJob() (answer []byte, refusal *wire.Error, err error) {
	held := s.tx.job.TakeJob()
	work := held.FollowJob(ddlConn{s})
	err = work.Await()
	if err != nil && refusalFrom(err) == nil {
		err = s.withdrawIndex(work, err)
	}
	s.srv.pool.templates.BeginEpoch(false)
	told, _ := err.(*wire.Error)
	switch {
	case err == nil:
		return append(slices.Concat(work.Notices...), held.HeldTag()...), nil, nil
	case told == nil || told.Fatal:
		return nil, nil, err
	}
	return told.Append(nil), told, nil
}

// withdrawIndex drops the index of a CREATE INDEX whose wait ended with the error why, unless the index is valid. If
// the client has left, it first waits for the job. It returns the statement's error, or nil if the index is valid.
func (s *session) withdrawIndex(work *constraint.IndexJob, why error) error {
	end := time.Now().Add(exchangeTimeout)
	if why == errClientGone {
		end = time.Now().Add(cmp.Or(s.srv.cfg.CommitGrace, exchangeTimeout))
	}
	server := withdrawConn{ddlConn{s}, end}
	valid, err, cause := false, error(nil), metrics.IndexCancelled
	switch why {
	case interrupt.ErrCanceled, interrupt.ErrTimedOut:
		s.waits.Consume(why)
		valid, err = work.Withdraw(server)
	case errClientGone:
		cause = metrics.IndexClientGone
		if err = work.FinishWithoutClient(server); err == errTooLate {
			server.end = time.Now().Add(exchangeTimeout)
			_, err = work.WithdrawUnique(server)
		}
	default: // a lost backend, or the end of a drain
		s.recordInvalidIndex(work, metrics.IndexLost, why)
		return why
	}
	switch {
	case err == nil && valid:
		return nil
	case err == nil:
		return why
	}
	s.recordInvalidIndex(work, cause, err)
	if told, ok := why.(*wire.Error); ok && (refusalFrom(err) != nil || err == errTooLate) {
		return sqlerror.IndexJobContinues(told)
	}
	if _, lost := errors.AsType[*lostError](err); lost || err == errCut {
		return err
	}
	return why
}

// recordInvalidIndex counts and logs an index that may remain invalid after its CREATE INDEX failed.
func (s *session) recordInvalidIndex(work *constraint.IndexJob, cause string, err error) {
	if !work.IsOwn() {
		return
	}
	s.srv.metrics.CountIndexLeft(cause)
	s.srv.log.Warn("an index is left to its background job, and may never be valid", append(s.logAttrs(), "job", work.ID(), "cause", cause, "error", err)...)
}

// errTooLate ends Sluice's work on an index for which no client waits, after the time limit for that work.
var errTooLate = errors.New("the time for it is over")

// withdrawConn runs statements on behalf of a client that has left or cancelled. Only the end of a drain, a lost
// backend and the time limit end this work.
type withdrawConn struct {
	ddlConn
	end time.Time
}

// Ask sends the server one autocommit statement, and sends it again after conflicts.
func (w withdrawConn) Ask(sql string, row func(values []string)) error {
	for {
		err := w.ddlConn.Ask(sql, row)
		if err != errClientGone && err != interrupt.ErrCanceled && err != interrupt.ErrTimedOut { // one of these ended the pause after a conflict
			return err
		}
		w.ConsumeCancel(err)
		if err := w.Pause(jobPauseFirst); err != nil {
			return err
		}
	}
}

// Pause waits for d. Only the end of a drain (shutdown) and the time limit end the pause early, with an error.
func (w withdrawConn) Pause(d time.Duration) error {
	left := time.Until(w.end)
	if left <= 0 {
		return errTooLate
	}
	select {
	case <-time.After(min(d, left)):
	case <-w.s.srv.ctx.Done():
		return errCut
	}
	return w.s.waits.CheckCut()
}

// CheckMayContinue returns an error after the time limit, or at the end of a drain (shutdown).
func (w withdrawConn) CheckMayContinue() error { return w.Pause(0) }
