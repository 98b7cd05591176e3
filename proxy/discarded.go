package proxy

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/block"
	"github.com/sluice-proxy/sluice/proxy/outcome"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// Discarded parts, with retry.savepoints strict. The client remembers what it was told of a part
// that ROLLBACK TO has discarded: it must hold in the snapshot of the transaction that commits,
// but the part's writes must not be made there. So a log of the part, and of what went before it,
// is kept (keepPart), until the transaction ends. Each time that the transaction is run again, and
// has its snapshot, the part is run too, on a second backend (the witness), compared, and rolled
// back (runParts). What a part was told held before the transaction's snapshot, when it was told,
// and holds behind it.

// A transaction of which a part was kept is run again like any other, in these steps:
//
//	borrowAgain    its own backend, idle, with the session's settings
//	borrowWitness  another one, likewise
//	rerunSettled   the log that is left is sent to the own backend, and compared
//	takeSnapshot   the own backend has a snapshot even where that log was empty
//	runParts       each part is sent to the witness, from its BEGIN on; what it answers is for
//	               nobody, and the session is put back to where it was
//	returnWitness  whatever has become of the attempt
//
// Meanwhile the session's log, course and backend are those of the part (runPart): what sends and
// compares a log need not know. The client's settings and names are not touched, as they are not
// where settled turns are sent again.

// witnessWait is how long a replay waits for a witness while it holds a backend itself: others
// may hold one, and wait, too. Then it gives its own back, and begins anew.
const witnessWait = time.Second

// witnessTime is how long the parts may take: a server that has row locks would have them wait
// for the transaction, which waits for them.
const witnessTime = 20 * time.Second

// keepPart is told that all behind the i-th savepoint is about to be discarded, and keeps what the
// client was told there, unless that says nothing of the data. It reports false where there is no
// room for it.
func (s *session) keepPart(i int) bool {
	l := s.tx.log
	from := l.Kept(i)
	blind := func(turn int) bool { return turn >= from && !s.observes(turn) }
	// Nobody asks for what failed at the end, where that says nothing: the 23505 of an INSERT.
	last := l.Turns()
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

// observes reports whether the answer of a settled turn says anything of the data.
func (s *session) observes(turn int) bool {
	frames, bound := s.tx.log.Frames(turn), map[string]bool{}
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			if f.Type == wire.Bind {
				bound[f.Note.name] = true
			}
			if foreign(f) { // the server has not taken the text: see refuseUnread
				continue
			}
			if values.Observes(s.srv.planner, s.clientText(f), f.Note.names) {
				return true
			}
		case wire.Execute: // of a portal of another turn: nobody looks for its text
			if name, _, _ := bytes.Cut(s.payload(f), []byte{0}); !bound[string(name)] {
				return true
			}
		case 0, wire.Parse, wire.Describe, wire.Close, wire.Sync:
		default:
			return true
		}
	}
	return false
}

// foreign reports whether the text of a Query or Bind is not in PostgreSQL's grammar. A text of
// which only the words were looked at (rewrite's scan) is not among them: a newer server may
// take more of it than our parser does.
func foreign(f *retry.Frame[logEntry]) bool {
	plan := f.Note.plan
	if f.Note.tmpl != nil {
		plan = f.Note.tmpl.plan
	}
	return plan != nil && plan.Kind == rewrite.Unknown
}

// closeParts ends the logs of the discarded parts. It is called at the end of the transaction,
// whoever ends it.
func (sp *savepoints) closeParts() {
	for _, part := range sp.parts {
		part.Close()
	}
	sp.parts = nil
}

