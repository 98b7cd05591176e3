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

// The time of a transaction, now(). A replay has a later time than the first attempt, and a client that got the first
// time may compare it with later answers and stored rows.
//
// So Sluice writes the client's time into the SQL wherever the replay would show another. An INSERT with columns that
// default to now() gets the value that the client has seen (values.Given), in the replay and in later statements. A
// statement that returns only the time, such as SELECT now(), is not sent again. If anything else reads the clock,
// the answers differ and the replay is refused. After a ROLLBACK TO that has preserved the time, such a statement is
// refused.
//
// If no answer has the time itself, Sluice may have queried it (askedtime.go).
//
// In a multi-statement query each statement gets the time by itself, and each answer is recorded by itself
// (keptAnswer).
//
// Sluice never parses a value and sends it in the format in which it came. Two columns have the same value if they
// have the same type and default (schema.Column.Time), under the same settings for times. From a column with the time
// itself the server derives the values of all others by their defaults.

// toldTime is the time of a transaction as its client has seen it, in values of columns.
type toldTime struct {
	values map[timeKey]timeValue
	// instant is the time itself, as a timestamptz; empty if no column has shown it. Any other value can be derived
	// from it (values.AtTime).
	instant timeValue
	// ofParts means that the time is that of parts which have committed. A clock read in a function, view or DDL then
	// has its own part's time, and is not refused.
	ofParts bool
}

// timeKey identifies a value of one time: by the column's Time and by the settings that the value depends on.
type timeKey struct{ kind, under string }

// timeValue is a value in a format of the protocol: 0 text, 1 binary.
type timeValue struct {
	format uint16
	bytes  []byte
	torn   bool // values contradicted each other
	// instant means that the value is a timestamptz.
	instant bool
}

// timeSettings are the settings that a time's text depends on. The server reports all of them.
var timeSettings = []string{"timezone", "datestyle", "intervalstyle"}

// timesUnder returns the values of timeSettings in r as a key. It returns "" if one is missing; then only the instant
// is known.
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

// isoTime matches a time whose text a server reads alike under any DateStyle.
var isoTime = regexp.MustCompile(`^(\d{4,}-\d\d-\d\d)?([ T]?\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d(:\d\d){0,2})?)?( BC)?$`)

// toldOf collects the time that the client was sent in the transaction, discarded parts included. tells is false if
// it was sent none. Values that contradict each other are dropped.
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

// noteAnswer adds the time in the answer to one statement of a logged text. It reports whether that answer shows the
// time.
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

// noteFirst adds the time itself if the recorded first row of an answer has it, and reports whether it does.
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

// formatsOf returns the result formats of a logged Query or Bind by column.
func (s *session) formatsOf(f *retry.Frame[logEntry]) func(column int) uint16 {
	if f.Type == wire.Bind {
		if p, ok := wire.ParseParams(s.payload(f)); ok {
			return p.Format
		}
	}
	return func(int) uint16 { return 0 }
}

// note adds a value. A text that depends on DateStyle is ignored.
func (of *toldTime) note(key timeKey, v timeValue) {
	if key.kind == "" || key.under == "" || v.bytes == nil || v.format == 0 && !isoTime.Match(v.bytes) {
		return
	}
	if v.instant = values.Instant(key.kind); v.instant {
		of.instant = of.instant.and(v)
	}
	of.values[key] = of.values[key].and(v)
}

// and merges two values of one time. It prefers text, which can be written anywhere. Values that differ give neither.
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

// knows reports whether the value of a column with that Time is known under some settings.
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

// atInstant returns the text with now() replaced by the known time, or "" if nothing is replaced. ok becomes false if
// the time cannot be written.
func (of *toldTime) atInstant(p *rewrite.Planner, sql string, ok *bool, write func(timeValue) string) string {
	if of.instant.bytes == nil {
		return ""
	}
	text := ""
	return values.AtInstant(p, sql, func() string {
		if text == "" { // once, so that an expression and its GROUP BY stay equal
			text = write(of.instant)
			*ok = *ok && text != ""
		}
		return text
	})
}

