package proxy

import (
	"cmp"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
)

// This file makes an INSERT of a replay insert the values that the client got in the first answer (recordedvalues.go).
// In a Query the values become constants, and in a Bind extra parameters. Sluice plans the changed text like any other.
// Sluice does not interpret values. It sends each value in the form in which it came, under the same settings. If
// Sluice cannot give a statement the first attempt's time that it must use, it refuses the replay.

// substituteRecorded writes the first answer's values and the transaction's time into each statement of the client's
// text. The function told returns the SQL of a column's value, and timed the SQL of a time. last means that the turn is
// unfinished. Its statements get values only if the client has some of its output.
func (s *session) substituteRecorded(f *retry.LoggedFrame[logEntry], last bool, told func(column int, v []byte) string, timed func(txtime.Value) string) (a recorded.Text) {
	kept, k := f.Note.kept, &s.t.attempt.keeping
	if last && !s.t.attempt.keepsLast || kept != nil && !kept.Whole {
		kept = nil
	}
	if !k.DrawnValues || f.Note.first == 0 || f.Note.names == nil || kept == nil && !(k.Clock && k.Tells) {
		return a
	}
	w := recorded.Writer{Value: told, Time: timed, TimeSettings: s.replayTimeSettings()}
	return k.Substitute(s.srv.pool.planner, s.t.rec.clientText(f), int(f.Note.first), f.Note.names, kept, w)
}

// replayQueryText and replayBind return ok as false if a statement must use the first attempt's time and cannot. If the
// new text is refused or of another kind, they return no text. Sluice then sends the old text, whose answer differs.

// replayQueryText returns the text that a replay sends for a logged Query, with values of the first answer. An empty
// text means that Sluice sends the Query unchanged.
func (s *session) replayQueryText(f *retry.LoggedFrame[logEntry], last bool) (text string, ok bool) {
	a := s.substituteRecorded(f, last, func(_ int, v []byte) string {
		if v == nil {
			return "NULL"
		}
		return settings.QuoteLiteral(string(v))
	}, txtime.Literal)
	if a.SQL == "" || a.CannotGiveTime {
		return "", !a.CannotGiveTime
	}
	plan := s.srv.pool.planner.PlanWithNames([]byte(a.SQL), f.Note.names.ForSnapshot(s.t.attempt.keeping.Now))
	if was := cmp.Or(f.Note.asked, f.Note.plan); planRefusal(plan) != nil || plan.Kind != was.Kind { // was is the plan of the client's own text
		return "", !a.HasTime
	}
	if a.HasValues {
		s.b.sequences.MarkOutdated()
	}
	return cmp.Or(plan.Text, a.SQL), true
}

// replayBind returns the statement and the Bind payload (after the names) that a replay sends, or nil for the logged
// ones. It appends values of the first answer as parameters, in the formats in which they came. The server infers the
// parameters' types from the columns.
func (s *session) replayBind(f *retry.LoggedFrame[logEntry], last bool) (tmpl *statement.Template, payload []byte, ok bool) {
	if k := f.Note.kept; !(s.t.attempt.keeping.Clock && s.t.attempt.keeping.Tells) && (k == nil || !k.Whole) {
		return nil, nil, true
	}
	p, whole := wire.ParseBindParams(s.t.rec.loggedPayload(f))
	if !whole { // the Bind failed before, and fails again
		return nil, nil, true
	}
	a := s.substituteRecorded(f, last, func(column int, v []byte) string { return "$" + strconv.Itoa(p.AddResultValue(column, v)) }, txtime.ParamWriter(&p))
	if a.SQL == "" || a.CannotGiveTime {
		return nil, nil, !a.CannotGiveTime
	}
	t := f.Note.tmpl
	names := f.Note.names.ForSnapshot(s.t.attempt.keeping.Now)
	plan := s.srv.pool.planner.PlanWithNames([]byte(a.SQL), names)
	if p.Len() > wire.MaxParams || planRefusal(plan) != nil || plan.Kind != t.Plan.Kind || t.Unshared {
		return nil, nil, !a.HasTime
	}
	if a.HasValues {
		s.b.sequences.MarkOutdated()
	}
	return s.srv.pool.templates.Template(&s.t.scratch, []byte(a.SQL), []byte(t.OIDs), t.Parsing, names.ID(), t.PlannerNumber, plan), p.Bytes(), true
}

// mustRecordAgain reports whether a replay must record the answer of a statement again, and drops the first answer if
// so. The result is true in the unfinished turn (last), unless the statement got the first answer's values (given).
func (t *turn) mustRecordAgain(n *logEntry, last, given bool) bool {
	if !last || n.kept == nil || given && n.kept.Whole && t.attempt.keepsLast {
		return false
	}
	n.kept.Reset()
	return true
}

// replayTimeSettings returns, for a replayed frame, a key of the settings that the text of a time depends on. If a
// statement of the frame's turn may change settings, the result is "".
func (s *session) replayTimeSettings() string {
	for _, f := range s.tx.log.TurnFrames(s.tx.log.CurrentTurn()) {
		n := &f.Note
		if !changesNoSetting(n.plan) || !changesNoSetting(n.asked) || n.tmpl != nil && !changesNoSetting(n.tmpl.Plan) {
			return ""
		}
	}
	return txtime.SettingsKey(s.b.settings.Reported())
}
