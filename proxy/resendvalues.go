package proxy

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// This file changes an INSERT of a replay so that it inserts the values of its first answer (recordedvalues.go). In a
// Query the values are constants, in a Bind extra parameters. The client's text is changed and then planned like any
// other, so that mapped columns work too. Sluice does not interpret values, and sends each in the form in which it
// came, under the same settings. If a statement must get the first attempt's time and cannot, the replay is refused.

// resentText is the form in which a replay sends a logged statement.
type resentText struct {
	text string // the changed text; "" if unchanged
	// cannotGiveTime is set if the statement must get the first attempt's time, and cannot.
	cannotGiveTime bool
	hasTime        bool // text contains the time
	hasValues      bool // text contains values of the answer
}

// substituteRecorded puts the answer's values and the transaction's time into the client's text, for each statement of
// the text. told writes the value of an answer's column, and timed writes a time. last says that the statement belongs
// to the unfinished turn. Its answer's values are then needed only if the client has received some of the output.
func (s *session) substituteRecorded(f *retry.LoggedFrame[logEntry], last bool, told func(column int, v []byte) string, timed func(txtime.Value) string) (a resentText) {
	kept, k := f.Note.kept, &s.t.keeping
	if last && !s.t.keepsLast || kept != nil && !kept.whole {
		kept = nil
	}
	if !k.drawnValues || f.Note.first == 0 || f.Note.names == nil || kept == nil && !(k.clock && k.tells) {
		return a
	}
	pieces := s.srv.planner.SplitStatements(s.clientText(f))
	for i, sql := range pieces[:min(int(f.Note.first), len(pieces))] { // later statements belong to another transaction
		one := s.substituteInStatement(sql, f.Note.names, kept.statementAnswer(i, len(pieces)), told, timed)
		a.cannotGiveTime, a.hasTime, a.hasValues = a.cannotGiveTime || one.cannotGiveTime, a.hasTime || one.hasTime, a.hasValues || one.hasValues
		if one.text != "" {
			pieces[i], a.text = one.text, one.text
		}
	}
	if a.text != "" {
		a.text = strings.Join(pieces, "")
	}
	return a
}

// substituteInStatement does the work of substituteRecorded for one statement. under has the names with which the
// statement was planned. kept is the statement's answer, or nil to give no values. The result's text is "" if the
// statement does not change.
func (s *session) substituteInStatement(sql string, under *schema.NameResolver, kept *recordedAnswer, told func(column int, v []byte) string, timed func(txtime.Value) string) (a resentText) {
	k := &s.t.keeping
	times := k.clock && k.tells
	ok, names := true, under.ForSnapshot(k.now)
	if times {
		a.text = k.time.ReplaceNow(s.srv.planner, sql, &ok, timed)
		a.hasTime = a.text != ""
	}
	in := values.ParseTimed(s.srv.planner, cmp.Or(a.text, sql), names)
	if in == nil || !in.ResolvesSame(under) { // or a name now means another sequence
		a.cannotGiveTime = !ok || in != nil && times
		return a
	}
	var g values.FirstRunValues
	if times {
		g.Knows, g.Time = k.time.Knows, k.time.Writer(s.replayTimeSettings(), &ok, timed)
	}
	if rows, plain := in.(*values.Insertion); kept != nil && kept.whole && plain && rows.Width > 0 {
		cells := wire.SplitRows(kept.rows, rows.Width)
		if len(cells) != rows.Rows {
			return resentText{cannotGiveTime: times}
		}
		g.Clock, a.hasValues = k.clock, true
		g.Value = func(c values.AnswerCell) string { return told(c.Column, cells[c.Row][c.Column]) }
	}
	a.hasTime = a.hasTime || in.TakesTxTime(g)
	a.text = cmp.Or(in.WithFirstRun(g), a.text)
	a.cannotGiveTime = !ok
	return a
}

// replayQueryText and replayBind return ok as false if the statement must get the first attempt's time and cannot. They
// return no text if the changed text is refused, or has another kind. Then the old text is sent, whose answer differs.

// replayQueryText returns the text that a replay sends for a logged Query, with values of the first answer. "" means
// the unchanged text.
func (s *session) replayQueryText(f *retry.LoggedFrame[logEntry], last bool) (text string, ok bool) {
	a := s.substituteRecorded(f, last, func(_ int, v []byte) string {
		if v == nil {
			return "NULL"
		}
		return settings.QuoteLiteral(string(v))
	}, txtime.Literal)
	if a.text == "" || a.cannotGiveTime {
		return "", !a.cannotGiveTime
	}
	plan := s.srv.planner.PlanWithNames([]byte(a.text), f.Note.names.ForSnapshot(s.t.keeping.now))
	if was := cmp.Or(f.Note.asked, f.Note.plan); planRefusal(plan) != nil || plan.Kind != was.Kind { // compare with the kind that the planner gave
		return "", !a.hasTime
	}
	if a.hasValues {
		s.b.sequences.MarkOutdated()
	}
	return cmp.Or(plan.Text, a.text), true
}

// replayBind returns the statement and the Bind payload (after the names) that a replay sends. nil means unchanged.
// Values of the first answer are appended as parameters, in the formats in which they came. The server takes the
// parameters' types from the columns.
func (s *session) replayBind(f *retry.LoggedFrame[logEntry], last bool) (tmpl *statement.Template, payload []byte, ok bool) {
	if k := f.Note.kept; !(s.t.keeping.clock && s.t.keeping.tells) && (k == nil || !k.whole) {
		return nil, nil, true
	}
	p, whole := wire.ParseBindParams(s.loggedPayload(f))
	if !whole { // the Bind failed before, and fails again
		return nil, nil, true
	}
	a := s.substituteRecorded(f, last, func(column int, v []byte) string { return "$" + strconv.Itoa(p.AddResultValue(column, v)) }, txtime.ParamWriter(&p))
	if a.text == "" || a.cannotGiveTime {
		return nil, nil, !a.cannotGiveTime
	}
	t := f.Note.tmpl
	names := f.Note.names.ForSnapshot(s.t.keeping.now)
	plan := s.srv.planner.PlanWithNames([]byte(a.text), names)
	if p.Len() > wire.MaxParams || planRefusal(plan) != nil || plan.Kind != t.Plan.Kind || t.Unshared {
		return nil, nil, !a.hasTime
	}
	if a.hasValues {
		s.b.sequences.MarkOutdated()
	}
	return s.srv.templates.Template(&s.t.scratch, []byte(a.text), []byte(t.OIDs), t.Parsing, names.ID(), t.PlannerNumber, plan), p.Bytes(), true
}

// mustRecordAgain reports whether a replay must record the answer of a statement again, and then forgets the first
// answer. The result is true in the unfinished turn (last), unless the statement got its first answer's values.
func (s *session) mustRecordAgain(n *logEntry, last, given bool) bool {
	if !last || n.kept == nil || given && n.kept.whole && s.t.keepsLast {
		return false
	}
	n.kept.resetAnswer()
	return true
}

// replayTimeSettings returns the key of the settings that times depend on, for a replayed frame. If a statement of the
// frame's turn changes these settings, the result is "".
func (s *session) replayTimeSettings() string {
	for _, f := range s.tx.log.TurnFrames(s.tx.log.CurrentTurn()) {
		n := &f.Note
		if !changesNoSetting(n.plan) || !changesNoSetting(n.asked) || n.tmpl != nil && !changesNoSetting(n.tmpl.Plan) {
			return ""
		}
	}
	return txtime.SettingsKey(s.b.reported)
}
