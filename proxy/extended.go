package proxy

import (
	"bytes"
	"encoding/binary"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/account"
	"github.com/sluice-proxy/sluice/proxy/batch"
	"github.com/sluice-proxy/sluice/proxy/feature"
	"github.com/sluice-proxy/sluice/proxy/request"
	"github.com/sluice-proxy/sluice/proxy/serversettings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles Parse and Execute of the extended protocol. Bind is in bind.go, Describe in describe.go, Close
// in portal.go. templates.go chooses a query's template (its plan, and the text for the server).

// handleParse stores a prepared statement under the client's name and answers ParseComplete. Sluice asks no server if
// it runs the statement itself, or if a server has accepted it since the last schema change. A returned error goes to
// the client, and Sluice does not store the name.
func (s *session) handleParse(frame []byte) error {
	name, sql, oids, err := request.SplitParse(frame)
	if err != nil {
		return err
	}
	sql, _ = s.replacePublicSchema(sql)
	err = s.parseStatement(name, sql, oids)
	if err != nil && len(name) == 0 && isRefusal(err) {
		s.destroyUnnamedStatement()
	}
	return err
}

// isRefusal reports whether err is an error that the client gets and that does not end the session.
func isRefusal(err error) bool { return feature.IsRefusal(err) }

// parseStatement does the work of handleParse, given the fields of the Parse frame.
func (s *session) parseStatement(name, sql, oids []byte) error {
	tmpl, err := s.templateForParse(name, sql, oids)
	if err != nil {
		return err
	}
	s.countFindings(tmpl.Plan)
	if err := s.checkPreparable(tmpl); err != nil {
		return err
	}
	// A failed block accepts only statements that end it, and empty queries.
	refused := s.txStatus() == 'E' && !s.isAllowedInFailedBlock(tmpl.Plan) && tmpl.Plan.Kind != rewrite.Empty
	if refused && (s.state == failed || s.chainsInFailedBlock(tmpl.Plan)) {
		return s.errInFailedBlock(tmpl.Plan)
	}
	var declared *rewrite.CursorStatement
	if !refused {
		if tmpl, declared, err = s.checkParse(name, tmpl, oids); err != nil {
			return err
		}
	}
	// If a block has failed at the server, Sluice sends the refused Parse to get the server's error.
	prev, since := s.statements.Find(name), uint64(0)
	if s.state == failed || !refused && s.hasEmulatedSavepoint(tmpl.Plan) || s.txStatus() != 'E' && (s.answersParse(tmpl.Plan) || s.isParseAccepted(tmpl)) {
		s.srv.metrics.CountLocalAnswer(metrics.LocalParse)
		since = s.deliveries + 1
		// A Parse makes writes since the last Sync visible to later statements, as bumpCommandCounter does.
		s.bumpCommandCounter()
		if s.isDescribeNext(name) {
			s.t.request.parsed = waitingParse{waits: true, name: string(name), prev: prev}
		} else if err := s.queueReply(wire.FrameParseComplete); err != nil {
			return err
		}
	} else {
		if tmpl, err = s.parseBeforeDescribe(name, tmpl, declared, prev); err != nil {
			return err
		}
	}
	s.nameStatement(name, tmpl, prev, since)
	s.recordDeclare(name, declared, sql)
	return nil
}

// checkPreparable returns an error if the query cannot be prepared anywhere, such as "SELECT 1; SELECT 2". Every
// prepared statement therefore has at most one statement (Plan.SingleStatement).
func (s *session) checkPreparable(t *statement.Template) error {
	if len(t.Plan.Statements) > 1 { // as in PostgreSQL it comes first
		return sqlerror.MultipleCommands
	}
	if st := t.Plan.SingleStatement(); st != nil && s.srv.handlers[st.Does].params != nil {
		if _, err := s.srv.handlers[st.Does].params(st, t.OIDs); err != nil {
			return err
		}
	}
	return s.commitPartIfNeeded(t.Plan, t.SQL, false)
}

// checkStatementName returns an error if a Parse reuses a name, or if the client has too many prepared statements. The
// server cannot check this, since it never gets clients' names.
func (s *session) checkStatementName(name []byte) error {
	switch {
	case len(name) == 0:
	case s.statements.Named()[string(name)] != nil:
		return sqlerror.StatementExists(name)
	case len(s.statements.Named()) >= s.srv.cfg.PreparedPerClient:
		return sqlerror.TooManyStatements(s.srv.cfg.PreparedPerClient)
	default:
		if full := s.memory.account.ExceededBound(account.Own, statement.NameBytes+len(name)); full != nil {
			return errOutOfMemory(full)
		}
	}
	return nil
}

// parseBeforeDescribe sends a Parse to the server (parseOnServer). If the client's next frame describes the same
// statement, Sluice sends ParseComplete with the description. prev is the statement that had the name before.
func (s *session) parseBeforeDescribe(name []byte, tmpl *statement.Template, declared *rewrite.CursorStatement, prev *statement.Client) (*statement.Template, error) {
	waits := declared == nil && s.isDescribeNext(name)
	tmpl, err := s.parseOnServer(tmpl, declared, waits)
	if err == nil && waits {
		s.t.request.parsed = waitingParse{waits: true, name: string(name), prev: prev}
	}
	return tmpl, err
}

// parseOnServer sends a Parse to the server and returns the template that was parsed, which may differ from tmpl. It
// borrows a backend first, and does not wait for the answer. If the server refuses the query, Sluice later removes
// the client's name. declared is the cursor whose query is tmpl, or nil. If waits is set, the client gets the
// ParseComplete with the next description, and the replay log has only the Describe.
func (s *session) parseOnServer(tmpl *statement.Template, declared *rewrite.CursorStatement, waits bool) (*statement.Template, error) {
	if err := s.ensureBackend(); err != nil {
		return nil, err
	}
	tmpl, err := s.templateForBackend(tmpl, declared)
	if err != nil {
		return nil, err
	}
	if st := s.b.prepared.Find(tmpl); st != nil {
		s.closeOnBackend(st) // prepared under an older schema
	}
	s.srv.metrics.CountPreparedUse(metrics.PreparedPrepared)
	s.queryTxTime("") // must come first: after a text that fails, the server does not answer
	switch {
	case !waits:
		s.t.rec.logFrame(wire.Parse, logEntry{tmpl: tmpl, names: s.mapped.Planned()}, nil)
		s.t.rec.chargeLongText(tmpl, tmpl.Cost)
	case s.t.unseen:
		s.t.rec.logFrame(emptyParseType, logEntry{}, nil)
	}
	s.parseOnBackend(tmpl, waits)
	return tmpl, nil
}

// templateForBackend returns the template of a query for the backend that was just lent. That backend may know a
// newer schema, or may read string literals in another way. tmpl and declared are the same as for parseOnServer.
func (s *session) templateForBackend(tmpl *statement.Template, declared *rewrite.CursorStatement) (*statement.Template, error) {
	misleads := s.b.settings.Reading() != 0 && tmpl.Plan.Pin != rewrite.PinUnparsed && s.b.settings.Reading().MayMislead([]byte(tmpl.SQL)) // unknown before the backend was borrowed
	if !misleads && !s.isPlanStale() {
		return tmpl, nil
	}
	sql, oids := []byte(tmpl.SQL), []byte(tmpl.OIDs)
	switch {
	case declared != nil:
		return s.cursorQueryTemplate(declared, oids)
	case misleads:
		return s.unparsedTemplate(sql, oids)
	}
	tmpl, err := s.templateFor(sql, oids)
	if err == nil {
		err = planRefusal(tmpl.Plan)
	}
	return tmpl, err
}

// nameStatement gives a client's name to a template. prev is the statement that had the name before the Parse. since
// is the number of the write to the client that answers the Parse. If this Parse or an earlier frame fails, prev gets
// the name again.
func (s *session) nameStatement(name []byte, tmpl *statement.Template, prev *statement.Client, since uint64) {
	if !s.t.request.parsed.waits {
		s.t.rec.logUndo(string(name), prev)
	}
	if s.t.owed.empty() {
		if len(name) == 0 && !s.t.touched { // nothing refers to the previous statement
			s.detachUnnamedPortals()
			s.statements.SetUnnamed(s.newClientStatement(tmpl, since))
			return
		}
	} else {
		s.t.owed.addNameUndo(string(name), prev)
	}
	st := s.newClientStatement(tmpl, since)
	s.statements.Set(&s.memory.account, string(name), &st)
}

// handleExecute runs a portal, in Sluice if Sluice answers the statement, otherwise at the server. It waits for the
// server's answer only if later frames depend on the answer, as after the end of a failed block, DEALLOCATE ALL, or a
// RESET of startup values.
func (s *session) handleExecute(frame []byte) error {
	// After a statement that Sluice could not parse, the session waits for the server's answer before it sends more. On
	// a syntax error the server skips frames up to the Sync, and ROLLBACK TO SAVEPOINT must remain possible.
	if s.t.request.unreadRuns && len(s.tx.marks) > 0 && !s.t.owed.empty() {
		frame = bytes.Clone(frame) // the buffer may be reused
		if err := s.flushAndRelay(); err != nil || s.t.server.skip {
			return err
		}
	}
	m := wire.NewBodyReader(frame[wire.HeaderLen:])
	name, limit := m.String(), m.Int32()
	if err := m.CheckEnd(); err != nil {
		return err
	}
	p := s.findPortal(name)
	switch {
	case p.local:
		return s.executeLocalPortal(name, p, uint32(limit))
	case p.work != nil:
		return p.work.execute(s, name, p, frame)
	case s.b == nil, len(name) == 0 && !p.open: // the backend may still have an unnamed portal that Sluice opened
		return sqlerror.NoPortal(name)
	case p.done:
		return s.executeDonePortal(name, p.plan.SingleStatement())
	}
	if p.plan == nil {
		p.plan = functionPlan // a cursor that SQL opened, say in a function
	}
	if err := s.borrowForPortal(p.plan); err != nil {
		return err
	}
	if err := s.checkSettingsMemory(p.plan); err != nil { // a client may bind many portals before it executes the first
		return err
	}
	if err := s.prepareLocalAnswer(name, &p); err != nil {
		return err
	}
	if done, err := s.srv.observers.notifyCommitting(s, p.plan); done || err != nil {
		return err
	}
	if hasMaskedAnswer(p.plan) && p.plan.SingleStatement() != nil { // the server would run the portal of a SELECT again
		p.done = true
		s.portals.update(name, p)
	}
	return s.executeOnServer(p, frame)
}

// executeOnServer sends the client's Execute frame to the server. The session must have its backend. executeOnServer
// waits for the answer only in the cases that handleExecute lists.
func (s *session) executeOnServer(p portal, frame []byte) error {
	if bad := s.discardAllError(p.plan.SingleStatement()); s.t.request.ranLocal && bad != nil {
		return bad
	}
	s.t.rec.trackPortalRun(p)
	// Sluice must queue the pending reply before the frame: it writes a full buffer at once, and the answer may follow.
	s.tx.ran.Record(p.plan)
	o := s.t.pushStatementReply(wire.Execute, p.plan)
	s.t.owed.addSize(pendingSettingsWeight(p.plan))
	o.split, o.text, o.bound = p.split, p.text, s.deleteParamsIfAlone(&p)
	p.told = o.asSetConfigReply().withRowLimit(binary.BigEndian.Uint32(frame[len(frame)-4:]))
	o.recordAnswerInto(p.kept)
	s.recordPortalRun(&p, o.bound, frame)
	revives := s.b.status == 'E' && s.isAllowedInFailedBlock(p.plan)
	s.t.addToBatch(frame)
	if !s.dedicated && serversettings.ResetsStartup(&s.settings, p.plan.SingleStatement()) {
		if err := s.restoreStartupInGroup(); err != nil || s.t.server.skip {
			return err
		}
	}
	if !revives && !isDeallocateAll(p.plan) && !isCopyFromStdin(p.plan) {
		return nil
	}
	return s.awaitExecuteAnswer(&p, revives)
}

// awaitExecuteAnswer waits for the server's answer to an Execute that drops prepared statements or ends a failed
// block. Later frames before the Sync depend on the answer. revives means that the block has failed, and that the
// statement ends it or returns to a savepoint.
func (s *session) awaitExecuteAnswer(p *portal, revives bool) error {
	if err := s.flushAndRelay(); err != nil || !revives || s.t.server.skip {
		return err
	}
	// Sluice uses this transaction status until the Sync, since the server sends no ReadyForQuery before.
	s.b.status = 'I'
	if tx := p.plan.SingleStatement().Tx; tx.Chain || tx.Verb == rewrite.RollbackTo {
		s.b.status = 'T'
	}
	return nil
}

// recordPortalRun records, before a portal runs, whether it may change how later queries are parsed, or may commit.
// It logs frame, the client's Execute, which ends with the row limit. bound has a DELETE's saved values, or is nil.
func (s *session) recordPortalRun(p *portal, bound *batch.Params, frame []byte) {
	t, plan := s.t, p.plan
	t.trackExecuteLimit(plan.Kind, binary.BigEndian.Uint32(frame[len(frame)-4:]))
	if plan.Kind != rewrite.Read {
		s.recordParsingChange(plan)
		t.parsing.rereads = t.parsing.rereads || plan.MayChangeReading()
	}
	first := s.countInFirstTx(plan)
	s.trackExecute(plan)
	s.t.rec.logFrame(wire.Execute, logEntry{plan: plan, bound: bound, commits: t.server.outcome.MayCommit(), kept: p.kept, cursor: p.run, told: p.told, first: first}, frame[wire.HeaderLen:])
	st := plan.SingleStatement()
	if st == nil {
		return
	}
	ends := st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.Rollback
	if ends {
		closePortals(s) // portals end with their transaction
	}
	if st.Tx.Verb.EndsBlock() || isDiscardAll(st) {
		s.resetAccessMode()
	}
	if ends || isDiscardAll(st) { // DISCARD ALL commits at once
		t.request.executed, t.request.ranLocal = false, false
	}
}

// isDeallocateAll reports whether a statement (DEALLOCATE ALL, DISCARD ALL) drops all prepared statements of the
// backend, those of other clients included.
func isDeallocateAll(plan *rewrite.Plan) bool {
	st := plan.SingleStatement()
	return st != nil && (st.Does == rewrite.DeallocatesAll || isDiscardAll(st))
}

// isDiscardAll reports whether a statement is DISCARD ALL, which resets the whole session.
func isDiscardAll(st *rewrite.Statement) bool { return st.Does == rewrite.DiscardsAll }
