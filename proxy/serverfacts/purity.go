// Package serverfacts holds facts about the server that Sluice asks it for, and says when each question is due. Every
// session uses the facts, and any session may ask. The questions are in package question.
//
//	purity.go     may texts that look like reads write?
//	pipeline.go   are the statements before one Sync one transaction?
package serverfacts

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sluice-proxy/sluice/proxy/interrupt"
	"github.com/sluice-proxy/sluice/proxy/question"
	"github.com/sluice-proxy/sluice/proxy/silent"
	"github.com/sluice-proxy/sluice/proxy/wire"
	"github.com/sluice-proxy/sluice/retry"
	"github.com/sluice-proxy/sluice/rewrite"
)

// Exchange sends frames to an idle backend, passes each row of the answer to row, and returns the server's error as
// refusal. err means that the exchange has not ended, or that the client stopped it (interrupt.EndsTurn).
type Exchange func(frames []byte, row func(row []byte)) (refusal []byte, err error)

// Query returns the frame of a question that Sluice asks outside a transaction. On PostgreSQL a prefix protects the
// question from the client's settings. On a DSQL cluster clients can set no timeout and create no operators.
func Query(sql string, postgres bool) []byte {
	if postgres {
		sql = question.PostgresPrefix + sql
	}
	return wire.AppendStrings(nil, wire.Query, sql)
}

// FaultOf returns the kind of fault that the server's error means for a question.
func FaultOf(refusal []byte) question.Fault {
	return question.Classify(string(retry.ErrorField(refusal, 'C')))
}

// RefusalError returns the server's error for a question, or ErrNoAnswer if refusal is nil.
func RefusalError(refusal []byte) error {
	if refusal == nil {
		return ErrNoAnswer
	}
	return fmt.Errorf("the server said %s: %s", retry.ErrorField(refusal, 'C'), retry.ErrorField(refusal, 'M'))
}

// ErrNoAnswer means that the server's answer did not fit the question.
var ErrNoAnswer = errors.New("the server answered something else than it was asked")

// A text alone rarely shows that it only reads, since a view, an operator or a cast may call a function that writes.
// PostgreSQL prevents writes in the text of functions that are not VOLATILE. If no user's function that may write can
// be reached in these ways (selectIsPure), all texts that look like reads only read.

// tableCommands are the commands that change only tables, indexes and sequences. They change no functions, and nothing
// by which a read may run one.
var tableCommands = map[string]bool{"CREATE TABLE": true, "ALTER TABLE": true, "CREATE INDEX": true, "ALTER INDEX": true, "CREATE SEQUENCE": true, "ALTER SEQUENCE": true,
	"COMMENT": true, "TRUNCATE TABLE": true, "DROP TABLE": true, "DROP INDEX": true, "DROP SEQUENCE": true}

// MayChangeReads reports whether, after the statement, texts that look like reads may run other functions than before
// it. Only DDL that is not about tables may change that.
func MayChangeReads(st *rewrite.Statement) bool {
	command, _ := st.ReadOnlyViolation()
	return st.Kind == rewrite.Unknown || st.Kind == rewrite.DDL && !tableCommands[command]
}

// Purity is the server's answer to whether texts that look like reads may write. The zero value has no answer. The
// parameter epoch counts the changes of the schema after which reads may run other functions (MayChangeReads).
// Several goroutines may use it.
type Purity struct {
	pace question.Schedule
	// answer is 0 if the server has not answered. Otherwise it is twice 1 + the schema's epoch, plus 1 if texts that look
	// like reads write nothing. at is the time of the question, in Unix nanoseconds.
	answer atomic.Uint64
	at     atomic.Int64
}

// purityAge is how long an answer is valid. A schema change that Sluice sees, or learns by OC001, ends the answer at
// once. Other changes may go unnoticed for this long. If newer questions fail, an answer is used for mostPurityAge.
const (
	purityAge     = time.Minute
	mostPurityAge = 2 * purityAge
)

// ReadsArePure reports whether, in this epoch (version) of the schema, texts that look like reads surely only read.
func (p *Purity) ReadsArePure(epoch uint64) bool { return p.answer.Load() == (epoch+1)<<1|1 }

// WasPure reports whether, by the last answer, no text that looks like a read may write. The schema may be newer.
func (p *Purity) WasPure() bool { return p.answer.Load()&1 == 1 }

// IsKnown reports whether the server has answered for this epoch (version) of the schema.
func (p *Purity) IsKnown(epoch uint64) bool { return p.answer.Load()>>1 == epoch+1 }

// IsDue reports whether Sluice must ask the server. The result is true if the answer is unknown or old, and the last
// question did not just fail.
func (p *Purity) IsDue(epoch uint64, now time.Time) bool {
	if p.IsKnown(epoch) {
		return p.pace.IsDue(now)
	}
	return !p.pace.IsPausing(now)
}

// recordFault records that a question got no answer, and returns the pause before the next one. The old answer
// remains until it is too old. changed means that the server has reported another schema, which drops the old answer.
func (p *Purity) recordFault(now time.Time, changed bool) (pause time.Duration) {
	pause = p.pace.RecordFault(now)
	if changed || now.Add(pause).Sub(time.Unix(0, p.at.Load())) > mostPurityAge {
		p.answer.Store(0)
	}
	return pause
}

// mostPurityTries is how often Ask asks the server if the schema changes meanwhile. While four clients create and drop
// tables all the time, ten tries failed twice in 300 reads.
const mostPurityTries = 32

