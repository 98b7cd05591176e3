package proxy

import (
	"strconv"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// How an INSERT is sent again with the values of its answer (keptvalues.go): as constants in a
// Query, as parameters behind the client's in a Bind. The text that is changed is the client's,
// and is planned as any other: a mapped column gets its value as the client would write that.
// A value is never read or written by Sluice: it goes back in the form in which it came, under
// the settings that it came under, and the answer shows whether the server took it so.

// insertion is a logged INSERT with the values that its client was told; nil where it is sent
// as it was: none of its answer can have been told in the turn in progress, which last says,
// before something was delivered.
func (s *session) insertion(f *retry.Frame[logEntry], last bool) (in *rewrite.Insertion, values [][][]byte) {
	k := f.Note.kept
	if k == nil || !k.whole || !s.t.keeping.on || f.Note.names == nil || last && !s.t.keepsLast {
		return nil, nil
	}
	in = s.srv.planner.Insertion(s.clientText(f), f.Note.names.Renewed(s.t.keeping.now))
	if in == nil || !in.Same(f.Note.names) { // or the number is of another sequence
		return nil, nil
	}
	if values = wire.Rows(k.rows, in.Width); len(values) != in.Rows {
		return nil, nil
	}
	return in, values
}

// The two functions below return nothing where the changed text is refused, or is another kind
// of statement than the client's: then it is sent as it was, and the answer will differ.

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
	p, ok := wire.ParseParams(s.payload(f))
	if !ok {
		return nil, nil
	}
	text := in.With(s.t.keeping.clock, func(c rewrite.Cell) string {
		return "$" + strconv.Itoa(p.Add(c.Column, values[c.Row][c.Column]))
	})
	if text == "" || p.Len() > wire.MaxParams {
		return nil, nil
	}
	t := f.Note.tmpl
	names := f.Note.names.Renewed(s.t.keeping.now)
	plan := s.srv.planner.PlanIn([]byte(text), names)
	if refusal(plan) != nil || plan.Kind != t.plan.Kind || t.own {
		return nil, nil
	}
	s.undrawn()
	return s.srv.template(&s.t.scratch, []byte(text), []byte(t.oids), t.parsing, names.ID(), t.by, plan), p.Bytes()
}

// undrawn sees to it that currval and lastval are not asked of a backend that would answer with
// an older number. It notes that the backend has not drawn what the session was told: what the backend has
// drawn before is out of date.
func (s *session) undrawn() { s.b.drawer = several }
