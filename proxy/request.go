package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A frame of the client (handle), the ends of a turn that a frame brings (sync, flush,
// function), and errors of Sluice's own as answers (refuse). session.step calls handle for
// each frame that is not part of a running COPY.

// handle deals with the client's next frame, whose header and first bytes are buffered and
// still unread: each way takes the whole frame off the client's stream. Only a Bind that
// fails leaves its frame there: then the frame is the first of those that are skipped.
//
// The order of the cases is PostgreSQL's: behind an error nothing but a Sync is looked at,
// not even whether a frame is well-formed.
func (s *session) handle(typ byte, total int) error {
	t := s.t
	if t.copying { // begun by an answer that a frame in front of this one has asked for
		return s.copyIn()
	}
	switch typ {
	case wire.Terminate:
		return errTerminated
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		return s.strayData(total)
	case wire.Sync:
		return s.sync(total)
	}
	if typ == wire.Close && t.altering != nil && !t.skip {
		return s.closeAltering(total)
	}
	if err := s.closeGroup(typ); err != nil {
		return err
	}
	switch {
	case t.skip:
		return s.skipFrame(typ, total)
	case typ == wire.Flush && total > wire.HeaderLen:
		return s.refuseFrame(total, errMessageFormat)
	case s.dedicated:
		return s.passThrough(typ, total)
	case typ == wire.Query:
		return s.query(total)
	case typ == wire.FunctionCall:
		return s.function(total)
	case typ == wire.Bind:
		return s.bind(total)
	case typ == wire.Parse:
		if why := s.tooLong(total); why != nil {
			return s.refuseParse(total, why)
		}
	}
	return s.handleWhole(typ, total)
}

// handleWhole deals with a frame that is held whole.
func (s *session) handleWhole(typ byte, total int) error {
	if why := s.mayHold(total); why != nil {
		if typ == wire.Parse {
			return s.refuseParse(total, why)
		}
		return s.refuseFrame(total, why)
	}
	frame, err := s.whole(total)
	if err != nil {
		return err
	}
	switch typ {
	case wire.Parse:
		return s.parse(frame)
	case wire.Describe:
		return s.describe(frame)
	case wire.Execute:
		return s.execute(frame)
	case wire.Close:
		return s.closeNamed(frame)
	}
	return s.flush()
}

// tooLong is why a Parse of total bytes is refused, nil for one that is not: it must be held
// whole, and the server must take it.
func (s *session) tooLong(total int) *wire.Error {
	switch {
	case total > s.srv.cfg.MaxStatementBytes:
		return errStatementTooLong(total, s.srv.cfg.MaxStatementBytes)
	case s.exceeds(total):
		return errMessageTooLong(total, s.srv.cfg.MaxMessageBytes)
	}
	return nil
}

// closeGroup refuses an ALTER TABLE that was put off to a Sync, since the frame at hand is no
// Sync. It has cursors WITH HOLD stored whose group ends here. It has a group answered that a
// Query or FunctionCall ends without one, a pipeline that has become too long, and one that may
// end the transaction by whose choices the frame at hand would be planned, or of which a part is committed. The frame at hand is
// still unread: with an error it is the next that handle is given, and with nil it is handled,
// or skipped where t.skip says so.
func (s *session) closeGroup(typ byte) error {
	t := s.t
	if why := t.notAlone(); why != nil {
		return why
	}
	closes := t.touched && (typ == wire.Query || typ == wire.FunctionCall) // a group that no Sync has ended
	if (typ == wire.Parse || typ == wire.Bind) && s.unsettled() && !t.skip && !t.owed.empty() {
		if err := s.makeAnswer(); err != nil {
			return err
		}
	}
	if !t.skip && !t.owed.empty() && (t.owed.long() || closes) {
		if err := s.makeAnswer(); err != nil { // an error among the answers has the frame at hand skipped
			return err
		}
	}
	if closes && !t.skip {
		if err := s.storeInGroup(); err != nil || t.skip {
			return err
		}
		return s.flushToClient() // what fails from now on is the frame at hand
	}
	return nil
}

// unsettled reports whether an answer that is owed decides what the next text means.
func (s *session) unsettled() bool { return s.settings.ChoiceUnsettled() || s.partsUnsettled() }

// notAlone is the error of what was put off to the Sync, and must be alone in front of it, where
// another frame follows; nil where nothing was put off.
func (t *turn) notAlone() *wire.Error {
	switch d := t.deferred; {
	case t.last != nil:
		e := t.last
		t.last = nil
		return e
	case t.altering != nil:
		st := t.altering
		t.altering = nil
		return errAlteredAlone(st)
	case d != nil:
		t.deferred = nil
		return d.NotAlone()
	}
	return nil
}

// exceeds reports whether a message is longer than the server takes.
func (s *session) exceeds(total int) bool {
	limit := s.srv.cfg.MaxMessageBytes
	return limit > 0 && total > limit
}

// sync ends a turn of the extended protocol. A turn of which no server has seen anything is
// answered here; else the Sync is sent, and finish returns when the turn has settled. What the
// turn still has to do in front of its Sync is done here: cursors WITH HOLD are stored, and an
// ALTER TABLE that was put off is carried out.
func (s *session) sync(total int) error {
	if err := s.discard(total); err != nil {
		return err
	}
	t := s.t
	if total > wire.HeaderLen { // as PostgreSQL: an error, also behind another, and ReadyForQuery
		if t.touched && !t.owed.empty() {
			if err := s.makeAnswer(); err != nil {
				t.ended = true
				return err
			}
		}
		if !t.skip {
			t.ended = true
			return errMessageFormat
		}
		s.say(errMessageFormat)
	}
	t.ended = true
	if !t.skip && t.touched {
		if err := s.storeInGroup(); err != nil {
			return err
		}
	}
	if t.skip = false; t.settled {
		return nil
	}
	if st := t.altering; st != nil {
		t.altering = nil
		if s.inBlock() {
			return s.syncOutside(st)
		}
		if err := s.runAltering(st, t.closing); err != nil {
			return err
		}
	}
	if d := t.deferred; d != nil {
		t.deferred = nil
		if err := d.Finish(); err != nil {
			return err
		}
	}
	if !t.touched {
		return s.ready()
	}
	if s.locksDDL() {
		if err := s.promiseDDL(); err != nil {
			return err
		}
	}
	// The outcome is told first: the log's entry says whether this Sync may commit.
	t.owed.push(wire.Sync)
	t.outcome.Sync()
	s.logFrame(wire.Sync, logEntry{commits: t.outcome.MayCommit()}, nil)
	s.add(wire.FrameSync)
	return s.finish()
}

// flush is the client's Flush: it wants what it is owed so far. The answers are no longer
// withheld afterwards: a replay has to answer them again.
func (s *session) flush() error {
	if s.t.touched && !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil {
			return err
		}
	}
	if err := s.tellTag(); err != nil {
		return err
	}
	return s.flushToClient()
}

