package retry

// HeldOutput is output of a turn that was not sent to the client yet. A replay may still replace this output.
type HeldOutput struct {
	quota    *ByteQuota
	limit    int
	reserved int
	data     chunkedBuffer
}

// NewHeldOutput returns an empty HeldOutput of at most limit bytes. quota bounds the held bytes of the whole process.
func NewHeldOutput(limit int, quota *ByteQuota) HeldOutput {
	return HeldOutput{limit: limit, quota: quota}
}

// Add holds b back. If b does not fit, Add returns false and adds nothing. The caller then sends everything that is
// held, and b.
func (h *HeldOutput) Add(b []byte) bool {
	n := h.data.n + len(b)
	if n > h.limit {
		return false
	}
	if n > h.reserved {
		more := roundUpToChunks(n - h.reserved)
		if !h.quota.Take(more) {
			return false
		}
		h.reserved += more
	}
	h.data.append(b)
	return true
}

// Len returns the number of bytes that are held back.
func (h *HeldOutput) Len() int { return h.data.n }

// Bytes returns a copy of the held bytes, never nil. The copy counts for no quota.
func (h *HeldOutput) Bytes() []byte {
	all := make([]byte, 0, h.data.n)
	_ = h.Each(func(piece []byte) error {
		all = append(all, piece...)
		return nil
	})
	return all
}

// Each calls f with the held bytes, in pieces, until f returns an error.
func (h *HeldOutput) Each(f func(piece []byte) error) error { return h.data.each(0, h.data.n, f) }

// Drop discards the held bytes without sending them.
func (h *HeldOutput) Drop() {
	if h.reserved > 0 {
		h.data.truncate(0)
		h.quota.Give(h.reserved)
		h.reserved = 0
	}
}
