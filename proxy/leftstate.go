package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds state, such as temporary tables, that clients' functions leave on a backend. Before a statement that
// may leave state is sent, trackLeftState marks the backend. After the transaction checkLeftState asks the backend.
// Sluice does not return a marked backend to the reservoir. DSQL has no such state.

// checksLeftState reports whether Sluice asks backends which state clients' functions have left there.
func (c *Config) checksLeftState() bool { return c.Kind == Postgres && c.Reset != ResetNever }

// isHiddenCheckDue reports whether checkHiddenFunctions must ask the server. After a fault it is false for a while.
func (srv *Server) isHiddenCheckDue(now time.Time) bool {
	return srv.asksBehind && !srv.hiddenPace.IsPausing(now) && srv.hidden.IsStale(srv.templates.Epoch(), now, purityAge, question.FirstPause)
}

// checkHiddenFunctions asks an idle backend whether any function that statements call unseen (a trigger's, say) may
// leave state on a backend. It asks only if the answer is unknown or old. After a fault (question.Unseen) the old
// answer remains, and Sluice asks again after a pause. The error is stop's, or means that the backend is lost.
func (srv *Server) checkHiddenFunctions(b *backend, at time.Time, stop func() error) error {
	epoch := srv.templates.Epoch()
	if now := time.Now(); !srv.isHiddenCheckDue(now) || !srv.hidden.ClaimQuestion(epoch, now, purityAge, question.FirstPause) {
		return nil
	}
	may, answered := false, false
	var refusal []byte
	var err error
	question.RetryInterrupted(func() (string, error) {
		refusal, err = b.doExchange(srv.internalQuery(remains.HiddenCallsQuery), func(row []byte) {
			if columns := textColumns(row); len(columns) == 1 {
				may, answered = columns[0] == "t", true
			}
		}, b.answerTimeout, at, stop)
		return string(retry.ErrorField(refusal, 'C')), err
	})
	switch {
	case interrupt.EndsTurn(err):
	case err == nil && refusal == nil && answered:
		srv.hidden.RecordAnswer(epoch, may)
		srv.hiddenPace.RecordAnswer(time.Now(), purityAge)
	default:
		srv.hiddenPace.RecordFault(time.Now())
	}
	return err
}

// trackLeftState marks the backend for a later question if the plan, which is about to be sent, may leave state there.
func (s *session) trackLeftState(plan *rewrite.Plan) {
	if !s.srv.asksBehind || s.b == nil {
		return
	}
	s.b.leftState.RecordPlan(plan)
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Write || plan.Kind == rewrite.Unknown {
		s.markUnseenCalls()
	}
}

// markUnseenCalls marks the backend for a later question if functions of triggers and the like may leave state there.
func (s *session) markUnseenCalls() {
	if s.srv.hidden.MayLeaveState(s.srv.templates.Epoch()) {
		s.b.leftState.RequireQuery()
	}
}

// markFunctionCall marks the backend for a later question, since a FunctionCall's function is unknown to Sluice.
func (s *session) markFunctionCall() {
	if s.srv.asksBehind {
		s.b.leftState.RecordCall()
	}
	s.markSettingsReset()
}

// markStateLeft marks the backend for a later question about the state that was left there, regardless of plans.
func (s *session) markStateLeft() {
	if s.srv.asksBehind {
		s.b.leftState.RequireQuery()
	}
}

// mayHaveLeftState reports whether Sluice must ask the idle backend which state functions have left, before another
// session gets that backend.
func (s *session) mayHaveLeftState() bool {
	if s.dedicated || s.b.isBroken() || s.srv.cfg.Pairing == Session || s.pin.IsPinned() && !s.pin.IsFound() {
		return false
	}
	if s.srv.cfg.Reset == ResetAlways && s.t.touched {
		s.b.leftState.RequireQuery()
	}
	s.markUnseenCalls()
	return s.b.leftState.NeedsQuery()
}

// checkLeftState asks the idle backend, if it is marked, which state the session's functions have left there. State
// pins the session, as after a statement that pins. If no state remains, a pin that checkLeftState made is removed. The
// same round trip resets settings that functions have changed. The role is not reset: it pins the session. If too many
// sessions are pinned, the session ends after the turn, since its state is lost. It also ends if a backend whose
// functions it called (FunctionCall) does not answer.
func (s *session) checkLeftState() {
	if !s.mayHaveLeftState() {
		return
	}
	b := s.b
	reason, role, ok := s.queryLeftState()
	if ok && role != "" {
		refusal, err := b.exchange(wire.AppendStrings(nil, wire.Query, "SET ROLE "+settings.QuoteLiteral(role)))
		ok = err == nil && refusal == nil
	}
	if !ok {
		s.recordPinLoss()
		if b.leftState.HasCalled() {
			s.pin.RecordLoss()
		}
		s.dropBackend(reservoir.Unclean)
		return
	}
	b.leftState.Clear()
	b.settings.RecordApplied(s.settings.InForce, true)
	switch {
	case role != "":
		s.pinForFoundState(rewrite.PinRole)
	case reason == rewrite.NoPin && s.pin.IsFound():
		s.pin.Drop(s.srv.pins)
	case reason != rewrite.NoPin && !s.pin.IsPinned():
		s.pin.RecordFound(s.pinForFoundState(reason))
	}
}

// queryLeftState asks which state functions have left on the backend. reason says why the session must be pinned, and
// role is a function's role, or "". Afterwards the backend has the session's settings. ok is false after a fault.
func (s *session) queryLeftState() (reason rewrite.PinReason, role string, ok bool) {
	if !s.finishBackendWrite(exchangeTimeout) { // the writer of an oversized turn may still be finishing
		return rewrite.NoPin, "", false
	}
	var answers []string // of Role, Question and Role
	reset := s.srv.settings.ResetSQL()
	ask := wire.AppendStrings(nil, wire.Query, remains.RoleQuery+"; "+reset+remains.StateQuery+"; "+s.srv.settings.AllSQL(s.settings.InForce)+remains.RoleQuery)
	row := func(payload []byte) {
		if columns := textColumns(payload); len(columns) == 1 {
			answers = append(answers, columns[0])
		}
	}
	refusal, err := s.b.exchangeRows(ask, row)
	if err == nil && refusal != nil { // such as a timeout of the client's, which the reset removes
		answers = nil
		if refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, remains.RoleQuery+"; "+reset), row); err == nil && refusal == nil && len(answers) == 1 {
			was := answers[0]
			answers = nil
			refusal, err = s.b.exchangeRows(ask, row)
			if len(answers) > 0 {
				answers[0] = was
			}
		}
	}
	if err != nil || refusal != nil || len(answers) != 3 || s.b.status != 'I' {
		return rewrite.NoPin, "", false
	}
	// The role "none" may be the result of RESET ROLE, which returns to the startup's role.
	if answers[0] != answers[2] && (answers[0] != "none" || s.settings.Startup.SQL["role"] == "") {
		role = answers[0]
	}
	reason, ok = remains.PinReason(answers[1])
	return reason, role, ok
}
