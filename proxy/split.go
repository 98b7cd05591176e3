package proxy

import (
	"encoding/binary"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// FOR UPDATE on a join, which an older cluster refuses, is sent as two queries. The companion locks one table's rows;
// its answers are hidden. The other is the query without FOR UPDATE. In a simple Query both are one text. In the
// extended protocol the companion runs before the client's Bind, with the same parameter values.

// inForce returns the template with the form that the server gets now. All users of the text share it. A template
// that is a split form already is returned unchanged.
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

// sent returns the plan that a reply is about, and the split form if one was sent; nil if the reply is about no text.
func (o *owed) sent() (*rewrite.Plan, *rewrite.Split) {
	if o.tmpl != nil && o.split == nil {
		return o.tmpl.plan, o.tmpl.split
	}
	return o.plan, o.split
}

// refusedForm checks every error for a refusal of the form that was sent. hint is for the client. again reports that
// another form can be sent.
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

// askInTwo marks the reply to a simple Query that is sent as two queries, and returns the frame to send. The first
// tag of the answer is the companion's.
func (s *session) askInTwo(o *owed, split *rewrite.Split) []byte {
	o.split, s.t.masks, s.t.looks = split, true, true
	o.reply = chained(&lockPart{}, o.reply)
	return wire.AppendStrings(nil, wire.Query, split.Text())
}

// lock sends the companion of a statement before its Bind. params is that Bind after its names, d the statement's
// description. The companion's answers are hidden. Its error goes to the client and makes the server skip the Bind.
func (s *session) lock(tmpl *template, d *description, params []byte) {
	values, ok := silent.PickParams(params, tmpl.split.Params)
	if !ok {
		return // the server will report the error
	}
	t := s.t
	part := &lockPart{}
	mark := func(o *owed) { o.swallow, o.reply, o.plan, o.split = true, part, tmpl.plan, tmpl.split }
	seq := t.owed.seq
	// The companion is prepared like a client's statement, perhaps already.
	name := s.prepare(s.companion(tmpl, d), false).name
	if t.owed.seq != seq {
		mark(&t.owed.items[len(t.owed.items)-1]) // its Parse
	}
	mark(t.owed.push(wire.Bind))
	s.add(append(wire.AppendBindHead(nil, []byte(lockPortal), name, len(values)), values...))
	mark(t.owed.push(wire.Execute))
	s.add(append(wire.AppendHeader(nil, wire.Execute, len(lockPortal)+5), lockPortal+"\x00\x00\x00\x00\x00"...))
	mark(t.owed.push(wire.Close))
	s.add(wire.AppendNamed(nil, wire.Close, 'P', lockPortal))
	t.masks, t.looks = true, true
}

// lockPortal is the companion's portal, because the unnamed portal may be the client's. It is closed at once, so that
// its name can be bound again.
const lockPortal = "sluice_lock"

// companion returns the template of the locking statement. Its parameters get the types that the server gave the
// query's parameters; without a description, the client's types.
func (s *session) companion(tmpl *template, d *description) *template {
	oids := []byte(tmpl.oids)
	if d != nil {
		if params, _ := d.parts(); params != nil {
			oids = params[wire.HeaderLen:]
		}
	}
	types := binary.BigEndian.AppendUint16(nil, uint16(len(tmpl.split.Params)))
	for _, n := range tmpl.split.Params {
		oid := uint32(0) // the server infers the type
		if at := 2 + 4*(n-1); at+4 <= len(oids) {
			oid = binary.BigEndian.Uint32(oids[at:])
		}
		types = binary.BigEndian.AppendUint32(types, oid)
	}
	return s.srv.template(&s.t.scratch, []byte(tmpl.split.Lock), types, tmpl.parsing, 0, 0, nil)
}

// lockPart hides the answer to a companion. In a simple Query the query's answer follows.
type lockPart struct {
	asSent
	over, described bool // described: the query's rows follow
}

// ofCompanion reports whether o is a companion's pending reply.
func (o *owed) ofCompanion() bool {
	_, is := o.reply.(*lockPart)
	return is
}

// frame hides the companion's frames up to its tag. A tag other than SELECT, or a second tag before the query's rows,
// means that the stream is out of step.
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
