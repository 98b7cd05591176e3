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

// Resend and verify: the log of a transaction is sent once more, turn by turn, through the
// same queue and relay as a client's frames (rerun). The log compares the answers. At the
// end stands what outside a block makes a group more than one transaction.

// rerun sends the logged transaction once more: every settled turn, whose replies must be
// what they were, and then as much of the turn in progress as the client has sent of it.
// Answers to that one are relayed as ever. rerun needs a backend that is idle and has the
// session's settings. With nil the attempt has come as far as the client had, or is over
// (attemptOver), or the turn has settled.
func (s *session) rerun() error {
	t := s.t
	t.course = course{outcome: outcome.At(block.At('I'))}
	if done, err := s.replan(); done || err != nil {
		return err // what the last attempt has to take back still is
	}
	t.undos = nil
	if s.tx.begin != nil {
		s.deferredBegin = s.tx.begin
		s.sendBegin()
	}
	// Its statements may draw numbers again.
	s.sequences.Use(s.id, &s.b.sequences)
	if err := s.rerunSettled(); err != nil || t.attemptOver() {
		return err
	}
	if err := s.runParts(); err != nil || t.attemptOver() {
		return err
	}
	t.phase, t.stand, t.statement = live, inTurn, 0
	// The turn in progress does to the session again what it did: so the session is put
	// back to where the turn began.
	s.settings.Resume(t.progress)
	s.restoreString()
	if t.nested.asksTime {
		s.askTime("")
	}
	if err := s.resend(true); err != nil || t.attemptOver() {
		return err
	}
	if t.ended {
		return s.flushUp()
	}
	// What the client sends next may commit: it must meet a server that has answered as the
	// client was answered.
	if err := s.catchUp(); err != nil || t.attemptOver() {
		return err
	}
	if !t.owed.empty() {
		s.add(wire.FrameFlush)
	}
	return s.flushUp()
}

// rerunSettled sends the settled turns once more, each of which must answer what it answered,
// but those whose answer stands.
func (s *session) rerunSettled() error {
	t, l := s.t, s.tx.log
	t.keeping, t.keepsLast = s.surveyLog(), l.Begun()
	if s.tx.whole == nil {
		if t.keepingWhole = t.keeping; !t.keeping.clock || !t.keeping.tells {
			s.forgetAsked() // it is another transaction, of another time
		}
	}
	t.phase = repeating
	for l.At() < l.Turns() {
		t.stand = inTurn
		if s.turnStands(l.At()) {
			s.b.sequences.Outdate()
			l.Stands()
			continue
		}
		if l.IsCut(l.At()) {
			if err := s.againCut(); err != nil || t.attemptOver() {
				return err
			}
			continue
		}
		if err := s.resend(false); err != nil {
			return err
		}
		if q := &t.owed; l.At() < l.Turns() && l.IsBroken(l.At()) && t.stand != atReady && (q.empty() || !q.items[len(q.items)-1].boundary()) {
			q.push(wire.Sync) // what ended the turn is skipped from there on
			s.add(wire.FrameSync)
		}
		if err := s.flushUp(); err != nil {
			return err
		}
		for t.stand != atReady && !t.attemptOver() {
			if err := s.pump(); err != nil {
				return err
			}
		}
		if t.attemptOver() {
			return nil
		}
		t.course = course{outcome: outcome.At(s.standing(s.b.status))}
	}
	return nil
}

// resend sends the frames of the turn whose replies are awaited; last says that it is the
// turn in progress. Behind an error that is told on the way frames are skipped up to a
// Sync, as ever.
func (s *session) resend(last bool) error {
	t := s.t
	// An error that is told in between empties the log: a Sync is still to be sent.
	frames := slices.Clone(s.tx.log.Frames(s.tx.log.At()))
	acks := 0
	t.unseen = false
	for i := range frames {
		f := &frames[i]
		if n := acknowledgements(f); n > 0 {
			if acks += n; last && acks <= s.tx.log.Acknowledged() {
				f.Note.undoes = false // the client was told: the name means what it was told
			}
		}
		// A turn that has settled in a block commits nothing.
		commits := last && f.Note.commits
		if commits {
			if err := s.catchUp(); err != nil || t.attemptOver() {
				return err
			}
		}
		if err := s.flushFull(); err != nil || t.attemptOver() {
			return err
		}
		if t.skip && f.Type != wire.Sync {
			if last {
				s.undoNames(frames[i:])
			}
			last = false
			continue
		}
		if last && (f.Type == wire.Query || f.Type == wire.Execute) {
			if s.repin(f.Note.plan); t.attemptOver() {
				return nil
			}
		}
		if err := s.resendFrame(f, last); err != nil || t.attemptOver() {
			return err
		}
	}
	return nil
}

