package proxy

import (
	"bytes"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// A client's statement, by the backend's: whether what the backend would run is what its
// client was told. bind and describeStatement ask for it (onBackend), a replay by rebind.
// schema.go has the epochs, constants.go the statements whose constants are read by
// settings.

// asNow has a statement that is to be described, and whose Parse was answered from
// memory, mean what it means now: nobody here knows of all that others do to the schema.
// As long as its client has not heard of the Parse, the server is asked in its place.
// Later, whether a change came before the Parse or behind it, nobody knows: then the
// statement is refused where it has changed.
func (s *session) asNow(cs *clientStatement) {
	switch {
	case cs.since == 0:
		return
	case cs.since == s.heard+1:
		cs.known, cs.epoch = nil, s.epoch()
		if st := s.b.prepared.find(cs.tmpl); st != nil {
			s.closeOnBackend(st)
		}
	case cs.described == nil:
		s.describes(cs, cs.known)
	}
	cs.since = 0
}

// began is what times of descriptions count from. The monotonic clock counts.
var began = time.Now()

// confirm notes that the server has just shown by its answer to o that d holds, for others too: not
// from a session whose view of the schema or of names is its own.
func (s *session) confirm(o *owed, d *description) {
	if s.srv.cfg.DescribeMemory > 0 && !s.pinned && !o.apart && s.schema.own == 0 {
		d.seen.Store(int64(time.Since(began)))
	}
}

// holds reports whether the server has shown lately that d holds; never, where
// DescribeMemory is 0.
func (srv *Server) holds(d *description) bool {
	return time.Since(began)-time.Duration(d.seen.Load()) < srv.cfg.DescribeMemory
}

// newStatement is a client's statement of tmpl, prepared now: of the epoch that the session
// sees, with the description that the client would be told. since is as in clientStatement.
func (s *session) newStatement(tmpl *template, since uint64) clientStatement {
	known := s.described(tmpl)
	return clientStatement{tmpl: tmpl, cost: int32(tmpl.cost + known.cost()), columns: int32(known.cost()), epoch: s.epoch(), known: known, since: since}
}

// onBackend is prepare for a client's statement: when the server now describes it otherwise
// than the client was told, nothing is executed. It needs a backend, may send and await
// answers, and the backend may be another one afterwards. cs is changed only on success:
// then it is of the template and epoch that it was found by.
//
// No statement and no error: the server refused the text and the client has been told.
func (s *session) onBackend(cs *clientStatement) (*serverStatement, error) {
	p := s.parsing()
	if cs.tmpl.parsing != p && (cs.tmpl.readOtherwise(p) || s.misled(cs.tmpl) && s.parsedBefore(cs) != nil) {
		return s.asParsed(cs)
	}
	tmpl, epoch := s.underSettings(cs, p)
	if s.misreads(cs, tmpl, epoch) {
		return nil, errOtherReading
	}
	// A statement that was never described has made no promise. Only where the backend has
	// to prepare it anew behind a change of the schema, the promise is the description of
	// the time of its Parse.
	promise := cs.described
	if promise == nil && cs.epoch != s.epoch() && !s.b.prepared.holdsOf(tmpl, epoch) {
		promise = cs.known
	}
	st, agrees, err := s.agreed(tmpl, epoch, promise, func() (bool, error) {
		err := s.makeAnswer()
		return err == nil && !s.t.skip, err
	})
	switch {
	case err != nil || st == nil:
		return nil, err
	case !agrees:
		// The same text with the parameter types that its client was told, which PostgreSQL
		// would have kept.
		if typed := s.typed(tmpl, promise, st.desc); typed != nil {
			before := *cs
			cs.tmpl, cs.epoch = typed, s.epoch()
			if st, err = s.onBackend(cs); err != nil || st == nil {
				before.cost, before.columns, before.listed = cs.cost, cs.columns, cs.listed
				*cs = before
			}
			return st, err
		}
		return nil, errPlanChanged
	}
	cs.tmpl = tmpl
	if st.epoch&private == 0 {
		cs.epoch = st.epoch
	}
	if cs.described == nil {
		cs.known = st.desc
	} else if st.desc != nil {
		s.describes(cs, st.desc) // the same, and newer
	}
	return st, nil
}

// underSettings is the template of a client's statement under the settings in force, and
// the epoch of which a backend's will do: under others the text may mean something else.
func (s *session) underSettings(cs *clientStatement, p settings.Parsing) (tmpl *template, epoch uint64) {
	if tmpl = cs.tmpl; tmpl.parsing != p {
		tmpl = s.srv.template(&s.t.scratch, []byte(tmpl.sql), []byte(tmpl.oids), p, tmpl.names, tmpl.by, tmpl.plan)
		if cs.tmpl.split != nil {
			tmpl = tmpl.inForce()
		}
	}
	if tmpl != cs.tmpl {
		return tmpl, s.epoch()
	}
	return tmpl, cs.epoch
}

// misreads reports whether the backend would have to read the text of a statement anew, in
// another way than its plan has: then nobody knows what it would run.
func (s *session) misreads(cs *clientStatement, tmpl *template, epoch uint64) bool {
	return s.misled(tmpl) && (tmpl != cs.tmpl || tmpl.plan.Pin != rewrite.PinUnparsed) && !s.b.prepared.holdsOf(tmpl, epoch)
}

// misled reports whether the backend would read a text otherwise than the planner.
func (s *session) misled(tmpl *template) bool {
	return s.b.reading != 0 && s.b.reading.Misleads([]byte(tmpl.sql))
}

// typed is tmpl with the parameter types that the client was told, where the server would
// choose others now: PostgreSQL does not choose again. nil: it is not that. promise is what
// the client was told, and desc what the server says now.
func (s *session) typed(tmpl *template, promise, desc *description) *template {
	told, _ := promise.parts()
	if desc == nil || told == nil || tmpl.split != nil || len(told) > maxCachedText {
		return nil
	}
	// Types that the text had been given already make no difference a second time.
	if now, _ := desc.parts(); bytes.Equal(told, now) || string(told[wire.HeaderLen:]) == tmpl.oids {
		return nil
	}
	return s.srv.template(&s.t.scratch, []byte(tmpl.sql), bytes.Clone(told[wire.HeaderLen:]), tmpl.parsing, tmpl.names, tmpl.by, tmpl.plan)
}

// agreed returns the backend's statement for tmpl, and whether it returns what was
// promised; promise may be nil. One that was prepared in the given epoch will do: as
// PostgreSQL's own, it does not run when it would return anything else than it did.
// Only one that was prepared just now is a reason to say that a promise is broken.
// answered has the server answer, and reports whether to go on; if not, st is nil.
func (s *session) agreed(tmpl *template, epoch uint64, promise *description, answered func() (bool, error)) (st *serverStatement, agrees bool, err error) {
	st = s.b.prepared.find(tmpl)
	fresh := st == nil || st.epoch != epoch && st.epoch != s.epoch()
	if fresh {
		st = s.prepare(tmpl, true)
	} else {
		s.srv.metrics.Prepared(metrics.PreparedHit)
	}
	// A query that is sent in two parts needs to know its parameters.
	for promise != nil || tmpl.split != nil {
		if st.desc == nil && fresh {
			// The description has been asked for, and its answer is still owed.
			attempts := s.tx.attempts.Count()
			if ok, err := answered(); !ok || err != nil {
				return nil, false, err
			}
			if s.tx.attempts.Count() != attempts { // it may be another backend
				return s.agreed(tmpl, epoch, promise, answered)
			}
		}
		s.t.desc = st.desc
		agrees = promise == nil || st.desc == promise || st.desc != nil && st.desc.promises(promise)
		if agrees && st.desc != nil || fresh {
			return st, agrees, nil
		}
		s.closeOnBackend(st)
		st, fresh = s.prepare(tmpl, true), true
	}
	return st, true, nil
}
