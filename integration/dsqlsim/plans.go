package dsqlsim

import (
	"sync"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxPlans bounds the number of cached plans, maxPlanText the bytes of a statement whose plan is cached.
const (
	maxPlans    = 1024
	maxPlanText = 4 << 10
)

// plans caches the plans of statements with locking clauses.
type plans struct {
	mu   sync.Mutex
	seen map[string]*occ.Plan
}

func newPlans() *plans { return &plans{seen: make(map[string]*occ.Plan)} }

// of returns a statement's plan, nil when the statement has no locking clause or cannot run.
func (p *plans) of(st *dialect.Statement) *occ.Plan {
	reads := st.Kind == dialect.DML || st.Kind == dialect.Other && st.Verb != "EXPLAIN"
	if !reads || st.Refusal != nil || !occ.MayLock(st.SQL) {
		return nil
	}
	p.mu.Lock()
	plan, ok := p.seen[st.SQL]
	p.mu.Unlock()
	if ok {
		return plan
	}
	plan = occ.Read(st.SQL)
	if len(st.SQL) > maxPlanText {
		return plan
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxPlans {
		for other := range p.seen {
			delete(p.seen, other)
			break
		}
	}
	p.seen[st.SQL] = plan
	return plan
}

// spelling returns the statement's text for PostgreSQL, without its locking clauses.
func (p *plans) spelling(st *dialect.Statement) string {
	if plan := p.of(st); plan != nil {
		return plan.SQL
	}
	return st.SQL
}
