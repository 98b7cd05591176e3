package proxy

import (
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/reservoir"
	"github.com/sluice-proxy/sluice/rewrite"
)

// currval and lastval answer with what the server's session has drawn: on a backend that
// serves several clients, with another client's number. So they are passed on only where
// all that any session may have drawn on the backend is this session's, and its last
// draw was there; else they fail as in PostgreSQL in a session that has drawn nothing.

// several stands for more than one session, or for one whose numbers are out of date.
const several = ^uint64(0)

// sequences is what the sessions of a Server know together. asked is set once and stays.
type sequences struct {
	// asked: some client uses currval or lastval. From then on a backend is cleared of
	// the numbers that others have drawn before it is lent, unless the server cannot: pace says
	// when it is tried again.
	asked atomic.Bool
	pace  question.Pace
}

// draws is what one session has drawn of sequences. A session embeds it.
type draws struct {
	// drewOn is the backend, by its serial, on which the session may have advanced a
	// sequence last; 0 for none. wantsOwn: it asks for what it drew.
	drewOn   uint64
	wantsOwn bool
	// own: the pinned backend is kept for that alone; void: what was drawn there before
	// the client discarded its sequences, the server still knows.
	own, void bool
}

// backends counts those that were ever attached, to tell them apart.
var backends atomic.Uint64

// drawn reports whether what was drawn on the backend is the session's, whole and new. The
// number of a backend tells apart two that were lent one after the other.
func (s *session) drawn() bool {
	return s.b.drawer == s.id && s.drewOn == s.b.serial
}

// draw notes that the session may advance a sequence on its backend, before it does.
func (s *session) draw() {
	switch {
	case s.b.drawer == 0:
		s.b.drawer = s.id
	case !s.drawn():
		s.b.drawer = several
	}
	s.drewOn = s.b.serial
}

// askSequence decides whether a text may ask its backend for numbers drawn before. With nil
// it may: what the backend has drawn is the session's own, or nobody has drawn anything,
// and the server's own error is the answer. The error is PostgreSQL's, with a hint; from
// the next transaction on the session has a backend of its own.
func (s *session) askSequence(plan *rewrite.Plan) error {
	s.srv.sequences.asked.Store(true)
	if s.dedicated || s.drawn() || s.b.drawer == 0 && s.drewOn == 0 {
		return nil
	}
	if s.b.status == 'E' && !revives(plan) {
		return nil // the server refuses it
	}
	if own, err := s.proves(); own || err != nil {
		return err
	}
	s.wantsOwn = true
	return &wire.Error{Code: "55000", Message: plan.Sequence + " is not yet defined in this session",
		Detail: "Its transactions share backends with other sessions, whose numbers it must not see.",
		Hint:   "Have the number returned: INSERT ... RETURNING, or SELECT nextval(...). From its next transaction on this session keeps a backend of its own, where it can ask."}
}

// revives reports whether a text may end a failed block, in whole or in part.
func revives(plan *rewrite.Plan) bool {
	return plan.Any(func(st *rewrite.Statement) bool { return st.Kind == rewrite.Control })
}

// clearSequences has the server forget what others have drawn on an idle backend, in front
// of a transaction of this session. A server that refuses is asked again when its answer is old, and
// one that cannot now behind a pause (question.Sequences). The error is a lost backend.
func (s *session) clearSequences() error {
	q := &s.srv.sequences
	if !q.asked.Load() || s.b.drawer == 0 || s.drawn() || !q.pace.Due(time.Now()) {
		return nil
	}
	for range mostCatalogTries {
		refusal, err := s.b.exchange(wire.AppendStrings(nil, wire.Query, "DISCARD SEQUENCES"))
		switch fault := faultOf(refusal); {
		case err != nil:
			return err
		case refusal == nil:
			s.b.drawer = 0
			return nil
		case fault == question.Refusal:
			q.pace.Answered(time.Now(), question.Age)
			return nil
		case fault != question.Conflict:
			q.pace.Failed(time.Now())
			return nil
		}
	}
	q.pace.Failed(time.Now())
	return nil
}

// discardedSequences notes that the client had its sequences discarded, at the server or,
// where Sluice has answered that, here only: then a backend that is kept for the session's
// numbers still has them, and has to go (void).
func (s *session) discardedSequences(atServer bool) {
	s.void = !atServer && s.own && s.drewOn != 0
	s.drewOn = 0
	if s.b != nil {
		s.b.ran.forget()
	}
	if atServer {
		s.b.drawer = 0
	}
}

// leaveKept gives up the backend that the session keeps, where the server cannot forget
// what the session has left there: the session's next transaction is on another one. The
// session does not end with it, as behind losePin. The caller moves the session.
func (s *session) leaveKept() {
	if s.pinned {
		s.srv.pinned.Add(-1)
	}
	s.pinned, s.own, s.void, s.found = false, false, false, false
	s.dropBackend(reservoir.Pinned)
}

// borrowOwn takes a backend that nobody else has used, and keeps it, for a session that
// asked for its numbers in vain. nil when there is none: then it shares one again, and may
// ask in vain again. Such a backend counts as a pin.
func (s *session) borrowOwn() *reservoir.Conn {
	if !s.wantsOwn || s.pinned || !s.srv.takePin() {
		return nil
	}
	ctx, stop := s.wait(time.Time{}, lookInLineEvery) // whatever ends it is heeded by what comes next
	defer stop()
	conn, err := s.srv.backends.DialDedicated(ctx, reservoir.Startup{Database: s.srv.cfg.Database})
	if err != nil {
		s.srv.pinned.Add(-1)
		return nil
	}
	s.pinned, s.own, s.drewOn = true, true, 0
	s.srv.metrics.Pinned(metrics.PinSequence)
	s.srv.log.Info("session keeps its backend", append(s.logAttrs(), "reason", metrics.PinSequence)...)
	return conn
}
