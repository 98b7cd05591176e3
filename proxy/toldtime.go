package proxy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// The time of a transaction. A transaction that is run again has a later one, and a client that
// was told the first may compare: with what it is told next, and with what it finds stored.
//
// So the time that was told is the time of the transaction wherever its time shows. An INSERT
// whose columns are filled with the time is given the value that the client has seen of such a
// column (values.Given), when it is run again and when it comes later. Of an answer that is the
// time alone (SELECT now()) nothing is run again. Where something else reads the clock, the time is
// not kept: the replay answers otherwise and is refused. Behind a return to a savepoint that has
// kept it, a statement that reads the clock otherwise is refused.
//
// Where the answers do not have the time itself, the server may have been asked for it (askedtime.go).
//
// Of a string of several statements each is given the time by itself, and each that tells it is looked at: the
// answers to a string are kept one by one (keptAnswer).
//
// A value is never read by Sluice, and goes back in the form in which it came. Two columns have the
// same value if they are of one type and have one default (schema.Column.Time), under settings that
// say the same of times. Of a column that has the time itself the server makes the values of all others,
// by their defaults.

// toldTime is the time of a transaction as its client was told it: the values of columns.
type toldTime struct {
	values map[timeKey]timeValue
	// instant is the time itself, where a column has it; without bytes: none does. It makes the value
	// of any other (values.AtTime).
	instant timeValue
	// ofParts: it is that of parts that are committed. What reads the clock in a function, a view or DDL
	// has the time of its own part then, and is not refused.
	ofParts bool
}

// timeKey tells values of one time apart: by the column's Time, and what the settings are that
// such a value depends on.
type timeKey struct{ kind, under string }

// timeValue is a value in a format of the protocol.
type timeValue struct {
	format uint16
	bytes  []byte
	torn   bool // there were several
	// instant: it is a timestamptz.
	instant bool
}

// timeSettings are those that a value of the time may depend on. All are reported by the server.
var timeSettings = []string{"timezone", "datestyle", "intervalstyle"}

// timesUnder is what reports say of timeSettings; "" where they say nothing, as a server may that knows
// less of them: then nothing is known of a time but the instant.
func timesUnder(r *settings.Reports) string {
	if r == nil {
		return ""
	}
	var under []byte
	for _, name := range timeSettings {
		value, ok := r.Get(name)
		if !ok {
			return ""
		}
		under = append(append(under, value...), 0)
	}
	return string(under)
}

// isoTime is a time, as text that a server reads alike whatever its DateStyle is.
var isoTime = regexp.MustCompile(`^(\d{4,}-\d\d-\d\d)?([ T]?\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d){0,2})?)?( BC)?$`)

// toldOf gathers the time that the client was told in a transaction, discarded parts included;
// tells is false where it was told none. Values that contradict each other are not used.
func (s *session) toldOf(now *schema.Schema) (of *toldTime, tells bool) {
	of = &toldTime{values: map[timeKey]timeValue{}}
	asked := s.tx.asked.instant
	var stored values.StoredTimes
	for f := range s.loggedFrames() {
		n := &f.Note
		if f.Type != wire.Query && f.Type != wire.Bind || n.fence || n.names == nil || n.first == 0 {
			continue
		}
		text := s.clientText(f)
		tells = tells || s.drawnBy(text) == schema.Clock || asked.bytes != nil && s.hidesTime(text, n.names, &stored)
		if n.kept == nil {
			continue
		}
		pieces := s.srv.planner.Pieces(text)
		for i, sql := range pieces[:min(int(n.first), len(pieces))] {
			if kept := n.kept.answer(i, len(pieces)); kept != nil {
				tells = of.noteAnswer(s, f, sql, kept, now) || tells
			}
		}
	}
	if asked.bytes != nil {
		of.instant = of.instant.and(asked)
	}
	return of, tells
}

