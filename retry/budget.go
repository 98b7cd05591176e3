package retry

import (
	"sync/atomic"
	"time"
)

// Budget bounds the replays of a process, so that conflicts cannot cause each other without end. Budget never blocks
// and takes no lock.
//
// Budget is a token bucket in one number, the debt. Each token taken adds to the debt. Time reduces it by
// BudgetPerSecond tokens per second, and each commit by a part of a token. Without a debt the bucket is full.
type Budget struct {
	// paid is the time at which the bucket will be full again, in nanoseconds of elapsed, or 0 if it is full.
	paid    atomic.Int64
	elapsed func() int64
	token   int64 // nanoseconds for one token
	commit  int64 // nanoseconds that a commit pays
	most    int64 // nanoseconds of debt at an empty bucket
}

// NewBudget returns a full Budget. now is time.Now, except in tests.
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

// Take takes a token, the right to one replay. Take returns false when the Budget has none.
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

// RecordCommit records that a transaction committed, which refills the budget. Without debt, RecordCommit is one atomic
// load.
func (b *Budget) RecordCommit() {
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
