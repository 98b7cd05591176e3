package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What Sluice caches about statements is valid for one epoch, a version of the server's schema. A transaction that may
// have changed the schema has its own epochs, so that other sessions do not see the change. extended.go and describe.go
// read the cache, reply.go fills it, and settleTurn ends the transaction's epochs.

// maxPendingDescriptions limits how many statement descriptions of a transaction other sessions get after its COMMIT.
const maxPendingDescriptions = 64

// schemaChange records how a transaction may have changed the schema. The zero value means no change.
type schemaChange struct {
	txEpoch      uint64 // the transaction's own epoch (schema version) once it may have changed the schema, or 0
	ddl          bool   // the transaction ran DDL, not only unparsed text
	reads        bool   // after its DDL, texts that look like reads may run other functions
	maps         bool   // its DDL may have changed mapped columns (bytea as text)
	wrote        bool   // a function that it called may have changed the schema
	first        uint64 // number of the backend's last prepared statement before wrote was set
	pendingDescs []pendingDescription
}

// pendingDescription is a statement's description that other sessions may use after the transaction's COMMIT.
type pendingDescription struct {
	tmpl *statement.Template
	desc *statement.Description
}

// schemaEpoch returns the schema version that the session sees: its transaction's own if there is one, or the server's.
func (s *session) schemaEpoch() uint64 {
	if s.schema.txEpoch != 0 {
		return s.schema.txEpoch
	}
	return s.srv.pool.templates.Epoch()
}

// recordSchemaChange records how a plan that is about to be sent may change the schema. After DDL, a ROLLBACK TO
// changes the schema too. A write may change the schema by a function that it calls. If such a transaction is rolled
// back, Sluice cannot rely on the statements that the backend prepared after the write.
func (s *session) recordSchemaChange(plan *rewrite.Plan) {
	c := &s.schema
	if plan.Kind >= rewrite.Control {
		s.tx.changes++
	}
	switch {
	case plan.Kind >= rewrite.DDL:
		c.ddl, c.maps = c.ddl || plan.Kind == rewrite.DDL, c.maps || plan.Mapped
		c.reads = c.reads || plan.Kind == rewrite.Unknown || plan.AnyStatement(serverfacts.MayChangeReads)
		c.txEpoch = s.srv.pool.templates.NewTxEpoch()
	case plan.Kind >= rewrite.Control:
		s.renewTxEpoch()
		if plan.Kind == rewrite.Write && !c.wrote {
			c.wrote, c.first = true, s.b.prepared.LastNumber()
		}
	}
}

// renewTxEpoch replaces the transaction's own epoch (schema version), if there is one, for example after a ROLLBACK TO.
// Sluice then no longer uses facts that it cached in the old epoch.
func (s *session) renewTxEpoch() {
	if s.schema.txEpoch != 0 {
		s.schema.txEpoch = s.srv.pool.templates.NewTxEpoch()
	}
}

// invalidateSchemaCache drops all cached facts about the schema if the ended transaction may have changed the schema.
// It must also be called if Sluice does not know whether the transaction has committed.
func (s *session) invalidateSchemaCache() {
	if s.schema.txEpoch != 0 {
		s.srv.pool.templates.BeginEpoch(s.schema.reads)
	}
}

// publishSchemaChange drops the cached schema after a COMMIT, so that all sessions see the transaction's changes of it.
func publishSchemaChange(s *session, committed bool) {
	if committed {
		s.invalidateSchemaCache()
	}
}

// invalidateAfterDDL drops what Sluice has cached about the schema, for all sessions, after the server ran DDL.
func invalidateAfterDDL(s *session, _ *pendingReply, st *rewrite.Statement, tag []byte) {
	if tag != nil && st != nil && st.Kind == rewrite.DDL {
		s.srv.pool.templates.BeginEpoch(serverfacts.MayChangeReads(st))
	}
}

// endSchemaChange ends the record of how the last transaction changed the schema. committed is false if Sluice does not
// know the outcome. After a rollback, statements that the backend prepared after a write are outdated.
func (s *session) endSchemaChange(committed bool) {
	c := &s.schema
	if committed || c.ddl { // a CALL may have committed DDL before it failed
		s.invalidateSchemaCache()
	}
	if !committed && c.wrote && s.b != nil {
		s.b.prepared.MarkOutdated(c.first)
	}
	if s.b != nil {
		s.b.txSchema = nil
	}
	if committed {
		for _, l := range c.pendingDescs {
			s.srv.pool.templates.PublishDescription(l.tmpl, l.desc)
		}
	}
	clear(c.pendingDescs)
	*c = schemaChange{pendingDescs: c.pendingDescs[:0]}
}

