package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/remains"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file finds state, such as temporary tables, that clients' functions leave on a backend. Before Sluice sends a
// statement that may leave state, it marks the backend (remains.Checks). After the transaction checkLeftState asks
// the backend about state. Sluice does not return a marked backend to the reservoir. DSQL has no such state.

// checksLeftState reports whether Sluice asks backends which state, such as temporary tables, functions have left.
func (c *Config) checksLeftState() bool { return c.Kind == Postgres && c.Reset != ResetNever }

// checkHiddenFunctions asks an idle backend whether any function that statements call unseen (a trigger's, say) may
// leave state on a backend. It asks only if the recorded answer is missing or old. Its error is the error of the
// function stop, or a lost backend.
func (srv *Server) checkHiddenFunctions(b *backend, at time.Time, stop func() error) error {
	epoch := srv.pool.templates.Epoch()
	if !srv.pool.leftState.Claim(epoch, time.Now()) {
		return nil
	}
	may, answered := false, false
	var refusal []byte
	var err error
	question.RetryInterrupted(func() (string, error) {
		refusal, err = b.doExchange(serverfacts.Query(remains.HiddenCallsQuery, srv.cfg.Kind == Postgres), func(row []byte) {
			if columns := textColumns(row); len(columns) == 1 {
				may, answered = columns[0] == "t", true
			}
		}, b.answerTimeout, at, stop)
		return string(retry.ErrorField(refusal, 'C')), err
	})
	switch {
	case interrupt.EndsTurn(err):
	case err == nil && refusal == nil && answered:
		srv.pool.leftState.RecordAnswer(epoch, may, time.Now())
	default:
		srv.pool.leftState.RecordFault(time.Now())
	}
	return err
}

// mayHaveLeftState reports whether Sluice must ask the idle backend which state functions have left on it, before
// another session gets that backend.
func (s *session) mayHaveLeftState() bool {
	if s.dedicated || s.b.isBroken() || s.srv.cfg.Pairing == Session || s.pin.IsPinned() && !s.pin.IsFound() {
		return false
	}
	if s.srv.cfg.Reset == ResetAlways && s.t.touched {
		s.b.leftState.RequireQuery()
	}
	s.srv.pool.leftState.RecordUnseen(&s.b.leftState, s.srv.pool.templates.Epoch())
	return s.b.leftState.NeedsQuery()
}

// checkLeftState asks the idle backend, if a function may have left state on it, which state that is. If it finds
// state, it pins the session to that backend, so that the session retains it. Otherwise it removes a pin that it made
// earlier. The same round trip resets settings that functions have changed, except the role, which pins the session.
// The session ends if too many sessions are pinned, or if the backend does not answer after a FunctionCall.
func (s *session) checkLeftState() {
	if !s.mayHaveLeftState() {
		return
	}
	b := s.b
	left, ok := remains.Left{}, s.finishBackendWrite(exchangeTimeout) // the writer of an oversized turn may still be finishing
	if ok {
		left, ok = remains.Ask(leftStateBackend{b}, remains.Settings{Reset: s.srv.pool.settings.ResetSQL(), Apply: s.srv.pool.settings.AllSQL(s.settings.InForce), HasStartupRole: s.settings.Startup.SQL["role"] != ""})
		ok = ok && b.status == 'I'
	}
	if ok && left.Role != "" {
		refusal, err := b.exchange(wire.AppendStrings(nil, wire.Query, "SET ROLE "+settings.QuoteLiteral(left.Role)))
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
	case left.Role != "":
		s.pinForFoundState(rewrite.PinRole)
	case left.Reason == rewrite.NoPin && s.pin.IsFound():
		s.pin.Drop(s.srv.pins)
	case left.Reason != rewrite.NoPin && !s.pin.IsPinned():
		s.pin.RecordFound(s.pinForFoundState(left.Reason))
	}
}

// leftStateBackend sends the queries of package remains to an idle backend.
type leftStateBackend struct{ b *backend }

func (l leftStateBackend) Ask(sql string) (values []string, refused bool, err error) {
	refusal, err := l.b.exchangeRows(wire.AppendStrings(nil, wire.Query, sql), func(row []byte) {
		if columns := textColumns(row); len(columns) == 1 {
			values = append(values, columns[0])
		}
	})
	return values, refusal != nil, err
}
