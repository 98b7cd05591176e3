package proxy

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How an INSERT is sent again with the values of its answer (keptvalues.go): as constants in a
// Query, as parameters behind the client's in a Bind.

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
