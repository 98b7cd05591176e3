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

// planCache caches LockPlans, which say how statements run without their locking clauses.
type planCache struct {
	mu   sync.Mutex
	seen map[string]*occ.LockPlan
}

func newPlanCache() *planCache { return &planCache{seen: make(map[string]*occ.LockPlan)} }

// planFor returns a statement's LockPlan (how it runs without its locking clauses). The result is nil if the
// statement has no locking clause or cannot run.
func (p *planCache) planFor(st *dialect.Statement) *occ.LockPlan {
	reads := st.Kind == dialect.DML || st.Kind == dialect.Other && st.Verb != "EXPLAIN"
	if !reads || st.Refusal != nil || !occ.MayHaveLocking(st.SQL) {
		return nil
	}
	p.mu.Lock()
	plan, ok := p.seen[st.SQL]
	p.mu.Unlock()
	if ok {
		return plan
	}
	plan = occ.NewLockPlan(st.SQL)
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

// upstreamSpelling returns the statement's text for PostgreSQL, without its locking clauses.
func (p *planCache) upstreamSpelling(st *dialect.Statement) string {
	if plan := p.planFor(st); plan != nil {
		return plan.SQL
	}
	return st.SQL
}
