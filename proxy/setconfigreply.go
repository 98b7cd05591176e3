package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// For SELECT set_config(...) Sluice sends the server a SET (rewrite.Statement.SetConfigColumns). The client gets a row
// and its description instead of the SET's tag. If Sluice enforces the setting, Sluice itself answers, as for a SET.
//
// Sluice writes the value in the row itself, because a SET returns no value. It knows how servers show such values
// (settings.SetConfigResult). If it does not know how to show a value, it refuses the statement before it sends
// anything. For a value that a server would refuse, the client gets PostgreSQL's error.
//
// In all other ways Sluice handles the statement as a SET. The log has the SET, whose tag stages the change, and the
// client gets an error of the server. In a simple Query the statement is a script.Step, even as the only statement. In
// the extended protocol the replies of Execute and Describe hold the answer (pendingReply.reply).

// setConfigReply is the answer to a set_config that the client gets instead of the server's. The log refers to it,
// since a replay of a finished turn gives the first answer again.
type setConfigReply struct {
	// frames has the row and the tag (or PortalSuspended), and in a Query the description before them. For a Describe it
	// has only the description. nil means that Sluice has not made the frames yet.
	frames []byte
	// one means that the Execute has a row limit of one. As in PostgreSQL, such a limit suspends the portal after the row.
	one bool
	defaultHandler
}

// setConfigStatement returns the statement of a plan that Sluice sends as a SET and answers with a row, or nil. For a
// set_config with several columns it returns nil (setconfigrow.go).
func setConfigStatement(plan *rewrite.Plan) *rewrite.Statement {
	if plan == nil {
		return nil
	}
	if st := plan.SingleStatement(); st != nil && len(st.SetConfigColumns) == 1 {
		return st
	}
	return nil
}

// checkSetConfig returns an error if Sluice does not know how to show the value of a set_config in the answer. For
// settings that Sluice itself changes, the result is nil.
func (s *session) checkSetConfig(st *rewrite.Statement) *wire.Error {
	if st == nil || len(st.SetConfigColumns) != 1 || s.answersSettingChange(st) {
		return nil
	}
	_, err := settings.SetConfigResult(st.SetConfigColumns[0].Name, st.SetConfigColumns[0].Value)
	return err
}

// prepareLocalAnswer prepares the Execute of a portal to whose answer Sluice adds a warning, or whose tag it replaces
// by a row. After an error, which goes to the client, the server must not get the statement.
func (s *session) prepareLocalAnswer(name []byte, p *portal) error {
	st := p.plan.SingleStatement()
	if st == nil || s.txStatus() == 'E' {
		return nil
	}
	if err := s.refusedHere(p.plan); err != nil {
		return err
	}
	switch {
	case st.Weakened:
		return s.queueReply(s.weakenedWarning())
	case setConfigStatement(p.plan) == nil:
		return nil
	}
	if err := s.checkSetConfig(st); err != nil {
		return err
	}
	p.done = true // the portal has one row, and gives it once
	s.portals.update(name, *p)
	return nil
}

// withRowLimit records in d the row limit of a set_config's Execute (rows), and returns d. Here d may be nil.
func (d *setConfigReply) withRowLimit(rows uint32) *setConfigReply {
	if d != nil {
		d.one = rows == 1
	}
	return d
}

// addSetConfigReply sets a setConfigReply on the pending reply o of a set_config's Execute or Describe.
func (o *pendingReply) addSetConfigReply(plan *rewrite.Plan) {
	st := setConfigStatement(plan)
	if st == nil || o.kind != wire.Describe && o.kind != wire.Execute {
		return
	}
	d := &setConfigReply{}
	if o.reply = d; o.kind == wire.Describe {
		d.frames = result.DescribeConfig(st)
	}
}

// asSetConfigReply returns the handler of the pending reply o if it is a setConfigReply, or nil.
func (o *pendingReply) asSetConfigReply() *setConfigReply {
	d, _ := o.reply.(*setConfigReply)
	return d
}

// handleFrame replaces the last frame of the server's answer to a SET that was sent for a set_config. It also hides the
// warning of a SET LOCAL outside a block.
func (d *setConfigReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	switch {
	case f.Means == answer.Describes, f.Means == answer.Completes:
		return swallow, d.sendAnswer(s, o, f)
	case f.Type == wire.NoticeResponse && isSetLocalWarning(f.Bytes):
		return swallow, nil
	}
	return undecided, nil
}

// sendAnswer sends the client d.frames instead of f, the last frame of the server's answer to a SET. The server
// describes a SET by NoData, but Sluice caches the description of the client's row. Any tag but SET is an error.
func (d *setConfigReply) sendAnswer(s *session, o *pendingReply, f answer.Frame) error {
	switch {
	case f.Means == answer.Describes:
		s.cacheDescription(o, d.frames, true)
	case f.TagVerb() != "SET":
		return s.unexpectedFrameError(f.Type)
	default:
		st := setConfigStatement(o.plan) // nil in a finished turn of a replay
		s.recordCompletion(o, f.Type, f.Bytes)
		if st != nil {
			d.frames = s.setConfigRow(st)
			if d.one {
				d.frames = append(d.frames, wire.FramePortalSuspended...)
			} else {
				d.frames = wire.AppendCommandComplete(d.frames, "SELECT 1")
			}
		}
	}
	silent := o.swallow
	s.t.owed.pop()
	if silent {
		return nil
	}
	return s.sendSynthetic(d.frames)
}

// setConfigRow returns the row of a set_config's answer. checkSetConfig has checked that Sluice can show the value.
func (s *session) setConfigRow(st *rewrite.Statement) []byte {
	value, _ := settings.SetConfigResult(st.SetConfigColumns[0].Name, st.SetConfigColumns[0].Value)
	return result.TextRow(value)
}

// answerSetConfigStep answers a set_config in a multi-statement query when the tag of its SET has arrived. It sends the
// description before the row. The log counts this answer as Sluice's own. Replays of a finished turn repeat it.
func (s *session) answerSetConfigStep(o *pendingReply, st *rewrite.Statement, p *script.Step) error {
	s.recordCompletion(o, wire.CommandComplete, frameSet)
	s.t.server.statement++
	if s.t.rec.phase != phaseLive {
		return s.sendSynthetic(p.Answer)
	}
	row, tag := append(result.DescribeConfig(st), s.setConfigRow(st)...), wire.AppendCommandComplete(nil, "SELECT 1")
	p.Answer = slices.Concat(row, tag)
	return s.sendLocalAnswer(o, row, tag)
}

// describeFailedConfig sends the description of a set_config's row before the set_config's error, as PostgreSQL does.
func (s *session) describeFailedConfig(st *rewrite.Statement) error {
	if st.SetConfigColumns == nil {
		return nil
	}
	return s.queueReply(result.DescribeConfig(st))
}

// isSetLocalWarning reports whether a notice is the warning about SET LOCAL outside a block. Sluice hides it after a
// set_config, since PostgreSQL gives no warning for set_config outside a block.
func isSetLocalWarning(frame []byte) bool {
	return string(retry.ErrorField(frame[wire.HeaderLen:], 'C')) == sqlerror.WarnNoTransaction.Code
}
