package recorded

import (
	"cmp"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/txtime"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// Repeatable says which of the server's values (sequence numbers, times) a replay can repeat.
type Repeatable struct {
	DrawnValues bool // values that the server drew, such as numbers of sequences
	Clock       bool // the time too: nothing else in the transaction reads the clock
	Tells       bool // the client has received the transaction's time
	Time        *txtime.Time
	Now         *schema.Schema
	was         *schema.Schema // the last schema found to have the same sequences as Now
}

// SameSequences reports whether an older schema (was) has the same sequences as Now. A sequence that was dropped and
// created again is not the same, because it repeats its numbers.
func (k *Repeatable) SameSequences(was *schema.Schema) bool {
	if was == k.was {
		return true
	}
	if !k.Now.SameSequences(was) {
		return false
	}
	k.was = was
	return true
}

// A replay gives an INSERT the recorded values, or the recorded time, for some columns. For these columns the INSERT
// does not read the clock. If a value cannot be given, its answer would differ, and Sluice refuses the replay.

// SurveyText returns the effects of a logged text that gets recorded values in a replay. Effects (clock reads, say)
// may invalidate such values. own is the number of the text's statements that belong to the transaction. names has
// the names with which the text was planned. answer is the text's recorded answer, or nil.
func (k *Repeatable) SurveyText(p *rewrite.Planner, text string, own int, names *schema.NameResolver, answer *Answer) (does values.Effects) {
	names = names.ForSnapshot(k.Now)
	pieces := p.SplitStatements(text)
	for i, sql := range pieces[:min(own, len(pieces))] {
		if k.Tells {
			ok := true
			sql = cmp.Or(k.Time.ReplaceNow(p, sql, &ok, func(txtime.Value) string { return "'T'" }), sql)
		}
		in := values.ParseTimed(p, sql, names)
		if in == nil {
			does = does.Union(values.EffectsOf(p, sql, names))
			continue
		}
		var g values.FirstRunValues
		if k.Tells {
			g.Knows = k.Time.Knows
		}
		if a := answer.Statement(i, len(pieces)); a != nil && a.Whole {
			g.Value = func(values.AnswerCell) string { return "told" }
		}
		does = does.Union(in.EffectsWith(g))
	}
	return does
}

// Text is the form in which a replay sends a logged statement.
type Text struct {
	SQL string // the changed text; "" if unchanged
	// CannotGiveTime is set if the statement must get the time of the first attempt, but Sluice cannot write it.
	CannotGiveTime bool
	HasTime        bool // SQL contains the transaction's time
	HasValues      bool // SQL contains values of the recorded answer
}

// A Writer has functions that return the SQL of a recorded value: Value for a column's value in the recorded answer
// (nil means NULL), Time for a transaction's time. TimeSettings is the time's txtime.SettingsKey, or "" if unknown.
type Writer struct {
	Value        func(column int, v []byte) string
	Time         func(txtime.Value) string
	TimeSettings string
}

// Substitute puts recorded values and the transaction's time into each statement of a text. own is the number of the
// text's statements that belong to the transaction. under has the names with which Sluice planned the text. answer is
// the text's recorded answer, or nil to put in none of its values.
func (k *Repeatable) Substitute(p *rewrite.Planner, text string, own int, under *schema.NameResolver, answer *Answer, w Writer) (a Text) {
	pieces := p.SplitStatements(text)
	for i, sql := range pieces[:min(own, len(pieces))] { // later statements belong to another transaction
		one := k.substituteInStatement(p, sql, under, answer.Statement(i, len(pieces)), w)
		a.CannotGiveTime, a.HasTime, a.HasValues = a.CannotGiveTime || one.CannotGiveTime, a.HasTime || one.HasTime, a.HasValues || one.HasValues
		if one.SQL != "" {
			pieces[i], a.SQL = one.SQL, one.SQL
		}
	}
	if a.SQL != "" {
		a.SQL = strings.Join(pieces, "")
	}
	return a
}

// substituteInStatement does the work of Substitute for one statement. The result's SQL is "" if the statement does not
// change.
func (k *Repeatable) substituteInStatement(p *rewrite.Planner, sql string, under *schema.NameResolver, answer *Answer, w Writer) (a Text) {
	times := k.Clock && k.Tells
	ok, names := true, under.ForSnapshot(k.Now)
	if times {
		a.SQL = k.Time.ReplaceNow(p, sql, &ok, w.Time)
		a.HasTime = a.SQL != ""
	}
	in := values.ParseTimed(p, cmp.Or(a.SQL, sql), names)
	if in == nil || !in.ResolvesSame(under) { // or a name now means another sequence
		a.CannotGiveTime = !ok || in != nil && times
		return a
	}
	var g values.FirstRunValues
	if times {
		g.Knows, g.Time = k.Time.Knows, k.Time.Writer(w.TimeSettings, &ok, w.Time)
	}
	if rows, plain := in.(*values.Insertion); answer != nil && answer.Whole && plain && rows.Width > 0 {
		cells := wire.SplitRows(answer.rows, rows.Width)
		if len(cells) != rows.Rows {
			return Text{CannotGiveTime: times}
		}
		g.Clock, a.HasValues = k.Clock, true
		g.Value = func(c values.AnswerCell) string { return w.Value(c.Column, cells[c.Row][c.Column]) }
	}
	a.HasTime = a.HasTime || in.TakesTxTime(g)
	a.SQL = cmp.Or(in.WithFirstRun(g), a.SQL)
	a.CannotGiveTime = !ok
	return a
}
