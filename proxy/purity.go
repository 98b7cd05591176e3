package proxy

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Whether texts that look like reads are reads, by the database. sendQuery, bindOnBackend and others ask it for each
// such text (judged), a replay of a lost read asks anew (stillReads).

// A session that loses its state with its backend has it asked only where the answer decides
// whether the text is run at all, in a READ ONLY transaction: elsewhere it says no more than
// whether a lost read is run again, and such a session ends with the backend.

// A text alone hardly ever shows that it only reads: a view, an attribute, an operator or a cast may run a function
// that writes. A database in which no function of a user's that may write can be reached in such a way shows it for all
// texts: PostgreSQL holds functions that are not VOLATILE to reading. purity remembers what a database answered to
// that.
type purity struct {
	pace question.Pace
	// answer is 1 + the epoch of the schema that it is of, doubled, and 1 more when
	// nothing may write; 0 for none. at is when it was asked for, in Unix nanoseconds.
	answer atomic.Uint64
	at     atomic.Int64
}

// purityAge is how long an answer holds. Schema changes that are seen here, or told by
// OC001, end it at once; where the server tells nobody, it takes so long.
const purityAge = time.Minute

// mostPurityAge is how long an answer holds where faults come in place of the next one.
const mostPurityAge = 2 * purityAge

// fault says that a question has failed, and returns the pause in front of the next. An answer that
// there is holds on, unless it would be too old by then. changed: the server has said that the schema
// is another one, so that the answer is not of this one.
func (p *purity) fault(now time.Time, changed bool) (pause time.Duration) {
	pause = p.pace.Failed(now)
	if changed || now.Add(pause).Sub(time.Unix(0, p.at.Load())) > mostPurityAge {
		p.answer.Store(0)
	}
	return pause
}

// isPure asks for functions that may write, and run where nobody calls them by name: because something else is made of
// them (a view, a policy, an operator, a cast, an aggregate, a domain), because of an attribute's name (a row or
// anything is their first argument), or in the place of a builtin of the same name. Functions of triggers and of
// defaults run with a write only. A foreign table may stand for anything. The second column says that some function
// asks for what a session drew of sequences.
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

// judged is the plan of a text that the session runs next, on a backend that is lent: what may write, although it looks
// like a read, is a write. In a block nothing is committed before the COMMIT: there it is one where a return to a
// savepoint must undo it. The database is asked only where nothing of a group has been sent: the question would commit
// it. A backend that is lost over it is replaced. An error is for the client, or the session's end.
func (s *session) judged(plan *rewrite.Plan) (*rewrite.Plan, error) {
	switch {
	case plan.AsWrite() == plan:
		return plan, nil
	case plan.Kind == rewrite.Read && s.inBlock():
		if s.srv.emulatesSavepoints() && !s.srv.reads() {
			return plan.AsWrite(), nil
		}
		return plan, nil
	}
	if !s.srv.reads() && !s.t.touched && s.b.status == 'I' && (!s.pinned || s.t.mode != readWrite) {
		_, err := s.askReads(false)
		s.alarmRead()
		if stops(err) {
			return nil, err
		}
		if err != nil {
			if err := s.replaceBackend(err); err != nil {
				return nil, err
			}
		}
	}
	if !s.srv.reads() {
		return plan.AsWrite(), nil
	}
	s.t.believed = true
	return plan, nil
}

// stillReads asks the backend, which is idle, anew whether what ran as a read was one:
// others may have made a function since the schema was asked. It goes by this answer alone: a fault in
// its place leaves the text a write. Errors are those of asking.
func (s *session) stillReads() (reads bool, err error) {
	answered, err := s.askReads(true)
	return err == nil && answered && s.srv.reads(), err
}

// askReads asks the backend, which is idle, whether reads only read, unless that is known; anew: even then.
// answered says that the database has answered. Errors are those of asking.
func (s *session) askReads(anew bool) (answered bool, err error) {
	err = s.asking(func(b *backend) (err error) {
		answered, err = s.srv.askPurity(b, anew, s.t.deadline, s.stopped)
		return err
	})
	return answered, err
}

