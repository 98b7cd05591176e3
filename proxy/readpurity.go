package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/access"
	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// This file asks the database whether texts that look like reads may write (classifyRead). A replay of a read after a
// lost backend asks again (recheckReadPurity).

// In a pinned session Sluice asks only in a READ ONLY transaction, where the answer decides whether the text runs.
// Elsewhere the answer only decides about a replay, and a pinned session ends with its backend anyway.

// A text alone rarely shows that it only reads, since a view, an operator or a cast may call a function that writes.
// PostgreSQL prevents writes by functions that are not VOLATILE. If no user's VOLATILE function can be reached in these
// ways, all texts that look like reads only read. readPurity stores the database's answer to that question.
type readPurity struct {
	pace question.Schedule
	// answer is 0 if the database has not answered. Otherwise it is twice 1 + the schema's epoch, plus 1 if texts that look
	// like reads write nothing. at is the time of the question, in Unix nanoseconds.
	answer atomic.Uint64
	at     atomic.Int64
}

// purityAge is how long askPurity's answer (may texts that look like reads write?) is valid. A schema change that
// Sluice sees, or learns by OC001, ends the answer at once. Other changes may go unnoticed for this long.
const purityAge = time.Minute

// mostPurityAge is how long the last answer to askPurity's question (may texts that look like reads write?) is used if
// newer questions fail.
const mostPurityAge = 2 * purityAge

// recordFault records that asking the database failed, and returns the pause before the next question. The old answer
// remains until it is too old. changed means that the server has reported another schema, which drops the old answer.
func (p *readPurity) recordFault(now time.Time, changed bool) (pause time.Duration) {
	pause = p.pace.RecordFault(now)
	if changed || now.Add(pause).Sub(time.Unix(0, p.at.Load())) > mostPurityAge {
		p.answer.Store(0)
	}
	return pause
}

// selectIsPure selects whether no user's VOLATILE function can run without being called by name. A view, policy,
// operator, cast, aggregate or domain may use a function. A function may act as an attribute (its first argument is a
// row or of any type), or replace a builtin function. Functions of triggers and defaults run only with a write. A
// foreign table may do anything. The second column tells whether a function uses currval or lastval.
const selectIsPure = `SELECT NOT EXISTS (SELECT 1 FROM users p WHERE p.provolatile = 'v' AND (` +
	`EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid` +
	` AND d.classid NOT IN ('pg_catalog.pg_trigger'::pg_catalog.regclass, 'pg_catalog.pg_event_trigger'::pg_catalog.regclass, 'pg_catalog.pg_attrdef'::pg_catalog.regclass))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_type t WHERE p.pronargs > 0 AND t.oid = p.proargtypes[0] AND t.typtype NOT IN ('b', 'e'))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc b JOIN pg_catalog.pg_namespace n ON n.oid = b.pronamespace WHERE b.proname = p.proname AND n.nspname IN ` + builtins + `)))` +
	` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'f'),` +
	` EXISTS (SELECT 1 FROM users p WHERE p.prosrc ~* 'currval|lastval')`

// builtins are the schemas of the server's own functions, as an SQL list.
const builtins = `('pg_catalog', 'information_schema', 'sys')`

// selectPurity is the complete query by which Sluice asks whether texts that look like reads may write.
const selectPurity = `WITH users AS (SELECT p.* FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname NOT IN ` + builtins +
	` AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)) ` + selectIsPure

// classifyRead returns the plan of a text that the session runs next on its backend. If the text looks like a read but
// may write, the plan is a write. In a block, which commits later, only emulated savepoints need that. The database is
// not asked within a Sync group, since the question would commit the group. A backend that is lost meanwhile is
// replaced. A returned error goes to the client, or ends the session.
func (s *session) classifyRead(plan *rewrite.Plan) (*rewrite.Plan, error) {
	switch {
	case plan.AsWrite() == plan:
		return plan, nil
	case plan.Kind == rewrite.Read && s.inBlock():
		if s.srv.emulatesSavepoints() && !s.srv.readsArePure() {
			return plan.AsWrite(), nil
		}
		return plan, nil
	}
	if !s.srv.readsArePure() && !s.t.touched && s.b.status == 'I' && (!s.pin.IsPinned() || s.t.access.Mode != access.ReadWrite) {
		_, err := s.askReadPurity(false)
		s.waits.Arm()
		if interrupt.EndsTurn(err) {
			return nil, err
		}
		if err != nil {
			if err := s.replaceBackend(err); err != nil {
				return nil, err
			}
		}
	}
	if !s.srv.readsArePure() {
		return plan.AsWrite(), nil
	}
	s.t.readBySchema = true
	return plan, nil
}

// recheckReadPurity asks the idle backend again whether texts that look like reads may write, since functions may have
// changed. If they may write, or if the question fails, reads is false. Errors are the same as for askPurity.
func (s *session) recheckReadPurity() (reads bool, err error) {
	answered, err := s.askReadPurity(true)
	return err == nil && answered && s.srv.readsArePure(), err
}

