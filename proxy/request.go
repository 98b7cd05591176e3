package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// handle deals with the client's next frame.
func (s *session) handle(typ byte, total int) error {
	t := s.t
	switch typ {
	case wire.Terminate:
		return errTerminated
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		return s.discard(total) // the rest of a COPY that has failed
	case wire.Sync:
		return s.sync(total)
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
	case typ == wire.Parse && total > s.srv.cfg.MaxStatementBytes:
		return s.refuseFrame(total, errStatementTooLong(total, s.srv.cfg.MaxStatementBytes))
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

// closeGroup has a group answered that a Query or FunctionCall ends without a Sync, and a
// pipeline that has become too long.
func (s *session) closeGroup(typ byte) error {
	t := s.t
	closes := t.touched && (typ == wire.Query || typ == wire.FunctionCall) // a group that no Sync has ended
	if !t.skip && !t.owed.empty() && (t.owed.len() >= maxOwed || closes) {
		if err := s.makeAnswer(); err != nil { // an error among the answers has the frame at hand skipped
			return err
		}
	}
	if !t.skip && closes { // what fails from now on is the frame at hand
		return s.flushToClient()
	}
	return nil
}

// refuseFrame drops a frame of the client's and returns why.
func (s *session) refuseFrame(total int, why *wire.Error) error {
	if err := s.discard(total); err != nil {
		return err
	}
	return why
}

// skipFrame drops a frame behind an error, up to a Sync.
func (s *session) skipFrame(typ byte, total int) error {
	if err := s.discard(total); err != nil || typ != wire.Flush {
		return err
	}
	return s.flush()
}

// sync ends a turn of the extended protocol.
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
	t.skip = false
	if !t.touched {
		return s.ready()
	}
	t.owed.push(wire.Sync)
	t.outcome.sync()
	s.logFrame(wire.Sync, logEntry{commits: t.outcome.mayCommit()}, nil)
	s.addBytes(wire.FrameSync)
	return s.finish()
}

// flush is the client's Flush: it wants what it is owed so far.
func (s *session) flush() error {
	if s.t.touched && !s.t.owed.empty() {
		if err := s.makeAnswer(); err != nil {
			return err
		}
	}
	return s.flushToClient()
}

// makeAnswer has the server send what it owes, and relays it.
func (s *session) makeAnswer() error {
	s.addBytes(wire.FrameFlush)
	return s.flushReplies()
}

// unread is the plan of a text too long to be held.
var unread = &rewrite.Plan{Kind: rewrite.Unknown, Pin: rewrite.PinUnparsed}

// admit gets a backend for a plan, and pins it where the plan needs that.
func (s *session) admit(plan *rewrite.Plan) error {
	if s.state == failed {
		return errAborted
	}
	if err := s.ensureBackend(); err != nil {
		return err
	}
	if plan.Sequence != "" {
		if err := s.askSequence(plan); err != nil {
			return err
		}
	}
	if st := plan.Single(); st != nil && st.Executes != "" && s.b.status != 'E' && (!s.pinned || s.b.prepared.holds(st.Executes)) {
		return errNoStatement([]byte(st.Executes)) // it is a client's, by a name of ours
	}
	if plan.MayAdvance() {
		s.draw()
	}
	if plan.Pin != rewrite.NoPin {
		return s.pin(plan)
	}
	return nil
}

// function is a FunctionCall: relayed, and taken for a write.
func (s *session) function(total int) error {
	t := s.t
	t.ended, t.plan = true, functionPlan
	err := s.admit(functionPlan)
	if err != nil {
		if derr := s.discard(total); derr != nil {
			return derr
		}
		return err
	}
	s.logPlan(unread)
	s.changesSchema(functionPlan)
	s.b.ran.forget()
	s.b.ran.moved = true
	t.owed.push(wire.FunctionCall)
	if s.srv.resetsAuto {
		s.settings.Stage(settings.Unseen)
	}
	t.outcome.call()
	if err := s.forward(total); err != nil {
		return err
	}
	return s.finish()
}

var functionPlan = &rewrite.Plan{Kind: rewrite.Write}

// refuse tells the client an error of ours where it stands in the stream. What
// the server has of the turn must fail too: it is sent something that does,
// and its error is replaced.
func (s *session) refuse(e *wire.Error) error {
	t := s.t
	s.srv.metrics.ErrorSent(e.Code)
	t.deadline = time.Time{} // it has failed as it is
	if s.state == busy || s.state == inTransaction && s.b.status == 'T' {
		if err := s.ensureBackend(); err != nil {
			return err
		}
		if t.logs {
			s.tx.log.Refuse(retry.Failed)
		}
		o := t.owed.push(wire.Bind)
		o.forcedError = true
		t.refused = e
		o.bytes = e.Append(nil)
		t.outcome.forceError()
		s.addBytes(appendBindNothing(nil, "sluice_refused"))
		if !t.ended {
			t.skip = true
			return nil
		}
		t.owed.push(wire.Sync)
		s.addBytes(wire.FrameSync)
		return s.finish()
	}
	s.nothingRuns()
	if s.state == begun {
		if err := s.move(refusedInBlock); err != nil {
			return err
		}
		s.unserved, s.deferredBegin = s.deferredBegin, nil
		s.tx.log.Refuse(retry.Failed)
	}
	t.errorTold = true
	if err := s.passSpan(e.Append(nil)); err != nil {
		return err
	}
	if !t.ended {
		t.skip = true
		return nil
	}
	return s.ready()
}

// say tells an error that stands outside the owed queue.
func (s *session) say(e *wire.Error) {
	s.srv.metrics.ErrorSent(e.Code)
	s.passSpan(e.Append(nil)) // a write error shows again at the next write
}

// ready ends a turn that the server does not end.
func (s *session) ready() error {
	s.t.settled = true
	status := s.status()
	if status == 'I' {
		s.endTransaction(false)
		s.closePortals()
		s.settings.EndKept(s.t.errorTold)
	}
	if !s.dedicated {
		if err := s.tellParameters(); err != nil {
			return err
		}
	}
	return s.passSpan(wire.AppendReady(s.appendName(nil, status), status))
}
