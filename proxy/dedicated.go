package proxy

// passThrough relays a frame of a session that has its backend for itself.
// Nothing is rewritten or answered here; the owed queue only tells where the
// turn ends.
func (s *session) passThrough(typ byte, total int) error {
	t := s.t
	if err := s.ensureBackend(); err != nil {
		return err
	}
	switch typ {
	case msgFlush:
		if err := s.forward(total); err != nil {
			return err
		}
		return s.flushReplies()
	case msgQuery, msgFunction:
		t.ended = true
		t.owed.push(typ).plan = unread
		if err := s.forward(total); err != nil {
			return err
		}
		return s.finish()
	}
	t.owed.push(typ)
	return s.forward(total)
}