// PurityQuestion says how Purity.Ask asks the server.
type PurityQuestion struct {
	Exchange Exchange
	Postgres bool          // the server is PostgreSQL
	Epoch    func() uint64 // the schema's epoch, which may change meanwhile
	// Again means that Purity.Ask asks the server even if the answer is known.
	Again bool
	// Purity.Ask calls UsesSequences if a user's function uses currval or lastval.
	UsesSequences func()
	Log           *slog.Logger
}

// Ask asks the server, if the answer is not known or q.Again is set. answered means that the server has answered. Ask
// returns the error of the exchange. If the schema changed meanwhile, Ask drops the answer. Other sessions use the
// known answer meanwhile. After an error of the server the known answer remains valid for a while.
func (p *Purity) Ask(q *PurityQuestion) (answered bool, err error) {
	if now := time.Now(); !q.Again && (!p.IsDue(q.Epoch(), now) || p.IsKnown(q.Epoch()) && !p.pace.Claim(now)) {
		return false, nil
	}
	pure, asks, refusal, epoch, changed := "", "", []byte(nil), uint64(0), false
	asked := time.Now()
	for range mostPurityTries { // the first try may meet a schema change
		epoch = q.Epoch()
		question.RetryInterrupted(func() (string, error) {
			refusal, err = q.Exchange(Query(purityQuery, q.Postgres), func(row []byte) {
				if columns := silent.RowValues(row); len(columns) == 2 {
					pure, asks = columns[0], columns[1]
				}
			})
			return string(retry.ErrorField(refusal, 'C')), err
		})
		conflict := refusal != nil && FaultOf(refusal) == question.Conflict
		changed = changed || conflict
		if err != nil || refusal == nil && epoch == q.Epoch() || refusal != nil && !conflict {
			break
		}
	}
	switch {
	case interrupt.EndsTurn(err):
		p.pace.Unclaim()
		return false, err
	case err != nil, refusal != nil, pure == "":
		pause := p.recordFault(time.Now(), changed)
		q.Log.Warn("whether texts that look like reads may write was not answered: without an answer they are not run again", "error", cmp.Or(err, RefusalError(refusal)),
			"known", p.IsKnown(q.Epoch()), "asked_again_in", pause)
		return false, err
	}
	if asks == "t" {
		q.UsesSequences()
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

// selectIsPure selects whether no user's function that may write can run without being called by name. A view, policy,
// operator, cast, aggregate or domain may use a function. A function may act as an attribute (its first argument is a
// row or of any type), or replace a builtin function. Functions of triggers and defaults run only with a write. A
// foreign table may do anything. The second column tells whether a function uses currval or lastval.
//
// A VOLATILE function may write, and so may a function that calls a VOLATILE one, however deep. PostgreSQL records no
// calls of a function's source text. So reached functions of any kind may write if some source text names a VOLATILE
// function, or executes a text. Functions in C and the server's own count only if they are VOLATILE.
const selectIsPure = `SELECT NOT EXISTS (SELECT 1 FROM reached WHERE provolatile = 'v')` +
	` AND (NOT EXISTS (SELECT 1 FROM reached) OR NOT EXISTS (SELECT 1 FROM texts s WHERE s.provolatile <> 'v' AND s.prolang NOT IN ` + compiled +
	` AND (s.prolang <> 14 AND pg_catalog.strpos(s.source, 'execute') > 0 OR EXISTS (SELECT 1 FROM texts v WHERE v.provolatile = 'v' AND pg_catalog.strpos(s.source, v.name) > 0))))` +
	` AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'f'),` +
	` EXISTS (SELECT 1 FROM users p WHERE p.prosrc ~* 'currval|lastval')`

// builtins are the schemas of the server's own functions, as an SQL list. compiled are the fixed OIDs of the languages
// internal and c. The OID of the language sql is 14.
const (
	builtins = `('pg_catalog', 'information_schema', 'sys')`
	compiled = `(12, 13)`
)

// purityQuery is the complete query by which Sluice asks whether texts that look like reads may write. users are the
// functions of users, and reached those among them that may run without being called by name. texts are the names and
// sources of users in lower case, computed once: with 1,000 VOLATILE and 1,000 other functions of 2 kB that halves the
// time (2.0 to 1.05 s on PostgreSQL 15).
const purityQuery = `WITH users AS (SELECT p.* FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname NOT IN ` + builtins +
	` AND p.prorettype NOT IN ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)),` +
	` texts AS MATERIALIZED (SELECT provolatile, prolang, pg_catalog.lower(proname) AS name, pg_catalog.lower(prosrc) AS source FROM users),` +
	` reached AS (SELECT p.provolatile FROM users p WHERE (p.provolatile = 'v' OR p.prolang NOT IN ` + compiled + `) AND (` +
	`EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid` +
	` AND d.classid NOT IN ('pg_catalog.pg_trigger'::pg_catalog.regclass, 'pg_catalog.pg_event_trigger'::pg_catalog.regclass, 'pg_catalog.pg_attrdef'::pg_catalog.regclass))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_type t WHERE p.pronargs > 0 AND t.oid = p.proargtypes[0] AND t.typtype NOT IN ('b', 'e'))` +
	` OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc b JOIN pg_catalog.pg_namespace n ON n.oid = b.pronamespace WHERE b.proname = p.proname AND n.nspname IN ` + builtins + `))) ` + selectIsPure
