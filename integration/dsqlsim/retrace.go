package dsqlsim

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxTrying is how long a statement is tried that others are in the way of. They
// are busy then, for whoever idles gives way much sooner.
const maxTrying = time.Second

// cancelledText is PostgreSQL's of a cancel; the SQLSTATE has other uses.
const cancelledText = "canceling statement due to user request"

// errRetraced tells that frames which PostgreSQL has not answered, or answered
// with a conflict, are in front of the queue again.
var errRetraced = errors.New("frames taken back")

// obstacle is what an error of PostgreSQL's has to do with other transactions.
type obstacle uint8

const (
	none   obstacle = iota
	wait            // it did not get a lock in time: it may try again
	lost            // another has committed a change of the same row
	hidden          // a constraint, perhaps because of rows out of sight
)

func (s *session) obstacleIn(e *pgproto3.ErrorResponse) obstacle {
	switch e.Code {
	case codeDeadlock, codeLockTimeout:
		return wait
	case codeCancelled:
		// PostgreSQL takes a lock_timeout that comes late for a cancel.
		if !s.server.config.HonourCancel && e.Message == cancelledText {
			return wait
		}
	case codeConflict:
		return lost
	case codeUnique, codeForeignKey:
		return hidden
	}
	return none
}

// canRetrace tells whether the statement d stands for can be run again after
// the error.
func (s *session) canRetrace(d *debt, e *pgproto3.ErrorResponse) bool {
	w, o := &s.work, s.obstacleIn(e)
	switch {
	case o == none, d.inPlace != nil, d.guess != nil, d.silent, d.from.kind == 0:
		return false
	case d.status == statusInBlock:
		return w.savepoint && !w.lost && (d.kind == 'Q' || d.kind == 'E') && !(o == hidden && w.genuine)
	case d.status == statusIdle:
		// The statement is its transaction: it has a fresh snapshot each time.
		return o == wait && d.alone && w.mayTry()
	}
	return false
}

// retrace takes back what PostgreSQL has not answered, from the statement that
// failed on. In a block it brings the effects in front of it back. It returns
// errRetraced when all went well.
func (s *session) retrace(d *debt, e *pgproto3.ErrorResponse) error {
	failed := *d
	if err := s.takeBack(); err != nil {
		return err
	}
	s.tx, s.busy = failed.rules, !failed.alone
	s.epoch++
	if failed.status == statusInBlock {
		if err := s.rewind(); err != nil {
			return err
		}
		if err := s.weigh(&failed, e); err != nil {
			return err
		}
	}
	return errRetraced
}

// weigh decides how the statement that failed is to run in its block again.
func (s *session) weigh(d *debt, e *pgproto3.ErrorResponse) error {
	w := &s.work
	switch s.obstacleIn(e) {
	case wait:
		if !w.mayTry() {
			w.doom()
			w.guessing = true
		}
	case lost:
		w.doom()
		w.guessing = true
	case hidden:
		if err := s.resume(); err != nil {
			return err
		}
		seen := true
		if s.server.config.KeyConflicts {
			var err error
			if seen, err = s.sees(e); err != nil {
				return err
			}
		}
		if w.genuine = seen; !seen {
			w.doom()
			w.guessing = true
		}
	}
	return nil
}

// takeBack reads PostgreSQL's answers to their end, unheard, and puts the
// client's frames back in front of the queue.
func (s *session) takeBack() error {
	var frames []frame
	hasEnd := false
	for i := s.owed.head; i < len(s.owed.debts); i++ {
		d := &s.owed.debts[i]
		hasEnd = hasEnd || d.endsTurn()
		if d.from.kind != 0 {
			again := d.from
			again.again = true
			frames = append(frames, again)
		}
	}
	for i := len(s.owed.debts) - 1; i >= s.owed.head; i-- {
		s.undo(&s.owed.debts[i])
	}
	s.owed.clear()
	if !hasEnd {
		if err := writeFrame(s.send, 'S', nil); err != nil {
			return upstreamError(err)
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	if _, err := s.hear(); err != nil {
		return err
	}
	s.skipping = false
	s.retraced = len(frames)
	s.pending = append(frames, s.pending[s.at:]...)
	s.at = 0
	return nil
}

// undo takes a frame out of the books that PostgreSQL has skipped.
func (s *session) undo(d *debt) {
	if d.mid != nil && !d.mid.struck {
		s.script.row = d.mid // it is still to happen
	}
	switch d.kind {
	case 'P', 'C':
		switch {
		case d.silent:
			delete(s.prepared, d.name)
		case d.portal != nil:
			s.portals[d.name] = d.portal
		case d.previous != nil:
			s.statements[d.name] = d.previous
		case d.kind == 'P':
			delete(s.statements, d.name)
		}
	case 'B':
		if d.silent {
			return
		}
		if d.portal != nil {
			s.portals[d.name] = d.portal
		} else {
			delete(s.portals, d.name)
		}
	case 'E':
		if d.portal != nil {
			d.portal.started = false
		}
	}
}

// putBack puts a frame, which was not sent, behind those that were taken back.
func (s *session) putBack(f frame) {
	f.again = f.again || s.judged
	at := s.at + s.retraced
	s.pending = append(s.pending[:at:at], append([]frame{f}, s.pending[at:]...)...)
}

// guessed returns the query that tells what a statement's outcome would be, and
// notes that it does; d.guess stays nil when there is none.
func (d *debt) guessed(st *dialect.Statement) string {
	if d.guess = occ.MakeGuess(st.SQL); d.guess == nil {
		return ""
	}
	return d.guess.SQL
}
