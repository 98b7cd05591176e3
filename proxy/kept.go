package proxy

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/settings"
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

// insertion is a logged INSERT with the values that its client was told; nil where it is sent
// as it was: none of its answer can have been told in the turn in progress, which last says,
// before something was delivered.
func (s *session) insertion(f *retry.Frame[logEntry], last bool) (in *rewrite.Insertion, values [][][]byte) {
	k := f.Note.kept
	if k == nil || !k.whole || !s.t.keeping.on || f.Note.names == nil || last && !s.t.keepsLast {
		return nil, nil
	}
	in = s.srv.planner.Insertion(s.clientText(f), f.Note.names.Renewed(s.t.keeping.now))
	if in == nil {
		return nil, nil
	}
	if values = k.values(in.Width); len(values) != in.Rows {
		return nil, nil
	}
	return in, values
}

// keptQuery is the text in whose form a Query is sent again; "" for its own.
func (s *session) keptQuery(f *retry.Frame[logEntry], last bool) string {
	in, values := s.insertion(f, last)
	if in == nil {
		return ""
	}
	text := in.With(s.t.keeping.clock, func(c rewrite.Cell) string {
		v := values[c.Row][c.Column]
		if v == nil {
			return "NULL"
		}
		return settings.QuoteLiteral(string(v))
	})
	if text == "" {
		return ""
	}
	plan := s.srv.planner.PlanIn([]byte(text), f.Note.names.Renewed(s.t.keeping.now))
	if refusal(plan) != nil || plan.Kind != f.Note.plan.Kind {
		return ""
	}
	s.undrawn()
	if plan.Text != "" {
		return plan.Text
	}
	return text
}

// keptBind is the statement and the Bind, behind its names, in whose form one is sent again;
// nil for its own. The values are parameters behind the client's, in the formats in which
// they came; the server takes their types from the columns.
func (s *session) keptBind(f *retry.Frame[logEntry], last bool) (*template, []byte) {
	in, values := s.insertion(f, last)
	if in == nil {
		return nil, nil
	}
	p, ok := parseParams(s.payload(f))
	if !ok {
		return nil, nil
	}
	text := in.With(s.t.keeping.clock, func(c rewrite.Cell) string {
		p.add(c.Column, values[c.Row][c.Column])
		return "$" + strconv.Itoa(p.n)
	})
	if text == "" || p.n > maxParams {
		return nil, nil
	}
	t := f.Note.tmpl
	names := f.Note.names.Renewed(s.t.keeping.now)
	plan := s.srv.planner.PlanIn([]byte(text), names)
	if refusal(plan) != nil || plan.Kind != t.plan.Kind || t.own {
		return nil, nil
	}
	s.undrawn()
	return s.srv.template(&s.t.scratch, []byte(text), []byte(t.oids), t.parsing, names.ID(), plan), p.bytes()
}

// undrawn notes that the backend has not drawn what the session was told: what the backend has
// drawn before is out of date.
func (s *session) undrawn() { s.b.drawer = several }

// maxParams is how many parameters a Bind can have.
const maxParams = 65535

// params is what follows the names in a Bind, taken to pieces.
type params struct {
	n       int
	formats []uint16 // of each parameter
	values  []byte   // lengths and bytes, as they stand
	results []byte   // as it stands
	of      []uint16 // formats of the results
}

// parseParams reads what follows the names in a Bind.
func parseParams(rest []byte) (p params, ok bool) {
	codes, rest, ok := takeCodes(rest)
	if !ok || len(rest) < 2 {
		return p, false
	}
	p.n = int(binary.BigEndian.Uint16(rest))
	rest = rest[2:]
	p.formats = make([]uint16, p.n)
	for i := range p.formats {
		switch len(codes) {
		case 0:
		case 1:
			p.formats[i] = codes[0]
		case p.n:
			p.formats[i] = codes[i]
		default:
			return p, false
		}
	}
	all := rest
	for range p.n {
		if len(rest) < 4 {
			return p, false
		}
		size := max(0, int(int32(binary.BigEndian.Uint32(rest))))
		if rest = rest[4:]; size > len(rest) {
			return p, false
		}
		rest = rest[size:]
	}
	p.values = bytes.Clone(all[:len(all)-len(rest)])
	p.results = bytes.Clone(rest)
	p.of, rest, ok = takeCodes(rest)
	return p, ok && len(rest) == 0
}

// takeCodes reads a list of format codes.
func takeCodes(b []byte) (codes []uint16, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < 2*n {
		return nil, nil, false
	}
	for i := range n {
		codes = append(codes, binary.BigEndian.Uint16(b[2*i:]))
	}
	return codes, b[2*n:], true
}

// add appends a value of a column of the results, nil for NULL, in that column's format.
func (p *params) add(column int, value []byte) {
	p.n++
	format := uint16(0)
	switch {
	case len(p.of) == 1:
		format = p.of[0]
	case column < len(p.of):
		format = p.of[column]
	}
	p.formats = append(p.formats, format)
	if value == nil {
		p.values = binary.BigEndian.AppendUint32(p.values, ^uint32(0))
		return
	}
	p.values = append(binary.BigEndian.AppendUint32(p.values, uint32(len(value))), value...)
}

// bytes is what follows the names.
func (p *params) bytes() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(p.formats)))
	for _, f := range p.formats {
		b = binary.BigEndian.AppendUint16(b, f)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(p.n))
	return append(append(b, p.values...), p.results...)
}
