package dsqlsim

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Point is a moment at which a fault may happen.
type Point string

const (
	AtConnect   Point = "connect"   // the startup packet was read
	AtStatement Point = "statement" // before a statement goes to PostgreSQL, COMMIT included
	AtCommit    Point = "commit"    // before a COMMIT that ends an open transaction goes
	Answered    Point = "answered"  // PostgreSQL has run a statement to its end, the client does not know
	Committed   Point = "committed" // the same for COMMIT
)

// Action is what happens.
type Action string

const (
	Fail  Action = "fail"  // Error is answered, and nothing of it done
	Cut   Action = "cut"   // both connections are closed without a word
	Stall Action = "stall" // nothing happens for Seconds
)

// plannedErrors are the names that Fault.Error may have, and where they fit.
var plannedErrors = map[string]struct {
	at Point
	*failure
}{
	"conflict":    {AtStatement, dataConflict},   // OC000
	"schema":      {AtStatement, schemaConflict}, // OC001
	"rate":        {AtConnect, tooFast},
	"connections": {AtConnect, tooMany},
	"denied":      {AtConnect, accessDenied},
	"waking-up":   {AtConnect, wakingUp},
}

// Fault is one planned fault. It lets Skip events at its point pass, then
// happens Count times.
type Fault struct {
	At     Point  `json:"at"`
	Action Action `json:"action"`
	// Error names the refusal of a Fail: conflict or schema at statement and
	// commit; rate, connections, denied or waking-up at connect.
	Error string `json:"error,omitempty"`
	// Seconds is the length of a Stall.
	Seconds float64 `json:"seconds,omitempty"`
	Skip    int     `json:"skip,omitempty"`
	// Count 0 means once.
	Count int `json:"count,omitempty"`
	// Session limits the fault to the connection of this number.
	Session uint64 `json:"session,omitempty"`
}

// maxFaults bounds the plan; maxStall bounds one Stall.
const (
	maxFaults = 1000
	maxStall  = time.Hour
)

// Validate tells what is wrong with the fault.
func (f *Fault) Validate() error {
	switch f.At {
	case AtConnect, AtStatement, AtCommit, Answered, Committed:
	default:
		return fmt.Errorf("at %q: want connect, statement, commit, answered or committed", f.At)
	}
	if f.Skip < 0 || f.Count < 0 {
		return errors.New("skip and count must not be negative")
	}
	switch f.Action {
	case Cut:
		return nil
	case Stall:
		if f.Seconds <= 0 || f.Seconds > maxStall.Seconds() {
			return fmt.Errorf("seconds %v: want more than 0, at most %v", f.Seconds, maxStall.Seconds())
		}
		return nil
	case Fail:
		at := f.At
		if at == AtCommit {
			at = AtStatement
		}
		if planned, ok := plannedErrors[f.Error]; !ok || planned.at != at {
			return fmt.Errorf("error %q does not happen at %s", f.Error, f.At)
		}
		return nil
	}
	return fmt.Errorf("action %q: want fail, cut or stall", f.Action)
}

func (f *Fault) failure() *failure { return plannedErrors[f.Error].failure }

// faults is the plan.
type faults struct {
	pending atomic.Int64 // len(planned), for the many statements without a fault

	mu      sync.Mutex
	planned []Fault
}

// errTooManyFaults tells that the plan is full.
var errTooManyFaults = fmt.Errorf("more than %d faults planned", maxFaults)

// Plan adds faults, all or none. Those planned first happen first.
func (s *Server) Plan(planned ...Fault) error {
	for i := range planned {
		if err := planned[i].Validate(); err != nil {
			return fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	p := s.faults
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.planned)+len(planned) > maxFaults {
		return errTooManyFaults
	}
	for _, f := range planned {
		f.Count = max(f.Count, 1)
		p.planned = append(p.planned, f)
	}
	p.pending.Store(int64(len(p.planned)))
	return nil
}

// Planned lists the faults that have not happened yet, with what is left of Skip
// and Count.
func (s *Server) Planned() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return append([]Fault{}, s.faults.planned...)
}

// ClearPlan forgets them.
func (s *Server) ClearPlan() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.planned = nil
	s.faults.pending.Store(0)
}

// next counts an event and returns the fault that happens at it, if any.
func (p *faults) next(at Point, session uint64) *Fault {
	if p.pending.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var happens *Fault
	kept := p.planned[:0]
	for _, f := range p.planned {
		switch {
		case f.At != at || f.Session != 0 && f.Session != session:
		case f.Skip > 0:
			f.Skip--
		case happens == nil:
			f.Count--
			now := f
			happens = &now
		}
		if f.Count > 0 {
			kept = append(kept, f)
		}
	}
	p.planned = kept
	p.pending.Store(int64(len(kept)))
	return happens
}

// happen looks for a fault at this point and carries it out: it waits, or
// returns errCut or the *failure to answer.
func (s *Server) happen(at Point, session uint64) error {
	f := s.faults.next(at, session)
	if f == nil {
		return nil
	}
	s.metrics.faults.WithLabelValues(string(f.Action)).Inc()
	s.ledger.add(Event{Session: session, Kind: "fault", Outcome: string(f.Action), Detail: string(at)})
	switch f.Action {
	case Cut:
		return errCut
	case Fail:
		return f.failure()
	}
	select {
	case <-time.After(time.Duration(f.Seconds * float64(time.Second))):
		return nil
	case <-s.ctx.Done():
		return errClosing
	}
}