// written returns a function that writes the value of a column with a given Time, under the settings under. ok
// becomes false if the value is unknown under these settings, or cannot be written.
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

// loggedFrames iterates over the frames of the transaction's log, the turn in progress included, and over those of
// its discarded parts.
func (s *session) loggedFrames() func(yield func(*retry.Frame[logEntry]) bool) {
	return func(yield func(*retry.Frame[logEntry]) bool) {
		own := s.tx.log
		defer func() { s.tx.log = own }() // clientText reads the log in s.tx.log
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

// atTime returns the text with the time that the client was sent, or "" if nothing changes. value writes a value. An
// error is for the client: a statement reads the clock in a way that cannot be replaced.
//
// Only the first own statements belong to the transaction. After its end another time counts.
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

// pieceAtTime does what atTime does for one statement. ok is false if the statement reads the clock otherwise, or if
// the time cannot be written under the current settings.
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

// timesUnder returns the key of the timeSettings for the next statement, or "" if they are unknown.
func (s *session) timesUnder() string {
	q := &s.t.owed
	if s.b == nil || !q.empty() && slices.ContainsFunc(q.items[q.head:], func(o owed) bool { return o.plan != nil && !keepsTimes(o.plan) }) {
		return ""
	}
	return timesUnder(s.b.reported)
}

// keepsTimes reports whether a plan, which may be nil, changes no setting.
func keepsTimes(plan *rewrite.Plan) bool {
	return plan == nil || plan.Kind <= rewrite.Read || plan.Kind == rewrite.Write
}

// refuseTime counts a statement that is refused because it reads the clock, and returns the error.
func (s *session) refuseTime() error {
	s.srv.metrics.Refused(metrics.FeatureToldTime)
	return errToldTime
}

// timed returns the earlier time that the next statement must show: from before a ROLLBACK TO, or of a committed
// part. nil means the transaction's own time. In a failed block nothing reads the clock.
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

// hasToldTime reports whether timed returns a time.
func (s *session) hasToldTime() bool { return s.timed() != nil }

// queryAtTime writes the time of timed into a simple Query, and returns the text that q then has. The answer is what
// the client's text would give. An error is for the client.
func (s *session) queryAtTime(q *simple, sql []byte) ([]byte, error) {
	if !s.hasToldTime() || needsNoNames(q.plan) || s.doesEarly(q.plan.Single()) { // its nested turns come here too
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

// writtenInText writes a value as an SQL constant. A binary timestamptz becomes an expression of the same
// microsecond. For other binary values it returns "".
func writtenInText(v timeValue) string {
	switch {
	case v.format == 0:
		return settings.QuoteLiteral(string(v.bytes))
	case v.instant && len(v.bytes) == 8:
		return fmt.Sprintf("('2000-01-01 00:00:00+00'::timestamptz + '%d microseconds'::interval)", int64(binary.BigEndian.Uint64(v.bytes)))
	}
	return ""
}

// writtenIn writes values as further parameters of a Bind.
func writtenIn(p *wire.Params) func(timeValue) string {
	return func(v timeValue) string { return "$" + strconv.Itoa(p.AddIn(v.format, v.bytes)) }
}

// bindAtTime writes the time of timed into a Bind. st is the statement on the backend; the result replaces it. As for
// onBackend, nil without an error means that the server has refused the text. The time becomes a further parameter,
// in its own format, of a new statement. That statement returns the same columns as the client's.
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

// errToldTime refuses a statement that would show a second time of one transaction.
var errToldTime = &wire.Error{Code: retry.StateUnsupported, Message: "cannot read the clock in this transaction any more",
	Detail: "The client was told its time before it returned to a savepoint, and the server has begun it anew since.",
	Hint:   "Have the application make its times, or do not have them returned in a transaction with savepoints."}