// askReadPurity asks the idle backend whether texts that look like reads may write, if Sluice does not know or anew is
// set. answered means that the database has answered. Errors are the same as for askPurity.
func (s *session) askReadPurity(anew bool) (answered bool, err error) {
	err = s.runExchange(func(b *backend) (err error) {
		answered, err = s.srv.askPurity(b, anew, s.t.clock.Deadline(), s.waits.CheckInterruption)
		return err
	})
	return answered, err
}

// readsArePure reports whether texts that look like reads are known to only read.
func (srv *Server) readsArePure() bool {
	return srv.purity.answer.Load() == (srv.templates.Epoch()+1)<<1|1
}

// wasPure reports whether, by the last answer, no text that looks like a read may write. The schema may be newer.
func (p *readPurity) wasPure() bool { return p.answer.Load()&1 == 1 }

// isPurityKnown reports whether the database has answered askPurity's question for the current schema.
func (srv *Server) isPurityKnown() bool {
	return srv.purity.answer.Load()>>1 == srv.templates.Epoch()+1
}

// isPurityDue reports whether askPurity must ask the database. The result is true if the answer is unknown or old, and
// the last question did not just fail.
func (srv *Server) isPurityDue(now time.Time) bool {
	p := &srv.purity
	if srv.isPurityKnown() {
		return p.pace.IsDue(now)
	}
	return !p.pace.IsPausing(now)
}

// mostPurityTries is how often askPurity asks the server if the schema changes meanwhile. While four clients create and
// drop tables all the time, ten tries failed twice in 300 reads.
const mostPurityTries = 32

// askPurity asks an idle backend whether a text that looks like a read may write, if Sluice does not know or anew is
// set. answered means that the database has answered. A returned error is that of stop (which may be nil), or a lost
// backend. The answer is dropped if the schema changed while asking. Other sessions use the known answer meanwhile.
// After an error of the server the known answer remains valid for a while.
func (srv *Server) askPurity(b *backend, anew bool, at time.Time, stop func() error) (answered bool, err error) {
	p := &srv.purity
	if now := time.Now(); !anew && (!srv.isPurityDue(now) || srv.isPurityKnown() && !p.pace.Claim(now)) {
		return false, nil
	}
	pure, asks, refusal, epoch, changed := "", "", []byte(nil), uint64(0), false
	asked := time.Now()
	for range mostPurityTries { // the first try may meet a schema change
		epoch = srv.templates.Epoch()
		question.RetryInterrupted(func() (string, error) {
			refusal, err = b.doExchange(srv.internalQuery(selectPurity), func(row []byte) {
				if columns := textColumns(row); len(columns) == 2 {
					pure, asks = columns[0], columns[1]
				}
			}, b.answerTimeout, at, stop)
			return string(retry.ErrorField(refusal, 'C')), err
		})
		conflict := refusal != nil && classifyFault(refusal) == question.Conflict
		changed = changed || conflict
		if err != nil || refusal == nil && epoch == srv.templates.Epoch() || refusal != nil && !conflict {
			break
		}
	}
	switch {
	case interrupt.EndsTurn(err):
		p.pace.Unclaim()
		return false, err
	case err != nil, refusal != nil, pure == "":
		pause := p.recordFault(time.Now(), changed)
		srv.log.Warn("whether texts that look like reads may write was not answered: without an answer they are not run again", "error", cmp.Or(err, refusalError(refusal)),
			"known", srv.isPurityKnown(), "asked_again_in", pause)
		return false, err
	}
	if asks == "t" {
		srv.watched.Store(true) // discardForeignSequences
	}
	p.pace.RecordAnswer(time.Now(), purityAge)
	answer := (epoch + 1) << 1
	if pure == "t" {
		answer |= 1
	}
	p.at.Store(asked.UnixNano())
	p.answer.Store(answer)
	return true, nil
}

// internalQuery returns the Query frame of a question that Sluice asks outside a transaction. On PostgreSQL a prefix
// protects the query from the client's settings. On a DSQL cluster clients can set no timeout and create no operators.
func (srv *Server) internalQuery(sql string) []byte {
	if srv.cfg.Kind == Postgres {
		sql = question.PostgresPrefix + sql
	}
	return wire.AppendStrings(nil, wire.Query, sql)
}

// classifyFault classifies the server's error (refusal) for a query that Sluice itself has sent.
func classifyFault(refusal []byte) question.Fault {
	return question.Classify(string(retry.ErrorField(refusal, 'C')))
}

// refusalError returns the server's error for a query that Sluice itself sent, or errNoAnswer if refusal is nil.
func refusalError(refusal []byte) error {
	if refusal == nil {
		return errNoAnswer
	}
	return fmt.Errorf("the server said %s: %s", retry.ErrorField(refusal, 'C'), retry.ErrorField(refusal, 'M'))
}

// errNoAnswer means that the server's answer did not fit the query that Sluice sent.
var errNoAnswer = errors.New("the server answered something else than it was asked")
