// Package account counts the bytes that clients have Sluice remember, and bounds them: of one client,
// and of all. Nothing here knows what they are of.
//
//	account.go  Account, a bound on bytes, and Charge, what one thing has of it
//	client.go   Client, the accounts of one client
package account

import "sync/atomic"

// Account is a number of bytes of which some are taken. What it takes those above it take too. It is
// safe for concurrent use. The zero value is without a bound, and has none above it.
type Account struct {
	limit int64 // 0: none
	key   string
	used  atomic.Int64
	above [2]*Account // nil for none
}

// New returns an account of limit bytes, 0 for any number. key is the configuration key that sets the
// limit. above are at most two.
func New(key string, limit int, above ...*Account) *Account {
	a := &Account{}
	a.open(key, limit, above...)
	return a
}

func (a *Account) open(key string, limit int, above ...*Account) {
	a.key, a.limit = key, int64(limit)
	copy(a.above[:], above)
}

// Key is the configuration key that sets the limit.
func (a *Account) Key() string { return a.key }

// Limit is how many bytes may be taken; 0: any number.
func (a *Account) Limit() int { return int(a.limit) }

// Used is how many bytes are taken.
func (a *Account) Used() int64 { return a.used.Load() }

// Full returns the account that has no room for n bytes more: a, or one above it; nil where all have.
func (a *Account) Full(n int) *Account {
	if a.limit > 0 && n > 0 && a.used.Load()+int64(n) > a.limit {
		return a
	}
	for _, up := range a.above {
		if up != nil {
			if full := up.Full(n); full != nil {
				return full
			}
		}
	}
	return nil
}

// TryTake takes n bytes, or none and returns the account that has no room for them.
func (a *Account) TryTake(n int) (full *Account) {
	if used := a.used.Add(int64(n)); a.limit > 0 && n > 0 && used > a.limit {
		a.used.Add(int64(-n))
		return a
	}
	for i, up := range a.above {
		if up == nil {
			continue
		}
		if full := up.TryTake(n); full != nil {
			for _, took := range a.above[:i] {
				if took != nil {
					took.Add(-n)
				}
			}
			a.used.Add(int64(-n))
			return full
		}
	}
	return nil
}

// Add takes n bytes whether there is room or not: for what is there already. n below zero gives bytes
// back.
func (a *Account) Add(n int) {
	if n == 0 {
		return
	}
	a.used.Add(int64(n))
	for _, up := range a.above {
		if up != nil {
			up.Add(n)
		}
	}
}

// Take is TryTake as a bound on bytes that somebody else asks (stored.Quota).
func (a *Account) Take(n int) bool { return a.TryTake(n) == nil }

// Give gives n bytes back.
func (a *Account) Give(n int) { a.Add(-n) }

// Charge is the number of bytes that one thing has of an account. The zero value has none. One
// goroutine owns it.
type Charge struct{ bytes int }

// Bytes is how many it has.
func (c *Charge) Bytes() int { return c.bytes }

// TrySet has the charge be of n bytes of a. Where it grows and there is no room it stays as it is, and
// the account that is full is returned.
func (c *Charge) TrySet(a *Account, n int) (full *Account) {
	if full = a.TryTake(n - c.bytes); full == nil {
		c.bytes = n
	}
	return full
}

// Set has the charge be of n bytes of a, whether there is room or not.
func (c *Charge) Set(a *Account, n int) {
	if n != c.bytes {
		a.Add(n - c.bytes)
		c.bytes = n
	}
}
