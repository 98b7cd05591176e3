package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Frames of the backend, as answers to what is owed: reply matches each with the head of
// the queue, takes note of what it means for the session, and says whether it passes. relay
// calls reply for all frames but plain rows; errors go on in replyerror.go.

// answer is what a frame of the backend means for the entry that it answers.
type answer uint8

const (
	unexpected   answer = iota // nobody asked for such a frame: the backend is out of step
	continues                  // more follows for the same entry
	ends                       // the entry is answered
	prepares                   // as ends: the server has taken a text
	binds                      // as ends: the columns are those that were described
	parameters                 // the first half of a description
	describes                  // as ends: the other half
	completes                  // as ends: a statement has run
	completesOne               // a statement of a string has run, and more may follow
	copies                     // the server waits for COPY data
	settles                    // ReadyForQuery: the turn is over
)

// answers says by what was asked (the kind of an entry) and the type of the backend's
// frame what the frame means. Rows and what comes unasked do not get here.
var answers = func() (table [128][128]answer) {
	for asked, frames := range map[byte]map[byte]answer{
		wire.Parse:    {wire.ParseComplete: prepares},
		wire.Bind:     {wire.BindComplete: binds},
		wire.Close:    {wire.CloseComplete: ends},
		wire.Describe: {wire.ParameterDescription: parameters, wire.RowDescription: describes, wire.NoData: describes},
		wire.Execute: {wire.CommandComplete: completes, wire.EmptyQueryResponse: completes, wire.PortalSuspended: completes,
			wire.CopyInResponse: copies, wire.CopyBothResponse: copies, wire.CopyOutResponse: continues, wire.CopyDone: continues},
		wire.Query: {wire.CommandComplete: completesOne, wire.EmptyQueryResponse: completesOne, wire.RowDescription: continues,
			wire.CopyInResponse: copies, wire.CopyBothResponse: copies, wire.CopyOutResponse: continues, wire.CopyDone: continues,
			wire.ReadyForQuery: settles},
		wire.FunctionCall: {wire.FunctionCallResponse: continues, wire.ReadyForQuery: settles},
		wire.Sync:         {wire.ReadyForQuery: settles},
	} {
		for typ, a := range frames {
			table[asked][typ] = a
		}
	}
	return table
}()

// reply matches one frame of the backend with what it owes. frame may be cut short when it
// is longer than a buffer; total is its whole length. An error is a lost backend, or the
// session's end; the verdict counts without one.
func (s *session) reply(typ byte, frame []byte, total int) (verdict, error) {
	t := s.t
	if !wire.Sound(frame, len(frame) == total) {
		return swallow, s.malformed(typ, total)
	}
	switch typ {
	case wire.ParameterStatus, wire.NoticeResponse, wire.NotificationResponse:
		v := s.unasked(typ, frame)
		if v == pass && typ == wire.NoticeResponse && len(frame) == total {
			if own := s.noticed(frame); own != nil {
				return swallow, s.passSpan(own)
			}
		}
		return v, nil
	case wire.ErrorResponse:
		return s.replyError(frame, total)
	}
	if t.owed.empty() || typ >= 128 {
		return swallow, s.desync(typ)
	}
	if t.looks {
		if s.storedReply(typ, frame, total) {
			return swallow, nil
		}
		if done, err := s.maskedReply(typ, frame, total); done || err != nil {
			return swallow, err
		}
	}
	if typ == wire.DataRow || typ == wire.CopyData { // where others are masked
		if t.rows++; t.owed.first().moves() || t.owed.first().swallow {
			s.noteAsked(t.owed.first(), frame)
			return swallow, nil
		}
		return pass, nil
	}
	o := t.owed.first()
	a := answers[o.kind][typ]
	if o.tellsInstead(a) {
		return swallow, s.toldReply(o, a, typ, frame)
	}
	return s.answered(a, typ, frame, total)
}

// ownEnd ends a statement that another one stands for at the server: the client is sent the tag of
// its own. own is false for any other.
func (s *session) ownEnd(o *owed, typ byte, frame []byte, rows int) (own bool, err error) {
	if o.cursor != nil {
		return true, s.cursorEnd(o, typ, frame, rows)
	}
	if st := s.retagged(o, typ); st != nil {
		if !standsFor(verbOf(typ, frame), st) {
			return true, s.desync(typ)
		}
		return true, s.retagEnd(o, st)
	}
	return false, nil
}

// answered deals with a frame that means a for the entry at the head of the queue, which is
// popped when it is answered.
func (s *session) answered(a answer, typ byte, frame []byte, total int) (verdict, error) {
	t := s.t
	o, v, rows := t.owed.first(), pass, t.rows
	if t.rows = 0; o.swallow {
		v = swallow
	}
	switch a {
	case unexpected:
		return v, s.desync(typ)
	case continues:
		return v, nil
	case prepares:
		s.accepted(o)
	case binds:
		if o.clientStmt != nil && o.clientStmt.described != nil { // the server would have refused other columns
			s.confirm(o, o.clientStmt.described)
		}
	case parameters:
		return s.parametersCome(o, v, frame, total)
	case describes:
		if err := s.tellFirstHalf(o); err != nil {
			return v, err
		}
		s.noteDescription(o, frame, len(frame) == total)
	case completes, completesOne:
		var stays bool
		var err error
		if v, stays, err = s.statementEnds(o, a, typ, frame, rows, v); stays || err != nil {
			return v, err
		}
	// The entry stays: the answer to the COPY is its tag.
	case copies:
		s.startCopy()
		return v, nil
	case settles:
		if s.endsUntagged(o, frame[wire.HeaderLen]) {
			return v, s.desync(typ)
		}
		return s.settles(o, v, frame)
	}
	t.owed.pop()
	return v, nil
}

