package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds state that functions leave on a backend. noteLeft marks the backend before a text is sent that may
// leave something. After the transaction, settle calls lookBehind, which asks the backend. releaseBackend does not
// return a marked backend to the reservoir. DSQL has no such state.

// asksBehind reports whether Sluice asks backends what functions have left there.
func (c *Config) asksBehind() bool { return c.Kind == Postgres && c.Reset != ResetNever }

// hiddenDue reports whether askHidden must ask now. After a fault it returns false for a while.
func (srv *Server) hiddenDue(now time.Time) bool {
	return srv.asksBehind && !srv.hiddenPace.Rests(now) && srv.hidden.Stale(srv.catalog.epoch.Load(), now, purityAge, question.FirstPause)
}

// askHidden asks an idle backend whether any function that statements call unseen (a trigger's, say) may leave state on
// a backend. It asks only if the answer is unknown or old. After a fault (question.Unseen) the old answer remains, and
// askHidden asks again after a pause. The error is stop's, or means that the backend is lost.
func (srv *Server) askHidden(b *backend, at time.Time, stop func() error) error {
	epoch := srv.catalog.epoch.Load()
	if now := time.Now(); !srv.hiddenDue(now) || !srv.hidden.Asks(epoch, now, purityAge, question.FirstPause) {
		return nil
	}
	may, answered := false, false
	var refusal []byte
	var err error
	question.Asked(func() (string, error) {
		refusal, err = b.exchangeAll(srv.ownQuestion(remains.Unseen), func(row []byte) {
			if columns := columnsOf(row); len(columns) == 1 {
				may, answered = columns[0] == "t", true
			}
		}, b.patience, at, stop)
		return string(retry.Field(refusal, 'C')), err
	})
	switch {
	case stops(err):
	case err == nil && refusal == nil && answered:
		srv.hidden.Told(epoch, may)
		srv.hiddenPace.Answered(time.Now(), purityAge)
	default:
		srv.hiddenPace.Failed(time.Now())
	}
	return err
}

// noteLeft marks the backend if the plan, which is about to be sent, may leave state there.
func (s *session) noteLeft(plan *rewrite.Plan) {
	if !s.srv.asksBehind || s.b == nil {
		return
	}
	s.b.left.Note(plan)
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Write || plan.Kind == rewrite.Unknown {
		s.markUnseen()
	}
}

// markUnseen marks the backend if functions that statements call unseen may leave state there.
func (s *session) markUnseen() {
	if s.srv.hidden.May(s.srv.catalog.epoch.Load()) {
		s.b.left.Mark()
	}
}

// noteCall marks the backend for a FunctionCall that is about to be sent: Sluice does not know what the function does.
func (s *session) noteCall() {
	if s.srv.asksBehind {
		s.b.left.Call()
	}
	s.noteResets()
}

// markLeft marks the backend regardless of plans.
func (s *session) markLeft() {
	if s.srv.asksBehind {
		s.b.left.Mark()
	}
}

// mayHaveLeft reports whether the idle backend must be asked before another session gets it.
func (s *session) mayHaveLeft() bool {
	if s.dedicated || s.b.broken() || s.srv.cfg.Pairing == Session || s.pinned && !s.found {
		return false
	}
	if s.srv.cfg.Reset == ResetAlways && s.t.touched {
		s.b.left.Mark()
	}
	s.markUnseen()
	return s.b.left.Due()
}

// lookBehind asks the idle backend what the session's functions have left there, if it is marked. If there is
// something, the session is pinned, as after a statement that pins. If nothing remains, a pin that lookBehind made is
// removed. The same round trip resets settings that functions have changed. The role is not reset: it pins the session.
// If too many sessions are pinned, the session ends after the turn, since its state is lost. It also ends if a backend
// whose functions it called (FunctionCall) does not answer.
func (s *session) lookBehind() {
	if !s.mayHaveLeft() {
		return
	}
	b := s.b
	reason, role, ok := s.askBehind()
	if ok && role != "" {
		refusal, err := b.exchange(wire.AppendStrings(nil, wire.Query, "SET ROLE "+settings.QuoteLiteral(role)))
		ok = err == nil && refusal == nil
	}
	if !ok {
		s.losePin()
		s.pinLost = s.pinLost || b.left.Called()
		s.dropBackend(reservoir.Unclean)
		return
	}
	b.left.Clear()
	b.applied, b.unsure = s.settings.InForce, false
	b.reported = s.srv.sharedReports.Share(b.reported)
	b.idle = b.reported
	switch {
	case role != "":
		s.pinFound(rewrite.PinRole)
	case reason == rewrite.NoPin && s.found:
		s.pinned, s.found = false, false
		s.srv.pinned.Add(-1)
	case reason != rewrite.NoPin && !s.pinned:
		s.found = s.pinFound(reason)
	}
}

// askBehind asks the question of lookBehind. reason says why the session must be pinned, and role is the role that a
// function has set, or "". Afterwards the backend has the session's settings. ok is false if no answer came.
func (s *session) askBehind() (reason rewrite.Pin, role string, ok bool) {
	if !s.leaveBackend(exchangeTimeout) { // the writer of an oversized turn may still be finishing
		return rewrite.NoPin, "", false
	}
	var answers []string // of Role, Question and Role
	reset := s.srv.resetSQL()
	ask := wire.AppendStrings(nil, wire.Query, remains.Role+"; "+reset+remains.Question+"; "+settings.Diff(s.srv.interned.None(), s.settings.InForce)+remains.Role)
	row := func(payload []byte) {
		if columns := columnsOf(payload); len(columns) == 1 {
			answers = append(answers, columns[0])
		}
	}
	refusal, err := s.b.exchangeRows(ask, row)
	if err == nil && refusal != nil { // such as a timeout of the client's, which the reset removes
		answers = nil
		if refusal, err = s.b.exchangeRows(wire.AppendStrings(nil, wire.Query, remains.Role+"; "+reset), row); err == nil && refusal == nil && len(answers) == 1 {
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
	// "none" may be the result of RESET ROLE, which returns to the startup's role.
	if answers[0] != answers[2] && (answers[0] != "none" || s.settings.Startup.SQL["role"] == "") {
		role = answers[0]
	}
	reason, ok = remains.Reason(answers[1])
	return reason, role, ok
}