// mayHaveTempTables reports whether table names may mean other tables in this session than in others. That is possible
// if it is pinned, or if a function may have made a temporary table on its backend. Sluice then uses no cached facts.
func (p *pairing) mayHaveTempTables() bool {
	return p.pin.IsPinned() || p.b != nil && p.b.leftState.NeedsQuery()
}

// isParseAccepted reports whether the server certainly accepts a Parse of tmpl, so that Sluice may answer the Parse.
func (s *session) isParseAccepted(tmpl *statement.Template) bool {
	return !s.mayHaveTempTables() && tmpl.Accepted.Load() == s.schemaEpoch()+1
}

// cachedDescription returns the cached description of tmpl for the current schema epoch, or nil. In a session that may
// have temporary tables it returns nil.
func (s *session) cachedDescription(tmpl *statement.Template) *statement.Description {
	if d := tmpl.Description.Load(); d != nil && d.Epoch == s.schemaEpoch() && !s.mayHaveTempTables() {
		return d
	}
	return nil
}

// cacheDescription caches a statement's description, the answer to the pending reply o, for this client and others.
// frame is its second frame, and t.capture its first. whole means that frame is complete. Other sessions get the
// description at once. If the transaction may have changed the schema before, they get it after the COMMIT.
func (s *session) cacheDescription(o *pendingReply, frame []byte, whole bool) {
	if o.tmpl == nil { // a portal's description: the client now relies on its columns
		if o.clientStmt != nil && o.clientStmt.Described == nil && whole {
			o.clientStmt.RecordDescription(&s.memory.account, o.clientStmt.Template.DescribePortal(frame, s.srv.pool.texts))
		}
		return
	}
	t := s.t
	t.desc = nil
	if !whole || !o.done {
		return // too long to cache
	}
	d := &statement.Description{Epoch: o.stmt.Epoch, Frames: append(bytes.Clone(t.capture), frame...)}
	if have := o.tmpl.Description.Load(); have != nil && have.Epoch == d.Epoch && bytes.Equal(have.Frames, d.Frames) {
		d = have
	} else {
		s.srv.pool.texts.CountDescription(d)
	}
	s.confirmDescription(o, d)
	t.desc = d
	s.b.prepared.SetDescription(o.stmt, d)
	if o.clientStmt != nil && o.clientStmt.Template.CurrentForm() == o.tmpl.CurrentForm() {
		o.clientStmt.RecordDescription(&s.memory.account, d)
	}
	switch {
	case s.pin.IsPinned() || o.mayUseTempTables || d.Epoch&statement.TxEpochBit != 0:
	case !s.schema.wrote:
		s.srv.pool.templates.PublishDescription(o.tmpl, d)
	case len(s.schema.pendingDescs) < maxPendingDescriptions:
		s.schema.pendingDescs = append(s.schema.pendingDescs, pendingDescription{o.tmpl, d})
	}
}

// isPlanChanged reports whether the server refused a prepared statement because its result columns have changed. If a
// server sends no routine name with its errors, the message decides.
func isPlanChanged(payload []byte) bool {
	return string(retry.ErrorField(payload, 'C')) == sqlerror.PlanChanged.Code &&
		(string(retry.ErrorField(payload, 'R')) == sqlerror.PlanChanged.Origin.Routine || string(retry.ErrorField(payload, 'M')) == sqlerror.PlanChanged.Message)
}

// isStaleStatement reports whether the server refused an outdated statement that the backend prepared before the
// client. If so, a replay prepares it again. After DDL, or if the client has a description, the client gets the error.
func (s *session) isStaleStatement(o *pendingReply, payload []byte) bool {
	return (o.kind == wire.Bind || o.kind == wire.Describe) && isPlanChanged(payload) &&
		o.clientStmt != nil && o.clientStmt.Described == nil && o.clientStmt.Epoch == s.schemaEpoch()
}

// isDeallocated reports whether the backend has lost a statement that Sluice prepared, because a client deallocated the
// statement. A dedicated backend has no such statements.
func (p *pairing) isDeallocated(o *pendingReply, made *answer.ErrorHandling, payload []byte) bool {
	return (o.kind == wire.Bind || o.kind == wire.Describe) && !made.Forced && !p.dedicated && string(retry.ErrorField(payload, 'C')) == "26000"
}
