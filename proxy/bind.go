package proxy

import (
	"bytes"

	"github.com/sluice-proxy/sluice/proxy/cursor"
	"github.com/sluice-proxy/sluice/proxy/recorded"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A Bind opens a portal. The client's Bind has the client's name of a statement, and Sluice replaces that name by the
// statement's name on the backend. The frame may be larger than any buffer, so Sluice forwards parameters as they
// arrive. In a replay, resend.go sends the Bind again.

// pendingBind is a Bind of the client that Sluice is handling. Unless whole is set, the frame is unread in the client's
// buffer until sendBind.
type pendingBind struct {
	cs *statement.Client
	// total is the Bind frame's length. portal, stmt and rest are the frame's parts, valid until the next read from the
	// client. A part of rest may not have arrived yet.
	total              int
	portal, stmt, rest []byte
	// whole is set if the whole Bind was read from the client, or if Sluice itself made the Bind. Then rest is complete.
	whole bool
	// cursor is the SQL cursor for which Sluice itself made the Bind. It is nil for a Bind of the client.
	cursor *cursor.Cursor
}

// handleBind handles a client's Bind frame of total bytes. It changes only the names at the frame's head. Parameters
// of any size pass unchanged. A returned error goes to the client. After an error, returned or already sent (t.skip),
// the Bind may be unread, and the session skips to the Sync.
func (s *session) handleBind(total int) error {
	if s.exceedsServerLimit(total) {
		return s.refuseFrame(total, sqlerror.MessageTooLong(total, s.srv.cfg.MaxMessageBytes))
	}
	c := &s.client
	b := pendingBind{total: total}
	var ok bool
	b.portal, b.stmt, b.rest, ok = request.SplitBindNames(c.Peek(min(total, c.Buffered()))[wire.HeaderLen:])
	if !ok {
		return wire.ErrString
	}
	if err := s.resolveBoundStatement(&b); err != nil || s.t.server.skip {
		return err
	}
	// The schema and settings at the Bind decide whether Sluice or the server answers. Those at the Parse do not matter.
	plan := b.cs.Template.Plan
	asks, local := plan.Sequence != "" && s.canAskOwnership(), s.runsPortalLocally(plan)
	// The server must first answer the frames since the last Sync. After an error in these the Bind opens no portal.
	if (asks || local && s.b != nil) && !s.t.owed.empty() {
		if err := s.flushAndRelay(); err != nil || s.t.server.skip {
			return err
		}
		if s.t.owed.empty() {
			return s.handleBind(total) // the buffer may have moved
		}
	}
	if plan.Sequence != "" {
		s.t.request.sequenceText = b.cs.Template.SQL
	}
	if s.txStatus() == 'E' && !s.isAllowedInFailedBlock(plan) {
		return s.bindInFailedBlock(&b)
	}
	// If a comment in the statement's text forbids replays, that takes effect at the Bind, not at the Parse.
	s.tx.optOutOfReplay(b.cs.HasOptedOut())
	if local {
		return s.bindLocally(&b)
	}
	if err := s.bindBeginReadOnly(&b); err != nil {
		return err
	}
	return s.bindOnBackend(&b)
}

// resolveBoundStatement sets b.cs to the statement of a Bind, and checks whether the transaction may run it. It plans
// the statement again if its names or options have changed. It may first commit the earlier statements of a
// transaction with DDL (commitPartIfNeeded). Waiting may move the client's buffer.
func (s *session) resolveBoundStatement(b *pendingBind) error {
	if b.cs = s.statements.Find(b.stmt); b.cs == nil {
		return sqlerror.NoStatement(b.stmt)
	}
	anew := s.srv.pool.keeper.Maps() || s.optionsChanged(b.cs.Template)
	if !anew && !s.parts.IsOn() {
		return s.admitBind(b)
	}
	if anew {
		if err := s.replanByNames(b.cs); err != nil {
			return err
		}
	}
	if err := s.commitPartIfNeeded(b.cs.Template.Plan, b.cs.Template.SQL, true); err != nil {
		return err
	}
	b.portal, b.stmt, b.rest, _ = request.SplitBindNames(s.client.Peek(min(b.total, s.client.Buffered()))[wire.HeaderLen:])
	return s.admitBind(b)
}

// admitBind checks whether the transaction may run a Bind's statement, and replaces reads of settings (current_setting,
// say) by constants. It returns nil with t.skip set if the client already has an error of an earlier frame.
func (s *session) admitBind(b *pendingBind) error {
	if err := s.bindConfigValues(b); err != nil || s.t.server.skip {
		return err
	}
	if err := s.checkSettingsMemory(b.cs.Template.Plan); err != nil {
		return err
	}
	return s.checkReadOnly(b.cs.Template.Plan)
}

// runsPortalLocally reports whether Sluice, rather than the server, runs a portal of the plan.
func (s *session) runsPortalLocally(plan *rewrite.Plan) bool {
	return (s.txStatus() != 'E' || s.isAllowedInFailedBlock(plan)) && (s.state == failed || s.canAnswerPlan(plan) || s.hasEmulatedSavepoint(plan))
}

// bindInFailedBlock returns the error of a Bind in a failed block. As in PostgreSQL, a wrong number of parameters is
// reported first, if the right number is known.
func (s *session) bindInFailedBlock(b *pendingBind) error {
	n, err := request.BindParamCount(b.rest)
	if err != nil {
		return err
	}
	if d := b.cs.Template.Description.Load(); d != nil && n != d.ParamCount() {
		return request.ErrParamCount(n, d.ParamCount(), b.stmt)
	}
	return s.errInFailedBlock(b.cs.Template.Plan)
}

// bindLocally opens a portal that Sluice itself runs. The server gets no Bind.
func (s *session) bindLocally(b *pendingBind) error {
	p := portal{plan: b.cs.Template.Plan, local: true, open: true, text: b.cs.Template.SQL}
	bind := s.srv.handlers[p.plan.SingleStatement().Does].bind
	if bind != nil || s.client.Buffered() < b.total {
		if err := s.readWholeBind(b); err != nil {
			return err
		}
		b.portal = bytes.Clone(b.portal)
	}
	if bind == nil {
		bind = validateBind
	}
	p, err := bind(s, p, *b)
	if err != nil || s.t.server.skip || s.t.settled {
		return err
	}
	if err := s.recordPortal(b.portal, p); err != nil {
		return err
	}
	if !b.whole {
		if err := s.discardBytes(b.total); err != nil {
			return err
		}
	}
	return s.queueReply(wire.FrameBindComplete)
}

// validateBind checks the Bind of a statement whose parameters, if any, are those that its Parse declared.
func validateBind(_ *session, p portal, b pendingBind) (portal, error) {
	return p, request.ValidateBind(b.rest, result.DeclaredParamCount(b.cs.Template.OIDs), b.stmt)
}

// readWholeBind reads the whole Bind frame from the client's stream, because Sluice itself needs its parameters. It
// refuses a frame longer than MaxStatementBytes, which stays unread.
func (s *session) readWholeBind(b *pendingBind) error {
	if b.whole {
		return nil
	}
	if b.total > s.srv.cfg.MaxStatementBytes {
		return sqlerror.StatementTooLong(b.total, s.srv.cfg.MaxStatementBytes)
	}
	if why := s.reserveFrameMemory(b.total); why != nil {
		return why
	}
	frame, err := s.readWholeFrame(b.total)
	if err != nil {
		return err
	}
	b.portal, b.stmt, b.rest, b.whole = request.SplitBindNames(frame[wire.HeaderLen:])
	return nil
}

// readSplitBind reads the whole Bind of a DECLARE, or of a statement that Sluice sends as two statements. It refuses
// a DECLARE whose query Sluice would send as two, since a cursor has one portal.
func (s *session) readSplitBind(b *pendingBind) error {
	if b.cs.Template.Split != nil && (b.cs.Declares != nil || b.cursor != nil) {
		return cursor.ErrSplit
	}
	return s.readWholeBind(b)
}

// bindOnBackend opens a portal on the server. Cheap checks come first, then the wait at the gate (the queue for
// contended rows), then acquiring the backend. Preparing the statement comes last, since it may need a round trip.
func (s *session) bindOnBackend(b *pendingBind) error {
	cs := b.cs
	plan := cs.Template.Plan
	if cs.Template = cs.Template.CurrentForm(); cs.Template.Split != nil || cs.Declares != nil {
		if err := s.readSplitBind(b); err != nil {
			return err
		}
	}
	kept, err := s.saveDeleteParams(b)
	if err != nil {
		return err
	}
	bound := portal{plan: plan, open: true, split: cs.Template.Split, text: cs.Template.SQL, stmt: cs, bound: kept, cursor: b.cursor, work: b.saveDeclare()}
	if err := s.recordPortal(b.portal, bound); err != nil {
		return err
	}
	if err := s.refuseLocalSettingQuery(plan); err != nil {
		return err
	}
	s.trackOperationName(plan)
	if err := waitAtGate(s, plan, cs.Template.SQL, b.rest); err != nil {
		return err
	}
	if err := s.admitPlan(plan); err != nil {
		return err
	}
	if s.t.request.pin.IsUnread() && plan.Pin == rewrite.PinUnparsed {
		s.t.request.pin.Scan([]byte(cs.Template.SQL))
	}
	if plan, err = s.planBind(b, bound); err != nil {
		return err
	}
	// If st and err are nil, the server has refused the text, and skips frames up to the Sync.
	st, err := s.prepareForClient(cs)
	if err != nil || st == nil {
		return err
	}
	if st, err = s.fixBindTime(b, st); err != nil || st == nil {
		return err
	}
	if s.mapped.Planned() != nil && !s.planIgnoresSchema(cs.Template.Plan) {
		if _, err := s.mustReplan(mostCatalogTries); err != nil {
			return err
		}
	}
	s.queryTxTime(cs.Template.SQL)
	s.logPlan(plan)
	if cs.Template.Split != nil {
		s.sendLockStatement(cs.Template, s.t.desc, b.rest)
	}
	return s.sendBind(b, st)
}

// planBind returns the plan of a Bind's statement, made by the schema of the backend that the session has now. It
// stores the plan in the new portal, of which bound is a copy. If the schema has changed, planBind plans again.
func (s *session) planBind(b *pendingBind, bound portal) (*rewrite.Plan, error) {
	again := s.isPlanStale() && !s.planIgnoresSchema(bound.plan)
	for try := 0; ; try++ {
		var err error
		if again {
			if bound.plan, err = s.replanBind(b, bound); err != nil {
				return nil, err
			}
			if err := s.admitReplanned(bound.plan); err != nil {
				return nil, err
			}
		}
		plan, err := s.classifyRead(bound.plan)
		if err != nil {
			return nil, err
		}
		if err := s.hiddenWriteError(bound.plan, plan); err != nil {
			return nil, err
		}
		if s.mapped.Planned() != nil && !s.planIgnoresSchema(bound.plan) {
			if again = s.isPlanStale() && s.canQueryBackend(); again { // the backend was replaced by another
				continue
			}
			if again, err = s.mustReplan(try); again {
				continue
			}
		}
		if plan != bound.plan {
			s.portals.setPlan(b.portal, plan)
		}
		return plan, err
	}
}

// replanBind plans a Bind's statement again, by the schema that was read when the session got its backend. It stores
// the new plan in the portal. It returns sqlerror.SchemaChanged if Sluice has already split the frame by the old plan.
func (s *session) replanBind(b *pendingBind, bound portal) (*rewrite.Plan, error) {
	if err := s.replanByNames(b.cs); err != nil {
		return nil, err
	}
	if !b.whole {
		b.portal, b.stmt, b.rest, _ = request.SplitBindNames(s.client.Peek(min(b.total, s.client.Buffered()))[wire.HeaderLen:])
	}
	if b.cs.Since == s.deliveries+1 { // the client has no answer to the Parse yet
		s.revalidateStatement(b.cs)
	}
	plan := b.cs.Template.Plan
	if plan != bound.plan {
		if bound.split != nil || bound.bound != nil || plan.ActiveSplit() != nil {
			return nil, sqlerror.SchemaChanged // the frame was taken apart by the old plan
		}
		s.portals.setPlan(b.portal, plan)
	}
	return plan, nil
}

// sendBind sends the Bind with the name that the statement has on the backend. It forwards a frame that is not whole
// as it arrives. For such a frame, the replay log gets the length first, and the bytes as they pass.
func (s *session) sendBind(b *pendingBind, st *statement.Server) error {
	t := s.t
	head := len(b.portal) + 1 + len(b.stmt) + 1
	params := b.total - wire.HeaderLen - head
	if b.whole {
		params = len(b.rest)
	}
	if t.rec.logs {
		var kept *recorded.Answer
		if s.recordsAnswers() {
			kept = recorded.New(b.cs.Template.Inserts, b.cs.Template.MayShowTxTime)
		}
		if kept != nil {
			p := s.portals.find(b.portal)
			p.kept = kept
			s.portals.update(b.portal, p)
		}
		s.tx.log.RecordFrame(wire.Bind, logEntry{tmpl: b.cs.Template, names: s.mapped.Planned(), described: b.cs.Described, name: string(b.portal), kept: kept, silent: b.cursor != nil, first: s.countInFirstTx(b.cs.Template.Plan)}, params+len(b.portal), 0)
		if b.cursor != nil { // no Parse in the log has charged its text
			t.rec.chargeLongText(b.cs.Template, b.cs.Template.Cost)
		}
	}
	s.portals.recordBind(b.portal, st, false)
	o := t.owed.push(wire.Bind)
	o.tmpl, o.clientStmt, o.swallow, o.mayUseTempTables = b.cs.Template, b.cs, b.cursor != nil, s.mayHaveTempTables()
	t.scratch = wire.AppendBindHead(t.scratch[:0], b.portal, st.Name, params)
	if b.whole && t.rec.logs {
		s.tx.log.AppendPayload(b.rest)
	}
	s.t.addToBatch(t.scratch)
	if b.whole {
		s.t.addToBatch(b.rest)
		return nil
	}
	s.client.Advance(wire.HeaderLen + head) // sent above, under the server's name
	return s.forwardBytes(params)
}
