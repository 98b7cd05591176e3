package proxy

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// answerLocally answers a simple Query that no server need see. done is false
// when one must.
func (s *session) answerLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	t := s.t
	if s.state == failed {
		return true, s.answerFailed(plan)
	}
	if t.touched {
		return false, nil
	}
	switch plan.Kind {
	case rewrite.Empty:
		s.srv.metrics.LocalAnswer("empty")
		if err := s.tell(frameEmptyQuery); err != nil {
			return true, err
		}
		return true, s.ready()
	case rewrite.Control:
		return s.controlLocally(plan, sql)
	case rewrite.Setting, rewrite.Read:
		if len(plan.Statements) == 0 || plan.Kind == rewrite.Read && plan.Statements[0].Show == "" {
			return false, nil
		}
		for i := range plan.Statements {
			if !s.localStatement(&plan.Statements[i]) {
				return s.resetLocally(plan)
			}
		}
		for i := range plan.Statements {
			if err := s.runLocal(&plan.Statements[i], true); err != nil {
				return true, err
			}
		}
		return true, s.ready()
	}
	return false, nil
}

// answerFailed answers in a block whose backend was lost.
func (s *session) answerFailed(plan *rewrite.Plan) error {
	switch st := plan.Single(); {
	case plan.Kind == rewrite.Empty:
		if err := s.tell(frameEmptyQuery); err != nil {
			return err
		}
	case st != nil && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback) && !st.Tx.Chain:
		if err := s.endFailed(); err != nil {
			return err
		}
	default:
		return errAborted
	}
	return s.ready()
}

// endFailed is COMMIT or ROLLBACK of a block whose backend was lost.
func (s *session) endFailed() error {
	s.staged, s.salt = nil, 0
	if err := s.move(endAnswered); err != nil {
		return err
	}
	return s.tell(appendCommand(nil, "ROLLBACK"))
}

// controlLocally answers BEGIN, and the end of a block that no server has seen.
func (s *session) controlLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	st := plan.Single()
	if st == nil || s.b != nil {
		return false, nil
	}
	switch {
	case st.Tx.DeferrableBegin():
		if s.state == begun {
			if err := s.tell(warnInTransaction.appendWarning(nil)); err != nil {
				return true, err
			}
		} else {
			s.begin = s.template(sql, noOIDs)
		}
		s.srv.metrics.LocalAnswer("begin")
		if err := s.move(beginAnswered); err != nil {
			return true, err
		}
		tag := frameBegin
		if text := sql[min(st.Start, len(sql)):]; len(text) >= 5 && strings.EqualFold(string(text[:5]), "start") {
			tag = frameStart
		}
		if err := s.tell(tag); err != nil {
			return true, err
		}
	case s.state == begun && !st.Tx.Chain && (st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback):
		s.srv.metrics.LocalAnswer("end")
		s.begin = nil
		s.foldLocal(st.Tx.Verb == rewrite.Rollback)
		if err := s.move(endAnswered); err != nil {
			return true, err
		}
		tag := frameCommit
		if st.Tx.Verb == rewrite.Rollback {
			tag = frameRollback
		}
		if err := s.tell(tag); err != nil {
			return true, err
		}
	default:
		return false, nil
	}
	return true, s.ready()
}

var (
	frameBegin    = appendCommand(nil, "BEGIN")
	frameStart    = appendCommand(nil, "START TRANSACTION")
	frameCommit   = appendCommand(nil, "COMMIT")
	frameRollback = appendCommand(nil, "ROLLBACK")
)

// maybeLocal reports whether a statement of that plan is answered locally at
// least sometimes, so that its Parse is: a server accepts any such text.
func maybeLocal(plan *rewrite.Plan) bool {
	st := plan.Single()
	return st != nil && (plan.Kind == rewrite.Setting || st.Show != "")
}

// localNow reports whether the single statement of a plan is answered locally
// as things stand.
func (s *session) localNow(plan *rewrite.Plan) bool {
	return maybeLocal(plan) && s.localStatement(plan.Single())
}

