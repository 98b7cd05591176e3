package retry

// Held is output of a turn that its client has not been sent, and which may
// still be replaced by that of a replay.
type Held struct {
	quota    *Quota
	limit    int
	reserved int
	data     chain
}

// NewHeld returns an empty Held of at most limit bytes; quota bounds those of
// the process.
func NewHeld(limit int, quota *Quota) Held { return Held{limit: limit, quota: quota} }

// Add holds b back. It reports false, and takes nothing, when b does not fit:
// then everything held and b have to be sent.
func (h *Held) Add(b []byte) bool {
	n := h.data.n + len(b)
	if n > h.limit {
		return false
	}
	if n > h.reserved {
		more := inChunks(n - h.reserved)
		if !h.quota.Take(more) {
			return false
		}
		h.reserved += more
	}
	h.data.append(b)
	return true
}

// Len is how many bytes are held.
func (h *Held) Len() int { return h.data.n }

// Bytes is a copy of what is held, which no quota bounds: it is never nil.
func (h *Held) Bytes() []byte {
	all := make([]byte, 0, h.data.n)
	_ = h.Each(func(piece []byte) error {
		all = append(all, piece...)
		return nil
	})
	return all
}

// Each calls f with the held bytes, in pieces, until f fails.
func (h *Held) Each(f func(piece []byte) error) error { return h.data.each(0, h.data.n, f) }

// Drop forgets what is held.
func (h *Held) Drop() {
	if h.reserved > 0 {
		h.data.truncate(0)
		h.quota.Give(h.reserved)
		h.reserved = 0
	}
}
