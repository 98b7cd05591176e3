package proxy

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/notice"
	"github.com/sluice-proxy/sluice/proxy/pin"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file answers statements without the server, either alone in a Query (answerLocally) or in a portal
// (executeLocalPortal). Examples are SET of a setting that Sluice stores, SHOW, DEALLOCATE, and statements that a
// rewrite rule answers. The table in handlers.go selects them. script.go has multi-statement queries, control.go BEGIN,
// COMMIT and ROLLBACK.

// answerLocally answers a simple Query without the server. If done is false, the server must get the query. If done
// is true, the turn is over, or the caller sends the client the error.
func (s *session) answerLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	t := s.t
	if s.hasEmulatedSavepoint(plan) {
		return true, s.runSavepointQuery(plan)
	}
	if s.mustAnswerInFailedBlock(plan) {
		return true, s.answerInFailedBlock(plan)
	}
	st := plan.SingleStatement()
	if framed := s.framedHandlerFor(st); framed != nil {
		return true, framed.query(s, plan, st)
	}
	// If frames since the last Sync precede the Query, Sluice's answer must follow the server's answers to those frames.
	if t.touched {
		return false, nil
	}
	switch {
	case plan.Kind == rewrite.Empty:
		s.srv.metrics.CountLocalAnswer(metrics.LocalEmpty)
		if err := s.queueReply(wire.FrameEmptyQuery); err != nil {
			return true, err
		}
		return true, s.endTurnLocally()
	case st != nil:
		if query := s.srv.handlers[st.Does].query; query != nil {
			return query(s, plan, sql)
		}
	case (plan.Kind <= rewrite.Setting || plan.Kind == rewrite.DDL) && plan.MayNeedSubstitutes():
		return s.answerScriptLocally(plan, sql)
	}
	return false, nil
}

// framedHandlerFor returns the framedHandler that now handles st by frames for the server, or nil. st may be nil.
func (s *session) framedHandlerFor(st *rewrite.Statement) *framedHandler {
	if st == nil {
		return nil
	}
	if f := s.srv.handlers[st.Does].framed; f != nil && f.applies(s, st) {
		return f
	}
	return nil
}

// answersParse reports whether Sluice answers the Parse of a plan's statement without the server.
func (s *session) answersParse(plan *rewrite.Plan) bool {
	st := plan.SingleStatement()
	if st == nil {
		return false
	}
	parses := s.srv.handlers[st.Does].parsesLocally
	return parses != nil && parses(s, st)
}

// canShowLocally reports whether a statement is a SHOW of a parameter whose value Sluice knows.
func (s *session) canShowLocally(st *rewrite.Statement) bool {
	return s.settings.AnswersShow(st.Show) || s.t.access.AnswersShow(st.Show, s.inBlock())
}

// canAnswerPlan reports whether Sluice would answer the plan's single statement in the session's current state. A later
// frame may change that state.
func (s *session) canAnswerPlan(plan *rewrite.Plan) bool {
	return s.answersParse(plan) && s.canAnswerStatement(plan.SingleStatement())
}

// canAnswerStatement reports whether Sluice can answer st now. In a failed block it cannot: the server refuses st.
func (s *session) canAnswerStatement(st *rewrite.Statement) bool {
	here := s.srv.handlers[st.Does].runsLocally
	return here != nil && s.txStatus() != 'E' && here(s, st)
}

// changesSettingsLocally reports whether Sluice makes the statement's changes of settings itself. A RESET outside a
// transaction only changes which settings Sluice applies to the session's next backend.
func changesSettingsLocally(s *session, st *rewrite.Statement) bool {
	switch {
	case s.answersSettingChange(st), s.emulatesDiscardAll(st), s.runsMultiSetConfig(st):
		return true
	case len(st.Changes) == 0 || s.pin.IsPinned() || s.state != idle || s.t.touched:
		return false
	}
	return s.canRecordReset(st)
}

// deallocatesLocally reports whether Sluice runs a DEALLOCATE itself. A pinned session may have run the SQL command
// PREPARE, whose statements are on its backend. Sluice itself handles names that Parse prepared, and refuses the
// names that Sluice uses at the backend.
func deallocatesLocally(s *session, st *rewrite.Statement) bool {
	return !s.pin.IsPinned() || st.Does == rewrite.Deallocates && (s.statements.Named()[st.Deallocate] != nil || s.b != nil && s.b.prepared.HasName(st.Deallocate))
}

