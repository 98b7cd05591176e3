package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// Frames of the backend, as answers to what is owed: reply matches each with the head of
// the queue, takes note of what it means for the session, and says whether it passes. relay
// calls reply for all frames but plain rows; errors go on in replyerror.go.

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
	if t.looks && typ != wire.ReadyForQuery { // a Sync group or text goes on behind CREATE INDEX
		if err := s.tellTag(); err != nil {
			return swallow, err
		}
	}
	o := t.owed.first()
	a := answer.To(o.kind, typ)
	if a == answer.CompletesOne {
		o.tags++
	}
	row := typ == wire.DataRow || typ == wire.CopyData
	if o.reply != nil {
		if v, err := o.reply.frame(s, o, answer.Frame{Type: typ, Means: a, Bytes: frame, Total: total}); v != undecided || err != nil {
			if !row {
				t.rows = 0
			}
			return v, err
		}
	}
	if row { // where others are masked
		t.rows++
		return o.hidden(), nil
	}
	return s.answered(a, typ, frame, total)
}

// answered deals with a frame that means a for the entry at the head of the queue, which is
// popped when it is answered.
func (s *session) answered(a answer.Meaning, typ byte, frame []byte, total int) (verdict, error) {
	t := s.t
	o, v := t.owed.first(), t.owed.first().hidden()
	t.rows = 0
	switch a {
	case answer.Unexpected:
		return v, s.desync(typ)
	case answer.Continues:
		return v, nil
	case answer.Prepares:
		s.accepted(o)
	case answer.Binds:
		if o.clientStmt != nil && o.clientStmt.described != nil { // the server would have refused other columns
			s.confirm(o, o.clientStmt.described)
		}
	case answer.Parameters:
		t.capture = append(t.capture[:0], frame...)
		o.done = len(frame) == total
		return v, nil
	case answer.Describes:
		s.noteDescription(o, frame, len(frame) == total)
	case answer.Completes, answer.CompletesOne:
		var stays bool
		var err error
		if v, stays, err = s.statementEnds(o, a, typ, frame, v); stays || err != nil {
			return v, err
		}
	// The entry stays: the answer to the COPY is its tag.
	case answer.Copies:
		s.startCopy()
		return v, nil
	case answer.Settles:
		if s.endsUntagged(o) {
			return v, s.desync(typ)
		}
		if status := frame[wire.HeaderLen]; s.endsOwn(status) {
			return swallow, s.endOwn(status)
		}
		return s.settles(v, frame)
	}
	t.owed.pop()
	return v, nil
}

// settles deals with a ReadyForQuery that ends what is owed.
func (s *session) settles(v verdict, frame []byte) (verdict, error) {
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
	if hidden || !s.t.owed.empty() && (s.t.owed.first().swallow || typ == wire.NoticeResponse && s.t.owed.first().hides(s, frame)) {
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
