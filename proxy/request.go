package proxy

import (
	"encoding/binary"
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
	closes := t.touched && (typ == wire.Query || typ == wire.FunctionCall) // a group that no Sync has ended
	if !t.skip && !t.owed.empty() && (t.owed.len() >= maxOwed || closes) {
		if err := s.makeAnswer(); err != nil { // an error among the answers has the frame at hand skipped
			return err
		}
	}
	if !t.skip && closes { // what fails from now on is the frame at hand
		if err := s.flushToClient(); err != nil {
			return err
		}
	}
	if t.skip {
		return s.skipFrame(typ, total)
	}
	if typ == wire.Flush && total > wire.HeaderLen {
		if err := s.discard(total); err != nil {
			return err
		}
		return errMessageFormat
	}
	if s.dedicated {
		return s.passThrough(typ, total)
	}
	switch typ {
	case wire.Query:
		return s.query(total)
	case wire.FunctionCall:
		return s.function(total)
	case wire.Bind:
		return s.bind(total)
	}
	if typ == wire.Parse && total > s.srv.cfg.MaxStatementBytes {
		if err := s.discard(total); err != nil {
			return err
		}
		return errStatementTooLong(total, s.srv.cfg.MaxStatementBytes)
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
	s.logFrame(wire.Sync, note{commits: t.outcome.mayCommit()}, nil)
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

// query is a simple Query.
func (s *session) query(total int) error {
	t := s.t
	plan := unread
	var frame []byte
	if total <= s.srv.cfg.MaxStatementBytes {
		var err error
		if frame, err = s.whole(total); err != nil {
			return err
		}
	}
	t.ended = true
	s.unnamed, s.portal = nil, portal{}
	if frame != nil {
		sql, rest, ok := wire.CString(frame[wire.HeaderLen:])
		if !ok || len(rest) != 0 {
			return wire.ProtocolViolation("invalid string in message")
		}
		plan = s.plan(sql)
		if behind := s.behindEnd(plan, sql); behind != nil {
			if err := s.endFailed(&plan.Statements[0]); err != nil {
				return err
			}
			frame, sql, plan = wire.AppendStrings(nil, wire.Query, string(behind)), behind, s.plan(behind)
			total = len(frame)
		}
		s.note(plan)
		s.optOut(s.srv.replays != nil && retry.OptsOut(sql))
		if done, err := s.answerLocally(plan, sql); done || err != nil {
			return err
		}
		plan = s.substituted(plan, sql)
	} else if s.state == failed {
		if err := s.discard(total); err != nil {
			return err
		}
		return errAborted
	}
	err := refusal(plan)
	if err == nil {
		err = s.notAsked(plan)
	}
	if s.status() == 'E' {
		err = nil // the server says what a failed block says
	}
	if err == nil && frame != nil {
		err = s.resetsInside(plan, t.strung, frame[wire.HeaderLen:len(frame)-1])
	}
	t.plan = plan
	var sql []byte
	if err == nil {
		s.nameOperation(plan)
		if frame != nil && s.srv.replays != nil {
			sql = frame[wire.HeaderLen : len(frame)-1]
			err = waitAtGate(s, plan, sql, nil)
		}
		if err == nil && plan.Sequence != "" && frame != nil {
			t.asks = string(frame[wire.HeaderLen : len(frame)-1])
		}
		if err == nil {
			err = s.admit(plan)
		}
		if err == nil && frame != nil && plan.Pin != rewrite.PinUnparsed && s.b.reading.Misleads(frame[wire.HeaderLen:len(frame)-1]) {
			plan = s.srv.planner.Unread() // nobody knew before it was lent
			err = s.pin(plan)
		}
	}
	if err != nil {
		if frame == nil {
			if derr := s.discard(total); derr != nil {
				return derr
			}
		}
		return err
	}
	plan = s.judged(plan)
	s.logPlan(plan)
	s.noteParsing(plan)
	o := s.pushRun(wire.Query, plan)
	s.strings(o, t.strung)
	if s.b.ran.at = -1; frame != nil && plan.Kind == rewrite.Write && s.inBlock() {
		s.b.ran.keep(frame[wire.HeaderLen : len(frame)-1])
	}
	s.followsApart()
	t.outcome.query(plan)
	if frame != nil {
		if split := plan.InSplit(); split != nil {
			frame = s.askInTwo(o, split)
		} else if plan.Text != "" {
			frame = wire.AppendStrings(nil, wire.Query, plan.Text)
		}
		s.logFrame(wire.Query, note{plan: plan, commits: t.outcome.mayCommit(), strung: t.strung}, frame[wire.HeaderLen:])
		err = s.add(frame)
	} else {
		err = s.forward(total)
	}
	if err != nil {
		return err
	}
	return s.finish()
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
		s.staged.Stage(settings.Unseen)
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
	if s.state == busy || s.state == held && s.b.status == 'T' {
		if err := s.ensureBackend(); err != nil {
			return err
		}
		if t.logs {
			s.tx.log.Refuse(retry.Failed)
		}
		o := t.owed.push(wire.Bind)
		o.poison = true
		t.refused = e
		o.bytes = e.Append(nil)
		t.outcome.poison()
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
		s.unserved, s.begin = s.begin, nil
		s.tx.log.Refuse(retry.Failed)
	}
	t.failed = true
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
		s.foldLocal(s.t.failed)
	}
	if !s.dedicated {
		if err := s.tellParameters(); err != nil {
			return err
		}
	}
	return s.passSpan(wire.AppendReady(s.appendName(nil, status), status))
}

// bindNames splits a Bind's payload after its two names.
func bindNames(payload []byte) (portalName, statement, rest []byte, ok bool) {
	portalName, rest, ok = wire.CString(payload)
	if !ok {
		return nil, nil, nil, false
	}
	statement, rest, ok = wire.CString(rest)
	return portalName, statement, rest, ok
}

// bindParams returns how many parameters a Bind has, from what follows its names.
func bindParams(rest []byte) (n int, ok bool) {
	if len(rest) < 2 {
		return 0, false
	}
	at := 2 + 2*int(binary.BigEndian.Uint16(rest)) // behind the format codes
	if len(rest) < at+2 {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(rest[at:])), true
}

// appendBindHead starts a Bind with a statement's name replaced; n is the
// length of what follows the names.
func appendBindHead(dst, portalName []byte, statement string, n int) []byte {
	dst = append(dst, wire.Bind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(portalName)+1+len(statement)+1+n))
	dst = append(dst, portalName...)
	dst = append(dst, 0)
	dst = append(dst, statement...)
	return append(dst, 0)
}
