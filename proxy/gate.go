package proxy

import (
	"time"

	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// queue is called before a statement is sent, with what the backend would be
// told of it. When it is the transaction's first that may lock or write, it is
// what the transaction fights for; while a replay fights for the same, this one
// waits behind it, before it has a snapshot that would be out of date at once.
func queue[T string | []byte](s *session, plan *rewrite.Plan, sql T, params []byte) {
	r := s.srv.replays
	if r == nil || plan.Kind < rewrite.Write || s.tx.keyed || s.optedOut || s.status() == 'E' {
		return
	}
	s.tx.key, s.tx.keyed = retry.KeyOf(r.gate, sql, params), true
	was := s.tx.operation
	s.tx.operation = operationOf(plan, sql)
	if s.tx.log != nil {
		s.srv.metrics.TxBegan(was, s.tx.operation)
	}
	if r.gate.Idle() {
		return
	}
	ctx, stop := s.attended(time.Now().Add(r.cfg.Policy.MaxElapsed))
	defer stop()
	// Whoever gives up waiting is no worse off than if it had come earlier.
	s.tx.pass, _ = r.gate.Follow(ctx, s.tx.key)
}

// operationOf names a text for metrics: the first word of the first of its
// statements that locks or writes.
func operationOf[T string | []byte](plan *rewrite.Plan, sql T) string {
	start := 0
	for i := range plan.Statements {
		if st := &plan.Statements[i]; st.Kind >= rewrite.Write {
			start = st.Start
			break
		}
	}
	rest := sql[min(start, len(sql)):]
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t' || rest[0] == '\r' || rest[0] == '(') {
		rest = rest[1:]
	}
	var word [8]byte
	n := 0
	for n < len(word) && n < len(rest) && (rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z') {
		word[n] = rest[n] &^ 0x20
		n++
	}
	return retry.VerbOf(word[:n]).String()
}
