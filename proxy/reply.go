package proxy

import (
	"fmt"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
)

// This file matches each frame of the backend with the first pending reply, updates the session, and decides whether
// the client gets the frame. It handles all frames but plain rows. replyerror.go handles errors.

// handleBackendFrame matches one backend frame with the pending replies, and returns whether the client gets the
// frame. total is its length. A frame longer than a buffer is cut. An error is a lost backend, or ends the session.
func (s *session) handleBackendFrame(typ byte, frame []byte, total int) (frameVerdict, error) {
	t := s.t
	if !wire.HasMinimumPayload(frame, len(frame) == total) {
		return swallow, s.malformedFrameError(typ, total)
	}
	switch typ {
	case wire.ParameterStatus, wire.NoticeResponse, wire.NotificationResponse:
		v := s.handleUnrequested(typ, frame)
		if v == pass && typ == wire.NoticeResponse && len(frame) == total {
			if own := s.clientNoticeFor(frame); own != nil {
				return swallow, s.sendOrWithhold(own)
			}
		}
		return v, nil
	case wire.ErrorResponse:
		return s.handleErrorResponse(frame, total)
	}
	if t.owed.empty() || typ >= 128 {
		return swallow, s.unexpectedFrameError(typ)
	}
	if t.output.inspectsFrames && typ != wire.ReadyForQuery { // CREATE INDEX has more statements behind it in its group or text
		if err := s.sendDelayedTag(); err != nil {
			return swallow, err
		}
	}
	o := t.owed.first()
	a := answer.MeaningOf(o.kind, typ)
	if a == answer.CompletesOne {
		o.tags++
	}
	row := typ == wire.DataRow || typ == wire.CopyData
	if o.reply != nil {
		if v, err := o.reply.handleFrame(s, o, answer.Frame{Type: typ, Means: a, Bytes: frame, Total: total}); v != undecided || err != nil {
			if !row {
				t.server.rows = 0
			}
			return v, err
		}
	}
	if row { // the digest and the statement at hand do not need rows
		t.server.rows++
		return o.defaultVerdict(), nil
	}
	return s.handleAnswer(a, typ, frame, total)
}

// handleAnswer handles a frame with the meaning a for the first pending reply. It removes a reply that is complete.
func (s *session) handleAnswer(a answer.Meaning, typ byte, frame []byte, total int) (frameVerdict, error) {
	t := s.t
	o, v := t.owed.first(), t.owed.first().defaultVerdict()
	t.server.rows = 0
	switch a {
	case answer.Unexpected:
		return v, s.unexpectedFrameError(typ)
	case answer.Continues:
		return v, nil
	case answer.Prepares:
		s.recordAccepted(o)
	case answer.Binds:
		if o.clientStmt != nil && o.clientStmt.Described != nil { // the server refuses a Bind whose result columns have changed
			s.confirmDescription(o, o.clientStmt.Described)
		}
	case answer.Parameters:
		t.capture = append(t.capture[:0], frame...)
		o.done = len(frame) == total
		return v, nil
	case answer.Describes:
		s.cacheDescription(o, frame, len(frame) == total)
	case answer.Completes, answer.CompletesOne:
		var stays bool
		var err error
		if v, stays, err = s.handleStatementEnd(o, a, typ, frame, v); stays || err != nil {
			return v, err
		}
	// A COPY's pending reply stays in the queue until the COPY's CommandComplete.
	case answer.Copies:
		s.t.startCopyIn()
		return v, nil
	case answer.Settles:
		if s.t.lacksTags(o) {
			return v, s.unexpectedFrameError(typ)
		}
		if status := frame[wire.HeaderLen]; s.t.mustEndInternalBlock(status) {
			return swallow, s.endInternalBlock(status)
		}
		return s.settleAtReady(v, frame)
	}
	t.owed.pop()
	return v, nil
}

// settleAtReady handles the ReadyForQuery that completes the turn's pending replies.
func (s *session) settleAtReady(v frameVerdict, frame []byte) (frameVerdict, error) {
	if err := s.prepareIndexJobWait(frame[wire.HeaderLen]); err != nil {
		return v, err
	}
	err := s.handleReadyForQuery(frame)
	return s.verdictForReady(v), err
}

