package proxy

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A query that an older cluster refuses to lock goes out in two parts: a
// companion that locks one table's rows, whose answers are for nobody, and the
// query without its clause. In a simple Query both are one text; otherwise the
// companion is bound and run in front of the client's Bind, with its values.

// inForce is the template of the form in which the text goes to the server now. All who
// have the text get the same one; one that is a split form already is its own.
func (t *template) inForce() *template {
	split := t.plan.InSplit()
	if split == nil || t.split != nil {
		return t
	}
	made := &template{sql: t.sql, oids: t.oids, cost: t.cost, plan: t.plan, parsing: t.parsing, names: t.names, by: t.by, optsOut: t.optsOut, split: split, whole: t}
	if !t.inTwo.CompareAndSwap(nil, made) {
		return t.inTwo.Load()
	}
	return made
}

// sent is the plan that an answer is about, and the split form if it was sent in one; nil
// for an answer that is about no text.
func (o *owed) sent() (*rewrite.Plan, *rewrite.Split) {
	if o.tmpl != nil && o.split == nil {
		return o.tmpl.plan, o.tmpl.split
	}
	return o.plan, o.split
}

// refusedForm is told of every error. When it refuses the form that a statement
// was sent in, hint is for the client, and again says that there is another form.
func (s *session) refusedForm(o *owed, made *answer.Error, payload []byte) (hint string, again bool) {
	plan, split := o.sent()
	if plan == nil {
		return "", false
	}
	hint, again = s.srv.planner.Refused(plan, split, string(retry.Field(payload, 'C')), retry.Field(payload, 'M'))
	if hint == "" {
		hint = made.Hint
	} else {
		s.srv.metrics.Unsupported(plan.Operation, string(rewrite.JoinForUpdate))
	}
	if again {
		s.srv.log.Info("query is locked by a statement of its own from now on: this cluster takes FOR UPDATE on one table only",
			append(s.logAttrs(), "operation", plan.Operation)...)
	}
	return hint, again
}

// askInTwo marks the answer to a simple Query that is sent in two parts, and returns what
// is sent. The first tag in the answer is the companion's.
func (s *session) askInTwo(o *owed, split *rewrite.Split) []byte {
	o.split, s.t.masks, s.t.looks = split, true, true
	o.reply = chained(&lockPart{}, o.reply)
	return wire.AppendStrings(nil, wire.Query, split.Text())
}

// lock runs the companion of a statement in front of a Bind; params is that Bind behind its
// names, and d what the server says of the statement. Its answers are for nobody; an error
// of it is the client's, and has the server skip the Bind.
func (s *session) lock(tmpl *template, d *description, params []byte) {
	values, ok := silent.PickParams(params, tmpl.split.Params)
	if !ok {
		return // the server will say what is wrong with them
	}
	t := s.t
	part := &lockPart{}
	mark := func(o *owed) { o.swallow, o.reply, o.plan, o.split = true, part, tmpl.plan, tmpl.split }
	seq := t.owed.seq
	// The companion is prepared like a client's statement, and may be held already.
	name := s.prepare(s.companion(tmpl, d), false).name
	if t.owed.seq != seq {
		mark(&t.owed.items[len(t.owed.items)-1]) // its Parse
	}
	mark(t.owed.push(wire.Bind))
	s.add(append(appendBindHead(nil, []byte(lockPortal), name, len(values)), values...))
	mark(t.owed.push(wire.Execute))
	s.add(append(wire.AppendHeader(nil, wire.Execute, len(lockPortal)+5), lockPortal+"\x00\x00\x00\x00\x00"...))
	mark(t.owed.push(wire.Close))
	s.add(wire.AppendNamed(nil, wire.Close, 'P', lockPortal))
	t.masks, t.looks = true, true
}

// lockPortal is the companion's: the unnamed one may be the client's. It is closed at once,
// since a name can be bound once only.
const lockPortal = "sluice_lock"

// companion is the template of the statement that locks. Its parameters have the types that
// the server gave the query's: alone it might take others. Without a description they are
// those that the client gave.
func (s *session) companion(tmpl *template, d *description) *template {
	oids := []byte(tmpl.oids)
	if d != nil {
		if params, _ := d.parts(); params != nil {
			oids = params[wire.HeaderLen:]
		}
	}
	types := binary.BigEndian.AppendUint16(nil, uint16(len(tmpl.split.Params)))
	for _, n := range tmpl.split.Params {
		oid := uint32(0) // the server's to find out
		if at := 2 + 4*(n-1); at+4 <= len(oids) {
			oid = binary.BigEndian.Uint32(oids[at:])
		}
		types = binary.BigEndian.AppendUint32(types, oid)
	}
	return s.srv.template(&s.t.scratch, []byte(tmpl.split.Lock), types, tmpl.parsing, 0, 0, nil)
}

// lockPart is the answer to a companion, which is for nobody. In a simple Query the query's answer follows.
type lockPart struct {
	asSent
	over, described bool // described: the query's rows follow
}

// ofCompanion reports whether o is an entry of a companion's own.
func (o *owed) ofCompanion() bool {
	_, is := o.reply.(*lockPart)
	return is
}

// frame drops the companion's part, which its tag ends. Another tag than that of a SELECT, or a second one in
// front of the query's rows, means that the backend is out of step.
func (l *lockPart) frame(s *session, o *owed, f answer.Frame) (verdict, error) {
	switch {
	case l.over && (l.described || f.Type != wire.CommandComplete):
		l.described = l.described || f.Type == wire.RowDescription
		return undecided, nil
	case f.Type == wire.RowDescription, f.Row():
		return swallow, nil
	case f.Type != wire.CommandComplete:
		return undecided, nil
	case l.over, f.Verb() != "SELECT":
		return swallow, s.desync(f.Type)
	}
	if l.over = true; o.kind != wire.Query {
		s.t.owed.pop()
	}
	return swallow, nil
}