// parametersCome takes a ParameterDescription for the entry o. Where a ParseComplete goes in front of it
// both wait for the other half, so that a client has all three or none; but not of one that no buffer
// holds.
func (s *session) parametersCome(o *owed, v verdict, frame []byte, total int) (verdict, error) {
	s.t.capture = append(s.t.capture[:0], frame...)
	o.done = len(frame) == total
	if o.parsed && o.done {
		return swallow, nil
	}
	if o.parsed {
		o.parsed = false
		return v, s.synthesize(wire.FrameParseComplete)
	}
	return v, nil
}

// tellFirstHalf sends the ParseComplete and the parameters that have waited for the other half of o's
// description.
func (s *session) tellFirstHalf(o *owed) error {
	if !o.parsed {
		return nil
	}
	o.parsed = false
	if err := s.synthesize(wire.FrameParseComplete); err != nil {
		return err
	}
	half, has := s.t.capture, 0
	if s.noting() {
		has = s.noteReply(wire.ParameterDescription, half)
	}
	return s.passSpan(half[has:])
}

// settles deals with a ReadyForQuery, which answers o. One that leaves a block of Sluice's own open is
// for nobody, and the turn goes on; that of the block's end is the client's.
func (s *session) settles(o *owed, v verdict, frame []byte) (verdict, error) {
	if status := frame[wire.HeaderLen]; s.endsOwn(o, status) {
		return swallow, s.endOwn(status)
	}
	if o.ends {
		v = pass
	}
	if err := s.jobAtReady(frame[wire.HeaderLen]); err != nil {
		return v, err
	}
	err := s.replyReady(frame)
	return s.waitsForJob(v), err
}

// unasked is a frame that a backend sends of its own accord. Parameters are noted, and told
// at the turn's end. A notice passes, unless it is about something that Sluice has sent by
// itself.
func (s *session) unasked(typ byte, frame []byte) verdict {
	hidden := false
	switch typ {
	case wire.ParameterStatus:
		if hidden = !s.dedicated; hidden {
			s.b.noteParameter(frame)
		}
	case wire.NotificationResponse:
		if !s.pinned && !s.dedicated {
			return swallow // of a LISTEN that another client left behind
		}
		s.passNews() // a write error shows again at the next write
		return pass
	}
	if hidden || !s.t.owed.empty() && (s.t.owed.first().swallow || typ == wire.NoticeResponse && s.t.owed.first().warnsOfSet(frame)) {
		return swallow
	}
	return pass
}

// accepted is told that the server has taken a text: in this epoch of the schema its Parse
// is answered from memory, for all. A session that is apart, or one that may have changed the
// schema, speaks for itself only.
func (s *session) accepted(o *owed) {
	if o.tmpl != nil && !s.pinned && !o.apart && o.stmt.epoch&private == 0 { // nil when frames pass unseen
		o.tmpl.accepted.Store(o.stmt.epoch + 1)
	}
}

// passNews sends the client the notifications that came beside answers to Sluice itself. An error is
// the session's end.
func (s *session) passNews() error {
	if len(s.b.news) == 0 || s.t.phase == aborting {
		return nil
	}
	return s.passSpan(s.takeNews())
}

// takeNews takes those notifications from the backend; none where they are of a LISTEN that another
// client left behind.
func (s *session) takeNews() (news []byte) {
	news, s.b.news = s.b.news, nil
	if !s.pinned && !s.dedicated {
		return nil
	}
	return news
}

// desync says that the backend sent what nobody asked for: its stream cannot be trusted any
// more. It returns the loss.
func (s *session) desync(typ byte) error {
	s.srv.log.Error("backend out of step", append(s.logAttrs(), "frame", string(rune(typ)))...)
	return &lostError{err: fmt.Errorf("unexpected frame %q", typ)}
}

// malformed is desync for a frame that lacks a part of what its type has.
func (s *session) malformed(typ byte, total int) error {
	s.srv.log.Error("backend sent a malformed frame", append(s.logAttrs(), "frame", string(rune(typ)), "bytes", total)...)
	return &lostError{err: malformed(typ, total)}
}

// malformed is the error of a frame by the type and length that its header says.
func malformed(typ byte, total int) error {
	return fmt.Errorf("frame %q of %d bytes: %w", typ, total, wire.ErrMalformed)
}

// replyReady is a ReadyForQuery: the turn has settled, unless the answers are for a replay
// (relayed takes settled back then). Where there is something to tell of parameters, they
// are told here, in front of the frame, and so the settings that the turn has staged are
// settled here too; else settle does that.
func (s *session) replyReady(frame []byte) error {
	if err := s.passNews(); err != nil {
		return err
	}
	s.t.owed.pop()
	s.b.status, s.b.group = frame[wire.HeaderLen], false
	s.t.outcome.Ready(s.b.status)
	s.t.settled = true
	s.t.copying = false
	if s.b.status == 'T' && s.t.phase == live {
		s.settleParsing()
	}
	if s.t.phase == live {
		s.heedName()
	}
	if s.t.putsBack = s.mayBeReset(); s.t.putsBack || s.tx.job.Waits() {
		return nil
	}
	return s.tellAtReady()
}

// tellAtReady settles the settings that the turn has staged, and tells of parameters, where there is something to tell.
func (s *session) tellAtReady() error {
	if s.dedicated || s.t.phase != live || !s.mayTell() {
		return nil
	}
	if s.b.status == 'I' {
		s.settleSettings(s.t.errorTold)
		s.endKept(s.t.errorTold)
	}
	return s.tellParameters()
}