// canRecordReset reports whether a statement only resets settings that Sluice applies to each backend. Outside a
// transaction, Sluice only records these resets, and the server need not run the statement.
func (s *session) canRecordReset(st *rewrite.Statement) bool {
	for i := range st.Changes {
		c := &st.Changes[i]
		switch c.Action {
		case rewrite.DiscardAll: // DISCARD ALL ends its transaction
		case rewrite.ResetAll:
			if access.HasTransactionDefaults(&s.settings) {
				return false
			}
		case rewrite.Reset:
			if s.srv.pool.treat.ForName(c.Name) != settings.Carried || access.HasTransactionDefaults(&s.settings) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// discardAllError returns PostgreSQL's error for DISCARD ALL in a block or after another statement of a pipeline, or
// nil. The server cannot report that error if Sluice has not sent the BEGIN, the other statement, or DISCARD ALL.
func (p *pairing) discardAllError(st *rewrite.Statement) *wire.Error {
	switch {
	case st == nil || !isDiscardAll(st) || p.txStatus() == 'E':
		return nil
	case p.isInTransaction():
		return sqlerror.DiscardInBlock
	case p.t.request.executed, p.t.request.ranLocal:
		return sqlerror.DiscardInPipeline
	}
	return nil
}

// emulatesDiscardAll reports whether st is a DISCARD ALL that Sluice runs because the server, DSQL, does not support
// it. A session with a dedicated backend sends everything to the server.
func (s *session) emulatesDiscardAll(st *rewrite.Statement) bool {
	return s.srv.cfg.Kind == DSQL && !s.dedicated && isDiscardAll(st)
}

// answersSettingChange reports whether Sluice makes all of a statement's changes of settings. On DSQL, Sluice also
// answers RESET ROLE and RESET SESSION AUTHORIZATION of a session that has set no role.
func (s *session) answersSettingChange(st *rewrite.Statement) bool {
	if !pin.OnlyResetsRole(st) {
		return st.SetConfigParams() == 0 && s.srv.pool.treat.AnswersLocally(st)
	}
	return s.srv.cfg.Kind == DSQL && s.settings.InForce.SQL["role"] == "" && !s.settings.Staged.MayHaveChanged("role") &&
		!slices.ContainsFunc(s.t.owed.items[s.t.owed.head:], func(o pendingReply) bool {
			return o.plan != nil && slices.ContainsFunc(o.plan.Statements, pin.SetsRole)
		})
}

// answerLocalStatement answers one statement after all pending replies. describe adds a RowDescription to the answer.
// several says that the statement is part of a multi-statement query. A returned error goes to the client.
func (s *session) answerLocalStatement(st *rewrite.Statement, describe, several bool) error {
	if st.Does == rewrite.ClosesAll && len(s.portals.named) > 0 {
		return sqlerror.PortalsOpen
	}
	frames, err := s.runLocalStatement(st, describe, several)
	if err != nil && describe {
		return cmp.Or(s.describeFailedConfig(st), err)
	}
	if err != nil {
		return err
	}
	return s.queueReply(frames...)
}

// runLocalStatement runs one statement in Sluice and returns the frames of its answer. describe adds a
// RowDescription. The statement's changes of settings belong to the client's transaction. The client gets the error.
func (s *session) runLocalStatement(st *rewrite.Statement, describe, several bool) (frames [][]byte, err error) {
	if !several { // a multi-statement query was checked as a whole
		if err := s.readOnlyRefusal(st); err != nil {
			return nil, err
		}
	}
	h := &s.srv.handlers[st.Does]
	if frames, err = h.run(s, st, several); err != nil {
		return nil, err
	}
	if h.columns != nil && describe {
		frames = append([][]byte{h.columns(st)}, frames...)
	}
	return append(frames, wire.AppendCommandComplete(nil, h.tag(st))), nil
}

// runTagOnly answers a statement with the command tag that a rewrite rule chose, and the statement's warnings.
func runTagOnly(s *session, st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	s.srv.metrics.CountLocalAnswer(metrics.LocalStatement)
	frames = notice.Frames(&s.settings, st)
	switch {
	case st.OfBlock && !several && !s.inBlock():
		frames = append(frames, sqlerror.WarnModesOutside.AppendNotice(nil, "WARNING"))
	case st.Weakened:
		frames = append(frames, s.weakenedWarning())
	}
	return frames, nil
}

// runVoidQuery answers a query that calls a function returning void, such as SELECT pg_advisory_unlock_all().
func runVoidQuery(s *session, _ *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	s.srv.metrics.CountLocalAnswer(metrics.LocalStatement)
	return [][]byte{result.TextRow("")}, nil
}

// runShow answers a SHOW with the value of the setting.
func runShow(s *session, st *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	s.srv.metrics.CountLocalAnswer(metrics.LocalShow)
	value, bad := s.localShowValue(st.Show)
	if bad != nil {
		return nil, bad
	}
	return [][]byte{result.TextRow(value)}, nil
}

// runSettingChanges makes a statement's changes of settings and returns its warnings. For set_config it returns the row
// of values, each as displayed after its own change.
func (s *session) runSettingChanges(st *rewrite.Statement, several bool) (frames [][]byte, err error) {
	if err := s.discardAllError(st); err != nil {
		return nil, err
	}
	s.srv.metrics.CountLocalAnswer(metrics.LocalSetting)
	var values []string
	if pin.OnlyResetsRole(st) { // the plan has the row of such a set_config
		if len(st.SetConfigColumns) == 0 {
			return nil, nil
		}
		return [][]byte{result.TextRow(st.SetConfigColumns[0].Value)}, nil
	}
	if len(st.SetConfigColumns) > 1 && !s.answersSettingChange(st) {
		return s.runMultiSetConfig(st)
	}
	for i := range st.Changes {
		frame, err := s.changeSetting(&st.Changes[i], several || st.SetConfigColumns != nil)
		switch {
		case err != nil:
			return nil, err
		case st.SetConfigColumns != nil:
			value, bad := s.localShowValue(st.Changes[i].Name)
			if bad != nil {
				return nil, bad
			}
			values = append(values, value)
		}
		// set_config returns no warnings, except about Sluice's own options (sluice.*), whose warnings are always sent.
		if frame != nil && (st.SetConfigColumns == nil || settings.IsProxySetting(st.Changes[i].Name)) {
			frames = append(frames, frame)
		}
	}
	if st.SetConfigColumns != nil {
		frames = append(frames, result.TextRow(values...))
	}
	return frames, nil
}

// runDeallocate removes one of the client's prepared statements. A returned error goes to the client.
func runDeallocate(s *session, st *rewrite.Statement, _ bool) (frames [][]byte, err error) {
	name := st.Deallocate
	if s.statements.Named()[name] == nil {
		return nil, sqlerror.NoStatement([]byte(name))
	}
	// If the multi-statement query is replayed, the replay needs the deallocated statement again.
	if was := s.t.request.stateBeforeScript; was != nil {
		was.gone = append(was.gone, nameUndo{name: name, prev: s.statements.Named()[name]})
	}
	s.statements.Set(&s.memory.account, name, nil)
	return nil, nil
}

// changeSetting makes one change of a setting, or runs DISCARD ALL. The returned frame, a warning or nil, precedes the
// command tag. DISCARD ALL also releases a backend to which the session was pinned.
func (s *session) changeSetting(c *rewrite.SettingChange, several bool) (frame []byte, err error) {
	if settings.IsProxySetting(c.Name) {
		return s.setOption(c, several)
	}
	switch c.Action {
	case rewrite.Set, rewrite.SetLocal:
		return s.setLocalSetting(c, several)
	case rewrite.Reset:
		return nil, s.settings.ResetSetting(c.Name)
	case rewrite.DiscardAll:
		s.srv.observers.notifyDiscarded(s)
		switch {
		case s.b == nil:
		case s.t.touched: // the session returns its backend at the end of the turn
			if s.keepsBackend() {
				s.pin.GiveUpAtEnd()
			}
		default:
			s.releasePinned()
			err = s.applyEvent(settledIdle)
		}
	}
	s.settings.ResetAll()
	return nil, err
}
