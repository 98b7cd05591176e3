package proxy

import "github.com/sluice-proxy/sluice/proxy/wire"

// passThrough relays a frame of a session that has its backend for itself.
// Nothing is rewritten or answered here; the owed queue only tells where the
// turn ends.
func (s *session) passThrough(typ byte, total int) error {
	t := s.t
	if err := s.ensureBackend(); err != nil {
		return err
	}
	switch typ {
	case wire.Flush:
		if err := s.forward(total); err != nil {
			return err
		}
		return s.flushReplies()
	case wire.Query, wire.FunctionCall:
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
