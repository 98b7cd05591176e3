package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A session waits inside Sluice for a backend (borrowBackend), for the pause before a replay (waitBeforeReplay), for
// contended rows (waitAtGate), and for settings. A cancel, the statement timeout and the client's leaving end such a
// wait (package interrupt), as in PostgreSQL.

// lookEvery and lookInLineEvery are how often a waiting session checks whether its client is still connected.
const (
	lookEvery       = 50 * time.Millisecond
	lookInLineEvery = sweepEvery // for waits in which thousands of sessions may be at a time
)

// waitingSession implements interrupt.Session. It has the size of a pointer, so that its conversion to the interface
// allocates nothing.
type waitingSession struct{ s *session }

func (w waitingSession) Context() context.Context { return w.s.srv.ctx }
func (w waitingSession) CheckClient() error       { return w.s.checkClientWaits() }

// Timeouts returns the statement timeouts of Sluice and of the server for the session. Sluice does not know the
// server's timeout if it does not apply statement_timeout to each backend.
func (w waitingSession) Timeouts() interrupt.Timeouts {
	s := w.s
	timeouts := interrupt.Timeouts{Own: s.settings.StatementTimeout()}
	value := s.settings.InForce.SQL["statement_timeout"]
	if value == "" || s.srv.pool.treat.ForName("statement_timeout") != settings.Carried {
		return timeouts
	}
	if d, refused := settings.ParseTimeout("statement_timeout", strings.Trim(value, "' ")); refused == nil {
		timeouts.Server = d
	}
	return timeouts
}

// waitContext starts a wait inside Sluice (interrupt.Waits.Context). The caller calls over at the end of the wait.
func (s *session) waitContext(limit time.Time, every time.Duration) (ctx context.Context, over func()) {
	return s.waits.Context(waitingSession{s}, limit, every)
}

// waitBeforeReplay waits for the pause before a replay and, if queued, at the gate (the queue for the same rows). The
// error says why Sluice makes no replay. If too many transactions wait at the gate, the replay continues without a pass
// (the right to go next).
func (s *session) waitBeforeReplay(pause time.Duration, queued bool) error {
	if pause == 0 && !queued {
		return nil
	}
	r := s.srv.pool.replays
	ctx, over := s.waitContext(s.tx.attempts.Deadline(&r.cfg.Policy).Add(pause), lookEvery)
	defer over()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return s.waits.Error(ctx)
	}
	if !queued {
		return nil
	}
	pass, err := r.gate.AcquireForReplay(ctx, s.tx.key, s.tx.attempts.NeedsExclusivePass(&r.cfg.Policy))
	s.tx.pass = pass
	if ended := s.waits.Error(ctx); err != nil || ended != interrupt.ErrLimit {
		return ended
	}
	return nil
}

// exchangeInTurn sends msg, a request of Sluice, to the backend (runExchange). refusal is the server's error, or nil.
func (l *link) exchangeInTurn(msg []byte) (refusal []byte, err error) {
	err = l.runExchange(func(b *backend) error {
		refusal, err = b.exchangeUntil(msg, l.t.clock.Deadline(), l.waits.CheckInterruption)
		return err
	})
	return refusal, err
}

// runExchange calls ask, which makes a round trip of Sluice's own to the backend in a turn. A cancel, timeout or cut
// ends the round trip, and breaks the backend if ask had sent something. Any other error is a lost backend.
func (l *link) runExchange(ask func(*backend) error) error {
	b := l.b
	return l.waits.Exchange(b.conn, func() error { return ask(b) })
}

// noReplayReason returns why Sluice makes no replay after a wait, such as the wait for a backend, ended with err.
func noReplayReason(err error) retry.RefusalReason {
	switch err {
	case interrupt.ErrCanceled:
		return retry.Cancelled
	case interrupt.ErrTimedOut:
		return retry.TimedOut
	case interrupt.ErrLimit:
		return retry.Exhausted
	case errClientGone:
		return retry.ClientGone
	case sqlerror.Draining:
		return retry.Draining
	}
	return retry.NoBackend
}

// checkClientWaits returns why the client no longer waits for the turn, or nil. After a client's Terminate its last
// statements still run, as in PostgreSQL, but Sluice does not replay them. A drain ends a replay too, since the client
// can retry elsewhere after the first error.
func (s *session) checkClientWaits() error {
	replaying := s.state == replaying
	if replaying && s.srv.draining.Load() {
		return sqlerror.Draining
	}
	switch s.readClientState() {
	case clientGone:
		return errClientGone
	case clientLeaving:
		if replaying || !s.mayCommitWithoutClient() {
			return errClientGone
		}
	}
	return nil
}

// mayCommitWithoutClient reports whether the turn's text can commit without another message from the client. The text
// must be a write outside a block, or the end of a block. Any other text in a block is rolled back after the client has
// left. A turn without a plan commits nothing.
func (p *pairing) mayCommitWithoutClient() bool {
	plan := p.t.request.plan
	if plan == nil || plan.Kind <= rewrite.Read {
		return false
	}
	ends := func(st *rewrite.Statement) bool {
		return st.Tx.Verb == rewrite.Commit || st.Tx.Verb == rewrite.PrepareTransaction
	}
	inBlock := p.deferredBegin != nil || p.b != nil && p.b.status != 'I'
	return !inBlock || plan.Kind == rewrite.Unknown || plan.AnyStatement(ends)
}
