package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Settings that Sluice keeps, as the statements of clients meet them: SET (keep), questions
// that the server would answer otherwise (notAsked), and a RESET to the client's startup
// value, which a server does not know (resetLocally). Package settings holds the values.

// keep does a SET of a setting that never reaches the server. notice is PostgreSQL's
// warning of a SET LOCAL that has no effect; several: other statements stand in the string,
// which is a transaction then. The error, for the client, is that of a value that
// PostgreSQL would refuse.
func (s *session) keep(c *rewrite.Change, several bool) (notice []byte, err error) {
	txOnly := c.Action == rewrite.SetLocal
	value, bad := settings.ValueOf(c)
	if txOnly && !several && !s.inBlock() { // until the Sync, or the end of the block that a BEGIN makes of it
		notice = warnNoTransaction.AppendNotice(nil, "WARNING")
	}
	switch {
	case bad != nil:
		return nil, bad
	case c.Default:
		return notice, s.settings.KeepStartup(c.Name, txOnly)
	}
	if s.srv.treat.Of(c.Name) == settings.Ignored {
		s.srv.metrics.SettingIgnored(c.Name)
	}
	return notice, s.settings.Keep(c.Name, value, txOnly)
}

// notAsked is the error of a statement that asks the server for a setting that Sluice
// keeps, or nil. In a failed block the server's own error comes first.
func (s *session) notAsked(plan *rewrite.Plan) error {
	st := plan.Single()
	if st == nil || st.Asks == nil || s.status() == 'E' {
		return nil
	}
	for _, name := range st.Asks {
		if s.settings.Misleads(name) || s.tellsMode(name) {
			return errNotAsked(name)
		}
	}
	return nil
}

// errNotAsked refuses a question to which the server's answer would not be the session's.
func errNotAsked(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the server does not know the session's value of \"" + name + "\", which Sluice keeps",
		Hint: "Ask by SHOW " + name + ", or by SELECT current_setting('" + name + "') in a query of its own."}
}

// resetLocally sends a RESET that must be seen by a server as the SET it means: to the
// client's startup value. done is false for any other statement; else the turn has settled,
// unless the error is for the client. The client gets the tag of its RESET, also in a
// replay (logEntry.tag).
func (s *session) resetLocally(plan *rewrite.Plan) (bool, error) {
	st := plan.Single()
	if st == nil || len(st.Changes) != 1 || st.Changes[0].Action != rewrite.Reset || s.status() == 'E' {
		return false, nil
	}
	name := st.Changes[0].Name
	value, ok := s.settings.Startup.SQL[name]
	if !ok || settings.Merges(name, value) { // see restoreStartup
		return false, nil
	}
	set := &rewrite.Plan{Kind: rewrite.Setting, Statements: []rewrite.Statement{{Kind: rewrite.Setting,
		Changes: []rewrite.Change{{Action: rewrite.Set, Name: name, SQL: value, Text: s.settings.Startup.Shown[name]}}}}}
	if err := s.admit(set); err != nil {
		return true, err
	}
	s.noteParsing(set)
	o := s.t.owed.push(wire.Query)
	tag := wire.AppendCommand(nil, result.ChangeTag(st))
	o.plan, o.reply = set, resetReply{expectSet, tag}
	frame := wire.AppendStrings(nil, wire.Query, "SET "+settings.QuoteName(name)+" TO "+value)
	s.logPlan(set)
	s.logFrame(wire.Query, logEntry{plan: set, answered: &answeredHere{tag: tag}, first: 1}, frame[wire.HeaderLen:])
	s.add(frame)
	return true, s.finish()
}

// resetReply is the answer to a RESET that went as a SET: the client gets the tag of its own.
type resetReply struct {
	*expected
	tag []byte
}

func (r resetReply) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	v, err := r.expected.frame(s, o, f)
	if v != undecided || !f.Ends() {
		return v, err
	}
	if v, _, err = s.statementEnds(o, f.Means, f.Type, f.Bytes, v); err != nil {
		return v, err
	}
	return swallow, s.tellTagged(o, r.tag)
}