// handleUnrequested handles a frame that a backend sends unrequested. It records a ParameterStatus, which the client
// gets at the end of the turn. The client gets a notice unless Sluice's own statement caused it.
func (s *session) handleUnrequested(typ byte, frame []byte) frameVerdict {
	hidden := false
	switch typ {
	case wire.ParameterStatus:
		if hidden = !s.dedicated; hidden {
			s.b.recordParameter(frame)
		}
	case wire.NotificationResponse:
		if !s.pin.IsPinned() && !s.dedicated {
			return swallow // from a LISTEN of an earlier client
		}
		s.passNotifications() // a write error shows again at the next write
		return pass
	}
	if hidden || !s.t.owed.empty() && (s.t.owed.first().swallow || typ == wire.NoticeResponse && s.t.owed.first().hidesNotice(s, frame)) {
		return swallow
	}
	return pass
}

// recordAccepted records that the server has parsed the text of o. From then on Sluice itself answers its Parse, for
// all clients, until the schema changes. Sessions that are pinned or may have changed the schema record nothing.
func (p *pairing) recordAccepted(o *pendingReply) {
	if o.tmpl != nil && !p.pin.IsPinned() && !o.mayUseTempTables && o.stmt.Epoch&statement.TxEpochBit == 0 { // nil when frames pass unseen
		o.tmpl.Accepted.Store(o.stmt.Epoch + 1)
	}
}

// passNotifications sends the client the notifications (NOTIFY) that arrived among answers to Sluice's own statements.
// An error ends the session.
func (l *link) passNotifications() error {
	if len(l.b.notifications) == 0 || l.t.rec.phase == phaseAborting {
		return nil
	}
	return l.sendOrWithhold(l.takeNotifications())
}

// takeNotifications takes the recorded notifications (NOTIFY) from the backend. If an earlier client's LISTEN caused
// them, it returns none.
func (p *pairing) takeNotifications() (news []byte) {
	news, p.b.notifications = p.b.notifications, nil
	if !p.pin.IsPinned() && !p.dedicated {
		return nil
	}
	return news
}

// unexpectedFrameError logs that the backend sent an unexpected frame, and returns a *lostError, since the backend's
// stream cannot be trusted any more.
func (s *session) unexpectedFrameError(typ byte) error {
	s.srv.log.Error("backend out of step", append(s.logAttrs(), "frame", string(rune(typ)))...)
	return &lostError{err: fmt.Errorf("unexpected frame %q", typ)}
}

// malformedFrameError logs a frame without a part that its type requires, and returns a *lostError.
func (s *session) malformedFrameError(typ byte, total int) error {
	s.srv.log.Error("backend sent a malformed frame", append(s.logAttrs(), "frame", string(rune(typ)), "bytes", total)...)
	return &lostError{err: errMalformedFrame(typ, total)}
}

// errMalformedFrame returns the error for a malformed frame with the type and length of its header.
func errMalformedFrame(typ byte, total int) error {
	return fmt.Errorf("frame %q of %d bytes: %w", typ, total, wire.ErrMalformed)
}

// handleReadyForQuery handles ReadyForQuery. Unless a replay is running, it settles the turn. If parameters have
// changed, the client gets their ParameterStatus before ReadyForQuery, so the staged settings must be settled here.
// Otherwise settleTurn settles them.
func (s *session) handleReadyForQuery(frame []byte) error {
	if err := s.passNotifications(); err != nil {
		return err
	}
	s.t.owed.pop()
	s.b.status, s.b.groupOpen = frame[wire.HeaderLen], false
	s.t.server.outcome.RecordReady(s.b.status)
	s.t.settled = true
	s.t.server.copying = false
	if s.b.status == 'T' && s.t.rec.phase == phaseLive {
		s.t.parsing.changes.Settle(&s.txParsing, &s.b.settings, s.settings.InForce)
	}
	if s.b.status == 'T' && s.t.rec.phase == phaseLive && s.tx.names.MayChange(&s.b.settings) && s.adoptableNames() != nil {
		s.tx.names.Adopt(&s.b.settings, &s.settings)
	}
	if s.t.restoresSettings = s.mayHaveResetSettings(); s.t.restoresSettings || s.tx.job.IsWaiting() {
		return nil
	}
	return s.reportParametersAtReady()
}

// reportParametersAtReady settles staged settings and sends ParameterStatus frames, if a parameter may have changed.
func (s *session) reportParametersAtReady() error {
	if s.dedicated || s.t.rec.phase != phaseLive || !s.b.settings.MayReport(&s.settings) {
		return nil
	}
	if s.b.status == 'I' {
		s.settleSettings(s.t.server.errorTold)
		s.tx.names.EndTransaction(&s.settings, s.t.server.errorTold)
	}
	return s.reportParameters()
}
