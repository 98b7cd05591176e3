package proxy

import (
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// PostgreSQL makes what a statement has written visible to the statements behind
// it (CommandCounterIncrement) when an Execute comes to the portal's end, and at
// every Parse; not when a portal is suspended, nor at any other frame of a group.

// incremented is the type, in a log, of a Parse whose effect alone was wanted. No frame of
// the protocol has it.
const incremented = 1

// ran is told of an Execute with that limit on rows, which is about to be sent. 0, and what
// is negative as a signed number, is no limit.
func (t *turn) ran(kind rewrite.Kind, limit uint32) {
	t.executed = t.executed || kind != rewrite.Control && kind != rewrite.Empty // see errDiscardInPipeline: these do not count
	switch limited := int32(limit) > 0; {
	case limited && kind != rewrite.Empty: // what looks like a read may have written
		t.unseen = true
	case !limited && kind != rewrite.Empty:
		t.unseen = false
	}
}

// increment does at the server what a frame that is answered here would have done there. It
// is called for each Parse that is answered here, and for each Execute of a portal of ours.
// Where nothing is invisible it does nothing.
func (s *session) increment() {
	if s.t.unseen && s.state == busy {
		s.logFrame(incremented, logEntry{}, nil)
		s.parseNothing()
	}
}

// parseNothing sends an empty Parse, whose answer is for nobody. The server's unnamed
// statement is no client's.
func (s *session) parseNothing() {
	s.t.unseen = false
	s.t.owed.push(wire.Parse).swallow = true
	s.add(wire.AppendParse(s.t.scratch[:0], "", "", wire.NoOIDs))
}
