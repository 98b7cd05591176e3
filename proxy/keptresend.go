package proxy

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// How an INSERT is sent again with the values of its answer (keptvalues.go): as constants in a
// Query, as parameters behind the client's in a Bind. The text that is changed is the client's,
// and is planned as any other: a mapped column gets its value as the client would write that.
// A value is never read or written by Sluice: it goes back in the form in which it came, under
// the settings that it came under, and the answer shows whether the server took it so. Where one
// statement of a string must be given the time and cannot be, the replay is refused, as for a statement alone.

// again is a logged statement as it is sent once more.
type again struct {
	text string // in whose form it is sent; "" for its own
	// torn: it must be given the time, and cannot be.
	torn bool
	must bool // the time is in it
	told bool // its client was told its answer
}

// giveAgain gives a logged statement, or each of a string, the values that its client was told, and the time of its
// transaction. told writes a value of a column of the answer, timed one of the time. Nothing of an answer
// is given of which nothing can have been told in the turn in progress, which last says, before something
// was delivered.
func (s *session) giveAgain(f *retry.Frame[logEntry], last bool, told func(column int, v []byte) string, timed func(timeValue) string) (a again) {
	kept, k := f.Note.kept, &s.t.keeping
	if last && !s.t.keepsLast || kept != nil && !kept.whole {
		kept = nil
	}
	if !k.on || f.Note.first == 0 || f.Note.names == nil || kept == nil && !(k.clock && k.tells) {
		return a
	}
	pieces := s.srv.planner.Pieces(s.clientText(f))
	for i, sql := range pieces[:min(int(f.Note.first), len(pieces))] { // behind these stand another transaction's
		one := s.givePiece(sql, f.Note.names, kept.answer(i, len(pieces)), told, timed)
		a.torn, a.must, a.told = a.torn || one.torn, a.must || one.must, a.told || one.told
		if one.text != "" {
			pieces[i], a.text = one.text, one.text
		}
	}
	if a.text != "" {
		a.text = strings.Join(pieces, "")
	}
	return a
}

// givePiece is giveAgain for one statement, which was planned by these names. Of its answer kept has what is
// given; nil: nothing. Its text is "" where nothing is put into the statement.
func (s *session) givePiece(sql string, under *schema.Names, kept *keptAnswer, told func(column int, v []byte) string, timed func(timeValue) string) (a again) {
	k := &s.t.keeping
	times := k.clock && k.tells
	ok, names := true, under.Renewed(k.now)
	if times {
		a.text = k.time.atInstant(s.srv.planner, sql, &ok, timed)
		a.must = a.text != ""
	}
	in := values.TimedOf(s.srv.planner, cmp.Or(a.text, sql), names)
	if in == nil || !in.Same(under) { // or the number is of another sequence
		a.torn = !ok || in != nil && times
		return a
	}
	var g values.Given
	if times {
		g.Knows, g.Time = k.time.knows, k.time.written(s.timesAgain(), &ok, timed)
	}
	if rows, plain := in.(*values.Insertion); kept != nil && kept.whole && plain && rows.Width > 0 {
		cells := wire.Rows(kept.rows, rows.Width)
		if len(cells) != rows.Rows {
			return again{torn: times}
		}
		g.Clock, a.told = k.clock, true
		g.Value = func(c values.Cell) string { return told(c.Column, cells[c.Row][c.Column]) }
	}
	a.must = a.must || in.GivesTime(g)
	a.text = cmp.Or(in.With(g), a.text)
	a.torn = !ok
	return a
}

// The two functions below report ok as false where the statement must be given the time, and cannot be.
// Else they return nothing where the changed text is refused, or is another kind of statement than the
// client's: then it is sent as it was, and the answer will differ.

// keptQuery is the text in whose form a Query is sent again; "" for its own.
func (s *session) keptQuery(f *retry.Frame[logEntry], last bool) (text string, ok bool) {
	a := s.giveAgain(f, last, func(_ int, v []byte) string {
		if v == nil {
			return "NULL"
		}
		return settings.QuoteLiteral(string(v))
	}, writtenInText)
	if a.text == "" || a.torn {
		return "", !a.torn
	}
	plan := s.srv.planner.PlanIn([]byte(a.text), f.Note.names.Renewed(s.t.keeping.now))
	if was := cmp.Or(f.Note.asked, f.Note.plan); refusal(plan) != nil || plan.Kind != was.Kind { // as planned, and not as judged
		return "", !a.must
	}
	if a.told {
		s.b.sequences.Outdate()
	}
	return cmp.Or(plan.Text, a.text), true
}

// keptBind is the statement and the Bind, behind its names, in whose form one is sent again;
// nil for its own. The values are parameters behind the client's, in the formats in which
// they came; the server takes their types from the columns.
func (s *session) keptBind(f *retry.Frame[logEntry], last bool) (tmpl *template, payload []byte, ok bool) {
	if k := f.Note.kept; !(s.t.keeping.clock && s.t.keeping.tells) && (k == nil || !k.whole) {
		return nil, nil, true
	}
	p, whole := wire.ParseParams(s.payload(f))
	if !whole { // it has failed, and fails again
		return nil, nil, true
	}
	a := s.giveAgain(f, last, func(column int, v []byte) string { return "$" + strconv.Itoa(p.Add(column, v)) }, writtenIn(&p))
	if a.text == "" || a.torn {
		return nil, nil, !a.torn
	}
	t := f.Note.tmpl
	names := f.Note.names.Renewed(s.t.keeping.now)
	plan := s.srv.planner.PlanIn([]byte(a.text), names)
	if p.Len() > wire.MaxParams || refusal(plan) != nil || plan.Kind != t.plan.Kind || t.own {
		return nil, nil, !a.must
	}
	if a.told {
		s.b.sequences.Outdate()
	}
	return s.srv.template(&s.t.scratch, []byte(a.text), []byte(t.oids), t.parsing, names.ID(), t.by, plan), p.Bytes(), true
}

// gathersAnew reports whether the answer of a statement that is sent again is gathered anew: in the turn
// in progress, which last says, unless the statement was given the values of its answer. What was
// gathered is forgotten then.
func (s *session) gathersAnew(n *logEntry, last, given bool) bool {
	if !last || n.kept == nil || given && n.kept.whole && s.t.keepsLast {
		return false
	}
	n.kept.again()
	return true
}

// timesAgain is timesUnder for a frame of the log that is sent again: its turn must leave the settings
// as they are.
func (s *session) timesAgain() string {
	for _, f := range s.tx.log.Frames(s.tx.log.At()) {
		n := &f.Note
		if !keepsTimes(n.plan) || !keepsTimes(n.asked) || n.tmpl != nil && !keepsTimes(n.tmpl.plan) {
			return ""
		}
	}
	return timesUnder(s.b.reported)
}
