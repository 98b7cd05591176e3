package proxy

import (
	"slices"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// shown is the value of a setting that Sluice keeps.
func (s *session) shown(name string) string {
	s.srv.metrics.LocalAnswer("show")
	value, ok := s.local[name]
	if !ok && name != "application_name" {
		return "0"
	}
	return value
}

// keep stores a setting that never reaches the server.
func (s *session) keep(name, value string, txOnly bool) error {
	s.stage()
	if txOnly && !s.inBlock() {
		return s.tell(warnNoTransaction.appendWarning(nil))
	}
	if err := s.store(name, value); err != nil {
		return err
	}
	if !txOnly {
		s.kept = slices.DeleteFunc(s.kept, func(kv [2]string) bool { return kv[0] == name })
		s.kept = append(s.kept, [2]string{name, value})
	}
	if name == "application_name" {
		return s.tell(appendStrings(nil, msgParameterStatus, name, value))
	}
	return nil
}

// store sets a kept or ignored setting.
func (s *session) store(name, value string) error {
	var timeout *time.Duration
	switch name {
	case "statement_timeout":
		timeout = &s.statementTimeout
	case "idle_in_transaction_session_timeout":
		timeout = &s.idleTxTimeout
	}
	if timeout != nil {
		d, ok := parseMillis(value)
		if !ok {
			return &sqlError{code: "22023", message: "invalid value for parameter \"" + name + "\": \"" + value + "\""}
		}
		*timeout = d
	}
	if s.srv.treat.of(name) == ignored {
		s.srv.metrics.SettingIgnored(name)
	}
	if s.local == nil {
		s.local = map[string]string{}
	}
	s.local[name] = value
	return nil
}

// keptSettings are a session's settings as they were before a transaction, of
// one turn or many, that changes locally kept ones.
type keptSettings struct {
	carried           *settings
	local             map[string]string
	statement, idleTx time.Duration
}

// stage notes how the settings are, before the first change of a transaction.
func (s *session) stage() {
	if s.before == nil {
		s.before = &keptSettings{carried: s.settings, local: s.local, statement: s.statementTimeout, idleTx: s.idleTxTimeout}
		s.local = cloneStrings(s.local)
	}
}

// foldLocal ends a transaction for the locally kept settings: what SET LOCAL
// or a rolled back SET or RESET changed returns to what it was.
func (s *session) foldLocal(rolledBack bool) error {
	if s.before == nil {
		return nil
	}
	was, again, name := s.before, s.kept, s.local["application_name"]
	s.before, s.kept = nil, nil
	s.local, s.statementTimeout, s.idleTxTimeout = was.local, was.statement, was.idleTx
	if rolledBack {
		s.settings = was.carried
	} else {
		for _, kv := range again {
			if kv[0] == resetAll {
				s.local, s.statementTimeout, s.idleTxTimeout = nil, 0, 0
				continue
			}
			s.store(kv[0], kv[1]) // it was valid when the client set it
		}
	}
	if now := s.local["application_name"]; now != name {
		return s.passSpan(appendStrings(nil, msgParameterStatus, "application_name", now))
	}
	return nil
}

// resetAll stands for RESET ALL among the changes of a transaction.
const resetAll = ""

// resetOne is RESET of one setting outside a transaction block.
func (s *session) resetOne(name string) error {
	if s.srv.treat.of(name) == carried {
		s.stage()
		s.settings = s.srv.interned.share(s.settings.with([]rewrite.Change{{Action: rewrite.Reset, Name: name}}, s.startup))
		return nil
	}
	value, ok := s.startup.kept[name]
	if !ok && name != "application_name" {
		value = "0"
	}
	return s.keep(name, value, false)
}

// resetEverything is RESET ALL outside a transaction block.
func (s *session) resetEverything() error {
	s.stage()
	s.settings = s.startup
	s.local, s.statementTimeout, s.idleTxTimeout = nil, 0, 0
	s.kept = append(s.kept[:0], [2]string{resetAll})
	for name, value := range s.startup.kept {
		if err := s.keep(name, value, false); err != nil {
			return err
		}
	}
	return nil
}

// resetLocally sends a RESET that must be seen by a server as the SET it means:
// to the client's startup value.
func (s *session) resetLocally(plan *rewrite.Plan) (bool, error) {
	st := plan.Single()
	if st == nil || len(st.Changes) != 1 || st.Changes[0].Action != rewrite.Reset || s.status() == 'E' {
		return false, nil
	}
	name := st.Changes[0].Name
	value, ok := s.startup.vals[name]
	if !ok || merges(name, value) { // see restoreStartup
		return false, nil
	}
	set := &rewrite.Plan{Kind: rewrite.Setting, Statements: []rewrite.Statement{{Kind: rewrite.Setting,
		Changes: []rewrite.Change{{Action: rewrite.Set, Name: name, SQL: value}}}}}
	if err := s.admit(set); err != nil {
		return true, err
	}
	s.saltParsing(set)
	o := s.t.owed.push(msgQuery)
	o.plan = set
	o.bytes = appendCommand(nil, resetTag(&st.Changes[0]))
	frame := appendStrings(nil, msgQuery, "SET "+quoteName(name)+" TO "+value)
	s.logPlan(set)
	s.logFrame(msgQuery, note{plan: set, tag: o.bytes}, frame[headerLen:])
	if err := s.add(frame); err != nil {
		return true, err
	}
	return true, s.finish()
}

// resetTag is the tag of a reset.
func resetTag(c *rewrite.Change) string {
	if c.Default {
		return "SET"
	}
	return "RESET"
}

func cloneStrings(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}

// parseMillis reads a timeout as PostgreSQL does: a number, in milliseconds
// unless a unit follows.
func parseMillis(v string) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	i := 0
	for i < len(v) && v[i] >= '0' && v[i] <= '9' {
		i++
	}
	if i == 0 || i > 10 {
		return 0, false
	}
	var n int64
	for _, c := range v[:i] {
		n = n*10 + int64(c-'0')
	}
	units := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond,
		"s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	unit, ok := units[strings.TrimSpace(v[i:])]
	if !ok || n > int64(1<<31)*int64(time.Millisecond)/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
