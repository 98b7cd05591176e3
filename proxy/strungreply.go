package proxy

import (
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The answers to a string in which Sluice answers something (strung.go), and what is undone
// before such a string is run again.

// strings marks the answer to a string in which Sluice answers something: every frame of
// the answer is looked at. d is nil for any other.
func (s *session) strings(o *owed, d *strung) {
	if d != nil {
		o.strung, o.masks, s.t.looks = d, true, true
	}
}

// strungReply is told of a reply to such a string, with the entry o at the head of the
// queue; done is false for one that is the client's. Rows of what stands in for a statement
// are nobody's, and at its tag the statement is done and answered here. A tag where the
// server should have failed, or another one, means that the backend is out of step.
func (s *session) strungReply(o *owed, typ byte, frame []byte) (done bool, err error) {
	t := s.t
	if o.strung == nil || o.at >= len(o.strung.places) {
		return false, nil
	}
	p := &o.strung.places[o.at]
	ends := typ == wire.CommandComplete || typ == wire.EmptyQueryResponse
	if ends {
		o.at++
	}
	switch {
	case ends && !p.fits(verbOf(typ, frame)):
		return true, s.desync(typ)
	case p.here && ends:
		st := &o.strung.plan.Statements[o.at-1]
		if t.phase != live {
			return true, s.synthesize(frameSet) // what it was is of no matter: see Log.Made
		}
		s.ended(o, nil)
		t.statement++
		if err := s.answerStrung(o, st, len(o.strung.places) > 1); err != nil {
			if _, told := err.(*wire.Error); told { // divide foresees each
				return true, s.desync(typ)
			}
			return true, err
		}
		return true, nil
	case p.ours():
		return typ == wire.RowDescription || typ == wire.DataRow, nil
	case p.warn && ends:
		return false, s.synthesize(s.warnsWeakened())
	case p.told != nil && ends:
		return true, s.toldInString(o, p)
	case p.tag != nil && ends:
		s.completed(o, typ, p.tag)
		s.settings.Stage(p.set) // the backend has it, not the server's own
		t.statement++
		return true, s.tellTagged(o, p.tag)
	}
	return false, nil
}

// fits reports whether a tag with that first word is that of what the server got in the place; "" where no tag has come.
func (p *place) fits(verb string) bool {
	switch {
	case p.err != nil: // the server should have failed
		return false
	case p.here:
		return verb == "SHOW" // rewrite.Place
	case p.told != nil, p.tag != nil:
		return verb == "SET"
	}
	return true
}

// answerStrung does a statement of a string, whose answer o is, in its place; several: others stand beside it.
// A change of statement_timeout holds for the statements behind it.
func (s *session) answerStrung(o *owed, st *rewrite.Statement, several bool) error {
	timeout := s.settings.StatementTimeout()
	frames, err := s.perform(st, true, several)
	if err != nil {
		return err
	}
	if s.settings.StatementTimeout() != timeout { // it holds from the next statement on
		s.t.deadline = time.Time{}
		if s.settings.StatementTimeout() > 0 {
			s.t.deadline = time.Now().Add(s.settings.StatementTimeout())
		}
		s.alarmRead()
	}
	return s.tellTagged(o, frames...)
}

// strungError is the error of a statement that is answered with one, in the place of the
// server's; nil for any other. The server's is that of rewrite.Fault, and comes where the
// string stands at such a statement.
func (o *owed) strungError(payload []byte) *wire.Error {
	if o.strung == nil || o.at >= len(o.strung.places) || string(retry.Field(payload, 'C')) != rewrite.FaultCode {
		return nil
	}
	return o.strung.places[o.at].err
}

// restoreString undoes what the statements of a string did, before the string is run again:
// its statements are done once more with the new answers. Without such a string there is
// nothing to undo.
func (s *session) restoreString() {
	was := s.t.atString
	if was == nil {
		return
	}
	s.settings.RestoreAll(was.settings)
	s.setStatements(was.stmts)
	for _, u := range slices.Backward(was.gone) {
		s.setStatement(u.name, u.prev)
	}
	was.gone = nil
}

// localState is what statements that are answered here change, as it was. Of the named
// statements the map is kept as it is, and those that are deleted from it are noted in
// gone.
type localState struct {
	settings *settings.Snapshot
	stmts    map[string]*clientStatement
	gone     []undo
}

// localState notes how the session stands in front of a string.
func (s *session) localState() *localState {
	return &localState{settings: s.settings.Snapshot(), stmts: s.stmts}
}
