package proxy

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Values that the server made and the client was told: the keys of INSERT ... RETURNING, and
// numbers that were drawn. A replay does not have them made anew: the INSERT is sent with the
// values of its answer, and an answer that was only drawn stands. What comes is compared as
// ever, so that a client cannot tell.

// keptAnswer is the answer to an INSERT ... RETURNING of a block: whole DataRows, one behind
// the other.
type keptAnswer struct {
	rows []byte
	// whole: it has come to its end; void: it cannot be used.
	whole, void bool
}

// mostKept bounds the answer to one statement that is kept: a row is some bytes, and there
// are rarely more than a thousand.
const mostKept = 64 << 10

// inserts reports whether a text may be an INSERT ... RETURNING.
func inserts(sql []byte) bool {
	return rewrite.InsertsReturning(sql)
}

// keepAnswer returns where the answer to a statement that is about to be sent will be kept; nil for
// one whose answer no replay needs: outside a block it commits before it is told.
func (s *session) keepAnswer(may bool) *keptAnswer {
	if !may || !s.srv.keeper.on || !s.t.logs || !s.tx.log.Replayable() || !s.inBlock() {
		return nil
	}
	return &keptAnswer{}
}

// add takes bytes of rows as they come. What is too long, or has no room in the log, is not
// kept.
func (k *keptAnswer) add(log *retry.Log[logEntry], span []byte) {
	if k.void || len(span) == 0 {
		return
	}
	if len(k.rows)+len(span) > mostKept || !log.Keep(len(span)) {
		k.rows, k.void = nil, true
		return
	}
	k.rows = append(k.rows, span...)
}

// end is told of the frame that ends an answer.
func (k *keptAnswer) end(typ byte, frame []byte) {
	tag, _ := bytes.CutSuffix(frame[wire.HeaderLen:], []byte{0})
	k.void = k.void || k.whole || typ != wire.CommandComplete ||
		string(tag) != "INSERT 0 "+strconv.Itoa(countRows(k.rows))
	k.whole = !k.void
}

// again forgets the answer: the statement is sent once more, as it was.
func (k *keptAnswer) again() { *k = keptAnswer{} }

// countRows is how many DataRows there are; -1 where the bytes are not these alone.
func countRows(rows []byte) (n int) {
	for ; len(rows) > 0; n++ {
		if len(rows) < wire.HeaderLen || rows[0] != wire.DataRow {
			return -1
		}
		size := 1 + int(binary.BigEndian.Uint32(rows[1:]))
		if size < wire.HeaderLen || size > len(rows) {
			return -1
		}
		rows = rows[size:]
	}
	return n
}

// values are the columns of each row; a value of nil is NULL. nil where a row has not so many
// columns.
func (k *keptAnswer) values(width int) (all [][][]byte) {
	for rows := k.rows; len(rows) > 0; {
		size := 1 + int(binary.BigEndian.Uint32(rows[1:]))
		payload := rows[wire.HeaderLen:size]
		rows = rows[size:]
		if len(payload) < 2 || int(binary.BigEndian.Uint16(payload)) != width {
			return nil
		}
		row := make([][]byte, width)
		payload = payload[2:]
		for i := range row {
			if len(payload) < 4 {
				return nil
			}
			n := int(int32(binary.BigEndian.Uint32(payload)))
			payload = payload[4:]
			if n < 0 {
				continue
			}
			if n > len(payload) {
				return nil
			}
			row[i], payload = payload[:n:n], payload[n:]
		}
		all = append(all, row)
	}
	return all
}

// keeping says what a replay keeps of the values that its client was told.
type keeping struct {
	on    bool // values that were drawn
	clock bool // and the time: nothing else of the transaction reads the clock, and it ends here
	now   *rewrite.Schema
}

// surveyLog finds out what the replay that begins can keep. Nothing is kept of a transaction
// that may set a sequence back, or make one: the number would be drawn again by others.
func (s *session) surveyLog() (k keeping) {
	l := s.tx.log
	if !s.srv.keeper.on || l.Turns() == 0 && !l.Begun() || !s.told() {
		return k
	}
	k = keeping{on: true, clock: true, now: s.srv.keeper.now.Load().Schema}
	ends := false // with the turn in progress; else what comes next may read the clock
	for turn := range l.Turns() + 1 {
		frames := l.Frames(turn)
		for i := range frames {
			f := &frames[i]
			n := &f.Note
			ends = turn == l.Turns() && (ends || n.plan != nil && n.plan.Single() != nil && n.plan.Single().Tx.Verb == rewrite.Commit)
			if f.Type == wire.Execute && n.plan != nil && n.plan.Kind >= rewrite.DDL {
				return keeping{}
			}
			if f.Type != wire.Query && f.Type != wire.Bind {
				continue
			}
			if f.Type == wire.Query && n.plan.Kind >= rewrite.DDL || n.names == nil {
				return keeping{}
			}
			k.clock = k.clock && (f.Type != wire.Bind || !rewrite.TimeText(s.payload(f)))
			text := s.clientText(f)
			if k.stands([]byte(text), s) {
				continue
			}
			survey := s.survey(f, text, k.now)
			if survey.Numbers {
				return keeping{}
			}
			k.clock = k.clock && !survey.Time
		}
	}
	k.clock = k.clock && ends
	return k
}

// told reports whether the client was told anything that a replay could keep.
func (s *session) told() bool {
	l := s.tx.log
	for turn := range l.Turns() + 1 {
		frames := l.Frames(turn)
		for i := range frames {
			f := &frames[i]
			if f.Note.kept != nil && f.Note.kept.whole || (f.Type == wire.Query || f.Type == wire.Bind) && rewrite.Generates([]byte(s.clientText(f))) {
				return true
			}
		}
	}
	return false
}

// survey is what a logged text does beside what is kept of its own answer.
func (s *session) survey(f *retry.Frame[logEntry], text string, now *rewrite.Schema) rewrite.Survey {
	names := f.Note.names.Renewed(now)
	if k := f.Note.kept; k != nil && k.whole {
		if in := s.srv.planner.Insertion(text, names); in != nil {
			return in.Survey()
		}
	}
	return s.srv.planner.Survey(text, names)
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

// stands reports whether a text's answer stands: it was drawn, and nothing else.
func (k keeping) stands(text []byte, s *session) bool {
	if !k.on || !rewrite.Generates(text) {
		return false
	}
	fill := s.srv.planner.Draws(string(text))
	return fill == rewrite.Drawn || fill == rewrite.Clock
}

// turnStands reports whether nothing of a settled turn is to be sent again: all that ran in
// that turn has drawn what its client was told.
func (s *session) turnStands(turn int) bool {
	k := s.t.keeping
	if !k.on {
		return false
	}
	ran := false
	frames := s.tx.log.Frames(turn)
	for i := range frames {
		switch f := &frames[i]; f.Type {
		case wire.Query, wire.Bind:
			fill := rewrite.Settled
			if text := s.clientText(f); rewrite.Generates([]byte(text)) {
				fill = s.srv.planner.Draws(text)
			}
			if fill == rewrite.Settled || fill == rewrite.Clock && !k.clock || f.Type == wire.Bind && f.Note.name != "" {
				return false
			}
			ran = true
		case 0, wire.Parse, wire.Describe, wire.Execute, wire.Close, wire.Sync:
		default:
			return false
		}
	}
	return ran
}
