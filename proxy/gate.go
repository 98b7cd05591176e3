package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file lets a session's transaction wait at the gate, the queue for transactions that want the same rows
// (waitAtGate). Package retry has the queues. waitBeforeReplay makes a replay wait in its queue. trackOperationName
// names the transaction in metrics.

// waitAtGate waits at the gate (the queue for contended rows) before a statement is sent. sql and params are the text
// and parameters for the server. The transaction's first statement that locks or changes existing rows sets its key.
// The transaction waits while a replay with the same key runs. A snapshot taken now would be out of date after that
// replay. After an error Sluice must not send the statement.
func waitAtGate[T string | []byte](s *session, plan *rewrite.Plan, sql T, params []byte) error {
	r := s.srv.pool.replays
	if r == nil || !plan.Contends || s.tx.keyed || s.optedOut || s.txStatus() == 'E' {
		return nil
	}
	s.tx.key, s.tx.keyed = retry.NewContentionKey(r.gate, sql, params), true
	// A later replay of this transaction needs the key, even if no transaction waits in the gate's queues now.
	if r.gate.Idle() {
		return nil
	}
	ctx, over := s.waitContext(time.Now().Add(r.cfg.Policy.QueueTimeout()), lookEvery)
	defer over()
	pass, _ := r.gate.WaitIfContended(ctx, s.tx.key)
	// After the longest wait the transaction runs, and has as good a chance as a transaction that arrived earlier.
	if err := s.waits.Error(ctx); err != nil && err != interrupt.ErrLimit {
		pass.Release()
		return err
	}
	s.tx.pass = pass
	return nil
}

// recordOperation records that a statement of the plan succeeded with the given command tag. After that, metrics may
// show the statement's name.
func (s *session) recordOperation(plan *rewrite.Plan, st *rewrite.Statement, tag []byte) {
	s.srv.pool.planner.RecordSuccess(plan)
	s.srv.metrics.CountOperationSuccess(st.Operation)
	if retry.MatchedNoRows(tag) {
		s.srv.metrics.CountConditionFailed(st.Operation)
	}
}

// trackOperationName names the transaction in metrics after its first statement that locks or writes, or after its
// first read if no statement does.
func (s *session) trackOperationName(plan *rewrite.Plan) {
	if s.tx.writes || plan.Operation == "" || plan.Kind != rewrite.Read && plan.Kind < rewrite.Write || s.txStatus() == 'E' {
		return
	}
	if s.tx.writes = plan.Kind >= rewrite.Write; !s.tx.writes && s.tx.operation != "" {
		return
	}
	if s.tx.operation = plan.Operation; s.tx.writes {
		for i := range plan.Statements {
			if st := &plan.Statements[i]; st.Kind >= rewrite.Write {
				s.tx.operation = st.Operation
				break
			}
		}
	}
	if s.tx.log != nil {
		s.tx.running = s.srv.metrics.CountTxStart(s.tx.running, s.tx.operation)
	}
}
