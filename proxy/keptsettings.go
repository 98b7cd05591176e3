package proxy

import (
	"slices"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// shows reports whether SHOW of a setting is answered here. Of a setting that is
// ignored and was not set, the server's value is told, unless the server uses it for
// purposes of its own.
func (s *session) shows(name string) bool {
	switch s.srv.treat.Of(name) {
	case settings.Kept:
		return true
	case settings.Ignored:
		_, set := s.local[name]
		return set || settings.OffUnlessSet(name)
	}
	return false
}

// shown is the value of a setting that Sluice keeps.
func (s *session) shown(name string) string {
	s.srv.metrics.LocalAnswer(metrics.LocalShow)
	value, ok := s.local[name]
	if !ok && name != "application_name" {
		return "0"
	}
	return value
}

// keptChange is a change of a kept setting for the session; resetAll stands for all.
type keptChange struct {
	name, value string
	reset       bool // to what it is without any SET
}

// valueOf is the value that a SET gives a kept setting, checked.
func valueOf(c *rewrite.Change) (string, *wire.Error) {
	if c.Action == rewrite.Reset || c.Default {
		return "", nil
	}
	if c.Text == "" && c.SQL != "''" { // a list
		return "", settings.ErrOneArgument(c.Name)
	}
	return settings.Normal(c.Name, c.Text)
}

// keep does a SET of a setting that never reaches the server.
func (s *session) keep(c *rewrite.Change, several bool) (notice []byte, err error) {
	txOnly := c.Action == rewrite.SetLocal
	value, bad := valueOf(c)
	if txOnly && !several && !s.inBlock() { // until the Sync, or the end of the block that a BEGIN makes of it
		notice = warnNoTransaction.AppendNotice(nil, "WARNING")
	}
	switch {
	case bad != nil:
		return nil, bad
	case c.Default:
		return notice, s.keepStartup(c.Name, txOnly)
	}
	return notice, s.keepValue(keptChange{name: c.Name, value: value}, txOnly)
}

// keepStartup returns a kept setting to what the client gave at its startup.
func (s *session) keepStartup(name string, txOnly bool) error {
	value, ok := s.startup.Kept[name]
	return s.keepValue(keptChange{name, value, !ok}, txOnly)
}

func (s *session) keepValue(c keptChange, txOnly bool) error {
	s.stage()
	if c.name == "application_name" {
		s.renames()
	}
	if err := s.apply(c); err != nil {
		return err
	}
	if !txOnly {
		s.kept = slices.DeleteFunc(s.kept, func(o keptChange) bool { return o.name == c.name })
		s.kept = append(s.kept, c)
	}
	return nil
}

// apply makes one change, of a value that is valid.
func (s *session) apply(c keptChange) error {
	switch {
	case c.name == resetAll:
		s.local, s.statementTimeout, s.idleTxTimeout = nil, 0, 0
		return nil
	case !c.reset:
		return s.store(c.name, c.value)
	}
	delete(s.local, c.name)
	switch c.name {
	case "statement_timeout":
		s.statementTimeout = 0
	case "idle_in_transaction_session_timeout":
		s.idleTxTimeout = 0
	}
	return nil
}

// store sets a kept or ignored setting.
func (s *session) store(name, value string) error {
	value, bad := settings.Normal(name, value)
	if bad != nil {
		return bad
	}
	switch name {
	case "statement_timeout":
		s.statementTimeout, _ = settings.Timeout(name, value)
	case "idle_in_transaction_session_timeout":
		s.idleTxTimeout, _ = settings.Timeout(name, value)
	}
	if s.srv.treat.Of(name) == settings.Ignored {
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
	carried           *settings.Values
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
func (s *session) foldLocal(rolledBack bool) {
	s.keptMarks = nil
	if s.before == nil {
		return
	}
	s.renames()
	was, again := s.before, s.kept
	s.before, s.kept = nil, nil
	s.local, s.statementTimeout, s.idleTxTimeout = was.local, was.statement, was.idleTx
	if rolledBack {
		s.settings = was.carried
		return
	}
	for _, c := range again {
		s.apply(c) // it was valid when the client set it
	}
}

// keptMark is how the kept settings of a block were at a savepoint of the server's.
type keptMark struct {
	name  string
	state *localState
}

// noteKept is told of a statement of the server's that has succeeded, by its tag:
// what the end of a transaction, or a return to a savepoint, does to kept settings.
func (s *session) noteKept(st *rewrite.Statement, tag string) {
	switch tag {
	case "COMMIT", "PREPARE TRANSACTION":
		s.foldLocal(false)
	case "SAVEPOINT":
		if st != nil {
			m := keptMark{name: st.Tx.Name}
			if n := len(s.keptMarks); n > 0 && s.before == nil {
				m.state = s.keptMarks[n-1].state // nothing has changed
			} else {
				m.state = s.localState()
			}
			s.keptMarks = append(s.keptMarks, m)
		}
	case "RELEASE":
		if i := s.findKeptMark(st); i >= 0 {
			s.keptMarks = slices.Clip(s.keptMarks[:i])
		}
	case "ROLLBACK":
		if st == nil || st.Tx.Verb != rewrite.RollbackTo {
			s.foldLocal(true)
		} else if i := s.findKeptMark(st); i >= 0 {
			s.keptMarks = slices.Clip(s.keptMarks[:i+1])
			s.returnKept(s.keptMarks[i].state)
		}
	}
}

// findKeptMark is the newest savepoint of the name that a statement gives; -1 for none.
func (s *session) findKeptMark(st *rewrite.Statement) int {
	for i, m := range slices.Backward(s.keptMarks) {
		if st != nil && m.name == st.Tx.Name {
			return i
		}
	}
	return -1
}

// returnKept returns the kept settings to what they were within the transaction.
func (s *session) returnKept(was *localState) {
	s.renames()
	s.before, s.kept = was.before, slices.Clone(was.again)
	s.local, s.statementTimeout, s.idleTxTimeout = cloneStrings(was.local), was.statement, was.idleTx
}

// resetAll stands for RESET ALL among the changes of a transaction.
const resetAll = ""

// renames is told that application_name may be about to change: its client is told
// the new value in front of the next ReadyForQuery, as by PostgreSQL.
func (s *session) renames() {
	if !s.renamed {
		s.renamed, s.knownName = true, s.local["application_name"]
	}
}

// appendName appends what the client must be told of application_name in front of
// a ReadyForQuery. In a failed block it is again what it was before the
// block, or at its last savepoint.
func (s *session) appendName(dst []byte, status byte) []byte {
	if status == 'E' && s.before != nil { // however the block failed
		s.renames()
	}
	if !s.renamed {
		return dst
	}
	name := s.local["application_name"]
	if n := len(s.keptMarks); status == 'E' && n > 0 {
		name = s.keptMarks[n-1].state.local["application_name"]
	} else if status == 'E' && s.before != nil {
		name = s.before.local["application_name"]
	} else {
		s.renamed = false
	}
	if name != s.knownName {
		s.knownName = name
		dst = append(dst, wire.AppendStrings(nil, wire.ParameterStatus, "application_name", name)...)
	}
	return dst
}

// resetOne is RESET of one setting; outside a transaction block if it is carried.
func (s *session) resetOne(c *rewrite.Change) error {
	if s.srv.treat.Of(c.Name) != settings.Carried {
		return s.keepStartup(c.Name, false)
	}
	s.stage()
	s.settings = s.srv.interned.Share(s.settings.With([]rewrite.Change{{Action: rewrite.Reset, Name: c.Name}}, s.startup))
	return nil
}

// resetEverything is RESET ALL outside a transaction block.
func (s *session) resetEverything() {
	s.resetKept()
	s.settings = s.startup
}

// resetKept is RESET ALL for the settings that Sluice keeps.
func (s *session) resetKept() {
	s.stage()
	s.renames()
	s.local, s.statementTimeout, s.idleTxTimeout = nil, 0, 0
	s.kept = append(s.kept[:0], keptChange{name: resetAll})
	for name, value := range s.startup.Kept {
		s.keepValue(keptChange{name: name, value: value}, false) // it was valid at the startup
	}
}

// keepsOr reports whether a setting is not the server's.
func (s *session) keepsOr(name string) bool {
	how := s.srv.treat.Of(name)
	return how == settings.Kept || how == settings.Ignored
}

// misleads reports whether the server would tell another value of a setting than
// the client gave it.
func (s *session) misleads(name string) bool {
	value := s.local[name]
	return value != "" && value != "0" && s.keepsOr(name)
}

// notAsked is the error of a statement that asks the server for a setting that
// Sluice keeps, or nil.
func (s *session) notAsked(plan *rewrite.Plan) error {
	st := plan.Single()
	if st == nil || st.Asks == nil || s.status() == 'E' {
		return nil
	}
	for _, name := range st.Asks {
		if s.misleads(name) {
			return errNotAsked(name)
		}
	}
	return nil
}

func errNotAsked(name string) *wire.Error {
	return &wire.Error{Code: retry.StateUnsupported, Message: "the server does not know the session's value of \"" + name + "\", which Sluice keeps",
		Hint: "Ask by SHOW " + name + ", or by SELECT current_setting('" + name + "') in a query of its own."}
}

// resetLocally sends a RESET that must be seen by a server as the SET it means:
// to the client's startup value.
func (s *session) resetLocally(plan *rewrite.Plan) (bool, error) {
	st := plan.Single()
	if st == nil || len(st.Changes) != 1 || st.Changes[0].Action != rewrite.Reset || s.status() == 'E' {
		return false, nil
	}
	name := st.Changes[0].Name
	value, ok := s.startup.SQL[name]
	if !ok || settings.Merges(name, value) { // see restoreStartup
		return false, nil
	}
	set := &rewrite.Plan{Kind: rewrite.Setting, Statements: []rewrite.Statement{{Kind: rewrite.Setting,
		Changes: []rewrite.Change{{Action: rewrite.Set, Name: name, SQL: value, Text: s.startup.Shown[name]}}}}}
	if err := s.admit(set); err != nil {
		return true, err
	}
	s.noteParsing(set)
	o := s.t.owed.push(wire.Query)
	o.plan = set
	o.bytes = wire.AppendCommand(nil, resetTag(&st.Changes[0]))
	frame := wire.AppendStrings(nil, wire.Query, "SET "+settings.QuoteName(name)+" TO "+value)
	s.logPlan(set)
	s.logFrame(wire.Query, note{plan: set, tag: o.bytes}, frame[wire.HeaderLen:])
	if err := s.add(frame); err != nil {
		return true, err
	}
	return true, s.finish()
}

func cloneStrings(m map[string]string) map[string]string {
	out := make(map[string]string, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	return out
}