// acknowledgements is how many answers that are not compared the client is sent for a frame: those
// that retry.Log.Acknowledged counts. A Describe has one where ParseComplete goes in front of it, or
// where Sluice makes its answer up.
func acknowledgements(f *retry.Frame[logEntry]) int {
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
			plan = n.tmpl.plan
		}
		if asSet(plan) != nil {
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

// untoldNames is what takes back, the newest first, what frames of the turn in progress did to the
// client's statements whose answers the client was not sent, and is not sent in front of the error
// (attempt.ahead). It is empty where the log is not there
// any more. taken are undos that come in front of it: where one is of the unnamed statement, a Parse
// may have failed that destroys that, and nothing brings it back.
func (s *session) untoldNames(taken []undo) (undos []undo) {
	l := s.tx.log
	if !s.t.logs || !l.Replayable() {
		return nil
	}
	destroyed := slices.ContainsFunc(taken, func(u undo) bool { return u.name == "" })
	told := l.Acknowledged()
	if s.t.ahead != nil {
		told = max(told, s.t.aheadAcks)
	}
	acks, frames := 0, l.Frames(l.Turns())
	for i := range frames {
		acks += acknowledgements(&frames[i])
		if n := &frames[i].Note; n.undoes && acks > told && (n.name != "" || !destroyed) {
			undos = append(undos, undo{name: n.name, prev: n.prev})
		}
	}
	slices.Reverse(undos)
	return undos
}

// undoNames takes back what frames did to the client's statements that the server skips
// this time. The newest goes first: so the oldest meaning stays.
func (s *session) undoNames(frames []retry.Frame[logEntry]) {
	for i := len(frames) - 1; i >= 0; i-- {
		if n := &frames[i].Note; n.undoes {
			s.setStatement(n.name, n.prev)
		}
	}
}

// catchUp has the server answer before a frame is sent that can commit, and before the client
// goes on: what the client has been sent must have come once more by then. If it has not, the
// attempt has failed, and nothing is committed.
func (s *session) catchUp() error {
	t, l := s.t, s.tx.log
	if !l.Behind() {
		return nil
	}
	if err := s.settleOwed(); err != nil || t.attemptOver() {
		return err
	}
	if l.Behind() {
		t.fail(retry.Delivered)
	}
	return nil
}

// settleOwed has the server send what it owes, and relays it. The tag of an inner COMMIT
// empties the log: what is left of the turn was not sent, and cannot be. Then the client is
// told of a loss.
func (s *session) settleOwed() error {
	t := s.t
	s.add(wire.FrameFlush)
	if err := s.flushUp(); err != nil {
		return err
	}
	for !t.owed.empty() && !t.attemptOver() {
		if err := s.pump(); err != nil {
			return err
		}
	}
	if t.attemptOver() || t.skip || s.tx.log.Replayable() {
		return nil
	}
	return s.abandon(s.lossTold(), reservoir.Unclean)
}

// countExecute notes that a portal is run, and refuses a replay where a Sync group outside
// a block may be more than one transaction by now. It is called before the Execute is
// logged.
func (s *session) countExecute(plan *rewrite.Plan) {
	t := s.t
	outside := !t.outcome.InBlock()
	s.followsApart()
	t.outcome.Execute(plan, s.standsAlone())
	if !t.logs || !outside || t.outcome.InBlock() {
		return
	}
	if t.executes++; t.executes > 1 && !s.srv.groups.one() {
		s.tx.log.Refuse(retry.PartialGroup)
	}
}

// followsApart refuses a replay when something is sent behind what may have been
// committed by itself.
func (s *session) followsApart() {
	if s.t.logs && s.t.outcome.Apart() {
		s.tx.log.Refuse(retry.PartialGroup)
	}
}

// standsAlone reports whether a statement outside a block may be committed before the
// Sync behind it.
func (s *session) standsAlone() bool {
	return s.srv.cfg.Kind != Postgres && !s.srv.groups.one()
}
