package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// SELECT set_config(...), which the server gets as a SET (rewrite.Statement.Told): the client is
// answered with a row in the place of the tag, and the row is described to it. The same statement
// about settings that Sluice keeps is answered as a SET of them is (perform).
//
// The value in the row is made here, from what the client gave and from how servers show such
// values (settings.Told): a SET tells nothing of it. So what cannot be told surely is refused before
// anything is sent, and a value that a server would refuse gets PostgreSQL's error.
//
// The statement takes the server's way otherwise: it is in the log as a SET, its change is staged
// with its tag, and an error of the server's is the client's. In a Query it is a place of a string
// (strung.go), also when it is the only one; by the extended protocol its Execute and its Describe
// say on their entries what the client gets (owed.reply).

// told is what the client gets in the place of the server's answer. It stays with the log: what a
// replay answers in a turn that has settled was made when the turn was live.
type told struct {
	// frames are the row, and in a Query its description in front, with the tag or what stands
	// for it; of a Describe the description alone. nil until they are made.
	frames []byte
	// one: Execute with a limit of one row, behind which the portal is suspended, as PostgreSQL
	// does where it has not looked for a second.
	one bool
	asSent
}

// asSet is the statement of a text that is sent as a SET and answered with a row; nil for any other.
// One with several columns is sent as it is, where Sluice does not keep all of its settings: then
// the answer is the server's own.
func asSet(plan *rewrite.Plan) *rewrite.Statement {
	if plan == nil {
		return nil
	}
	if st := plan.Single(); st != nil && len(st.Told) == 1 {
		return st
	}
	return nil
}

// tellsNot is the error of such a statement whose row nobody here can make; nil for any other, and
// where the setting is not the server's.
func (s *session) tellsNot(st *rewrite.Statement) *wire.Error {
	if st == nil || len(st.Told) != 1 || s.answersSetting(st) {
		return nil
	}
	_, err := settings.Told(st.Told[0].Name, st.Told[0].Value)
	return err
}

// answersInPlace prepares the Execute of a portal some of whose answer is Sluice's: a warning that
// goes in front, a row in the place of the tag. An error, for the client, is that of a statement
// which the server must not see.
func (s *session) answersInPlace(name []byte, p *portal) error {
	st := p.plan.Single()
	switch {
	case st == nil || s.status() == 'E':
		return nil
	case s.locksOutside(p.plan):
		return errLockOutside
	case st.Weakened:
		return s.tell(s.warnsWeakened())
	case asSet(p.plan) == nil:
		return nil
	}
	if err := s.tellsNot(st); err != nil {
		return err
	}
	p.done = true // there is one row, and none to be had again
	s.keepPortal(name, *p)
	return nil
}

// limited notes the limit on rows of the Execute that is answered so; nil stays nil.
func (d *told) limited(rows uint32) *told {
	if d != nil {
		d.one = rows == 1
	}
	return d
}

// tells has an entry, an Execute or Describe, answered so where its plan is such a statement.
func (o *owed) tells(plan *rewrite.Plan) {
	st := asSet(plan)
	if st == nil || o.kind != wire.Describe && o.kind != wire.Execute {
		return
	}
	d := &told{}
	if o.reply = d; o.kind == wire.Describe {
		d.frames = result.ConfigColumns(st)
	}
}

// told is what the client gets in the place of the answer to o, if that is of such a statement; else nil.
func (o *owed) told() *told {
	d, _ := o.reply.(*told)
	return d
}

// frame has the server's answer replaced where it ends, and hides the warning that a SET LOCAL causes.
func (d *told) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	switch {
	case f.Means == answer.Describes, f.Means == answer.Completes:
		return swallow, d.answer(s, o, f)
	case f.Type == wire.NoticeResponse && warnsOfLocal(f.Bytes):
		return swallow, nil
	}
	return undecided, nil
}

// answer is sent in the place of f, which ends the server's answer. What is remembered of the statement is
// what its clients get: a row, where the server says NoData. To a SET the server has no other answer than
// the tag. Another frame means that it is out of step.
func (d *told) answer(s *session, o *owed, f answer.Frame) error {
	switch {
	case f.Means == answer.Describes:
		s.noteDescription(o, d.frames, true)
	case f.Verb() != "SET":
		return s.desync(f.Type)
	default:
		st := asSet(o.plan) // nil in a turn that is run again
		s.completed(o, f.Type, f.Bytes)
		if st != nil {
			d.frames = s.toldRow(st)
			if d.one {
				d.frames = append(d.frames, wire.FramePortalSuspended...)
			} else {
				d.frames = wire.AppendCommand(d.frames, "SELECT 1")
			}
		}
	}
	silent := o.swallow
	s.t.owed.pop()
	if silent {
		return nil
	}
	return s.synthesize(d.frames)
}

// toldRow is the row of such a statement, whose value was found to be known (tellsNot).
func (s *session) toldRow(st *rewrite.Statement) []byte {
	value, _ := settings.Told(st.Told[0].Name, st.Told[0].Value)
	return result.Row(value)
}

// toldInString is the answer to such a statement in a string, at the server's tag: in a Query the
// row is described in front of it. The log counts it among the answers that were made up, and an
// attempt that comes by here again, in a turn that has settled, makes up the same.
func (s *session) toldInString(o *owed, st *rewrite.Statement, d *told) error {
	s.completed(o, wire.CommandComplete, frameSet)
	s.t.statement++
	if s.t.phase != live {
		return s.synthesize(d.frames)
	}
	row, tag := append(result.ConfigColumns(st), s.toldRow(st)...), wire.AppendCommand(nil, "SELECT 1")
	d.frames = slices.Concat(row, tag)
	return s.tellTagged(o, row, tag)
}

// describeFailed describes the row of such a statement, answered here, whose error follows.
func (s *session) describeFailed(st *rewrite.Statement) error {
	if st.Told == nil {
		return nil
	}
	return s.tell(result.ConfigColumns(st))
}

// warnsOfLocal reports a warning about SET LOCAL outside of a block, where the client has sent none:
// set_config warns of nothing, and the value that it sets for the transaction is gone with the
// statement, there as here.
func warnsOfLocal(frame []byte) bool {
	return string(retry.Field(frame[wire.HeaderLen:], 'C')) == warnNoTransaction.Code
}
