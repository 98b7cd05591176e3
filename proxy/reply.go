package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// reply matches each frame of the backend with the first pending reply. It updates the session and decides whether
// the client gets the frame. relay calls reply for all frames but plain rows; replyerror.go handles errors.

// reply matches one backend frame with the pending replies and returns whether the client gets the frame. frame may
// be cut if it exceeds a buffer; total is its whole length. An error means a lost backend or the session's end.
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
	if t.looks && typ != wire.ReadyForQuery { // CREATE INDEX has more statements behind it in its group or text
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
	if row { // the digest and the statement at hand do not need rows
		t.rows++
		return o.hidden(), nil
	}
	return s.answered(a, typ, frame, total)
}

// answered handles a frame that means a for the first pending reply, and removes that reply once it is complete.
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
		if o.clientStmt != nil && o.clientStmt.described != nil { // the server refuses a Bind whose result columns have changed
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
	// The pending reply stays until CommandComplete ends the COPY.
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

// settles handles the ReadyForQuery that completes the turn's pending replies.
func (s *session) settles(v verdict, frame []byte) (verdict, error) {
	if err := s.jobAtReady(frame[wire.HeaderLen]); err != nil {
		return v, err
	}
	err := s.replyReady(frame)
	return s.waitsForJob(v), err
}

// unasked handles a frame that a backend sends unrequested. ParameterStatus is recorded, and the client gets its
// change at the end of the turn. A notice passes unless a statement of Sluice's own caused it.
func (s *session) unasked(typ byte, frame []byte) verdict {
	hidden := false
	switch typ {
	case wire.ParameterStatus:
		if hidden = !s.dedicated; hidden {
			s.b.noteParameter(frame)
		}
	case wire.NotificationResponse:
		if !s.pinned && !s.dedicated {
			return swallow // from a LISTEN of an earlier client
		}
		s.passNews() // a write error shows again at the next write
		return pass
	}
	if hidden || !s.t.owed.empty() && (s.t.owed.first().swallow || typ == wire.NoticeResponse && s.t.owed.first().hides(s, frame)) {
		return swallow
	}
	return pass
}

// accepted records that the server has parsed the text of o. From then on Sluice answers a Parse of that text itself,
// for all clients, until the schema changes. A pinned session and a session that may have changed the schema record
// nothing.
func (s *session) accepted(o *owed) {
	if o.tmpl != nil && !s.pinned && !o.apart && o.stmt.epoch&private == 0 { // nil when frames pass unseen
		o.tmpl.accepted.Store(o.stmt.epoch + 1)
	}
}

// passNews sends the client the notifications that arrived among answers to Sluice's own statements. An error ends
// the session.
func (s *session) passNews() error {
	if len(s.b.news) == 0 || s.t.phase == aborting {
		return nil
	}
	return s.passSpan(s.takeNews())
}

// takeNews takes the recorded notifications from the backend. It returns none if they are from a LISTEN of an earlier
// client.
func (s *session) takeNews() (news []byte) {
	news, s.b.news = s.b.news, nil
	if !s.pinned && !s.dedicated {
		return nil
	}
	return news
}

// desync logs that the backend sent an unexpected frame, and returns a *lostError: the stream cannot be trusted any
// more.
func (s *session) desync(typ byte) error {
	s.srv.log.Error("backend out of step", append(s.logAttrs(), "frame", string(rune(typ)))...)
	return &lostError{err: fmt.Errorf("unexpected frame %q", typ)}
}

// malformed logs a frame that lacks a part that its type requires, and returns a *lostError.
func (s *session) malformed(typ byte, total int) error {
	s.srv.log.Error("backend sent a malformed frame", append(s.logAttrs(), "frame", string(rune(typ)), "bytes", total)...)
	return &lostError{err: malformed(typ, total)}
}

// malformed returns the error for a malformed frame with the type and length of its header.
func malformed(typ byte, total int) error {
	return fmt.Errorf("frame %q of %d bytes: %w", typ, total, wire.ErrMalformed)
}

// replyReady handles ReadyForQuery. The turn has settled, but relayed clears settled while a replay runs. If
// parameters have changed, their ParameterStatus must precede ReadyForQuery, so that the turn's staged settings are
// settled here too. Otherwise settle does both.
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

// tellAtReady settles the turn's staged settings and sends ParameterStatus frames, if a parameter may have changed.
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