// makeAnswer has the server send what it owes, and relays it. With nil nothing is owed any
// more, unless the turn has settled or the server awaits COPY data; t.skip says that an
// error was among the answers. The transaction may have been run again meanwhile: callers
// look at s.b anew.
func (s *session) makeAnswer() error {
	s.add(wire.FrameFlush)
	return s.flushReplies()
}

// unread is the plan of a text too long to be held. Nobody has read it: it may do anything,
// and keeps its backend.
var unread = &rewrite.Plan{Kind: rewrite.Unknown, Pin: rewrite.PinUnparsed}

// admit gets a backend for a plan that is about to be sent, and pins it where the plan
// needs that. With an error the plan must not be sent; the error is for the client, or
// ensureBackend's.
func (s *session) admit(plan *rewrite.Plan) error {
	if s.state == failed {
		return errAborted
	}
	if err := s.underLock(plan); err != nil {
		return err
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	// currval and lastval are asked of a backend that may have others' numbers.
	if plan.Sequence != "" {
		if err := s.askSequence(plan); err != nil {
			return err
		}
	}
	if st := plan.Single(); st != nil && st.Executes != "" && s.b.status != 'E' && (!s.pinned || s.b.prepared.holds(st.Executes)) {
		return errNoStatement([]byte(st.Executes)) // it is a client's, by a name of ours
	}
	// Noted before the statement runs: a draw is not taken back when its statement fails.
	if plan.MayAdvance() {
		s.sequences.Use(s.id, &s.b.sequences)
	}
	if plan.Pin != rewrite.NoPin {
		if err := s.pin(plan); err != nil {
			return err
		}
	}
	return s.fenced(plan)
}

// passThrough relays a frame of a session that is dedicated: its backend is its own from startup to end. Nothing is
// rewritten or answered here, and the owed queue only shows where the turn ends. Frames of any length pass.
func (s *session) passThrough(typ byte, total int) error {
	t := s.t
	if err := s.ensureBackend(); err != nil {
		return err
	}
	switch typ {
	case wire.Flush:
		if err := s.forward(total); err != nil {
			return err
		}
		return s.flushReplies()
	case wire.Query, wire.FunctionCall:
		t.ended = true
		t.owed.push(typ).plan = unread
		if err := s.forward(total); err != nil {
			return err
		}
		return s.finish()
	}
	t.owed.push(typ)
	return s.forward(total)
}

// function is a FunctionCall: relayed, and taken for a write. Nobody knows what the
// function does: it may change the schema, settings, and what names mean. The frame ends
// the turn, so that it is dropped here where an error keeps it from the server.
func (s *session) function(total int) error {
	t := s.t
	t.ended, t.plan = true, functionPlan
	if s.exceeds(total) {
		return s.refuseFrame(total, errMessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	err := s.judgesMode(unread)
	if err == nil {
		err = s.admit(functionPlan)
	}
	if err == nil && s.hasToldTime() {
		err = s.refuseTime()
	}
	if err != nil {
		if derr := s.discard(total); derr != nil {
			return derr
		}
		return err
	}
	s.logPlan(unread)
	s.changesSchema(functionPlan)
	s.b.sequences.History.Moved()
	s.tx.ran = true
	s.noteCall()
	t.owed.push(wire.FunctionCall)
	if s.srv.resetsAuto {
		s.settings.Stage(settings.Unseen)
	}
	t.outcome.Call()
	if err := s.forward(total); err != nil {
		return err
	}
	return s.finish()
}

// functionPlan is the plan of a FunctionCall, and of a portal that nobody knows: see
// execute.
var functionPlan = &rewrite.Plan{Kind: rewrite.Write}

// ready ends a turn that the server does not end, with a ReadyForQuery of Sluice's own.
// Outside a block its transaction ends with it: settings that were answered here are kept,
// or dropped behind an error, and portals are gone.
func (s *session) ready() error {
	s.t.settled = true
	status := s.status()
	if status == 'I' {
		s.endTransaction(false)
		s.closePortals()
		s.settings.EndKept(s.t.errorTold)
		s.locksSettled()
	}
	if !s.dedicated {
		if err := s.tellParameters(); err != nil {
			return err
		}
	}
	return s.passSpan(wire.AppendReady(s.appendName(nil, status), status))
}