// borrowWitness borrows a second backend beside that of the attempt, which has not begun; again is
// false where the attempt is not made, for the reason in t.refusal. Where all are lent the first
// is given back for a moment: of several that wait for a second one, each holding a first, nobody
// would get any.
func (s *session) borrowWitness() (again bool, err error) {
	t := s.t
	for end := time.Now().Add(s.srv.replays.cfg.Policy.MaxElapsed); ; {
		// The wait ends as Exhausted where nothing else has ended it: here it means that all are lent.
		own := s.park(nil)
		again, err = s.borrowWith(s.borrowSoon)
		s.witness = s.park(own)
		if again || err != nil || t.refusal != retry.Exhausted {
			return again, err
		}
		if t.refusal = retry.NoBackend; time.Now().After(end) || s.keeps() {
			return false, nil
		}
		t.refusal = retry.Replayable
		s.releaseBackend()
		if err := s.rest(time.Duration(5+rand.IntN(50)) * time.Millisecond); err != nil {
			return false, s.noReplay(err)
		}
		if again, err := s.borrowAgain(); !again {
			return false, err
		}
	}
}

// rest lets others go first for a while: the backend that was given back is theirs then. The error
// is what stops the turn. It is no pause of the replay's policy, which a return does not count in.
func (s *session) rest(d time.Duration) error {
	ctx, over := s.wait(time.Now().Add(d), lookEvery)
	defer over()
	<-ctx.Done()
	if err := s.waited(ctx); err != errWaitedEnough {
		return err
	}
	return nil
}

// borrowSoon is borrow for a witness: it waits for witnessWait, and no longer. The error is why
// there is none: errWaitedEnough, or what stops the turn.
func (s *session) borrowSoon() (*reservoir.Conn, error) {
	for {
		ctx, over := s.wait(time.Now().Add(witnessWait), lookEvery)
		conn, err := s.srv.backends.AcquireAhead(ctx)
		if err != nil {
			if ended := s.waited(ctx); ended != nil {
				err = ended
			}
			over()
			return nil, err
		}
		over()
		if s.srv.attached(conn).usable() {
			return conn, nil
		}
		s.srv.metrics.BackendLost(metrics.LostIdle)
		conn.Discard(reservoir.PeekFailed)
	}
}

// park has the session go on with another backend, or none, and returns the one that it had.
// Cancels and alarms go to the new one. The caller keeps the other, and brings it back: nobody
// else knows of it.
func (s *session) park(b *backend) (was *backend) {
	was = s.b
	s.mu.Lock()
	s.b, s.cancel.backend = b, b
	s.mu.Unlock()
	if b != nil {
		s.alarmRead()
	}
	return was
}

// returnWitness gives the witness back, if there is one. One that stands in a transaction, since
// the session ends in the middle of a part, is dropped.
func (s *session) returnWitness() {
	if s.witness == nil {
		return
	}
	own := s.park(s.witness)
	s.witness = nil
	if s.b.status == 'I' && !s.b.broken() {
		s.releaseBackend()
	} else {
		s.dropBackend(reservoir.Unclean)
	}
	s.park(own)
}

// runParts runs the discarded parts once more, by the witness. It is called where the transaction
// has answered all its settled turns once more, and whoever has asked it to stop is heeded before.
// The attempt has failed where a part answers otherwise than it did.
func (s *session) runParts() error {
	t := s.t
	if len(s.tx.parts) == 0 {
		return nil
	}
	if err := s.takeSnapshot(); err != nil || t.attemptOver() {
		return err
	}
	if s.witness == nil || s.cancelAsked() {
		t.fail(retry.NoBackend)
		if s.cancelAsked() {
			t.refusal = retry.Cancelled
		}
		return nil
	}
	course, attempt, deadline := t.course, t.attempt, t.deadline
	s.tx.whole = s.tx.log
	own := s.park(s.witness)
	s.witness = nil
	// A server without row locks has nothing wait here; the client's own timeout counts, too.
	t.deadline = earlier(deadline, time.Now().Add(witnessTime))
	s.alarmRead()
	var err error
	for _, part := range s.tx.parts {
		s.tx.log = part
		if err = s.runPart(); err != nil || t.attemptOver() {
			break
		}
	}
	if t.abandoned() { // the client has been told, and the transaction is closed
		s.park(own)
		s.dropBackend(reservoir.Unclean)
		return err
	}
	// The part's attempt is over, well or badly; the transaction's goes on, or fails as that did.
	s.witness = s.park(own)
	s.tx.log, s.tx.whole = s.tx.whole, nil
	ended := t.attempt
	t.course, t.attempt = course, attempt
	if t.deadline = deadline; ended.phase == aborting {
		s.b.suspect = s.b.suspect || ended.refusal == retry.Cancelled // which of the two it has hit nobody knows
		t.fail(ended.refusal)
		t.pause, t.apart = ended.pause, ended.apart
	}
	s.alarmRead()
	return err
}