// localStatement decides for one statement.
func (s *session) localStatement(st *rewrite.Statement) bool {
	if s.status() == 'E' {
		return false
	}
	switch {
	case st.Show != "":
		_, set := s.local[st.Show]
		how := s.srv.treat.of(st.Show)
		return how == kept || how == ignored && set
	case st.DeallocateAll:
		return !s.pinned
	case st.Deallocate != "":
		return !s.pinned || s.stmts[st.Deallocate] != nil
	case s.srv.treat.local(st):
		return true
	case st.Kind != rewrite.Setting || len(st.Changes) == 0 || s.pinned || s.state != idle || s.t.touched:
		return false
	}
	for i := range st.Changes {
		c := &st.Changes[i]
		switch c.Action {
		case rewrite.ResetAll, rewrite.DiscardAll:
		case rewrite.Reset:
			if s.srv.treat.of(c.Name) != carried {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// runLocal answers one statement; simple says whether its rows need describing.
func (s *session) runLocal(st *rewrite.Statement, simple bool) error {
	switch {
	case st.Show != "":
		s.srv.metrics.LocalAnswer("show")
		value, ok := s.local[st.Show]
		if !ok && st.Show != "application_name" {
			value = "0"
		}
		if simple {
			if err := s.tell(showDescription(st.Show)); err != nil {
				return err
			}
		}
		return s.tell(dataRow(value), appendCommand(nil, "SHOW"))
	case st.DeallocateAll:
		s.forgetStatements()
		return s.tell(appendCommand(nil, "DEALLOCATE ALL"))
	case st.Deallocate != "":
		if s.stmts[st.Deallocate] == nil {
			return errNoStatement([]byte(st.Deallocate))
		}
		delete(s.stmts, st.Deallocate)
		return s.tell(appendCommand(nil, "DEALLOCATE"))
	}
	s.srv.metrics.LocalAnswer("setting")
	tag := "SET"
	for i := range st.Changes {
		c := &st.Changes[i]
		var err error
		switch c.Action {
		case rewrite.Set, rewrite.SetLocal:
			err = s.keep(c.Name, c.Text, c.Action == rewrite.SetLocal)
		case rewrite.Reset:
			tag = "RESET"
			err = s.resetOne(c.Name)
		case rewrite.ResetAll, rewrite.DiscardAll:
			tag = "RESET"
			if c.Action == rewrite.DiscardAll {
				tag = "DISCARD ALL"
				s.forgetStatements()
			}
			err = s.resetEverything()
		}
		if err != nil {
			return err
		}
	}
	return s.tell(appendCommand(nil, tag))
}

// keep stores a setting that never reaches the server.
func (s *session) keep(name, value string, txOnly bool) error {
	if s.inBlock() && s.before == nil {
		s.before = &keptSettings{local: s.local, statement: s.statementTimeout, idleTx: s.idleTxTimeout}
		s.local = cloneStrings(s.local)
	}
	if err := s.store(name, value); err != nil {
		return err
	}
	if s.before != nil && !txOnly {
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

// keptSettings are the locally kept ones as they were before a transaction.
type keptSettings struct {
	local             map[string]string
	statement, idleTx time.Duration
}

// foldLocal ends a transaction for the locally kept settings: what SET LOCAL
// or a rolled back SET changed returns to what it was.
func (s *session) foldLocal(rolledBack bool) {
	if s.before == nil {
		return
	}
	was, again := s.before, s.kept
	s.before, s.kept = nil, nil
	s.local, s.statementTimeout, s.idleTxTimeout = was.local, was.statement, was.idleTx
	if rolledBack {
		return
	}
	for _, kv := range again {
		s.store(kv[0], kv[1]) // it was valid when the client set it
	}
}

// resetOne is RESET of one setting outside a transaction.
func (s *session) resetOne(name string) error {
	if s.srv.treat.of(name) == carried {
		s.settings = s.srv.interned.share(s.settings.with([]rewrite.Change{{Action: rewrite.Reset, Name: name}}, s.startup))
		return s.report(name)
	}
	value, ok := s.startup.kept[name]
	if !ok && name != "application_name" {
		value = "0"
	}
	return s.keep(name, value, false)
}

// resetEverything is RESET ALL outside a transaction.
func (s *session) resetEverything() error {
	old := s.settings
	s.settings = s.startup
	s.local, s.statementTimeout, s.idleTxTimeout = nil, 0, 0
	for name, value := range s.startup.kept {
		if err := s.keep(name, value, false); err != nil {
			return err
		}
	}
	for name, value := range old.vals {
		if s.startup.vals[name] != value {
			if err := s.report(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// report tells the client the value that a reset gave a reported parameter.
func (s *session) report(name string) error {
	shown, value, ok := s.srv.reported(s.startup, name)
	if !ok {
		return nil
	}
	return s.tell(appendStrings(nil, msgParameterStatus, shown, value))
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
	if !ok {
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
	o.bytes = appendCommand(nil, "RESET")
	if err := s.add(appendStrings(nil, msgQuery, "SET "+quoteName(name)+" TO "+value)); err != nil {
		return true, err
	}
	return true, s.finish()
}

// executeLocal runs a local portal.
func (s *session) executeLocal(plan *rewrite.Plan) error {
	st := plan.Single()
	if st.Kind == rewrite.Control {
		if s.state != failed {
			return errNoPortal(nil)
		}
		return s.endFailed()
	}
	return s.runLocal(st, false)
}

// endsFailed reports whether a failed transaction takes a statement: PostgreSQL
// takes those that end it, in whole or in part.
func (s *session) endsFailed(plan *rewrite.Plan) bool {
	st := plan.Single()
	if st == nil || st.Tx.Chain && s.state == failed {
		return false
	}
	switch st.Tx.Verb {
	case rewrite.Commit, rewrite.Rollback:
		return true
	case rewrite.RollbackTo, rewrite.PrepareTransaction:
		return s.state != failed
	}
	return false
}

// localDescription answers Describe of a statement that is answered locally.
func localDescription(plan *rewrite.Plan) [][]byte {
	if show := plan.Single().Show; show != "" {
		return [][]byte{showDescription(show)}
	}
	return [][]byte{frameNoData}
}

// showDescription is the RowDescription of SHOW: one text column (OID 25).
func showDescription(name string) []byte {
	b := appendHeader(nil, msgRowDescription, 2+len(name)+1+18)
	b = append(b, 0, 1)
	b = append(b, name...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, 25)
	return append(b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0)
}

func dataRow(value string) []byte {
	b := appendHeader(nil, msgDataRow, 2+4+len(value))
	b = append(b, 0, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
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
