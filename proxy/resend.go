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

// rerun sends the log of a transaction again, turn by turn, through the queue and relay that a client's frames use.
// The log compares the answers. The last functions decide whether a group outside a block is more than one
// transaction.

// rerun sends the logged transaction again. First it sends every settled turn, whose answers must not differ, then
// the frames of the turn in progress that the client has sent so far. Answers to those are relayed. The backend must
// be idle and have the session's settings. With nil there are three results: the attempt has come as far as the
// client had, it is over (attemptOver), or the turn has settled.
func (s *session) rerun() error {
	t := s.t
	t.course = course{outcome: outcome.At(block.At('I'))}
	if done, err := s.replan(); done || err != nil {
		return err // the undos of the last attempt are still needed
	}
	t.undos = nil
	if s.tx.begin != nil {
		s.deferredBegin = s.tx.begin
		s.sendBegin()
	}
	// The transaction's statements may draw numbers again.
	s.sequences.Use(s.id, &s.b.sequences)
	if err := s.rerunSettled(); err != nil || t.attemptOver() {
		return err
	}
	if err := s.runParts(); err != nil || t.attemptOver() {
		return err
	}
	t.phase, t.stand, t.statement = live, inTurn, 0
	// The turn in progress changes the session again, so that the session returns to its state from before the turn.
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
	// The client's next frame may commit. Before that the server must have repeated every answer that the client has.
	if err := s.catchUp(); err != nil || t.attemptOver() {
		return err
	}
	if !t.owed.empty() {
		s.add(wire.FrameFlush)
	}
	return s.flushUp()
}

// rerunSettled sends the settled turns again, except those whose answers are reused. Every answer must be the same as
// before.
func (s *session) rerunSettled() error {
	t, l := s.t, s.tx.log
	t.keeping, t.keepsLast = s.surveyLog(), l.Begun()
	if s.tx.whole == nil {
		if t.keepingWhole = t.keeping; !t.keeping.clock || !t.keeping.tells {
			s.forgetAsked() // the server's transaction is a new one, with another time
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
			q.push(wire.Sync) // the frame that ended the turn is skipped now
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

// resend sends the frames of the log's current turn; last means that this is the turn in progress. After an error for
// the client, frames are skipped up to a Sync.
func (s *session) resend(last bool) error {
	t := s.t
	// An error for the client empties the log, but a Sync must still be sent.
	frames := slices.Clone(s.tx.log.Frames(s.tx.log.At()))
	acks := 0
	t.unseen = false
	for i := range frames {
		f := &frames[i]
		if n := acknowledgements(f); n > 0 {
			if acks += n; last && acks <= s.tx.log.Acknowledged() {
				f.Note.undoes = false // the client got the answer: the name keeps its meaning
			}
		}
		// A settled turn inside a block commits nothing.
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

// acknowledgements returns how many answers without a digest the client gets for a frame, as retry.Log.Acknowledged
// counts. A Describe has one for a ParseComplete before it, and one for an answer that Sluice writes.
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

// untoldNames returns the changes of prepared names to undo, newest first. They are those of frames in the turn in
// progress whose answers the client has not been sent, and does not get before the error (attempt.ahead). Without a
// log there are none. taken are undos that run first: with one of the unnamed statement a failed Parse may have
// destroyed that statement, which stays destroyed.
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

// undoNames undoes the changes of prepared names by frames that the server skips this time. It goes from the newest
// to the oldest, so that the oldest meaning stays.
func (s *session) undoNames(frames []retry.Frame[logEntry]) {
	for i := len(frames) - 1; i >= 0; i-- {
		if n := &frames[i].Note; n.undoes {
			s.setStatement(n.name, n.prev)
		}
	}
}

// catchUp waits for the server's answers before a frame that can commit, and before the client goes on. If the server
// has not repeated all that the client has, the attempt fails and nothing is committed.
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

// settleOwed sends a Flush and relays the pending replies. If an inner COMMIT empties the log meanwhile, the rest of
// the turn cannot be sent, and the client gets the error of a lost backend.
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

// countExecute records that a portal runs. It refuses a replay if a Sync group outside a block may have become more
// than one transaction. Call it before the Execute is logged.
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

// followsApart refuses a replay if a frame follows a statement that may have committed by itself.
func (s *session) followsApart() {
	if s.t.logs && s.t.outcome.Apart() {
		s.tx.log.Refuse(retry.PartialGroup)
	}
}

// standsAlone reports whether the server may commit a statement outside a block before the Sync.
func (s *session) standsAlone() bool {
	return s.srv.cfg.Kind != Postgres && !s.srv.groups.one()
}
