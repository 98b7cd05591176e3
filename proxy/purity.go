package proxy

import (
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/rewrite"
)

// A text alone hardly ever shows that it only reads: a view, an attribute, an operator
// or a cast may run a function that writes. A database in which no function of a user's
// may write shows it for all texts: PostgreSQL holds functions that are not VOLATILE to
// reading. purity remembers what a database answered to that.
type purity struct {
	asked atomic.Int64 // when, in Unix nanoseconds; 0 for never
	// answer is 1 + the epoch of the schema that it is of, doubled, and 1 more when
	// nothing may write; 0 for none.
	answer atomic.Uint64
}

// purityAge is how long an answer holds. Schema changes that are seen here, or told by
// OC001, end it at once; where the server tells nobody, it takes so long.
const purityAge = time.Minute

// purityRest is how long nobody asks again after a refusal.
const purityRest = time.Second

// isPure asks for functions that may write, where nobody calls them by name. A foreign
// table may stand for anything. Functions of triggers run with a write only. The second
// column says that some function asks for what a session drew of sequences.
const isPure = `SELECT NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace` +
	` WHERE p.provolatile = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'sys')` +
	` AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype))` +
	` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'f'),` +
	` EXISTS (SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace` +
	` WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'sys') AND p.prosrc ~* 'currval|lastval')`

// judged is the plan of a text that the session runs next: what may write, although
// it looks like a read, is a write. In a block it makes no difference: nothing of it
// is committed before the COMMIT.
func (s *session) judged(plan *rewrite.Plan) *rewrite.Plan {
	if plan.Kind == rewrite.Read && (plan.SureRead() || s.inBlock()) || s.srv.reads() {
		return plan
	}
	return plan.AsWrite()
}

// reads reports whether texts that look like reads are, as far as is known.
func (srv *Server) reads() bool {
	return srv.purity.answer.Load() == (srv.catalog.epoch.Load()+1)<<1|1
}

// askPurity asks an idle backend whether the database has functions that may write,
// unless the answer is known. It reports false when the backend was lost.
func (srv *Server) askPurity(b *backend) bool {
	p, epoch, now := &srv.purity, srv.catalog.epoch.Load(), time.Now().UnixNano()
	last, answer := p.asked.Load(), p.answer.Load()
	fresh := answer>>1 == epoch+1 && now-last < int64(purityAge)
	if fresh || answer == 0 && last != 0 && now-last < int64(purityRest) || !p.asked.CompareAndSwap(last, now) {
		return true
	}
	pure, asks, refusal, err := "", "", []byte(nil), error(nil)
	for range 2 { // the first may be told that the schema has changed
		refusal, err = b.exchangeRows(appendStrings(nil, msgQuery, isPure), func(row []byte) {
			if columns := columnsOf(row); len(columns) == 2 {
				pure, asks = columns[0], columns[1]
			}
		})
		if err != nil {
			return false
		}
		if refusal == nil {
			break
		}
	}
	if asks == "t" {
		srv.sequences.asked.Store(true)
	}
	switch {
	case refusal != nil:
		p.answer.Store(0)
	case pure == "t":
		p.answer.Store((epoch+1)<<1 | 1)
	default:
		p.answer.Store((epoch + 1) << 1)
	}
	return true
}
