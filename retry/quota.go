package retry

import "sync/atomic"

// Quota is a bound on bytes that many share.
type Quota struct {
	limit int64
	used  atomic.Int64
}

// NewQuota returns a quota of limit bytes.
func NewQuota(limit int) *Quota { return &Quota{limit: int64(limit)} }

// Take takes n bytes, or none and reports false.
func (q *Quota) Take(n int) bool {
	if q.used.Add(int64(n)) > q.limit {
		q.used.Add(int64(-n))
		return false
	}
	return true
}

// Give gives n bytes back.
func (q *Quota) Give(n int) { q.used.Add(int64(-n)) }

// Used is how many bytes are taken.
func (q *Quota) Used() int64 { return q.used.Load() }
