package proxy

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"unsafe"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
	"github.com/sluice-proxy/sluice/rewrite/values"
)

// Values that the server made and the client was told: the keys of INSERT ... RETURNING, and
// numbers that were drawn. A replay does not have them made anew: the INSERT is sent with the
// values of its answer (keptresend.go), and an answer that was only drawn stands. What comes is
// compared as ever, so that a client cannot tell.
//
// That the history is still one of the transaction that commits: a number or random value that
// was drawn once is drawn for good, whether its transaction commits or not, and nobody else
// gets it. So a transaction may have it that has drawn it in an attempt that did not commit. It
// is not so where the transaction itself makes the sequence, or sets the sequence back: then
// the number would be drawn again. Nor is it so of the time, which goes on between two
// attempts: toldtime.go.

// A string of several statements is taken statement by statement (rewrite.Planner.Pieces): each has its
// part of the answer, and what is sent again is the pieces, put together. One in which Sluice answers a
// statement keeps nothing: what the server answers there is of another text.

// mostKept bounds the answer to one statement that is kept: a row is some bytes, and there
// are rarely more than a thousand.
const mostKept = 64 << 10

// mostFirst bounds the row in which the time is looked for: it is as long as some names.
const mostFirst = 1 << 10

// keptAnswer is the answer to an INSERT ... RETURNING of a block: whole DataRows, one behind
// the other. Of any other statement that tells the time of the transaction (rewrite.Planner.Instants) it is
// the first of its rows. It belongs to the log entry of its Query or Bind, and to what the server owes for
// that; only the first of several attempts at a turn that the client has seen fills it.
type keptAnswer struct {
	asSent
	rows []byte
	// reports are those of the server that answered, at the end.
	reports *settings.Reports
	// whole: it has come to its end; void: it cannot be used.
	whole, void bool
	// first: it is the first row alone. It is never whole.
	first bool
	// several is how many statements the string has that it answers; 0: it is the answer to one. of are those to
	// the statements that have ended, and from is where the rows of the next begin.
	several int
	of      []keptAnswer
	from    int
}

// keeps has the answer to the entry recorded in k; nil: it is not.
func (o *owed) keeps(k *keptAnswer) {
	if k != nil {
		o.reply = chained(k, o.reply)
	}
}

// frame takes the end of a statement. A frame that has not come whole voids the answer: its rest looks like rows.
func (k *keptAnswer) frame(s *session, _ *owed, f answer.Frame) (verdict, error) {
	if k.void = k.void || f.Cut(); f.Ends() {
		k.end(f.Type, f.Bytes, s.b.reported)
	}
	return undecided, nil
}

func (k *keptAnswer) span(s *session, span []byte) { k.add(s.tx.log, span) }

// keepsAnswers reports whether answers that tell of what the server makes are kept now. No replay
// needs that of a statement outside a block, which commits before it is told, nor of one behind the end of
// its transaction in the same turn: no attempt is made once that has been told.
func (s *session) keepsAnswers() bool {
	return s.srv.keeper.on && s.t.logs && s.tx.log.Replayable() && s.inBlock() && !s.behindItsEnd()
}

// keptOf is where the answer to one statement is kept; nil: it is not. inserts and tells are what
// rewrite.InsertsReturning and values.MayTellInstant say of its text.
func keptOf(inserts, tells bool) *keptAnswer {
	if inserts || tells {
		return &keptAnswer{first: !inserts}
	}
	return nil
}

// answerCost is what the answer to each statement of a string costs of the log's bytes, besides its rows.
const answerCost = int(unsafe.Sizeof(keptAnswer{}))

// keptOfText is keptOf for a text of so many statements. Of a string all rows are kept, since nobody has
// looked yet which of them are of an INSERT; nothing where the log has no room for so many answers.
func (s *session) keptOfText(sql []byte, statements int) *keptAnswer {
	switch {
	case statements < 2:
		return keptOf(rewrite.InsertsReturning(sql), values.MayTellInstant(sql))
	case values.MayTell(sql) && s.tx.log.Keep(statements*answerCost):
		return &keptAnswer{several: statements}
	}
	return nil
}

// answer is that to the statement at i of a text of so many; nil where it is not kept.
func (k *keptAnswer) answer(i, statements int) *keptAnswer {
	switch {
	case k == nil || k.void:
		return nil
	case k.several == 0 && statements == 1:
		return k
	case k.several == statements && len(k.of) == statements:
		return &k.of[i]
	}
	return nil
}

