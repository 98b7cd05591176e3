package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// All that is remembered of statements holds for one epoch of the server's schema. A transaction that may have changed
// the schema has epochs of its own: nothing of what it sees reaches other sessions, nor does anything remain of it.
// extended.go and describe.go ask what is known, reply.go tells of what the server shows, and settle of the
// transaction's end.

// private marks an epoch that is one transaction's own.
const private = 1 << 63

// maxLearned bounds the descriptions that wait for the end of a transaction.
const maxLearned = 64

// schemaChange is what a transaction has to do with the schema. The zero value is that of one that has not touched it.
type schemaChange struct {
	own     uint64 // its epoch, once it may have changed the schema; else 0
	ddl     bool   // and not for want of a parse only
	wrote   bool   // what it called may have changed the schema
	first   uint64 // what the backend had prepared by then
	learned []learned
}

// learned is a description that others are told of once the transaction is committed.
type learned struct {
	tmpl *template
	desc *description
}

// epoch is that of the schema as the session sees it: its transaction's own, or the
// server's as far as it was seen to change.
func (s *session) epoch() uint64 {
	if s.schema.own != 0 {
		return s.schema.own
	}
	return s.srv.catalog.epoch.Load()
}

// changesSchema is told of a plan that is about to be sent. After DDL a return to a savepoint changes the schema too. A
// write may do so by a function: from the first on it is noted how many statements the backend had by then, since a
// rollback makes those that come later doubtful.
func (s *session) changesSchema(plan *rewrite.Plan) {
	c := &s.schema
	if plan.Kind >= rewrite.Control {
		s.tx.changes++
	}
	switch {
	case plan.Kind >= rewrite.DDL:
		c.ddl = c.ddl || plan.Kind == rewrite.DDL
		c.own = s.srv.catalog.privates.Add(1) | private
	case plan.Kind >= rewrite.Control:
		s.schemaReturned()
		if plan.Kind == rewrite.Write && !c.wrote {
			c.wrote, c.first = true, s.b.prepared.seq
		}
	}
}

// schemaReturned is told that the transaction may have come back to a savepoint: what it
// has learned since is of an epoch that nobody sees again.
func (s *session) schemaReturned() {
	if s.schema.own != 0 {
		s.schema.own = s.srv.catalog.privates.Add(1) | private
	}
}

// schemaCommitted is told of the end of a transaction behind which another may run. Where
// the transaction may have changed the schema, all that is remembered is asked anew. That
// is done also where nobody knows whether it was committed.
func (s *session) schemaCommitted() {
	if s.schema.own != 0 {
		s.srv.catalog.flush()
	}
}

// schemaEnded makes the changes of a committed transaction count for all.
func schemaEnded(s *session, committed bool) {
	if committed {
		s.schemaCommitted()
	}
}

// schemaRan forgets what is known of the schema after a statement that has changed it.
func schemaRan(s *session, _ *owed, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && st.Kind == rewrite.DDL {
		s.srv.catalog.flush()
	}
}

// schemaSettled is told that the session is in no transaction any more, and how the last one ended as far as that is
// known. Without a backend there is nothing to distrust: it is gone.
func (s *session) schemaSettled(committed bool) {
	c := &s.schema
	if committed || c.ddl { // CALL, for one, may have committed before it failed
		s.schemaCommitted()
	}
	if !committed && c.wrote && s.b != nil {
		s.b.prepared.distrust(c.first)
	}
	if committed {
		for _, l := range c.learned {
			s.srv.catalog.publish(l.tmpl, l.desc)
		}
	}
	clear(c.learned)
	c.own, c.ddl, c.wrote, c.learned = 0, false, false, c.learned[:0]
}

// apart reports whether names may mean something else to the session than to others: it has, or a
// function may have left it, a temporary table or a statement of its own at its backend. Such a
// session neither takes from the catalog nor adds to it.
func (s *session) apart() bool {
	return s.pinned || s.b != nil && s.b.left.Due()
}

// known reports whether a Parse of tmpl is sure to be accepted.
func (s *session) known(tmpl *template) bool {
	return !s.apart() && tmpl.accepted.Load() == s.epoch()+1
}