// noteAnswer takes in the time that the answer to a statement of a logged text has. It reports whether that tells
// the time.
func (of *toldTime) noteAnswer(s *session, f *retry.Frame[logEntry], sql string, kept *keptAnswer, now *schema.Schema) (tells bool) {
	formats, under := s.formatsOf(f), timesUnder(kept.reports)
	tells = of.noteFirst(s, sql, kept, formats)
	if !kept.whole {
		return tells
	}
	in := values.InsertionOf(s.srv.planner, sql, f.Note.names.Renewed(now))
	if in == nil || in.Width == 0 || !in.Same(f.Note.names) { // the column had another default
		return tells
	}
	rows := wire.Rows(kept.rows, in.Width)
	if len(rows) != in.Rows {
		return tells
	}
	in.Times(func(kind string, c values.Cell) {
		tells = true
		of.note(timeKey{kind, under}, timeValue{format: formats(c.Column), bytes: rows[c.Row][c.Column]})
	})
	return tells
}

// noteFirst takes in the time itself, where the first row of a statement's answer is kept and has it. It
// reports whether that is so.
func (of *toldTime) noteFirst(s *session, sql string, k *keptAnswer, formats func(column int) uint16) (tells bool) {
	row := wire.First(k.rows)
	if row == nil || !k.first && !k.whole {
		return false
	}
	cells := wire.Rows(row, wire.Columns(row))
	for _, column := range values.Instants(s.srv.planner, sql) {
		if len(cells) == 1 && column < len(cells[0]) && cells[0][column] != nil {
			of.note(timeKey{values.InstantKind, timesUnder(k.reports)}, timeValue{format: formats(column), bytes: cells[0][column]})
			tells = true
		}
	}
	return tells
}

// formatsOf are the formats of the columns of a logged Query's or Bind's answer.
func (s *session) formatsOf(f *retry.Frame[logEntry]) func(column int) uint16 {
	if f.Type == wire.Bind {
		if p, ok := wire.ParseParams(s.payload(f)); ok {
			return p.Format
		}
	}
	return func(int) uint16 { return 0 }
}

// note takes a value in. One in a form that says something else under other settings is of no use.
func (of *toldTime) note(key timeKey, v timeValue) {
	if key.kind == "" || key.under == "" || v.bytes == nil || v.format == 0 && !isoTime.Match(v.bytes) {
		return
	}
	if v.instant = values.Instant(key.kind); v.instant {
		of.instant = of.instant.and(v)
	}
	of.values[key] = of.values[key].and(v)
}

// and is a value that was told twice. That in text is kept, which can be written anywhere. Two that
// are not the same are nobody's time: of these nothing is left.
func (v timeValue) and(w timeValue) timeValue {
	switch {
	case v.bytes == nil && !v.torn:
		return w
	case v.torn, v.format == w.format && !bytes.Equal(v.bytes, w.bytes):
		return timeValue{torn: true}
	case v.format == 0:
		return v
	}
	return w
}

// knows reports whether the value of a column of that Time is known, by any settings.
func (of *toldTime) knows(kind string) bool {
	if of.instant.bytes != nil {
		return true
	}
	for key, v := range of.values {
		if key.kind == kind && v.bytes != nil {
			return true
		}
	}
	return false
}

// atInstant is a text with the time itself in it, where that is known and the text names it; "" for its
// own. ok becomes false where the time cannot be written.
func (of *toldTime) atInstant(p *rewrite.Planner, sql string, ok *bool, write func(timeValue) string) string {
	if of.instant.bytes == nil {
		return ""
	}
	text := ""
	return values.AtInstant(p, sql, func() string {
		if text == "" { // once: an expression and the one that it is grouped by stay the same
			text = write(of.instant)
			*ok = *ok && text != ""
		}
		return text
	})
}

