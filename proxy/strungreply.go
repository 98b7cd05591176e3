package proxy

import (
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The answers to a string in which Sluice answers something (strung.go), and what is undone
// before such a string is run again.

// strungReply is the answer to a string in which Sluice answers something: every frame is looked at.
type strungReply struct {
	*strung
}

// strings gives the entry of such a string its reply. d is nil for any other.
func (s *session) strings(o *owed, d *strung) {
	if d != nil {
		o.reply, s.t.looks = chained(strungReply{strung: d}, o.reply), true
	}
}

// at is the place that stands behind so many tags; nil for none.
func (r strungReply) at(tags int) *place {
	if tags >= len(r.places) {
		return nil
	}
	return &r.places[tags]
}

// frame drops rows of what stands in for a statement, and has the statement done and answered here at the tag.
// A tag where the server should have failed, or another one, means that the backend is out of step.
func (r strungReply) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	ends, n := f.Means == answer.CompletesOne, int(o.tags)
	if ends {
		n--
	}
	p := r.at(n)
	switch {
	case p == nil:
	case ends && !p.fits(f.Verb()):
		return swallow, s.desync(f.Type)
	case p.here && ends:
		return swallow, s.doStrung(o, &r.plan.Statements[n], len(r.places) > 1, f.Type)
	case p.ours() && (f.Type == wire.RowDescription || f.Row()):
		return swallow, nil
	case p.warn && ends:
		return undecided, s.synthesize(s.warnsWeakened())
	case p.told != nil && ends:
		return swallow, s.toldInString(o, &r.plan.Statements[n], p.told)
	case p.told != nil && f.Type == wire.NoticeResponse && warnsOfLocal(f.Bytes):
		return swallow, nil
	case p.tag != nil && ends:
		s.completed(o, f.Type, p.tag)
		s.settings.Stage(p.set) // the backend has it, not the server's own
		s.t.statement++
		return swallow, s.tellTagged(o, p.tag)
	}
	return undecided, nil
}

// fails has the client get the error of a statement that is answered with one: the server's is then that of
// rewrite.Fault. In front of an error PostgreSQL describes the row of a set_config, before it makes it.
func (r strungReply) fails(_ *session, o *owed, payload []byte) *answer.Error {
	p := r.at(int(o.tags))
	if p == nil {
		return nil
	}
	var e answer.Error
	code := string(retry.Field(payload, 'C'))
	if code == rewrite.FaultCode && p.err != nil {
		e.Instead = p.err.Append(nil)
	}
	if st := &r.plan.Statements[o.tags]; st.Told != nil && code != errAborted.Code && (p.told != nil || p.err != nil) {
		e.Front = result.ConfigColumns(st)
	}
	return &e
}

// doStrung does a statement of a string, whose answer o is, at the tag of what stands in for it.
func (s *session) doStrung(o *owed, st *rewrite.Statement, several bool, typ byte) error {
	if s.t.phase != live {
		return s.synthesize(frameSet) // what it was is of no matter: see Log.Made
	}
	s.ended(o, nil)
	s.t.statement++
	err := s.answerStrung(o, st, several)
	if _, told := err.(*wire.Error); told { // divide foresees each
		return s.desync(typ)
	}
	return err
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
