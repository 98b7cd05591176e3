package proxy

import (
	"slices"

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
// say on their entries what the client gets (owed.told).

// told is what the client gets in the place of the server's answer. It stays with the log: what a
// replay answers in a turn that has settled was made when the turn was live.
type told struct {
	// frames are the row, and in a Query its description in front, with the tag or what stands
	// for it; of a Describe the description alone. nil until they are made.
	frames []byte
	// one: Execute with a limit of one row, behind which the portal is suspended, as PostgreSQL
	// does where it has not looked for a second.
	one bool
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
	o.told, o.masks = &told{}, true
	if o.kind == wire.Describe {
		o.told.frames = result.ConfigColumns(st)
	}
}

// toldReply is the answer of the server to an entry that is answered so, which it ends. What is
// remembered of the statement is what its clients are told: a row, where the server says NoData. To
// a SET it has no other answer than the tag; another frame means that it is out of step.
func (s *session) toldReply(o *owed, a answer, typ byte, frame []byte) error {
	frames := &o.told.frames
	switch {
	case a == describes:
		if err := s.tellFirstHalf(o); err != nil {
			return err
		}
		s.noteDescription(o, *frames, true)
	case verbOf(typ, frame) != "SET":
		return s.desync(typ)
	default:
		st := asSet(o.plan) // nil in a turn that is run again
		s.completed(o, typ, frame)
		if st != nil {
			*frames = s.toldRow(st)
			if o.told.one {
				*frames = append(*frames, wire.FramePortalSuspended...)
			} else {
				*frames = wire.AppendCommand(*frames, "SELECT 1")
			}
		}
	}
	answer, silent := *frames, o.swallow
	s.t.owed.pop()
	if silent {
		return nil
	}
	return s.synthesize(answer)
}

// toldRow is the row of such a statement, whose value was found to be known (tellsNot).
func (s *session) toldRow(st *rewrite.Statement) []byte {
	value, _ := settings.Told(st.Told[0].Name, st.Told[0].Value)
	return result.Row(value)
}

// toldInString is the answer to such a statement in a string, at the server's tag: in a Query the
// row is described in front of it. The log counts it among the answers that were made up, and an
// attempt that comes by here again, in a turn that has settled, makes up the same.
func (s *session) toldInString(o *owed, p *place) error {
	s.completed(o, wire.CommandComplete, frameSet)
	s.t.statement++
	if s.t.phase != live {
		return s.synthesize(p.told.frames)
	}
	st := &o.strung.plan.Statements[o.at-1]
	row, tag := append(result.ConfigColumns(st), s.toldRow(st)...), wire.AppendCommand(nil, "SELECT 1")
	p.told.frames = slices.Concat(row, tag)
	return s.tellTagged(o, row, tag)
}

// describedFirst is what stands in front of the error of such a statement in a Query: PostgreSQL
// describes a row before it makes it. nil for any other error.
func (o *owed) describedFirst(payload []byte) []byte {
	if o.strung == nil || o.at >= len(o.strung.places) || string(retry.Field(payload, 'C')) == errAborted.Code {
		return nil
	}
	if st := &o.strung.plan.Statements[o.at]; st.Told != nil && (o.strung.places[o.at].told != nil || o.strung.places[o.at].err != nil) {
		return result.ConfigColumns(st)
	}
	return nil
}

// describeFailed describes the row of such a statement, answered here, whose error follows.
func (s *session) describeFailed(st *rewrite.Statement) error {
	if st.Told == nil {
		return nil
	}
	return s.tell(result.ConfigColumns(st))
}

// warnsOfSet reports a warning about SET LOCAL outside of a block, where the client has sent none:
// set_config warns of nothing, and the value that it sets for the transaction is gone with the
// statement, there as here.
func (o *owed) warnsOfSet(frame []byte) bool {
	if string(retry.Field(frame[wire.HeaderLen:], 'C')) != warnNoTransaction.Code {
		return false
	}
	return o.told != nil || o.strung != nil && o.at < len(o.strung.places) && o.strung.places[o.at].told != nil
}

// tellsInstead reports whether an answer of the server's has one of Sluice's in its place.
func (o *owed) tellsInstead(a answer) bool {
	return o.told != nil && (a == describes || a == completes)
}
