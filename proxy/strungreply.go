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

// Answers to a multi-statement query of which Sluice answers some statements (strung.go), and what is undone before a
// replay of the query.

// strungReply is the reply to such a query. It inspects every frame.
type strungReply struct {
	*strung
}

// strings sets a strungReply on o, unless d is nil.
func (s *session) strings(o *owed, d *strung) {
	if d != nil {
		o.reply, s.t.looks = chained(strungReply{strung: d}, o.reply), true
	}
}

// at returns the place of the statement after that many tags, or nil.
func (r strungReply) at(tags int) *place {
	if tags >= len(r.places) {
		return nil
	}
	return &r.places[tags]
}

// frame hides the rows of a statement's substitute. At the substitute's tag it carries the client's statement out and
// answers it. A wrong tag, or a tag instead of an error, means that the stream is out of step.
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
		s.settings.Stage(p.set) // the backend has this value, not its default
		s.t.statement++
		return swallow, s.tellTagged(o, p.tag)
	}
	return undecided, nil
}

// fails replaces the error of rewrite.Fault by the error of the client's statement. As in PostgreSQL, the row of a
// failing set_config is described first.
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

// doStrung carries out a statement at the tag of its substitute; o is the query's reply.
func (s *session) doStrung(o *owed, st *rewrite.Statement, several bool, typ byte) error {
	if s.t.phase != live {
		return s.synthesize(frameSet) // the log ignores the bytes: see Log.Made
	}
	s.ended(o, nil)
	s.t.statement++
	err := s.answerStrung(o, st, several)
	if _, told := err.(*wire.Error); told { // divide foresees every error
		return s.desync(typ)
	}
	return err
}

// fits reports whether a tag with that first word is the one of the substitute; "" means that no tag came.
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

// answerStrung carries out a statement of the query and answers it. several means that the query has other
// statements. A new statement_timeout counts for the statements after it.
func (s *session) answerStrung(o *owed, st *rewrite.Statement, several bool) error {
	timeout := s.settings.StatementTimeout()
	frames, err := s.perform(st, true, several)
	if err != nil {
		return err
	}
	if s.settings.StatementTimeout() != timeout { // from the next statement on
		s.t.deadline = time.Time{}
		if s.settings.StatementTimeout() > 0 {
			s.t.deadline = time.Now().Add(s.settings.StatementTimeout())
		}
		s.alarmRead()
	}
	return s.tellTagged(o, frames...)
}

// restoreString undoes what the query's statements did in the session before the query is sent again. The new answers
// carry them out again. It does nothing if the turn has no such query.
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

// localState is a copy of the session's state that locally answered statements change. stmts is the session's own
// map; names deleted from it are in gone.
type localState struct {
	settings *settings.Snapshot
	stmts    map[string]*clientStatement
	gone     []undo
}

// localState returns the session's state before a multi-statement query.
func (s *session) localState() *localState {
	return &localState{settings: s.settings.Snapshot(), stmts: s.stmts}
}
