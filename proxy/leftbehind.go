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

// What functions leave at a backend: noteLeft marks the backend before a text is sent that may have
// left something, settle has lookBehind ask for it where the transaction has ended, and
// releaseBackend gives no backend back that was not asked. Clusters have no such state.

// asksBehind reports whether backends are asked for what functions have left there.
func (c *Config) asksBehind() bool { return c.Kind == Postgres && c.Reset != ResetNever }

// hiddenDue reports whether askHidden has something to ask, and no fault has come in place of the answer a moment ago.
func (srv *Server) hiddenDue(now time.Time) bool {
	return srv.asksBehind && !srv.hiddenPace.Rests(now) && srv.hidden.Stale(srv.catalog.epoch.Load(), now, purityAge, question.FirstPause)
}

// askHidden asks an idle backend whether functions that run unseen may leave something at a backend,
// where the answer is not known, or old. A fault (question.Unseen) leaves the answer that there is, and the question
// is asked again behind a pause, which begins when the fault has come. The error is stop's, or says that the backend
// was lost.
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

// noteLeft is told of a plan that is about to be sent.
func (s *session) noteLeft(plan *rewrite.Plan) {
	if !s.srv.asksBehind || s.b == nil {
		return
	}
	s.b.left.Note(plan)
	if plan.Kind == rewrite.Read || plan.Kind == rewrite.Write || plan.Kind == rewrite.Unknown {
		s.markUnseen()
	}
}

// markUnseen marks the backend where functions that run unseen may leave something.
func (s *session) markUnseen() {
	if s.srv.hidden.May(s.srv.catalog.epoch.Load()) {
		s.b.left.Mark()
	}
}

// noteCall is told of a FunctionCall that is about to be sent: nobody knows what the function does.
func (s *session) noteCall() {
	if s.srv.asksBehind {
		s.b.left.Call()
	}
	s.noteResets()
}

// markLeft says that the backend may hold something, whatever the plans say.
func (s *session) markLeft() {
	if s.srv.asksBehind {
		s.b.left.Mark()
	}
}

// mayHaveLeft reports whether the backend, which is idle, has to be asked before others get it.
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

// lookBehind asks the backend, which is idle, for what the session's functions have left there, where
// they may have. A session that has left something keeps its backend, as behind a statement that
// tells so. Of one that kept it for that alone, and has nothing there any more, the backend is free.
// The settings that functions have changed unseen are reset in the same round trip, but for the role:
// a session whose function has set one keeps its backend with it. Where no
// more sessions may keep one, the session ends behind its turn, since what it has left is lost; so does
// one without an answer that has called a function.
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

// askBehind is the question of lookBehind: why the session must keep the backend, which has the
// session's settings afterwards, and the role that a function has set there, or "". ok is false where
// there is no answer.
func (s *session) askBehind() (reason rewrite.Pin, role string, ok bool) {
	if !s.leaveBackend(exchangeTimeout) { // the writer of an oversized turn may not have looked up yet
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
	if err == nil && refusal != nil { // a timeout of the client's, for one, which the reset ends
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
	// "none" may be a RESET, which returns to the role of the startup.
	if answers[0] != answers[2] && (answers[0] != "none" || s.settings.Startup.SQL["role"] == "") {
		role = answers[0]
	}
	reason, ok = remains.Reason(answers[1])
	return reason, role, ok
}