// reads reports whether texts that look like reads are, as far as is known.
func (srv *Server) reads() bool {
	return srv.purity.answer.Load() == (srv.catalog.epoch.Load()+1)<<1|1
}

// purityKnown reports whether there is an answer for the schema as it is.
func (srv *Server) purityKnown() bool {
	return srv.purity.answer.Load()>>1 == srv.catalog.epoch.Load()+1
}

// purityDue reports whether the answer of askPurity is not known, or old, and no fault has come in
// its place a moment ago.
func (srv *Server) purityDue(now time.Time) bool {
	p := &srv.purity
	if srv.purityKnown() {
		return p.pace.Due(now)
	}
	return !p.pace.Rests(now)
}

// mostPurityTries is how often a question is asked during which the schema changes. While four clients make and drop
// tables all the time, ten tries failed twice in 300 reads.
const mostPurityTries = 32

// askPurity asks an idle backend whether a text that looks like a read may write, unless the answer is known; anew:
// even then. An error is stop's, which may be nil, or says that the backend was lost. An answer is of the epoch at
// which the question was asked: a change of the schema meanwhile makes the answer worthless. While one session asks,
// others go by the answer that is known. Behind a fault (question.Purity) the answer before holds on for a while.
// answered says that the database has answered.
func (srv *Server) askPurity(b *backend, anew bool, at time.Time, stop func() error) (answered bool, err error) {
	p := &srv.purity
	if now := time.Now(); !anew && (!srv.purityDue(now) || srv.purityKnown() && !p.pace.Claim(now)) {
		return false, nil
	}
	pure, asks, refusal, epoch, changed := "", "", []byte(nil), uint64(0), false
	asked := time.Now()
	for range mostPurityTries { // the first may be told that the schema has changed, or find it changed
		epoch = srv.catalog.epoch.Load()
		question.Asked(func() (string, error) {
			refusal, err = b.exchangeAll(srv.ownQuestion(askPure), func(row []byte) {
				if columns := columnsOf(row); len(columns) == 2 {
					pure, asks = columns[0], columns[1]
				}
			}, b.patience, at, stop)
			return string(retry.Field(refusal, 'C')), err
		})
		conflict := refusal != nil && faultOf(refusal) == question.Conflict
		changed = changed || conflict
		if err != nil || refusal == nil && epoch == srv.catalog.epoch.Load() || refusal != nil && !conflict {
			break
		}
	}
	switch {
	case stops(err):
		p.pace.Unasked()
		return false, err
	case err != nil, refusal != nil, pure == "":
		pause := p.fault(time.Now(), changed)
		srv.log.Warn("whether texts that look like reads may write was not answered: without an answer they are not run again", "error", cmp.Or(err, refusedBy(refusal)),
			"known", srv.purityKnown(), "asked_again_in", pause)
		return false, err
	}
	if asks == "t" {
		srv.watched.Store(true) // sequencesAttached
	}
	p.pace.Answered(time.Now(), purityAge)
	answer := (epoch + 1) << 1
	if pure == "t" {
		answer |= 1
	}
	p.at.Store(asked.UnixNano())
	p.answer.Store(answer)
	return true, nil
}

// ownQuestion is the Query of a question, which is outside of a transaction. What a client has set on a
// cluster changes nothing of the answers there: it cannot set a timeout, nor make operators.
func (srv *Server) ownQuestion(sql string) []byte {
	if srv.cfg.Kind == Postgres {
		sql = question.OnPostgres + sql
	}
	return wire.AppendStrings(nil, wire.Query, sql)
}

// faultOf is the fault that a server's error is for a question of Sluice's own.
func faultOf(refusal []byte) question.Fault {
	return question.Classify(string(retry.Field(refusal, 'C')))
}

// refusedBy is the error of a server that has answered a question of Sluice's own with it; of none,
// that of a server which has answered with something else than was asked for.
func refusedBy(refusal []byte) error {
	if refusal == nil {
		return errNoAnswer
	}
	return &refusedError{code: string(retry.Field(refusal, 'C')), message: string(retry.Field(refusal, 'M'))}
}

// errNoAnswer says that a server did not answer what it was asked.
var errNoAnswer = errors.New("the server answered something else than it was asked")
