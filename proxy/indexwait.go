package proxy

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/constraint"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The answer to a CREATE INDEX waits for its background job behind the ReadyForQuery that ends the statement's
// transaction: only then the server has begun the job, and the backend can be asked. constraint.Pending knows
// which tag waits, and constraint.IndexJob follows the job.
//
// A statement that the client has cancelled, or that timed out, leaves no index, as in PostgreSQL. Behind a client
// that has left, the job is awaited for a while, and an index that is not valid is dropped.

// tellTag sends the tag that was held until a job is done: nobody waits for it, because more of the turn follows.
func (s *session) tellTag() error {
	ends := s.tx.job.Ends()
	now := s.tx.job.Follows()
	if ends && !s.tx.job.Ends() {
		s.keepsSettings()
	}
	return s.passSpan(now)
}

// holdsTag looks at the tag of a statement while a job is pending: that of the COMMIT is held. v is what has been
// decided of the tag.
func (s *session) holdsTag(v verdict, tag []byte) (verdict, error) {
	holds, now := s.tx.job.Holds(tag, s.t.outcome.InBlock())
	if holds {
		s.t.looks = true // a further answer has the tag sent
		return swallow, nil
	}
	if now != nil {
		s.keepsSettings()
	}
	return v, s.passSpan(now)
}

// indexJobEnded records that a statement has ended the transaction of a CREATE INDEX.
func indexJobEnded(s *session, committed bool) { s.tx.job.Ended(committed) }

// indexJobRan records a statement that has run in the transaction of a CREATE INDEX, or before one.
func indexJobRan(s *session, o *owed, st *rewrite.Statement, _ []byte) {
	switch {
	case st == nil:
		s.tx.job.Ran(o.plan.Kind)
	case st.Job == rewrite.NoJob:
		s.tx.job.Ran(st.Kind)
	}
}

// jobAtReady has a ReadyForQuery wait for the job that is pending, if there is one to be awaited.
func (s *session) jobAtReady(status byte) error {
	if s.t.phase != live {
		return nil
	}
	return s.passSpan(s.tx.job.Ready(status))
}

// waitsForJob says what becomes of a ReadyForQuery: it comes behind the job, or the batches.
func (s *session) waitsForJob(v verdict) verdict {
	if s.tx.job.Waits() || s.t.chunks != nil || s.t.putsBack {
		return swallow
	}
	return v
}

// settleJob ends a turn whose answer waited for a job, behind the server's ReadyForQuery, which was kept from the
// client: the client gets one of ours behind the answer. A loss meanwhile is told as an unknown outcome (lossTold).
func (s *session) settleJob() error {
	answer, told, err := s.awaitJob()
	if err != nil {
		return err
	}
	if told != nil {
		s.t.errorTold = true
		s.srv.metrics.ErrorSent(told.Code)
		// The server has committed what the transaction has set, and the client is sent that it has not.
		s.b.suspect = s.b.suspect || slices.ContainsFunc(s.settings.Staged.Changes, func(c rewrite.Change) bool { return c.Action != rewrite.SetLocal })
	}
	if err := s.passSpan(answer); err != nil {
		return err
	}
	if err := s.tellAtReady(); err != nil {
		return err
	}
	status := s.b.status
	if err := s.settle(status); err != nil {
		return err
	}
	return s.passSpan(wire.AppendReady(s.appendName(nil, status), status))
}

// awaitJob waits until the job of a CREATE INDEX is done, and returns what the client is answered: the tag, or the
// error of a job that failed. Cancel, the statement timeout, the client's end and the cut end the wait. The backend,
// which is idle, is asked. The error is a loss or the session's end.
func (s *session) awaitJob() (answer []byte, refusal *wire.Error, err error) {
	held := s.tx.job.Take()
	work := held.Job(asked{s})
	err = work.Await()
	if err != nil && refused(err) == nil {
		err = s.withdraws(work, err)
	}
	s.srv.catalog.flush()
	told, _ := err.(*wire.Error)
	switch {
	case err == nil:
		return append(slices.Concat(work.Notices...), held.Tag()...), nil, nil
	case told == nil || told.Fatal:
		return nil, nil, err
	}
	return told.Append(nil), told, nil
}

// withdraws drops the index of a statement whose wait for the job ended with why, unless the index is valid by now.
// Behind a client that has left it first waits on. It returns the statement's error: nil where the index is valid
// and the client is there.
func (s *session) withdraws(work *constraint.IndexJob, why error) error {
	end := time.Now().Add(exchangeTimeout)
	if why == errClientGone {
		end = time.Now().Add(cmp.Or(s.srv.cfg.CommitGrace, exchangeTimeout))
	}
	server := withdrawing{asked{s}, end}
	valid, err, cause := false, error(nil), metrics.IndexCancelled
	switch why {
	case errCanceled, errTimedOut:
		s.heeded(why)
		valid, err = work.Withdraw(server)
	case errClientGone:
		cause = metrics.IndexClientGone
		if err = work.Outlast(server); err == errTooLate {
			server.end = time.Now().Add(exchangeTimeout)
			_, err = work.WithdrawUnique(server)
		}
	default: // a lost backend, or a cut
		s.leavesIndex(work, metrics.IndexLost, why)
		return why
	}
	switch {
	case err == nil && valid:
		return nil
	case err == nil:
		return why
	}
	s.leavesIndex(work, cause, err)
	if told, ok := why.(*wire.Error); ok && (refused(err) != nil || err == errTooLate) {
		return errJobGoesOn(told)
	}
	if _, lost := errors.AsType[*lostError](err); lost || err == errCut {
		return err
	}
	return why
}

// leavesIndex counts and logs an index that may stay and be invalid, though its statement has not succeeded.
func (s *session) leavesIndex(work *constraint.IndexJob, cause string, err error) {
	if !work.Own() {
		return
	}
	s.srv.metrics.IndexLeft(cause)
	s.srv.log.Warn("an index is left to its background job, and may never be valid", append(s.logAttrs(), "job", work.ID(), "cause", cause, "error", err)...)
}

// errTooLate ends what is done for a statement that nobody awaits any more.
var errTooLate = errors.New("the time for it is over")

// withdrawing is a backend that is asked for a statement whose client has gone, or no longer waits: only a cut, a loss
// and the end of its time end that.
type withdrawing struct {
	asked
	end time.Time
}

// Ask sends one statement, which commits at once, again behind conflicts.
func (w withdrawing) Ask(sql string, row func(values []string)) error {
	for {
		err := w.asked.Ask(sql, row)
		if err != errClientGone && err != errCanceled && err != errTimedOut { // these end the pause behind a conflict
			return err
		}
		w.Heed(err)
		if err := w.Pause(jobPauseFirst); err != nil {
			return err
		}
	}
}

// Pause waits. Nobody but a cut and the end of the time ends it.
func (w withdrawing) Pause(d time.Duration) error {
	left := time.Until(w.end)
	if left <= 0 {
		return errTooLate
	}
	select {
	case <-time.After(min(d, left)):
	case <-w.s.srv.ctx.Done():
		return errCut
	}
	return w.s.cut()
}

// More reports whether the time is over.
func (w withdrawing) More() error { return w.Pause(0) }