// written has write write the values of columns that are filled with the time, by settings; ok
// becomes false where one that is known (knows) is not known by these, or cannot be written.
func (of *toldTime) written(under string, ok *bool, write func(timeValue) string) func(kind string) string {
	return func(kind string) (text string) {
		if v := of.values[timeKey{kind, under}]; v.bytes != nil {
			if text = write(v); text != "" {
				return text
			}
		}
		if of.instant.bytes != nil {
			if text = write(of.instant); text != "" {
				return values.AtTime(kind, text)
			}
		}
		*ok = false
		return ""
	}
}

// loggedFrames are the frames of the transaction's log, the turn in progress included, and those of its
// discarded parts.
func (s *session) loggedFrames() func(yield func(*retry.Frame[logEntry]) bool) {
	return func(yield func(*retry.Frame[logEntry]) bool) {
		own := s.tx.log
		defer func() { s.tx.log = own }() // clientText reads the log's bytes
		for _, l := range append([]*retry.Log[logEntry]{own}, s.tx.parts...) {
			s.tx.log = l
			for turn := range l.Turns() + 1 {
				frames := l.Frames(turn)
				for i := range frames {
					if !yield(&frames[i]) {
						return
					}
				}
			}
		}
	}
}

// atTime is a text as it is sent where the transaction has a time that was told: with that time in its statements,
// or as it is (""). value writes a value. An error is for the client: a statement reads the clock otherwise.
//
// Of a text of several statements the first own ones are of the transaction: behind its end another time counts.
func (s *session) atTime(sql []byte, own int, names *schema.Names, value func(timeValue) string) (text string, err error) {
	pieces := s.srv.planner.Pieces(string(sql))
	for i, piece := range pieces[:min(own, len(pieces))] {
		made, ok := s.pieceAtTime(piece, names, value)
		if !ok {
			return "", s.refuseTime()
		}
		if made != "" {
			pieces[i], text = made, made
		}
	}
	if text != "" {
		text = strings.Join(pieces, "")
	}
	return text, nil
}

// pieceAtTime is atTime for one statement; ok is false where that reads the clock otherwise, or the time
// cannot be written for it under the settings in force.
func (s *session) pieceAtTime(sql string, names *schema.Names, value func(timeValue) string) (text string, ok bool) {
	of := s.timed()
	ok = true
	text = of.atInstant(s.srv.planner, sql, &ok, value)
	in := values.TimedOf(s.srv.planner, cmp.Or(text, sql), names)
	var survey values.Survey
	switch {
	case of.ofParts:
		survey.Time = values.NamesTime(s.srv.planner, cmp.Or(text, sql), names, in)
	case in != nil:
		survey = in.Survey(values.Given{Knows: of.knows})
	default:
		survey = values.SurveyOf(s.srv.planner, cmp.Or(text, sql), names)
	}
	if ok = ok && !survey.Time; ok && in != nil {
		text = cmp.Or(in.With(values.Given{Knows: of.knows, Time: of.written(s.timesUnder(), &ok, value)}), text)
	}
	return text, ok
}

// timesUnder are the settings that a statement which is sent next sees; "" where they are not known.
func (s *session) timesUnder() string {
	q := &s.t.owed
	if s.b == nil || !q.empty() && slices.ContainsFunc(q.items[q.head:], func(o owed) bool { return o.plan != nil && !keepsTimes(o.plan) }) {
		return ""
	}
	return timesUnder(s.b.reported)
}

// keepsTimes reports whether a plan, which may be nil, leaves the settings as they are.
func keepsTimes(plan *rewrite.Plan) bool {
	return plan == nil || plan.Kind <= rewrite.Read || plan.Kind == rewrite.Write
}

// refuseTime counts a statement that is refused because it reads the clock, and returns the error.
func (s *session) refuseTime() error {
	s.srv.metrics.Refused(metrics.FeatureToldTime)
	return errToldTime
}

