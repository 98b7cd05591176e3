package occ

import "sync"

// maxKeys bounds the keys that a Certifier remembers; beyond it the Certifier forgets the oldest commits.
const maxKeys = 100_000

// RowKey names a row: its table, and a condition that only this row fulfils, both as SQL.
type RowKey struct{ Table, Condition string }

// Certifier orders snapshots and commits. It remembers the keys that committed transactions have named FOR KEY SHARE,
// as long as an older snapshot is open. It is safe for concurrent use; the zero value is ready.
type Certifier struct {
	mu      sync.Mutex
	clock   uint64              // of the last commit
	open    map[uint64]uint64   // snapshot's number: clock when it was taken
	last    uint64              // snapshot's number
	pending map[uint64][]RowKey // by snapshot: commits under way
	commits []committedKeys     // oldest first
	keys    int                 // in commits
}

type committedKeys struct {
	at   uint64
	keys []RowKey
}

// OpenSnapshot registers a snapshot that a transaction is about to take. The caller must call CloseSnapshot once for
// the returned number.
func (c *Certifier) OpenSnapshot() (snapshot uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open, c.pending = make(map[uint64]uint64), make(map[uint64][]RowKey)
	}
	c.last++
	c.open[c.last] = c.clock
	return c.last
}

// AnnounceKeys registers the keys of a transaction that is about to commit. KeysSince then returns these keys for other
// snapshots.
func (c *Certifier) AnnounceKeys(snapshot uint64, keys []RowKey) {
	if len(keys) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[snapshot] = keys
}

// KeyCount returns the number of remembered keys, plus the number of commits under way with keys.
func (c *Certifier) KeyCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys + len(c.pending)
}

// KeysSince returns the keys of other transactions that have committed since snapshot was taken, or are about to
// commit.
func (c *Certifier) KeysSince(snapshot uint64) []RowKey {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.open[snapshot]
	var found []RowKey
	for _, done := range c.commits {
		if done.at > taken {
			found = append(found, done.keys...)
		}
	}
	for other, keys := range c.pending {
		if other != snapshot {
			found = append(found, keys...)
		}
	}
	return found
}

// CloseSnapshot ends a snapshot; committed reports whether its transaction has committed.
func (c *Certifier) CloseSnapshot(snapshot uint64, committed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, snapshot)
	keys := c.pending[snapshot]
	delete(c.pending, snapshot)
	if committed {
		c.clock++
		if len(keys) > 0 {
			c.commits = append(c.commits, committedKeys{c.clock, keys})
			c.keys += len(keys)
		}
	}
	c.forgetCommitsLocked()
}

// forgetCommitsLocked drops the commits that are not newer than any open snapshot. The caller holds mu.
func (c *Certifier) forgetCommitsLocked() {
	if len(c.commits) == 0 {
		return
	}
	oldest := c.clock
	for _, taken := range c.open {
		oldest = min(oldest, taken)
	}
	for len(c.commits) > 0 && (c.commits[0].at <= oldest || c.keys > maxKeys) {
		c.keys -= len(c.commits[0].keys)
		c.commits[0] = committedKeys{}
		c.commits = c.commits[1:]
	}
}
