package dsqlsim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// faultPlan is the list of planned faults. Any goroutine may call its methods.
type faultPlan struct {
	pending atomic.Int64 // len(faults), for the many statements without a fault

	mu     sync.Mutex
	faults []*plannedFault
}

// plannedFault is a planned fault with the remaining counts of moments to skip and of repetitions.
type plannedFault struct {
	Fault
	chance *rand.Rand
	remainingCounts
	each map[uint64]*remainingCounts // by session, if PerSession
}

// remainingCounts says how many matching moments a planned fault still skips, and how often it happens after these.
type remainingCounts struct{ skip, count int }

// errTooManyFaults is the error for more planned faults than maxFaults.
var errTooManyFaults = fmt.Errorf("more than %d faults planned: forget some first", maxFaults)

// AddFaults adds faults, all or none, and returns all problems of the faults. If several faults are due at one moment,
// the one planned first happens.
func (s *Server) AddFaults(faults ...Fault) error {
	return s.plan.addFaults(faults, make([]error, len(faults)))
}

// PendingFaults returns the faults that may still happen, with what remains of Skip and Count (except for PerSession).
func (s *Server) PendingFaults() []Fault { return s.plan.listFaults() }

// ClearFaults removes all planned faults.
func (s *Server) ClearFaults() {
	s.plan.mu.Lock()
	defer s.plan.mu.Unlock()
	s.plan.faults = nil
	s.plan.pending.Store(0)
}

// addFaults adds faults to the plan, all or none. form holds the errors that the caller has found in each fault
// already.
func (p *faultPlan) addFaults(faults []Fault, form []error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make(map[string]bool)
	for _, f := range p.faults {
		names[f.Name] = true
	}
	var problems []error
	for i := range faults {
		f := &faults[i]
		names[f.Name] = true
		err := form[i]
		if err == nil {
			err = f.Validate()
		}
		if f.After != "" && !names[f.After] {
			err = errors.Join(err, fmt.Errorf("after %q: want the name of a fault that is planned before", shortenText(f.After)))
		}
		problems = append(problems, numberProblems(i, err))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if len(p.faults)+len(faults) > maxFaults {
		return errTooManyFaults
	}
	for _, f := range faults {
		p.faults = append(p.faults, &plannedFault{
			Fault:           f,
			chance:          rand.New(rand.NewPCG(f.Seed, 0)),
			remainingCounts: remainingCounts{f.Skip, f.repeatLimit()},
			each:            make(map[uint64]*remainingCounts),
		})
	}
	p.pending.Store(int64(len(p.faults)))
	return nil
}

// numberProblems adds the fault's number in the list to each problem in err.
func numberProblems(i int, err error) error {
	if err == nil {
		return nil
	}
	var named []error
	for _, problem := range splitJoinedError(err) {
		named = append(named, fmt.Errorf("fault %d: %w", i+1, problem))
	}
	return errors.Join(named...)
}

// splitJoinedError returns the errors that errors.Join joined.
func splitJoinedError(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func (p *faultPlan) listFaults() []Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	faults := make([]Fault, 0, len(p.faults))
	for _, each := range p.faults {
		f := each.Fault
		if !f.PerSession {
			f.Skip = each.skip
			if f.Count > 0 {
				f.Count = each.count
			}
		}
		faults = append(faults, f)
	}
	return faults
}

// nextFault counts the moment m for all planned faults that match it. It returns the fault that happens at m, or nil.
func (p *faultPlan) nextFault(m *faultMoment) *Fault {
	if p.pending.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	happens := -1
	for i, f := range p.faults {
		if f.After == "" && f.matchesMoment(m) && f.takeIfDue(m.session, happens < 0) {
			happens = i
		}
	}
	if happens < 0 {
		return nil
	}
	f := p.faults[happens]
	if f.count == 0 {
		p.faults = append(p.faults[:happens:happens], p.faults[happens+1:]...)
		p.pending.Store(int64(len(p.faults)))
	}
	for _, waiting := range p.faults {
		if f.Name != "" && waiting.After == f.Name {
			waiting.After = ""
		}
	}
	now := f.Fault
	return &now
}

// takeIfDue counts a moment that matches the fault, and reports whether the fault happens at that moment. may is
// false if another fault happens at that moment.
func (f *plannedFault) takeIfDue(session uint64, may bool) bool {
	l := &f.remainingCounts
	if f.PerSession {
		if l = f.each[session]; l == nil {
			l = &remainingCounts{f.Skip, f.repeatLimit()}
			f.each[session] = l
		}
	}
	switch {
	case l.skip > 0:
		l.skip--
		return false
	case !may || l.count == 0:
		return false
	case f.Probability > 0 && f.chance.Float64() >= f.Probability:
		return false
	}
	l.count--
	return true
}

// forgetSession drops the counts for a session that has ended.
func (p *faultPlan) forgetSession(session uint64) {
	if p.pending.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		delete(f.each, session)
	}
}
