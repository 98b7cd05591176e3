package proxy

import (
	"cmp"

	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Package script decides which statements of a multi-statement query Sluice answers. This file asks it, and sends the
// query as the server gets it.

// scriptSession answers the questions of package script about a session.
type scriptSession struct{ s *session }

func (q scriptSession) AnswersSettingChange(st *rewrite.Statement) bool {
	return q.s.answersSettingChange(st)
}
func (q scriptSession) SetConfigError(st *rewrite.Statement) *wire.Error {
	return q.s.checkSetConfig(st)
}
func (q scriptSession) EmulatesDiscardAll(st *rewrite.Statement) bool {
	return q.s.emulatesDiscardAll(st)
}
func (q scriptSession) DiscardAllError(st *rewrite.Statement) *wire.Error {
	return q.s.discardAllError(st)
}
func (q scriptSession) HasStatement(name string) bool { return q.s.statements.Named()[name] != nil }
func (q scriptSession) HasBackendStatement(name string) bool {
	return q.s.b != nil && q.s.b.prepared.HasName(name)
}
func (q scriptSession) OptionError(c *rewrite.SettingChange) *wire.Error {
	_, err := q.s.options.Check(c, q.s.optionState())
	return err
}

func (q scriptSession) ShowError(name string) *wire.Error {
	_, err := q.s.localShowValue(name)
	return err
}

// planScript decides which statements of a multi-statement query Sluice answers, by the session's state before each.
// The result is nil if the server answers all. planScript changes nothing.
func (s *session) planScript(plan *rewrite.Plan, sql []byte) *script.Plan {
	state := script.State{Block: s.blockForNextStatement(), Status: s.txStatus(), InBlock: s.inBlock(), InternalBlock: s.t.server.internalTx.on,
		Touched: s.t.touched, RanLocal: s.t.request.ranLocal, Pinned: s.pin.IsPinned(), HasPortals: len(s.portals.named) > 0,
		Settings: &s.settings, Access: &s.t.access, Treatments: s.srv.pool.treat, IsDSQL: s.srv.cfg.Kind == DSQL}
	return script.New(scriptSession{s}, &state, plan, sql, func(st *rewrite.Statement) script.Planned { return s.srv.handlers[st.Does].planInScript })
}

// answerScriptLocally answers a multi-statement query if Sluice answers all its statements. Otherwise, and in a
// failed block, done is false. The caller sends the error of one statement after the answers to earlier ones.
func (s *session) answerScriptLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if s.txStatus() == 'E' {
		return false, nil
	}
	d := s.planScript(plan, sql)
	if d == nil || !d.AnswersAll() {
		return false, nil
	}
	for i := range d.Steps {
		if err := d.Steps[i].Err; err != nil {
			return true, cmp.Or(s.describeFailedConfig(&plan.Statements[i]), error(err))
		}
		if err := s.answerLocalStatement(&plan.Statements[i], true, true); err != nil {
			return true, err
		}
	}
	return true, s.endTurnLocally()
}

// planWithSubstitutes returns the plan of a multi-statement query as the server gets it, if Sluice answers some of
// its statements. Any other plan is returned unchanged. After frames without a Sync it treats a single statement in
// the same way, because answers must come in order. It records the session's state for a replay
// (restoreBeforeScript).
func (s *session) planWithSubstitutes(plan *rewrite.Plan, sql []byte) *rewrite.Plan {
	st := plan.SingleStatement()
	if alone := st != nil && (len(st.SetConfigColumns) == 1 || st.Weakened); !alone && !s.t.access.NeedsSubstitutes() && !plan.MayNeedSubstitutes() &&
		(st == nil || !s.t.touched || st.End == 0 || isDiscardAll(st) && !s.emulatesDiscardAll(st) || !plan.MayAnswerStatement()) {
		return plan
	}
	d := s.planScript(plan, sql)
	if d == nil {
		return plan
	}
	made := s.srv.pool.planner.Substitute(plan, string(sql), d.Substitutes())
	if made == nil {
		return plan
	}
	s.t.request.script = d
	s.t.request.stateBeforeScript = &localStateCopy{settings: s.settings.Snapshot(), stmts: s.statements.Named()}
	return made
}

var frameSet = wire.AppendCommandComplete(nil, "SET")