// timed is the time that the transaction of what is sent next has had before a return, or in a part that is
// committed; nil: it has its own. In a block that has failed nothing reads the clock.
func (s *session) timed() *toldTime {
	if s.tx.timed == nil && s.t.nested.timed == nil || s.behindItsEnd() {
		return nil
	}
	switch at := s.position(); at.Status() {
	case 'T':
		return s.tx.timed
	case 'I':
		return s.t.nested.timed
	}
	return nil
}

// hasToldTime reports whether there is such a time.
func (s *session) hasToldTime() bool { return s.timed() != nil }

// queryAtTime gives a simple Query the time that its transaction has, and returns the text that q has
// then. The client is told nothing of that: what its statement answers is what it would answer. An error
// is for the client.
func (s *session) queryAtTime(q *simple, sql []byte) ([]byte, error) {
	if !s.hasToldTime() || needsNoNames(q.plan) || s.doesEarly(q.plan.Single()) { // whose nested turns come here too
		return sql, nil
	}
	made, err := s.atTime(sql, int(s.ofTransaction(q.plan)), s.mapped.planned, writtenInText)
	if err != nil || made == "" {
		return sql, err
	}
	q.frame = wire.AppendStrings(nil, wire.Query, made)
	q.total = len(q.frame)
	q.plan, err = s.plan([]byte(made))
	return []byte(made), err
}

// writtenInText writes a value as a constant, or, of the time itself in its binary format, as the expression that
// is the same microsecond; "" for any other in a binary format.
func writtenInText(v timeValue) string {
	switch {
	case v.format == 0:
		return settings.QuoteLiteral(string(v.bytes))
	case v.instant && len(v.bytes) == 8:
		return fmt.Sprintf("('2000-01-01 00:00:00+00'::timestamptz + '%d microseconds'::interval)", int64(binary.BigEndian.Uint64(v.bytes)))
	}
	return ""
}

// writtenIn writes values as parameters behind those of a Bind.
func writtenIn(p *wire.Params) func(timeValue) string {
	return func(v timeValue) string { return "$" + strconv.Itoa(p.AddIn(v.format, v.bytes)) }
}

// bindAtTime is queryAtTime for a Bind, of which st is the statement at the backend: what it returns
// takes its place. As of onBackend, no statement and no error mean that the server has refused the text.
// The time goes behind the client's parameters, in the format in which it came, into a statement of its
// own: the client's was found to return what it was told before, and this one returns the same.
func (s *session) bindAtTime(b *binding, st *serverStatement) (*serverStatement, error) {
	if !s.hasToldTime() || needsNoNames(b.cs.tmpl.plan) {
		return st, nil
	}
	if err := s.takeWhole(b); err != nil {
		return nil, err
	}
	t, names := b.cs.tmpl, s.mapped.planned
	p, ok := wire.ParseParams(b.rest)
	if !ok || t.own || parse.TimeText(b.rest) {
		return nil, s.refuseTime()
	}
	made, err := s.atTime([]byte(t.sql), 1, names, writtenIn(&p))
	if err != nil || made == "" {
		return st, err
	}
	plan := s.srv.planner.PlanIn([]byte(made), names)
	cursor := b.cs.declares != nil || b.cursor != nil
	if cursor || p.Len() > wire.MaxParams || refusal(plan) != nil || plan.Kind != t.plan.Kind {
		return nil, s.refuseTime()
	}
	b.cs = &clientStatement{tmpl: s.srv.template(&s.t.scratch, []byte(made), []byte(t.oids), t.parsing, names.ID(), t.by, plan), epoch: s.epoch()}
	b.rest = p.Bytes()
	return s.onBackend(b.cs)
}

// errToldTime refuses a statement that would tell a second time of one transaction.
var errToldTime = &wire.Error{Code: retry.StateUnsupported, Message: "cannot read the clock in this transaction any more",
	Detail: "The client was told its time before it returned to a savepoint, and the server has begun it anew since.",
	Hint:   "Have the application make its times, or do not have them returned in a transaction with savepoints."}
