package proxy

import (
	"slices"

	"github.com/sluice-proxy/sluice/proxy/answer"
	"github.com/sluice-proxy/sluice/proxy/result"
	"github.com/sluice-proxy/sluice/proxy/script"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/proxy/statement"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file handles answers to a multi-statement query of which Sluice answers some statements (script.go). It also
// restores the session's state before a replay of the query.

// scriptReply handles the server's answers to a multi-statement query of which Sluice answers some statements. It
// inspects every frame.
type scriptReply struct {
	*script.Plan
}

// setScriptReply makes a scriptReply the handler of the pending reply o to the planned query d, unless d is nil.
func (t *turn) setScriptReply(o *pendingReply, d *script.Plan) {
	if d != nil {
		o.reply, t.output.inspectsFrames = chainHandlers(scriptReply{Plan: d}, o.reply), true
	}
}

// stepAt returns the step of the statement that the server answers after the given number of command tags, or nil.
func (r scriptReply) stepAt(tags int) *script.Step {
	if tags >= len(r.Steps) {
		return nil
	}
	return &r.Steps[tags]
}

// handleFrame hides the rows of a substitute (the statement that the server got instead of the client's). At the
// substitute's tag, Sluice carries out the client's statement and answers it. If another tag comes, or a tag instead of
// an error, the backend's stream cannot be trusted.
func (r scriptReply) handleFrame(s *session, o *pendingReply, f answer.Frame) (frameVerdict, error) {
	ends, n := f.Means == answer.CompletesOne, int(o.tags)
	if ends {
		n--
	}
	p := r.stepAt(n)
	switch {
	case p == nil:
	case ends && !p.MatchesTag(f.TagVerb()):
		return swallow, s.unexpectedFrameError(f.Type)
	case p.Local && ends:
		return swallow, s.runScriptStep(o, &r.Query.Statements[n], len(r.Steps) > 1, f.Type)
	case p.IsUnsent() && (f.Type == wire.RowDescription || f.IsRow()):
		return swallow, nil
	case p.Warn && ends:
		return undecided, s.sendSynthetic(s.weakenedWarning())
	case p.SetsConfig && ends:
		return swallow, s.answerSetConfigStep(o, &r.Query.Statements[n], p)
	case p.SetsConfig && f.Type == wire.NoticeResponse && isSetLocalWarning(f.Bytes):
		return swallow, nil
	case p.Tag != nil && ends:
		s.recordCompletion(o, f.Type, p.Tag)
		s.settings.Stage(p.Set) // the backend has this value, not its default
		s.t.server.statement++
		return swallow, s.sendLocalAnswer(o, p.Tag)
	}
	return undecided, nil
}

// replaceError replaces the error of rewrite.FailingSubstitute by the error of the client's statement. As in
// PostgreSQL, a RowDescription precedes the error of a set_config.
func (r scriptReply) replaceError(_ *session, o *pendingReply, payload []byte) *answer.ErrorHandling {
	p := r.stepAt(int(o.tags))
	if p == nil {
		return nil
	}
	var e answer.ErrorHandling
	code := string(retry.ErrorField(payload, 'C'))
	if code == rewrite.FailingSubstituteCode && p.Err != nil {
		e.Instead = p.Err.Append(nil)
	}
	if st := &r.Query.Statements[o.tags]; st.SetConfigColumns != nil && code != sqlerror.Aborted.Code && (p.SetsConfig || p.Err != nil) {
		e.Front = result.DescribeConfig(st)
	}
	return &e
}

// runScriptStep runs a client's statement when the tag of its substitute (the statement sent instead) has arrived.
func (s *session) runScriptStep(o *pendingReply, st *rewrite.Statement, several bool, typ byte) error {
	if s.t.rec.phase != phaseLive {
		return s.sendSynthetic(frameSet) // in a replay the log ignores these bytes (RecordLocalReply)
	}
	s.recordStatementEnd(o, nil)
	s.t.server.statement++
	err := s.answerScriptStep(o, st, several)
	if _, told := err.(*wire.Error); told { // planScript has foreseen every error
		return s.unexpectedFrameError(typ)
	}
	return err
}

// answerScriptStep carries out one statement of a multi-statement query and answers it. several means that the query
// has other statements. If the statement changes statement_timeout, the new value applies to later statements.
func (s *session) answerScriptStep(o *pendingReply, st *rewrite.Statement, several bool) error {
	timeout := s.settings.StatementTimeout()
	frames, err := s.runLocalStatement(st, true, several)
	if err != nil {
		return err
	}
	if s.settings.StatementTimeout() != timeout { // the new timeout applies from the next statement on
		s.t.clock.Restart(s.settings.StatementTimeout())
		s.waits.Arm()
	}
	return s.sendLocalAnswer(o, frames...)
}

// restoreBeforeScript undoes what the statements of a multi-statement query did in the session, before the query is
// sent again. The statements take effect again with the new answers. If there is no such query, it changes nothing.
func (s *session) restoreBeforeScript() {
	was := s.t.request.stateBeforeScript
	if was == nil {
		return
	}
	s.settings.RestoreAll(was.settings)
	s.statements.Replace(&s.memory.account, was.stmts)
	for _, u := range slices.Backward(was.gone) {
		s.statements.Set(&s.memory.account, u.name, u.prev)
	}
	was.gone = nil
}

// localStateCopy is a copy of the session's state that statements answered by Sluice change. stmts is the session's own
// map of prepared statements, not a copy. gone has the names that were deleted from stmts since.
type localStateCopy struct {
	settings *settings.Snapshot
	stmts    map[string]*statement.Client
	gone     []nameUndo
}
