package dsqlsim

import (
	"slices"
	"strings"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/dialect"
	"github.com/sluice-proxy/sluice/integration/dsqlsim/occ"
)

// maxLogBytes bounds the effect log of a transaction (statements that changed something), in bytes. It is three times
// what a cluster lets a transaction write.
const maxLogBytes = 32 << 20

// transactionBlock is the client's open transaction block. Dsqlsim can park the block: PostgreSQL undoes the effects
// of its statements and releases its locks. Dsqlsim can also resume the block: PostgreSQL runs these statements
// again, in the block's snapshot.
type transactionBlock struct {
	// hasSnapshot means that the block has run a statement that takes the snapshot. snapshot is the certifier's
	// number of that snapshot.
	hasSnapshot bool
	snapshot    uint64
	// beginSQL is the statement that opened the block. deferred means that PostgreSQL has not received that statement yet.
	beginSQL string
	deferred bool
	log      effectLog
	// doomed is the error with which the block's COMMIT will fail, or nil while the COMMIT may succeed.
	doomed *failure
	// lost lists tables that the block, whose COMMIT will fail, has written without effect in PostgreSQL, "" for any
	// table. restarted means that PostgreSQL has undone all effects of the block and given it a newer snapshot.
	lost      []string
	restarted bool
	// changedRows means that the block has updated or deleted rows.
	changedRows bool
	// namedRows are the rows that the block's locking clauses name, with the strength of the lock.
	namedRows map[rowPlace]occ.LockStrength
	attempt   statementAttempt
	committed bool
}

// effectLog lists a block's statements that changed something since dsqlsim's savepoint in the block, so that dsqlsim
// can run them again.
type effectLog struct {
	// savepointSent means that dsqlsim has sent the block's SAVEPOINT to PostgreSQL. savepointSet means that PostgreSQL
	// has set the savepoint.
	savepointSent, savepointSet bool
	effects                     []loggedEffect // oldest first
	bytes                       int
	// incomplete means that the block has run a statement which the log lacks, so dsqlsim cannot run the block again.
	incomplete bool
	// parked means that PostgreSQL does not have the block's effects now, because dsqlsim made it undo them to release
	// locks.
	parked bool
}

// statementAttempt says how other transactions have affected the current attempt to run a statement.
type statementAttempt struct {
	tries    retryTries // attempts that other transactions blocked
	guessing bool       // the statement's outcome can only be guessed
	genuine  bool       // the statement's error is the client's, and not caused by a row outside the snapshot
}

// rowPlace names a row version by the oid of its table and its ctid. It stays valid while the transaction's snapshot
// is open.
type rowPlace struct{ table, ctid string }

// loggedEffect is one statement that has changed something, and PostgreSQL's answer to it.
type loggedEffect struct {
	sql           string
	types, values []byte // as in Parse and Bind
	tag           string
	sum           uint64 // of the rows that were answered, see rowDigest
	exact         bool   // a second run must give the same answer
	void          bool   // cannot run any more: the transaction is doomed
}

func newLoggedEffect(st *dialect.Statement, sql string, types, values []byte) *loggedEffect {
	return &loggedEffect{sql: sql, types: types, values: values, exact: st.Kind == dialect.DML || st.Verb == "WITH"}
}

// addEffect appends the effect e (a statement that changed something) to the log. A log over maxLogBytes becomes
// incomplete.
func (l *effectLog) addEffect(e loggedEffect) {
	l.bytes += len(e.sql) + len(e.types) + len(e.values)
	if l.bytes > maxLogBytes {
		l.effects, l.incomplete = nil, true
		return
	}
	l.effects = append(l.effects, e)
}

// canRewind reports whether a return to dsqlsim's savepoint undoes all effects of the block, and the log can restore
// them.
func (l *effectLog) canRewind() bool { return l.savepointSet && !l.incomplete }

// markDoomed makes the block's COMMIT end with a data conflict (OC000), unless the COMMIT already has another error
// to get.
func (b *transactionBlock) markDoomed() {
	if b.doomed == nil {
		b.doomed = dataConflict
	}
}

// recordLostWrite notes that PostgreSQL does not have the writes of a statement.
func (b *transactionBlock) recordLostWrite(sql string) {
	b.lost = append(b.lost, occ.WrittenTable(sql))
}

// mayReturnLess reports whether statement st, in a block whose COMMIT will fail, may return less than the block has
// written. It also returns true if st may return rows of another snapshot.
func (b *transactionBlock) mayReturnLess(st *dialect.Statement) bool {
	if b.doomed == nil || st.Kind == dialect.Commit || st.Verb == "SET" || st.Verb == "RESET" || st.Verb == "SHOW" {
		return false
	}
	text := strings.ToLower(st.Source)
	reads := st.Verb != "INSERT" && st.Verb != "UPDATE" && st.Verb != "DELETE" || strings.Contains(text, "returning")
	return b.restarted || reads && slices.ContainsFunc(b.lost, func(table string) bool { return strings.Contains(text, strings.ToLower(table)) })
}

// doomAndGuess makes the block's COMMIT fail with a conflict. It also makes dsqlsim guess the outcome of the
// statement that runs now.
func (b *transactionBlock) doomAndGuess() {
	b.markDoomed()
	b.attempt.guessing = true
}

// rowDigest returns a digest of one row, FNV-1a. Callers add up the digests of a result, because the order of its rows
// has no meaning.
func rowDigest(row []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range row {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

// hasEffect reports whether a statement must run again when dsqlsim resumes its transaction, whose effects PostgreSQL
// has undone. In doubt it returns true, because running a query again changes nothing.
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
		return mayCallFunction(st.SQL)
	}
	return true
}

// mayWaitForLock reports whether a statement may wait for a lock of another transaction.
func mayWaitForLock(st *dialect.Statement) bool {
	return st.Kind != dialect.Begin && st.Kind != dialect.Commit && st.Kind != dialect.Rollback && hasEffect(st)
}

// harmlessFunctions are usual functions that change nothing, and keywords that may precede a parenthesis. It includes
// pg_sleep, which should not run twice.
var harmlessFunctions = map[string]bool{
	"count": true, "sum": true, "min": true, "max": true, "avg": true, "coalesce": true, "now": true,
	"lower": true, "upper": true, "length": true, "array_agg": true, "string_agg": true, "exists": true,
	"row_number": true, "pg_sleep": true, "in": true, "any": true, "values": true, "where": true, "and": true,
	"or": true, "on": true, "from": true, "as": true, "not": true, "select": true, "union": true, "over": true,
	"generate_series": true, "gen_random_uuid": true, "random": true, "version": true, "pg_backend_pid": true,
	"current_database": true, "txid_current": true, "repeat": true, "clock_timestamp": true,
}

// mayCallFunction reports whether a query may call a function that is not in harmlessFunctions. Each word before a
// parenthesis counts as a call.
func mayCallFunction(sql string) bool {
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
		for start > 0 && isWordByte(sql[start-1]) {
			start--
		}
		if start < end && !harmlessFunctions[strings.ToLower(sql[start:end])] {
			return true
		}
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '"' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