// described returns the description to tell the client without asking, or nil. It is of
// this epoch, and not for a session that is apart.
func (s *session) described(tmpl *template) *description {
	if d := tmpl.desc.Load(); d != nil && d.epoch == s.epoch() && !s.apart() {
		return d
	}
	return nil
}

// noteDescription notes a description, the answer to o, for this client and the others. frame is its second half, the
// first is captured; whole says that nothing of it is missing. Others are told at once, unless the transaction may have
// changed what it saw: then when that is committed, or never.
func (s *session) noteDescription(o *owed, frame []byte, whole bool) {
	if o.tmpl == nil { // a portal's: from now on its client counts on these columns
		if o.clientStmt != nil && o.clientStmt.described == nil && whole {
			s.describes(o.clientStmt, o.clientStmt.tmpl.ofPortal(frame, s.srv.texts))
		}
		return
	}
	t := s.t
	t.desc = nil
	if !whole || !o.done {
		return // too long to keep: nobody is told from memory
	}
	d := &description{epoch: o.stmt.epoch, frames: append(bytes.Clone(t.capture), frame...)}
	if have := o.tmpl.desc.Load(); have != nil && have.epoch == d.epoch && bytes.Equal(have.frames, d.frames) {
		d = have
	} else {
		s.srv.texts.describe(d)
	}
	s.confirm(o, d)
	t.desc = d
	s.b.prepared.describe(o.stmt, d)
	if o.clientStmt != nil && o.clientStmt.tmpl.inForce() == o.tmpl.inForce() {
		s.describes(o.clientStmt, d)
	}
	switch {
	case s.pinned || o.apart || d.epoch&private != 0:
	case !s.schema.wrote:
		s.srv.catalog.publish(o.tmpl, d)
	case len(s.schema.learned) < maxLearned:
		s.schema.learned = append(s.schema.learned, learned{o.tmpl, d})
	}
}

// ofPortal is the description of a portal that a client is told of: the same one as long
// as it stays the same. x counts it.
func (t *template) ofPortal(frame []byte, x *texts) *description {
	if d := t.portal.Load(); d != nil && bytes.Equal(d.frames, frame) {
		return d
	}
	d := &description{frames: bytes.Clone(frame)}
	x.describe(d)
	t.portal.Store(d)
	return d
}

// publish makes d what others are told. Where it is not what they were told, the schema was changed where nobody here
// saw it: then nothing that was known holds. One that is older than what is known is dropped.
func (c *catalog) publish(t *template, d *description) {
	switch have := t.desc.Load(); {
	case have == d, have != nil && have.epoch > d.epoch:
		return
	case have != nil && have.epoch == d.epoch && !d.promises(have):
		c.flush()
	}
	t.desc.Store(d)
}

// planChanged reports whether an error says that a statement of the server's would return other columns than it did
// when it was prepared. Servers that tell no routine are known by the message.
func planChanged(payload []byte) bool {
	return string(retry.Field(payload, 'C')) == errPlanChanged.Code &&
		(string(retry.Field(payload, 'R')) == errPlanChanged.Origin.Routine || string(retry.Field(payload, 'M')) == errPlanChanged.Message)
}

// trusts reports whether anything is remembered of t that is still told. If not, an error about t says nothing new.
func (c *catalog) trusts(t *template) bool {
	epoch, d := c.epoch.Load(), t.desc.Load()
	return t.accepted.Load() == epoch+1 || d != nil && d.epoch == epoch
}

// stale reports whether an error is that of a statement which the backend had before its client prepared it: then the
// error says nothing of the client's statement, and a replay prepares that anew. DDL that was seen since, and a
// description that the client has, make it the client's error.
func (s *session) stale(o *owed, payload []byte) bool {
	return (o.kind == wire.Bind || o.kind == wire.Describe) && planChanged(payload) &&
		o.clientStmt != nil && o.clientStmt.described == nil && o.clientStmt.epoch == s.epoch()
}

// deallocated reports whether an error says that the backend has lost a statement of ours:
// somebody deallocated it behind our back. A dedicated backend has none of ours.
func (s *session) deallocated(o *owed, made *answer.Error, payload []byte) bool {
	return (o.kind == wire.Bind || o.kind == wire.Describe) && !made.Forced && !s.dedicated && string(retry.Field(payload, 'C')) == "26000"
}
