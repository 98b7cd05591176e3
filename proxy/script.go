package proxy

import (
	"cmp"
	"slices"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A multi-statement query may contain statements that Sluice answers, such as "SET statement_timeout = 5; SELECT 1".
// The server gets the text with a harmless statement (substitute) in place of each statement that Sluice answers. So
// errors, blocks and the order of answers are the server's, and Sluice replaces the substitutes' answers.

// scriptPlan says what happens to each statement of a multi-statement query. It is built once per query, from the
// session's current state. The pending reply and the log refer to it, because a replay sends the same text.
type scriptPlan struct {
	plan  *rewrite.Plan // of the client's text
	steps []scriptStep
}

// scriptStep says what happens to one statement of a multi-statement query. The zero value sends it to the server.
type scriptStep struct {
	local       bool                  // Sluice answers it
	err         *wire.Error           // Sluice answers it, with this error
	sql         string                // SQL that the server gets instead
	tag         []byte                // tag for the client instead of the tag of sql
	set         rewrite.SettingChange // setting that sql sets
	begin       bool                  // a BEGIN that is sent with other modes
	tx          rewrite.TxControl     // these modes
	only        bool                  // tx says READ ONLY
	warn        bool                  // warn of a weaker isolation level before the server's answer
	configReply *setConfigReply       // answer for the client instead of the server's; nil for the server's
}

// isUnsent reports whether the statement itself is not sent to the server, because Sluice answers it.
func (p *scriptStep) isUnsent() bool { return p.local || p.err != nil }

// substitute returns what the server gets instead of a statement. For an error the substitute is a query that fails, so
// that the server skips the rest. For a statement that Sluice answers it is a query without effect. Otherwise it is
// another statement.
func (p *scriptStep) substitute() rewrite.Substitute {
	switch {
	case p.err != nil:
		return rewrite.FailingSubstitute
	case p.local:
		return rewrite.AnsweredSubstitute
	}
	return rewrite.Substitute{SQL: p.sql, Tx: p.tx}
}

// answerScriptLocally answers a multi-statement query if Sluice answers all its statements. Otherwise, and in a
// failed block, done is false. The caller sends the error of one statement after the answers to earlier ones.
func (s *session) answerScriptLocally(plan *rewrite.Plan, sql []byte) (done bool, err error) {
	if s.txStatus() == 'E' {
		return false, nil
	}
	d := s.planScript(plan, sql)
	if d == nil || slices.ContainsFunc(d.steps, func(p scriptStep) bool { return !p.isUnsent() }) {
		return false, nil
	}
	for i := range d.steps {
		if err := d.steps[i].err; err != nil {
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
	by := make([]rewrite.Substitute, len(d.steps))
	for i := range d.steps {
		by[i] = d.steps[i].substitute()
	}
	made := s.srv.pool.planner.Substitute(plan, string(sql), by)
	if made == nil {
		return plan
	}
	s.t.request.script = d
	s.t.request.stateBeforeScript = &localStateCopy{settings: s.settings.Snapshot(), stmts: s.statements.Named()}
	return made
}

var (
	frameSet             = wire.AppendCommandComplete(nil, "SET")
	errDiscardInBlock    = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot run inside a transaction block"}
	errLockOutside       = &wire.Error{Code: "25P01", Message: "LOCK TABLE can only be used in transaction blocks"}
	errDiscardInPipeline = &wire.Error{Code: "25001", Message: "DISCARD ALL cannot be executed within a pipeline"}
)
