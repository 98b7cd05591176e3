package dsqlsim

import (
	"errors"
	"io"
	"time"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// pendingInjection holds the faults that a session has taken from the list of planned faults, and that have not
// happened yet.
type pendingInjection struct {
	// row is the fault that happens in the result of the statement that was checked last.
	row *resultInterruption
	// inTransit is the fault to inject when the frames buffered for PostgreSQL have been sent.
	inTransit *Fault
	// mustFail means that the statement which runs now must not succeed.
	mustFail bool
	// atReady is the error that ends the session at the end of the turn, or nil if the session goes on.
	atReady error
}

// resultInterruption is a fault in the middle of one statement's result. If the statement must not succeed, PostgreSQL
// gets a failing statement after it.
type resultInterruption struct {
	fault    *Fault
	index    int  // of the statement in its text
	rows     int  // that still reach the client before
	reported bool // the client has the error, and gets no further answer of PostgreSQL
}

// injectAtConnect injects the fault that is planned for a connection before its session begins.
func (s *Server) injectAtConnect(id uint64) error {
	f := s.plan.nextFault(&faultMoment{at: AtConnect, session: id})
	if f == nil {
		return nil
	}
	return s.inject(f, LedgerEvent{Session: id}, nil)
}

// inject makes a fault happen: it waits, or returns errCut or the *failure to answer. e names the session for the
// ledger. The channel ended cuts the wait short.
func (s *Server) inject(f *Fault, e LedgerEvent, ended <-chan struct{}) error {
	s.metrics.faults.WithLabelValues(string(f.At), string(f.Action)).Inc()
	e.Kind, e.Fault, e.Outcome, e.Detail = "fault", f.Name, string(f.Action), string(f.At)
	if f.Action == Fail {
		e.Detail += " " + f.Error
	}
	s.ledger.addEvent(e)
	switch f.Action {
	case Cut:
		return errCut
	case Fail:
		return f.failure()
	}
	wait := time.NewTimer(f.stallDuration())
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ended:
	case <-s.ctx.Done():
	}
	return errClosing
}

// newMoment describes the session's next statement, for the comparison with the planned faults.
func (s *session) newMoment(at FaultPoint, st *dialect.Statement, in statementPosition) *faultMoment {
	return &faultMoment{
		at: at, session: s.id, transaction: in.transaction, statement: in.statement,
		verb: statementVerb(st), sql: st.SQL,
	}
}

// injectBeforeStatement injects the faults that are planned before a statement. It also takes from the plan the
// faults that happen while the statement runs.
func (s *session) injectBeforeStatement(st *dialect.Statement, status byte) error {
	in := s.journal.requested.recordRequest(st.Kind)
	s.injection.row = nil
	if status == statusFailed || s.server.plan.pending.Load() == 0 {
		return nil
	}
	commits := st.Kind == dialect.Commit && status == statusInBlock
	if err := s.injectAt(AtStatement, st, in); err != nil {
		return err
	}
	if commits {
		if err := s.injectAt(AtCommit, st, in); err != nil {
			return err
		}
	}
	if st.Refusal == nil {
		s.armFaults(st, in, commits)
	}
	return nil
}

// injectAt injects the fault that is planned for this moment, if there is one. It returns the fault's error, or nil.
func (s *session) injectAt(at FaultPoint, st *dialect.Statement, in statementPosition) error {
	if f := s.server.plan.nextFault(s.newMoment(at, st, in)); f != nil {
		return s.inject(f)
	}
	return nil
}

func (s *session) inject(f *Fault) error {
	return s.server.inject(f, LedgerEvent{Session: s.id, PID: s.key.pid}, s.link.done)
}

