package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/serverfacts"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file asks the server for facts about it (package serverfacts), mostly whether texts that look like reads may
// write (classifyRead). A replay of a read after a lost backend asks again (reborrowWith).

// In a pinned session, Sluice asks whether reads may write only in a READ ONLY transaction, where a write is
// refused. Otherwise the answer only matters for a replay, and a pinned session ends with its backend anyway.

// classifyRead returns the plan of a text that the session runs next on its backend. If the text looks like a read
// but may write, the plan is a write. In a block, which commits later, only emulated savepoints need that. Within a
// Sync group Sluice does not query the server, since its query would commit the group. A backend that is lost
// meanwhile is replaced. A returned error goes to the client, or ends the session.
func (s *session) classifyRead(plan *rewrite.Plan) (*rewrite.Plan, error) {
	switch {
	case plan.AsWrite() == plan:
		return plan, nil
	case plan.Kind == rewrite.Read && s.inBlock():
		if s.srv.emulatesSavepoints() && !s.srv.pool.readsArePure() {
			return plan.AsWrite(), nil
		}
		return plan, nil
	}
	if !s.srv.pool.readsArePure() && !s.t.touched && s.b.status == 'I' && (!s.pin.IsPinned() || s.t.access.Mode != access.ReadWrite) {
		_, err := s.askReadPurity(false)
		s.waits.Arm()
		if interrupt.EndsTurn(err) {
			return nil, err
		}
		if err != nil {
			if err := s.replaceBackend(err); err != nil {
				return nil, err
			}
		}
	}
	if !s.srv.pool.readsArePure() {
		return plan.AsWrite(), nil
	}
	s.t.readBySchema = true
	return plan, nil
}

// askReadPurity asks the idle backend whether texts that look like reads may write, if Sluice does not know or again
// is set. answered means that the server has answered. Errors are the same as for Purity.Ask.
func (s *session) askReadPurity(again bool) (answered bool, err error) {
	err = s.runExchange(func(b *backend) (err error) {
		answered, err = s.srv.askPurity(s.questionOn(b), again)
		return err
	})
	return answered, err
}

// questionOn returns the exchange by which the session asks its server on an idle backend. The client's timeout or
// cancel ends a round trip.
func (s *session) questionOn(b *backend) serverfacts.Exchange {
	return func(frames []byte, row func([]byte)) ([]byte, error) {
		return b.doExchange(frames, row, b.answerTimeout, s.t.clock.Deadline(), s.waits.CheckInterruption)
	}
}

// readsArePure reports whether texts that look like reads are known to only read.
func (p *pool) readsArePure() bool { return p.purity.ReadsArePure(p.templates.ReadEpoch()) }

// askPurity asks whether a text that looks like a read may write, if Sluice does not know or again is set. answered and
// errors are the same as for Purity.Ask.
func (srv *Server) askPurity(exchange serverfacts.Exchange, again bool) (answered bool, err error) {
	return srv.pool.purity.Ask(&serverfacts.PurityQuestion{Exchange: exchange, Postgres: srv.cfg.Kind == Postgres, Epoch: srv.pool.templates.ReadEpoch, Again: again,
		UsesSequences: func() { srv.pool.watched.Store(true) }, Log: srv.log}) // discardForeignSequences
}
