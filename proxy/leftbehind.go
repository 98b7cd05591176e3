package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// What functions leave at a backend: noteLeft marks the backend before a text is sent that may have
// left something, settle has lookBehind ask for it where the transaction has ended, and
// releaseBackend gives no backend back that was not asked. Clusters have no such state.

// asksBehind reports whether backends are asked for what functions have left there.
func (c Config) asksBehind() bool { return c.Kind == Postgres && c.Reset != ResetNever }

// hiddenDue reports whether askHidden has something to ask.
func (srv *Server) hiddenDue() bool {
	return srv.asksBehind && srv.hidden.Stale(srv.catalog.epoch.Load(), time.Now(), purityAge, question.FirstPause)
}

// askHidden asks an idle backend whether functions that run unseen may leave something at a backend,
// where the answer is not known, or old. A refusal leaves the answer that there is. The error is
// stop's, or says that the backend was lost.
func (srv *Server) askHidden(b *backend, at time.Time, stop func() error) error {
	epoch := srv.catalog.epoch.Load()
	if !srv.asksBehind || !srv.hidden.Asks(epoch, time.Now(), purityAge, question.FirstPause) {
		return nil
	}
	may, answered := false, false
	refusal, err := b.exchangeAll(wire.AppendStrings(nil, wire.Query, remains.Unseen), func(row []byte) {
		if columns := columnsOf(row); len(columns) == 1 {
			may, answered = columns[0] == "t", true
		}
	}, b.patience, at, stop)
	if err == nil && refusal == nil && answered {
		srv.hidden.Told(epoch, may)
	}
	return err
}

// noteLeft is told of a plan that is about to be sent.
func (s *session) noteLeft(plan *rewrite.Plan) {
	if s.srv.asksBehind && s.b != nil {
		s.b.left.Note(plan)
	}
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
	if s.srv.cfg.Reset == ResetAlways && s.t.touched || s.srv.hidden.May(s.srv.catalog.epoch.Load()) {
		s.b.left.Mark()
	}
	return s.b.left.Due()
}

// lookBehind asks the backend, which is idle, for what the session's functions have left there, where
// they may have. A session that has left something keeps its backend, as behind a statement that
// tells so. Of one that kept it for that alone, and has nothing there any more, the backend is free.
// The settings that functions have changed unseen are reset in the same round trip. Where no
// more sessions may keep one, the session ends behind its turn, since what it has left is lost; so does
// one without an answer that has called a function.
func (s *session) lookBehind() {
	if !s.mayHaveLeft() {
		return
	}
	b := s.b
	reason, ok := s.askBehind()
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
	case reason == rewrite.NoPin && s.found:
		s.pinned, s.found = false, false
		s.srv.pinned.Add(-1)
	case reason != rewrite.NoPin && !s.pinned:
		// A plan of two statements makes a pin that no failure takes back: see pin.
		if s.pin(&rewrite.Plan{Pin: reason, Statements: make([]rewrite.Statement, 2)}) != nil {
			b.suspect, s.pinLost = true, true
			s.srv.metrics.Refused(metrics.FeatureSetting)
			return
		}
		s.found = true
	}
}

// askBehind is the question of lookBehind: why the session must keep the backend, which has the
// session's settings afterwards. ok is false where there is no answer.
func (s *session) askBehind() (reason rewrite.Pin, ok bool) {
	if !s.leaveBackend(exchangeTimeout) { // the writer of an oversized turn may not have looked up yet
		return rewrite.NoPin, false
	}
	answer, answered := "", false
	reset := s.srv.resetSQL()
	ask := wire.AppendStrings(nil, wire.Query, reset+remains.Question+"; "+settings.Diff(s.srv.interned.None(), s.settings.InForce))
	row := func(payload []byte) {
		if columns := columnsOf(payload); len(columns) == 1 {
			answer, answered = columns[0], true
		}
	}
	refusal, err := s.b.exchangeRows(ask, row)
	if err == nil && refusal != nil { // a timeout of the client's, for one, which the reset ends
		if refusal, err = s.b.exchange(wire.AppendStrings(nil, wire.Query, reset)); err == nil && refusal == nil {
			answered = false
			refusal, err = s.b.exchangeRows(ask, row)
		}
	}
	if err != nil || refusal != nil || !answered || s.b.status != 'I' {
		return rewrite.NoPin, false
	}
	return remains.Reason(answer)
}