// add takes bytes of rows as they come from the server, cut anywhere, before the client is sent
// them. What is too long, or has no room in the log, is not kept.
func (k *keptAnswer) add(log *retry.Log[logEntry], span []byte) {
	if k.void || len(span) == 0 || k.first && k.complete() {
		return
	}
	if k.first {
		span = span[:min(len(span), mostFirst-len(k.rows))]
	}
	if len(k.rows)+len(span) > mostKept || !log.Keep(len(span)) {
		k.rows, k.void = nil, true
		return
	}
	if k.rows = append(k.rows, span...); k.first && !k.complete() && len(k.rows) == mostFirst {
		k.rows, k.void = nil, true
	}
}

// complete reports whether the first row has come.
func (k *keptAnswer) complete() bool { return len(wire.First(k.rows)) > 0 }

// end is told of the frame that ends an answer. The tag says how many rows there must be: an
// answer of which some passed unseen is not used, nor is one of a portal that was suspended,
// or of a text with more statements behind. Of a string the answer to each of its statements is one.
func (k *keptAnswer) end(typ byte, frame []byte, reports *settings.Reports) {
	if k.several > 0 {
		if k.void = k.void || typ != wire.CommandComplete; k.void {
			return
		}
		one := keptAnswer{rows: k.rows[k.from:len(k.rows):len(k.rows)]}
		// Of what is no INSERT, or has returned nothing, the first row may tell the time.
		if one.end(typ, frame, reports); !one.whole {
			one.first, one.void = true, false
		}
		k.of, k.from = append(k.of, one), len(k.rows)
		k.whole = len(k.of) == k.several
		return
	}
	if k.first {
		k.reports = reports
		return
	}
	tag, _ := bytes.CutSuffix(frame[wire.HeaderLen:], []byte{0})
	k.void = k.void || k.whole || typ != wire.CommandComplete ||
		string(tag) != "INSERT 0 "+strconv.Itoa(wire.CountRows(k.rows))
	k.whole, k.reports = !k.void, reports
}

// again forgets the answer, if there is any: the statement is sent once more, as it was.
func (k *keptAnswer) again() {
	if k != nil {
		*k = keptAnswer{first: k.first, several: k.several}
	}
}

// keeping says what a replay keeps of the values that its client was told.
type keeping struct {
	on    bool // values that were drawn
	clock bool // and the time: nothing else of the transaction reads the clock, or is to
	tells bool // the client was told the time
	time  *toldTime
	now   *schema.Schema
	was   *schema.Schema // the last that was found to have the sequences of now
}

// surveyLog finds out what the replay that begins can keep. Nothing is kept of a transaction
// that may set a sequence back, or make one, nor where another has made one meanwhile: the
// number would be drawn again by others. A sequence that no snapshot had is no exception: a text may have drawn
// of it before it was known.
func (s *session) surveyLog() (k keeping) {
	l := s.tx.log
	if !s.srv.keeper.on || l.Turns() == 0 && !l.Begun() && len(s.tx.parts) == 0 || !s.told() {
		return k
	}
	k = keeping{on: true, clock: true, now: s.srv.keeper.now.Load().Schema}
	if k.tells, k.time = s.t.keepingWhole.tells, s.t.keepingWhole.time; s.tx.whole == nil {
		k.time, k.tells = s.toldOf(k.now)
	}
	ends := false // with the turn in progress; else what comes next may read the clock
	for turn := range l.Turns() + 1 {
		frames := l.Frames(turn)
		for i := range frames {
			f := &frames[i]
			ends = turn == l.Turns() && (ends || f.Note.commitsBlock())
			// What the server has not taken has done nothing (refuseUnread).
			if !(turn < l.Turns() && foreign(f)) && !k.bears(s, f) {
				return keeping{}
			}
		}
	}
	// What a discarded part has stored is gone, and what it has told is compared.
	if s.tx.whole != nil {
		k.clock = s.t.keepingWhole.clock
		return k
	}
	// Behind a return what reads the clock is refused. A trigger may read the clock as well. DSQL has none.
	ends = ends || s.t.returns != "" || s.tx.timed != nil
	k.clock = k.clock && ends && s.srv.cfg.Kind != Postgres
	return k
}

// commitsBlock reports whether a logged Query or Execute commits the log's transaction.
func (n *logEntry) commitsBlock() bool {
	return n.plan != nil && n.first > 0 && int(n.first) <= len(n.plan.Statements) && n.plan.Statements[n.first-1].Tx.Verb == rewrite.Commit
}

// changesCatalog reports whether a logged Query or Execute has DDL, or what nobody has read, in the log's
// transaction.
func (n *logEntry) changesCatalog() bool {
	if n.plan == nil || n.plan.Kind < rewrite.DDL {
		return false
	}
	if len(n.plan.Statements) == 0 {
		return true
	}
	own := n.plan.Statements[:min(int(n.first), len(n.plan.Statements))]
	return slices.ContainsFunc(own, func(st rewrite.Statement) bool { return st.Kind >= rewrite.DDL })
}

