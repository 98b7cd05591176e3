package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// The gate, from a session's side: which statement a transaction fights for, and the wait
// in front of it. Package retry holds the queues; a replay takes its place in waitOut.
// Beside it stands the name of a transaction for metrics, after that same statement.

// waitAtGate is called before a statement is sent, with what the backend would be
// told of it. When it is the transaction's first that locks or changes rows that
// exist, it is what the transaction fights for; while a replay fights for the same,
// this one waits behind it, before it has a snapshot that would be out of date at
// once. With an error it must not be sent.
func waitAtGate[T string | []byte](s *session, plan *rewrite.Plan, sql T, params []byte) error {
	r := s.srv.replays
	if r == nil || !plan.Contends || s.tx.keyed || s.optedOut || s.status() == 'E' {
		return nil
	}
	s.tx.key, s.tx.keyed = retry.KeyOf(r.gate, sql, params), true
	// The key is kept for a replay of this transaction, which may be the first to take a
	// pass.
	if r.gate.Idle() {
		return nil
	}
	ctx, over := s.wait(time.Now().Add(r.cfg.Policy.Patience()), lookEvery)
	defer over()
	pass, _ := r.gate.Follow(ctx, s.tx.key)
	// A transaction that has waited long enough is no worse off than if it had come
	// earlier.
	if err := s.waited(ctx); err != nil && err != errWaitedEnough {
		pass.Release()
		return err
	}
	s.tx.pass = pass
	return nil
}

// noteOperation is told of a statement of a plan that has succeeded with that tag: from now on its
// name is one that metrics may have.
func (s *session) noteOperation(plan *rewrite.Plan, st *rewrite.Statement, tag []byte) {
	s.srv.planner.Succeeded(plan)
	s.srv.metrics.OperationSucceeded(st.Operation)
	if retry.Missed(tag) {
		s.srv.metrics.TxConditionFailed(st.Operation)
	}
}

// nameOperation names the transaction for metrics: after its first statement that
// locks or writes, else after its first that reads.
func (s *session) nameOperation(plan *rewrite.Plan) {
	if s.tx.writes || plan.Operation == "" || plan.Kind != rewrite.Read && plan.Kind < rewrite.Write || s.status() == 'E' {
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
		s.tx.running = s.srv.metrics.TxBegan(s.tx.running, s.tx.operation)
	}
}
