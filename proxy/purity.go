package proxy

import (
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Whether texts that look like reads are reads, by the database. sendQuery, bindOnBackend
// and others ask it for each such text (judged), a replay of a lost read asks anew
// (stillReads).

// A text alone hardly ever shows that it only reads: a view, an attribute, an operator
// or a cast may run a function that writes. A database in which no function of a user's
// that may write can be reached in such a way shows it for all texts: PostgreSQL holds
// functions that are not VOLATILE to reading. purity remembers what a database answered
// to that.
type purity struct {
	asked   atomic.Int64 // when the answer was asked for, in Unix nanoseconds; 0 for never
	refused atomic.Int64 // when the server last refused to answer, likewise
	// answer is 1 + the epoch of the schema that it is of, doubled, and 1 more when
	// nothing may write; 0 for none.
	answer atomic.Uint64
}

// purityAge is how long an answer holds. Schema changes that are seen here, or told by
// OC001, end it at once; where the server tells nobody, it takes so long.
const purityAge = time.Minute

// purityRest is how long nobody asks again after a refusal.
const purityRest = time.Second

// isPure asks for functions that may write, and run where nobody calls them by name:
// because something else is made of them (a view, a policy, an operator, a cast, an
// aggregate, a domain), because of an attribute's name (a row or anything is their first
// argument), or in the place of a builtin of the same name. Functions of triggers and of
// defaults run with a write only. A foreign table may stand for anything. The second
// column says that some function asks for what a session drew of sequences.
const isPure = `SELECT NOT EXISTS (SELECT 1 FROM users p WHERE p.provolatile = 'v' AND (` +
	`EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid` +
	` AND d.classid NOT IN ('pg_catalog.pg_trigger'::pg_catalog.regclass, 'pg_catalog.pg_event_trigger'::pg_catalog.regclass, 'pg_catalog.pg_attrdef'::pg_catalog.regclass))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_type t WHERE p.pronargs > 0 AND t.oid = p.proargtypes[0] AND t.typtype NOT IN ('b', 'e'))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc b JOIN pg_catalog.pg_namespace n ON n.oid = b.pronamespace WHERE b.proname = p.proname AND n.nspname IN ` + builtins + `)))` +
	` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'f'),` +
	` EXISTS (SELECT 1 FROM users p WHERE p.prosrc ~* 'currval|lastval')`

// builtins are the schemas of the server's own functions.
const builtins = `('pg_catalog', 'information_schema', 'sys')`

// askPure is the whole question.
const askPure = `WITH users AS (SELECT p.* FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname NOT IN ` + builtins +
	` AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)) ` + isPure

// judged is the plan of a text that the session runs next, on a backend that is lent: what
// may write, although it looks like a read, is a write. In a block nothing is committed
// before the COMMIT: there it is one where a return to a savepoint must undo it. The
// database is asked only where nothing of a group has been sent: the question would commit
// it.
func (s *session) judged(plan *rewrite.Plan) *rewrite.Plan {
	switch {
	case plan.AsWrite() == plan:
		return plan
	case plan.Kind == rewrite.Read && s.inBlock():
		if s.srv.emulatesSavepoints() && !s.srv.reads() {
			return plan.AsWrite()
		}
		return plan
	}
	if !s.srv.reads() && !s.t.touched && s.b.status == 'I' {
		s.srv.askPurity(s.b, false, time.Time{}, nil) // a loss shows at what is sent next
		s.alarmRead()
	}
	if !s.srv.reads() {
		return plan.AsWrite()
	}
	s.t.believed = true
	return plan
}

// stillReads asks the backend, which is idle, anew whether what ran as a read was one:
// others may have made a function since the schema was asked. Errors are those of asking.
func (s *session) stillReads() (bool, error) {
	err := s.asking(func(b *backend) error { return s.srv.askPurity(b, true, s.t.deadline, s.stopped) })
	return err == nil && s.srv.reads(), err
}

// reads reports whether texts that look like reads are, as far as is known.
func (srv *Server) reads() bool {
	return srv.purity.answer.Load() == (srv.catalog.epoch.Load()+1)<<1|1
}

// purityDue reports whether the answer of askPurity is not known, or old.
func (srv *Server) purityDue() bool {
	p, now := &srv.purity, time.Now().UnixNano()
	if p.answer.Load()>>1 == srv.catalog.epoch.Load()+1 {
		return now-p.asked.Load() >= int64(purityAge)
	}
	return now-p.refused.Load() >= int64(purityRest)
}

// askPurity asks an idle backend whether a text that looks like a read may write, unless
// the answer is known; anew: even then. An error is stop's, which may be nil, or says that
// the backend was lost. An answer is of the epoch at which the question was asked: a change
// of the schema meanwhile makes the answer worthless. While one session asks, others go by
// the answer that is known.
func (srv *Server) askPurity(b *backend, anew bool, at time.Time, stop func() error) error {
	p, epoch, now := &srv.purity, srv.catalog.epoch.Load(), time.Now().UnixNano()
	if last := p.asked.Load(); !anew {
		switch known := p.answer.Load()>>1 == epoch+1; {
		case !srv.purityDue():
			return nil
		case known && !p.asked.CompareAndSwap(last, now): // somebody else asks, and until then the answer holds
			return nil
		}
	}
	p.asked.Store(now)
	pure, asks, refusal, err := "", "", []byte(nil), error(nil)
	for range mostCatalogTries { // the first may be told that the schema has changed, or find it changed
		epoch = srv.catalog.epoch.Load()
		refusal, err = b.exchangeAll(wire.AppendStrings(nil, wire.Query, askPure), func(row []byte) {
			if columns := columnsOf(row); len(columns) == 2 {
				pure, asks = columns[0], columns[1]
			}
		}, exchangeTimeout, at, stop)
		if err != nil {
			return err
		}
		if refusal == nil && epoch == srv.catalog.epoch.Load() || refusal != nil && !schemaConflict(refusal) {
			break
		}
	}
	if asks == "t" {
		srv.sequences.asked.Store(true)
	}
	switch {
	case refusal != nil:
		p.refused.Store(now)
		p.answer.Store(0)
	case pure == "t":
		p.answer.Store((epoch+1)<<1 | 1)
	default:
		p.answer.Store((epoch + 1) << 1)
	}
	return nil
}
