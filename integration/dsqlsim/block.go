package dsqlsim

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxLogBytes bounds what is kept of a transaction's statements: three times
// what a cluster lets a transaction write.
const maxLogBytes = 32 << 20

// block is the client's open block, as far as others may get in its way. Its
// effects can be taken out of PostgreSQL, with their locks, and put back: parked
// and resumed, in the snapshot that it has.
type block struct {
	// hasSnapshot: a statement has run that takes the snapshot. snapshot is the
	// certifier's number of it.
	hasSnapshot bool
	snapshot    uint64
	// beginSQL is the statement that opened the block; deferred: PostgreSQL has not
	// got it yet.
	beginSQL string
	deferred bool
	log      effectLog
	// doomed is what COMMIT will be answered, nil while it may succeed.
	doomed *failure
	// lost are the tables of which PostgreSQL does not have what a doomed block has written, "" for any; restarted:
	// it has nothing of the block, and not its snapshot.
	lost      []string
	restarted bool
	// changedRows: rows were updated or deleted.
	changedRows bool
	// namedRows are those of locking clauses.
	namedRows map[place]occ.Strength
	attempt   attempt
	committed bool
}

// effectLog is what the block has done behind its savepoint. It can be run again.
type effectLog struct {
	// savepointSent: the savepoint is on its way to PostgreSQL; savepointSet: it is
	// there.
	savepointSent, savepointSet bool
	effects                     []effect // oldest first
	bytes                       int
	// incomplete: something has run that is not in the log.
	incomplete bool
	// parked: the effects are not in PostgreSQL now.
	parked bool
}

// attempt is what other transactions have done to the statement at hand.
type attempt struct {
	tries    tries // others are in its way
	guessing bool  // its outcome can only be guessed
	genuine  bool  // its error is the client's
}

// place is a row version, which a snapshot keeps: a table's oid and a ctid.
type place struct{ table, ctid string }

// effect is one statement that has changed something, and what was answered.
type effect struct {
	sql           string
	types, values []byte // as in Parse and Bind
	tag           string
	sum           uint64 // of the rows that were answered, see sumOf
	exact         bool   // another answer would be a surprise
	void          bool   // cannot run any more: the transaction is doomed
}

func newEffect(st *dialect.Statement, sql string, types, values []byte) *effect {
	return &effect{sql: sql, types: types, values: values, exact: st.Kind == dialect.DML || st.Verb == "WITH"}
}

// add remembers an effect.
func (l *effectLog) add(e effect) {
	l.bytes += len(e.sql) + len(e.types) + len(e.values)
	if l.bytes > maxLogBytes {
		l.effects, l.incomplete = nil, true
		return
	}
	l.effects = append(l.effects, e)
}

// canRewind tells whether a return to the savepoint takes all effects out, and the
// log brings them back.
func (l *effectLog) canRewind() bool { return l.savepointSet && !l.incomplete }

// doom settles how the transaction ends, unless that is settled.
func (b *block) doom() {
	if b.doomed == nil {
		b.doomed = dataConflict
	}
}

// lose notes that PostgreSQL does not have what a statement has written.
func (b *block) lose(sql string) { b.lost = append(b.lost, occ.Written(sql)) }

// lacks reports whether a statement may return less than a doomed block has written, or what another snapshot has.
func (b *block) lacks(st *dialect.Statement) bool {
	if b.doomed == nil || st.Kind == dialect.Commit || st.Verb == "SET" || st.Verb == "RESET" || st.Verb == "SHOW" {
		return false
	}
	text := strings.ToLower(st.Source)
	reads := st.Verb != "INSERT" && st.Verb != "UPDATE" && st.Verb != "DELETE" || strings.Contains(text, "returning")
	return b.restarted || reads && slices.ContainsFunc(b.lost, func(table string) bool { return strings.Contains(text, strings.ToLower(table)) })
}

// giveUp dooms the transaction and lets the outcome of the statement at hand be
// guessed.
func (b *block) giveUp() {
	b.doom()
	b.attempt.guessing = true
}

// sumOf is a digest of one row, FNV-1a; those of a result are added up, because
// their order means nothing.
func sumOf(row []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range row {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// hasEffect tells whether a statement must run again after its transaction was
// parked. It errs towards yes: running a query again changes nothing.
func hasEffect(st *dialect.Statement) bool {
	switch st.Kind {
	case dialect.DML, dialect.DDL, dialect.Copy:
		return true
	case dialect.Begin, dialect.Commit, dialect.Rollback:
		return false
	}
	switch st.Verb {
	case "SHOW", "PREPARE", "DEALLOCATE", "VALUES", "TABLE":
		return false
	case "SELECT":
		return callsOut(st.SQL)
	}
	return true
}

// waits tells whether a statement may wait for another transaction.
func waits(st *dialect.Statement) bool {
	return st.Kind != dialect.Begin && st.Kind != dialect.Commit && st.Kind != dialect.Rollback && hasEffect(st)
}

// harmless are functions that change nothing, the usual ones, and pg_sleep,
// which nobody wants to run twice.
var harmless = map[string]bool{
	"count": true, "sum": true, "min": true, "max": true, "avg": true, "coalesce": true, "now": true,
	"lower": true, "upper": true, "length": true, "array_agg": true, "string_agg": true, "exists": true,
	"row_number": true, "pg_sleep": true, "in": true, "any": true, "values": true, "where": true, "and": true,
	"or": true, "on": true, "from": true, "as": true, "not": true, "select": true, "union": true, "over": true,
	"generate_series": true, "gen_random_uuid": true, "random": true, "version": true, "pg_backend_pid": true,
	"current_database": true, "txid_current": true, "repeat": true, "clock_timestamp": true,
}

// callsOut tells whether a query may call a function that is not harmless: a
// word stands in front of a bracket.
func callsOut(sql string) bool {
	for at := 0; ; at++ {
		next := strings.IndexByte(sql[at:], '(')
		if next < 0 {
			return false
		}
		at += next
		end := at
		for end > 0 && (sql[end-1] == ' ' || sql[end-1] == '\n' || sql[end-1] == '\t') {
			end--
		}
		start := end
		for start > 0 && wordByte(sql[start-1]) {
			start--
		}
		if start < end && !harmless[strings.ToLower(sql[start:end])] {
			return true
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '"' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
