package retry

import (
	"sync/atomic"
	"time"
)

// Budget bounds the replays of a process, so that conflicts that cause each other cannot become a
// storm. It never blocks and takes no lock.
//
// It is a token bucket in one number, the debt: each token taken adds to it, the clock pays one
// token in 1/BudgetPerSecond, and each commit pays a part of one. No debt is a full bucket.
type Budget struct {
	// paid is the time at which the debt will be paid, in nanoseconds by elapsed; 0 for no debt.
	paid    atomic.Int64
	elapsed func() int64
	token   int64 // nanoseconds for one token
	commit  int64 // nanoseconds that a commit pays
	most    int64 // nanoseconds of debt at an empty bucket
}

// NewBudget returns a full budget. now is time.Now, except in tests.
func NewBudget(c Config, now func() time.Time) *Budget {
	start := now()
	token := float64(time.Second) / c.BudgetPerSecond
	return &Budget{
		elapsed: func() int64 { return int64(now().Sub(start)) },
		token:   int64(token),
		commit:  int64(token * c.BudgetPerCommit),
		most:    int64(token) * int64(c.BudgetBurst),
	}
}

// Take takes a token. It returns false when there is none.
func (b *Budget) Take() bool {
	for {
		paid, now := b.paid.Load(), b.elapsed()
		after := max(paid, now) + b.token
		if after-now > b.most {
			return false
		}
		if b.paid.CompareAndSwap(paid, after) {
			return true
		}
	}
}

// Committed counts a transaction that committed. Without debt it is one atomic load.
func (b *Budget) Committed() {
	for {
		paid := b.paid.Load()
		if paid == 0 {
			return
		}
		after := paid - b.commit
		if after <= b.elapsed() {
			after = 0
		}
		if b.paid.CompareAndSwap(paid, after) {
			return
		}
	}
}
