package question

import (
	"math"
	"sync/atomic"
	"time"
)

// Pauses behind faults, the first and the longest; each is twice the one before. Age is for how long
// an answer holds that nothing else makes old.
const (
	FirstPause = time.Second
	MostPause  = time.Minute
	Age        = 10 * time.Minute
)

// claimed is how long a claim holds whose owner never says how it ended.
const claimed = 30 * time.Second

// Pace says when a question is due. The zero value is that of one that nobody has asked. Its methods
// may be called by many at once.
type Pace struct {
	next   atomic.Int64 // when it is due, in Unix nanoseconds; 0: at any time
	faults atomic.Int32 // in a row
}

// Due reports whether the question may be asked.
func (p *Pace) Due(now time.Time) bool { return now.UnixNano() >= p.next.Load() }

// Rests reports whether the last one to ask met a fault, and the pause behind it is not over.
func (p *Pace) Rests(now time.Time) bool { return p.faults.Load() > 0 && !p.Due(now) }

// Claim reports whether it is the caller who asks: of those to whom it is due one gets it. The caller
// says how it ended, by Answered, Failed or Unasked.
func (p *Pace) Claim(now time.Time) bool {
	next := p.next.Load()
	return now.UnixNano() >= next && p.next.CompareAndSwap(next, now.Add(claimed).UnixNano())
}

// Answered says that the server has answered: the question is due again when the answer is of that
// age; 0: never.
func (p *Pace) Answered(now time.Time, age time.Duration) {
	p.faults.Store(0)
	if age == 0 {
		p.next.Store(math.MaxInt64)
		return
	}
	p.next.Store(now.Add(age).UnixNano())
}

// Failed says that a fault has come in place of an answer, and returns the pause behind which the
// question is due again.
func (p *Pace) Failed(now time.Time) time.Duration {
	n := p.faults.Add(1)
	pause := MostPause
	if n < 7 {
		pause = min(MostPause, FirstPause<<(n-1))
	}
	p.next.Store(now.Add(pause).UnixNano())
	return pause
}

// Unasked says that whoever claimed the question did not come to ask it: it is due.
func (p *Pace) Unasked() { p.next.Store(0) }
