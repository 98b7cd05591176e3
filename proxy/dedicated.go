package proxy

import "github.com/sluice-proxy/sluice/proxy/wire"

// Sessions with a backend of their own from startup to end: backend kind postgres with
// pairing session. handle calls passThrough for their frames; a Sync ends their turns as
// any other's.

// passThrough relays a frame of a session that has its backend for itself. Nothing is
// rewritten or answered here; the owed queue only tells where the turn ends. Frames of any
// length pass, the backend sees them as they came, and its errors are the client's.
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
