package question

import (
	"math"
	"sync/atomic"
	"time"
)

// FirstPause and MostPause bound the pauses before Sluice repeats a question that got no answer. Each pause is twice
// the last one. Age is how long an answer is valid if nothing else invalidates it.
const (
	FirstPause = time.Second
	MostPause  = time.Minute
	Age        = 10 * time.Minute
)

// claimed is how long Schedule.Claim gives a question to no second caller, if the first one reports no result.
const claimed = 30 * time.Second

// Schedule says when Sluice should next ask the server a question. The zero Schedule is for a question never asked.
// Schedule is safe for concurrent use.
type Schedule struct {
	next   atomic.Int64 // when the question is due, in Unix nanoseconds; 0 means now
	faults atomic.Int32 // consecutive attempts without an answer
}

// IsDue reports whether Sluice may ask the question at the time now.
func (p *Schedule) IsDue(now time.Time) bool { return now.UnixNano() >= p.next.Load() }

// IsPausing reports whether the last attempt to ask met a fault (got no answer), and the pause after it is not over.
func (p *Schedule) IsPausing(now time.Time) bool { return p.faults.Load() > 0 && !p.IsDue(now) }

// Claim reports whether the caller should ask the question. Only one of several callers gets a due question. That
// caller reports the result by RecordAnswer, RecordFault or Unclaim.
func (p *Schedule) Claim(now time.Time) bool {
	next := p.next.Load()
	return now.UnixNano() >= next && p.next.CompareAndSwap(next, now.Add(claimed).UnixNano())
}

// RecordAnswer records an answer of the server. The question is due again when the answer is older than age, or never
// if age is 0.
func (p *Schedule) RecordAnswer(now time.Time, age time.Duration) {
	p.faults.Store(0)
	if age == 0 {
		p.next.Store(math.MaxInt64)
		return
	}
	p.next.Store(now.Add(age).UnixNano())
}

// RecordFault records that the question got no answer, and returns the pause after which the question is due again.
func (p *Schedule) RecordFault(now time.Time) time.Duration {
	n := p.faults.Add(1)
	pause := MostPause
	if n < 7 {
		pause = min(MostPause, FirstPause<<(n-1))
	}
	p.next.Store(now.Add(pause).UnixNano())
	return pause
}

// Unclaim records that a caller claimed the question but did not ask it, so that it is due again.
func (p *Schedule) Unclaim() { p.next.Store(0) }