// armFaults takes from the plan the faults that the session will inject while the statement runs.
func (s *session) armFaults(st *dialect.Statement, in statementPosition, commits bool) {
	if st.Kind == dialect.Other || st.Kind == dialect.DML {
		if f := s.server.plan.nextFault(s.newMoment(AtRow, st, in)); f != nil {
			s.injection.row = &resultInterruption{fault: f, rows: f.Row}
		}
	}
	for _, at := range []FaultPoint{Running, Committing} {
		if s.injection.inTransit == nil && (at == Running || commits) {
			s.injection.inTransit = s.server.plan.nextFault(s.newMoment(at, st, in))
		}
	}
}

// armInterruption attaches a fault that is planned for a row to r, the reply to the statement that was checked last.
// index is the statement's place in its text. The result reports whether the statement must fail in the end.
func (s *session) armInterruption(r *pendingReply, index int) bool {
	mid := s.injection.row
	if mid == nil {
		return false
	}
	s.injection.row = nil
	mid.index = index
	r.interruption = mid
	s.injection.mustFail = mid.fault.Action != Stall
	return s.injection.mustFail
}

// currentInterruption returns the fault in the result that PostgreSQL sends next, or nil.
func (r *pendingReply) currentInterruption() *resultInterruption {
	if r == nil || r.interruption == nil || r.savepoint || r.interruption.index != r.index {
		return nil
	}
	return r.interruption
}

// isErrorReported reports whether the client already has the error of this statement.
func (r *pendingReply) isErrorReported() bool {
	mid := r.currentInterruption()
	return mid != nil && mid.reported
}

// injectFaultBeforeRow injects the fault planned before a row of a result. total is the length of the row's frame. The
// result reports whether injectFaultBeforeRow discarded the row instead of passing it to the client.
func (s *session) injectFaultBeforeRow(total int) (bool, error) {
	mid := s.replies.first().currentInterruption()
	if mid != nil && mid.rows > 0 {
		mid.rows--
		return false, nil
	}
	return s.injectInResult(total)
}

// injectInResult injects the pending fault of a result. It reports whether the client got an error instead of
// PostgreSQL's next frame, which was then discarded.
func (s *session) injectInResult(total int) (bool, error) {
	r := s.replies.first()
	mid := r.currentInterruption()
	if mid == nil {
		return false, nil
	}
	if !mid.reported {
		if err := s.toClient.Flush(); err != nil {
			return false, err
		}
		err := s.inject(mid.fault)
		f, failed := errors.AsType[*failure](err)
		if !failed {
			r.interruption = nil
			return false, err
		}
		mid.reported = true
		if err := s.sendError(r, f.response()); err != nil {
			return false, err
		}
	}
	return true, s.upstream.discardFrame(total)
}

// injectInTransit injects a fault while a statement is on its way, after PostgreSQL has got all frames that the
// statement needs.
func (s *session) injectInTransit(endsTurn bool) error {
	f := s.injection.inTransit
	if f == nil || !endsTurn && f.At == Running && s.status == statusIdle {
		return nil
	}
	s.injection.inTransit = nil
	err := s.inject(f)
	if !errors.Is(err, errCut) {
		return err
	}
	// The client loses its connection here, but the session still reads the statement's outcome. uncount comes first, so
	// that the count of sessions falls before the client sees the end.
	s.uncount()
	_ = s.link.client.Close()
	s.muteClient(errCut)
	return nil
}

// injectAfter injects the fault planned after a statement that PostgreSQL has run.
func (s *session) injectAfter(st *dialect.Statement, tag string) {
	if s.server.plan.pending.Load() == 0 {
		return
	}
	at := Answered
	if tag == "COMMIT" {
		at = Committed
	}
	in := s.journal.answered
	in.advanceTo(st.Kind)
	if err := s.injectAt(at, st, in); err != nil {
		// The session reads on until ReadyForQuery, because PostgreSQL has certainly committed only then.
		s.muteClient(err)
	}
}

// muteClient discards all further output to the client. At the end of the turn the session ends with the error in
// parameter why.
func (s *session) muteClient(why error) {
	s.toClient.Reset(io.Discard)
	s.injection.atReady = why
}