// bears takes a logged frame into account, and reports whether values can be kept beside it.
func (k *keeping) bears(s *session, f *retry.Frame[logEntry]) bool {
	n := &f.Note
	switch {
	case n.changesCatalog():
		return false
	case f.Type != wire.Query && f.Type != wire.Bind, n.fence, n.first == 0: // a fence draws nothing, and reads no clock
		return true
	case n.names == nil: // nobody knows what its names stood for
		return false
	case n.names.Schema() != k.was: // a sequence that was made anew draws its numbers again
		if k.was = n.names.Schema(); !k.now.SameSequences(k.was) {
			return false
		}
	}
	// The texts of the turn in progress count as well: what they read, they read behind the
	// values that are kept. A parameter may say now as a constant does.
	k.clock = k.clock && (f.Type != wire.Bind || !parse.TimeText(s.payload(f)))
	text := s.clientText(f)
	if s.drawnBy(text) != schema.Settled {
		return true // its answer stands, or it is drawn anew
	}
	survey := k.survey(s, f, text)
	k.clock = k.clock && !survey.Time
	// A view may call what sets a sequence back, where the database has such a function.
	return !survey.Numbers && !(survey.Views && !s.srv.reads())
}

// told reports whether the client was told anything that a replay could keep. Most replays find
// nothing, and need no look at what their statements read.
func (s *session) told() bool {
	if s.tx.asked.instant.bytes != nil {
		return true
	}
	for f := range s.loggedFrames() {
		if k := f.Note.kept; k != nil && (k.whole || k.first && k.complete()) {
			return true
		}
		if (f.Type == wire.Query || f.Type == wire.Bind) && s.drawnBy(s.clientText(f)) != schema.Settled {
			return true
		}
	}
	return false
}

// An INSERT whose values are kept, or that is given the time, does not read the clock for these. Whether
// it gets them in the end is decided where it is sent: if not, the replay differs.

// survey is what a logged text, which is the client's, does beside what is kept of its own answer.
func (k *keeping) survey(s *session, f *retry.Frame[logEntry], text string) (does values.Survey) {
	names := f.Note.names.Renewed(k.now)
	pieces := s.srv.planner.Pieces(text)
	for i, sql := range pieces[:min(int(f.Note.first), len(pieces))] {
		if k.tells {
			ok := true
			sql = cmp.Or(k.time.atInstant(s.srv.planner, sql, &ok, func(timeValue) string { return "'T'" }), sql)
		}
		in := values.TimedOf(s.srv.planner, sql, names)
		if in == nil {
			does = does.Or(values.SurveyOf(s.srv.planner, sql, names))
			continue
		}
		var g values.Given
		if k.tells {
			g.Knows = k.time.knows
		}
		if kept := f.Note.kept.answer(i, len(pieces)); kept != nil && kept.whole {
			g.Value = func(values.Cell) string { return "told" }
		}
		does = does.Or(in.Survey(g))
	}
	return does
}

// clientText is the text of a Query or Bind as the client sent it.
func (s *session) clientText(f *retry.Frame[logEntry]) string {
	n := &f.Note
	switch {
	case n.tmpl != nil:
		return n.tmpl.sql
	case n.asked != nil && n.asked.Text != "":
		return n.asked.Source()
	case n.text != "":
		return n.text
	}
	payload := s.payload(f)
	return string(payload[:max(0, len(payload)-1)])
}

// drawnBy is what a text draws and does nothing else, whose answer can stand for it; Settled
// for any other text. Most are known by their words.
func (s *session) drawnBy(text string) schema.Fill {
	if !rewrite.Generates([]byte(text)) {
		return schema.Settled
	}
	return values.Draws(s.srv.planner, text)
}

// turnStands reports whether nothing of a settled turn is to be sent again: all that ran in
// that turn has drawn what its client was told.
func (s *session) turnStands(turn int) bool {
	k := s.t.keeping
	if !k.on {
		return false
	}
	// A turn in which nothing ran, as one that only prepares, is sent: it costs little.
	ran := false
	frames := s.tx.log.Frames(turn)
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			if f.Note.fence { // of a statement that is not sent
				continue
			}
			fill := s.drawnBy(s.clientText(f))
			if fill == schema.Settled || fill == schema.Clock && !k.clock || f.Type == wire.Bind && f.Note.name != "" {
				return false
			}
			ran = true
		// A statement that was prepared here is prepared again where it is bound next.
		case 0, wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Sync:
		default:
			return false
		}
	}
	return ran
}
