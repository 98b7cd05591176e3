package dsqlsim

import (
	"errors"
	"io"
	"time"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
)

// script is what a session knows of the plan and of its own progress in it.
type script struct {
	// asked is where the client's requests stand, done where the answers do.
	asked, done ordinal
	// row happens in the statement that was judged last.
	row *interruption
	// underWay happens when what is buffered for PostgreSQL has gone.
	underWay *Fault
	// doomed: the statement that runs must fail.
	doomed bool
}

// interruption is a fault in the middle of one statement's result. For one that
// must not succeed PostgreSQL is given a statement behind it that fails.
type interruption struct {
	fault  *Fault
	index  int  // of the statement in its text
	rows   int  // that still reach the client before
	struck bool // the client got the error: what PostgreSQL still says is not for it
}

// connecting lets a fault happen to a connection that is not a session yet.
func (s *Server) connecting(id uint64) error {
	f := s.plan.next(&moment{at: AtConnect, session: id})
	if f == nil {
		return nil
	}
	return s.strike(f, Event{Session: id}, nil)
}

// strike carries a fault out: it waits, or returns errCut or the *failure to
// answer. e says to whom it happens; ended cuts the wait short.
func (s *Server) strike(f *Fault, e Event, ended <-chan struct{}) error {
	s.metrics.faults.WithLabelValues(string(f.At), string(f.Action)).Inc()
	e.Kind, e.Fault, e.Outcome, e.Detail = "fault", f.Name, string(f.Action), string(f.At)
	if f.Action == Fail {
		e.Detail += " " + f.Error
	}
	s.ledger.add(e)
	switch f.Action {
	case Cut:
		return errCut
	case Fail:
		return f.failure()
	}
	wait := time.NewTimer(f.length())
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ended:
	case <-s.ctx.Done():
	}
	return errClosing
}

// moment describes the session's next statement to the plan.
func (s *session) moment(at Point, st *dialect.Statement, in ordinal) *moment {
	return &moment{
		at: at, session: s.id, transaction: in.transaction, statement: in.statement,
		verb: verb(st), sql: st.SQL,
	}
}

// planned lets the faults in front of a statement happen, and prepares those
// that happen while it runs.
func (s *session) planned(st *dialect.Statement, status byte) error {
	at := &s.script.asked
	at.enter(st.Kind)
	in := *at
	if ends(st.Kind) {
		at.leave()
	}
	s.script.row = nil
	if status == statusFailed || s.server.plan.pending.Load() == 0 {
		return nil
	}
	commits := st.Kind == dialect.Commit && status == statusInBlock
	if err := s.happen(AtStatement, st, in); err != nil {
		return err
	}
	if commits {
		if err := s.happen(AtCommit, st, in); err != nil {
			return err
		}
	}
	if st.Refusal == nil {
		s.arm(st, in, commits)
	}
	return nil
}

// happen looks for a fault at this moment and carries it out.
func (s *session) happen(at Point, st *dialect.Statement, in ordinal) error {
	if f := s.server.plan.next(s.moment(at, st, in)); f != nil {
		return s.strike(f)
	}
	return nil
}

func (s *session) strike(f *Fault) error {
	return s.server.strike(f, Event{Session: s.id, PID: s.key.pid}, s.done)
}

func (s *session) arm(st *dialect.Statement, in ordinal, commits bool) {
	if st.Kind == dialect.Other || st.Kind == dialect.DML {
		if f := s.server.plan.next(s.moment(AtRow, st, in)); f != nil {
			s.script.row = &interruption{fault: f, rows: f.Row}
		}
	}
	for _, at := range []Point{Running, Committing} {
		if s.script.underWay == nil && (at == Running || commits) {
			s.script.underWay = s.server.plan.next(s.moment(at, st, in))
		}
	}
}

// interrupt makes d the reply to a statement whose result a fault interrupts, if
// one was planned for the statement that was judged last; index is where it
// stands in its text. It tells whether the statement must fail in the end.
func (s *session) interrupt(d *debt, index int) bool {
	mid := s.script.row
	if mid == nil {
		return false
	}
	s.script.row = nil
	mid.index = index
	d.mid = mid
	s.script.doomed = mid.fault.Action != Stall
	return s.script.doomed
}

// interruption is the one in the result that PostgreSQL is about to give, if any.
func (d *debt) interruption() *interruption {
	if d == nil || d.mid == nil || d.preamble || d.mid.index != d.index {
		return nil
	}
	return d.mid
}

// struck tells whether the client already has the error of this statement.
func (d *debt) struck() bool {
	mid := d.interruption()
	return mid != nil && mid.struck
}

// beforeRow lets a fault happen in front of a row, and tells whether the row is
// not for the client and gone.
func (s *session) beforeRow(total int) (bool, error) {
	mid := s.owed.first().interruption()
	if mid != nil && mid.rows > 0 {
		mid.rows--
		return false, nil
	}
	return s.breakOff(total)
}

// breakOff lets the fault in a result happen at the latest here, and tells
// whether the client gets an error instead of the frame that is next, which is
// then gone.
func (s *session) breakOff(total int) (bool, error) {
	d := s.owed.first()
	mid := d.interruption()
	if mid == nil {
		return false, nil
	}
	if !mid.struck {
		if err := s.out.Flush(); err != nil {
			return false, err
		}
		err := s.strike(mid.fault)
		f, failed := errors.AsType[*failure](err)
		if !failed {
			d.mid = nil
			return false, err
		}
		mid.struck = true
		if err := s.answer(d, f.response()); err != nil {
			return false, err
		}
	}
	if _, err := s.up.Discard(total); err != nil {
		return false, upstreamError(err)
	}
	return true, nil
}

// departed lets a fault happen while a statement is on its way, once everything has
// gone that it needs to run to its end.
func (s *session) departed(endsTurn bool) error {
	f := s.script.underWay
	if f == nil || !endsTurn && f.At == Running && s.status == statusIdle {
		return nil
	}
	s.script.underWay = nil
	err := s.strike(f)
	if !errors.Is(err, errCut) {
		return err
	}
	// The client is cut off; the session reads on what becomes of the statement.
	_ = s.client.Close()
	s.silence(errCut)
	return nil
}

// answered lets a fault happen when PostgreSQL has run a statement.
func (s *session) answered(st *dialect.Statement, tag string) {
	if s.server.plan.pending.Load() == 0 {
		return
	}
	at := Answered
	if tag == "COMMIT" {
		at = Committed
	}
	in := s.script.done
	in.enter(st.Kind)
	if err := s.happen(at, st, in); err != nil {
		// Whether PostgreSQL has committed is certain when it is ready.
		s.silence(err)
	}
}

// silence lets no more reach the client and ends the session with the turn.
func (s *session) silence(why error) {
	s.out.Reset(io.Discard)
	s.atReady = why
}
