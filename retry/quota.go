package retry

import "sync/atomic"

// ByteQuota is a bound on bytes that several logs or turns share.
type ByteQuota struct {
	limit int64
	used  atomic.Int64
}

// NewByteQuota returns a quota of limit bytes.
func NewByteQuota(limit int) *ByteQuota { return &ByteQuota{limit: int64(limit)} }

// Take takes n bytes of the quota. If fewer are free, Take takes none and returns false.
func (q *ByteQuota) Take(n int) bool {
	if q.used.Add(int64(n)) > q.limit {
		q.used.Add(int64(-n))
		return false
	}
	return true
}

// Give returns n bytes to the quota.
func (q *ByteQuota) Give(n int) { q.used.Add(int64(-n)) }

// Used returns the number of bytes of the quota that are taken.
func (q *ByteQuota) Used() int64 { return q.used.Load() }
