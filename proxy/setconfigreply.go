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

// The server gets SELECT set_config(...) as a SET (rewrite.Statement.SetConfigColumns). The client gets a row and its
// description instead of the tag. If Sluice enforces the setting, Sluice itself answers, as for a SET.
//
// Sluice writes the value in the row itself, from the client's value and the way in which servers show such values
// (settings.SetConfigResult), because a SET returns no value. If Sluice does not know how to show a value, it refuses
// the statement before it sends anything. A value that a server would refuse gets PostgreSQL's error.
//
// Otherwise the statement is handled as a SET: the log has the SET, its tag stages the change, and the client gets an
// error of the server. In a simple Query it is a script.Step, even as the only statement. In the extended
// protocol the replies of Execute and Describe hold the answer (pendingReply.reply).

// setConfigReply is the answer to a set_config that the client gets instead of the server's. The log refers to it,
// since a replay of a finished turn repeats the first answer.
type setConfigReply struct {
	// frames has the row and the tag (or PortalSuspended), in a Query after the description. For a Describe it has only
	// the description. nil means that the frames do not exist yet.
	frames []byte
	// one means that the Execute has a limit of one row. As in PostgreSQL, that suspends the portal.
	one bool
	defaultHandler
}

// setConfigStatement returns the statement of a text that Sluice sends as a SET and answers with a row, or nil. For
// a set_config with several columns it returns nil (setconfigrow.go).
func setConfigStatement(plan *rewrite.Plan) *rewrite.Statement {
	if plan == nil {
		return nil
	}
	if st := plan.SingleStatement(); st != nil && len(st.SetConfigColumns) == 1 {
		return st
	}
	return nil
}

// checkSetConfig returns an error if Sluice cannot show the value of a set_config in the answer. For settings that
// Sluice answers, the result is nil.
func (s *session) checkSetConfig(st *rewrite.Statement) *wire.Error {
	if st == nil || len(st.SetConfigColumns) != 1 || s.answersSettingChange(st) {
		return nil
	}
	_, err := settings.SetConfigResult(st.SetConfigColumns[0].Name, st.SetConfigColumns[0].Value)
	return err
}

// prepareLocalAnswer prepares the Execute of a portal whose answer is partly Sluice's: a warning before the answer, or
// a row instead of the tag. After an error, which goes to the client, the server must not get the statement.
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

// withRowLimit records rows, the row limit of the Execute of a set_config, in d. It returns d, which may be nil.
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

// handleFrame replaces the last frame of the server's answer to a set_config sent as a SET. It also hides the warning
// of a SET LOCAL outside a block.
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
// describes the SET by NoData, but Sluice caches the description of the client's row. Any tag but SET is an error.
func (d *setConfigReply) sendAnswer(s *session, o *pendingReply, f answer.Frame) error {
	switch {
	case f.Means == answer.Describes:
		s.cacheDescription(o, d.frames, true)
	case f.TagVerb() != "SET":
		return s.unexpectedFrameError(f.Type)
	default:
		st := setConfigStatement(o.plan) // nil in a settled turn of a replay
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

// setConfigRow returns the row of a set_config's answer. checkSetConfig has checked the value.
func (s *session) setConfigRow(st *rewrite.Statement) []byte {
	value, _ := settings.SetConfigResult(st.SetConfigColumns[0].Name, st.SetConfigColumns[0].Value)
	return result.TextRow(value)
}

// answerSetConfigStep answers a set_config in a multi-statement query at the server's tag, with the description
// before the row. The log counts it as an answer of Sluice's own. Replays of a finished turn repeat it.
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

// describeFailedConfig sends the description of a set_config's row before the error of the set_config.
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