// takeSnapshot has the server take the transaction's snapshot, if nothing has, and answer all that
// it owes.
func (s *session) takeSnapshot() error {
	const text = "SELECT 1 WHERE false"
	plan := s.srv.planner.PlanIn([]byte(text), noNames)
	name := s.prepare(s.srv.template(&s.t.scratch, []byte(text), wire.NoOIDs, s.parsing(), noNames.ID(), 0, plan), false).name
	s.t.owed.push(wire.Bind).swallow = true
	s.add(appendBindNothing(nil, name))
	o := s.t.owed.push(wire.Execute)
	o.swallow, o.reply = true, expectSelect
	s.add(appendExecuteAll)
	if err := s.settleOwed(); err != nil || s.t.attemptOver() || s.t.uplink == nil {
		return err
	}
	s.t.flushed = 0
	return s.closeUplink()
}

// runPart runs one part, whose log is the session's, and rolls it back. With nil the witness is
// idle, or the attempt has failed. A witness that is lost fails the attempt. One that meets a change
// of the schema knows it from then on, and runs the part again: of those that lie idle
// the next would know it as little.
func (s *session) runPart() error {
	for {
		if err := s.tryPart(); err != nil || s.t.abandoned() {
			return err
		}
		if t := s.t; s.b == nil || t.phase != aborting || t.refusal != retry.Replayable || !t.renewed {
			break
		}
	}
	outcome := metrics.PartSame
	switch t := s.t; {
	case t.phase == aborting && t.refusal == retry.Differs:
		outcome = metrics.PartDiffers
	case t.phase == aborting:
		outcome = metrics.PartFailed
	}
	s.srv.metrics.DiscardedPart(outcome)
	return nil
}

// tryPart is runPart, once.
func (s *session) tryPart() error {
	t := s.t
	s.tx.log.Rewind()
	t.phase, t.refusal, t.renewed = repeating, retry.Replayable, false
	t.course, t.undos = course{outcome: outcome.At(block.At('I'))}, nil
	done, err := s.replan()
	if !done && err == nil {
		if s.tx.begin != nil { // else it is a frame of the log
			s.deferredBegin = s.tx.begin
			s.sendBegin()
		}
		s.sequences.Use(s.id, &s.b.sequences)
		err = s.rerunSettled()
	}
	var gone *lostError
	switch {
	case errors.As(err, &gone):
		s.noteLost(gone, lostWhenReplaying)
		s.dropBackend(reservoir.Broken)
		t.fail(s.judge(retry.BackendLost, 0))
	case err != nil:
		return err
	case t.abandoned():
		return nil
	case t.phase == aborting && t.refusal == retry.Differs:
		diff := s.tx.log.Difference()
		t.apart = &apart{diff: diff, drew: s.drewAgain(diff)}
	}
	// Its end is that of an attempt that has failed: the rest is read, and ROLLBACK follows.
	phase, refusal := t.phase, t.refusal
	t.phase = aborting
	if err := s.abortAttempt(); err != nil || t.abandoned() {
		return err
	}
	if s.b != nil {
		if stop := s.rollBack(s.exchange); stop != nil {
			phase, refusal = aborting, reasonOf(stop)
		}
	}
	if t.phase, t.refusal = phase, refusal; s.b == nil && phase != aborting {
		t.fail(s.judge(retry.BackendLost, 0))
	}
	return nil
}

// apart is how a discarded part has answered otherwise than it did; see drewAgain.
type apart struct {
	diff retry.Difference
	drew bool
}
