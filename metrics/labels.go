package metrics

import "github.com/prometheus/client_golang/prometheus"

// Other is the label value that replaces values outside a label's fixed set.
const Other = "other"

// These are values of the label cause of dsql_sessions_ended_total, which says why a session ended.
const (
	EndTerminated      = "terminated"       // the client sent Terminate
	EndDisconnected    = "disconnected"     // the client's socket closed without a Terminate
	EndProtocol        = "protocol"         // 08P01: frames that violate the protocol
	EndDrained         = "drained"          // 57P01: Sluice was shutting down
	EndClosed          = "closed"           // closed by Close or at the end of a drain
	EndIdle            = "idle"             // idle outside a transaction for too long
	EndIdleTransaction = "idle_transaction" // 25P03: idle inside a transaction for too long
	EndBackendLost     = "backend_lost"     // the backend of a pinned session was lost
	EndServer          = "server"           // a FATAL of the server, which was relayed
	EndFault           = "fault"            // an internal error
)

// These are values of the label reason of dsql_startups_refused_total, which says why a startup was refused.
const (
	RefusedClients     = "too_many_clients"
	RefusedMemory      = "memory"
	RefusedTimeout     = "timeout"
	RefusedProtocol    = "protocol"     // malformed, or an unknown version
	RefusedPlaintext   = "plaintext"    // bytes sent before TLS was negotiated
	RefusedTLS         = "tls"          // TLS required but not used, or its handshake failed
	RefusedAuth        = "auth"         // wrong password, unknown user, no certificate
	RefusedGuesses     = "guesses"      // too many wrong passwords from the client's address
	RefusedDatabase    = "database"     // a missing database, or one that is not in listen.databases
	RefusedParameter   = "parameter"    // a startup parameter DSQL does not know
	RefusedReplication = "replication"  // replication=...
	RefusedBackend     = "backend"      // session pairing: the server refused, or no backend was free
	RefusedDraining    = "draining"     // 57P01
	RefusedGone        = "disconnected" // the client left before the answer
)

// These are values of the label reason of dsql_pins_total, which says why a session keeps its backend.
const (
	PinSession      = "session" // session pairing
	PinPrepare      = "prepare"
	PinListen       = "listen"
	PinHoldCursor   = "hold_cursor"
	PinTemporary    = "temporary"
	PinAdvisoryLock = "advisory_lock"
	PinSetConfig    = "set_config"
	PinSequence     = "sequence"
	PinSeed         = "seed"
	PinLoad         = "load"
	PinProcedural   = "procedural"
	PinUnparsed     = "unparsed"
	PinRole         = "role"
)

// These are values of the label kind of dsql_local_answers_total, which counts requests that Sluice answered without a
// backend.
const (
	LocalEmpty     = "empty"
	LocalBegin     = "begin"
	LocalEnd       = "end"
	LocalParse     = "parse"
	LocalDescribe  = "describe"
	LocalSetting   = "setting"
	LocalShow      = "show"
	LocalStatement = "statement" // a statement that DSQL lacks
	LocalSavepoint = "savepoint"
)

// These are values of the label outcome of dsql_advisory_locks_total, which counts events of advisory locks.
const (
	LockTaken     = "taken"
	LockRefused   = "refused"    // another session holds the lock, and the client did not wait
	LockTakenOver = "taken_over" // the lease of another session had expired
	LockReleased  = "released"
	LockLost      = "lost" // another session has taken the lock over
)

// These are values of the label outcome of dsql_cancels_total, which says what became of a cancel request.
const (
	CancelDropped     = "dropped"     // the statement's turn had settled
	CancelForwarded   = "forwarded"   // the server ended the statement
	CancelDiscarded   = "discarded"   // Sluice closed the backend to end the statement
	CancelIneffective = "ineffective" // a commit was in progress
	CancelUnknownKey  = "unknown_key"
	CancelGuesses     = "guesses" // too many unknown keys from its address
)

// These are values of the label when of dsql_backends_lost_total, which names the state in which a backend was lost.
const (
	LostIdle           = "idle"            // no client was affected
	LostTransaction    = "transaction"     // in a transaction; the client got 08006
	LostUnknownOutcome = "unknown_outcome" // during a commit; the client got 08007
	LostReplaying      = "replaying"       // in a replay
)

// These are values of the label cause of dsql_indexes_left_total, which says why a failed CREATE INDEX may have left an
// index.
const (
	IndexCancelled  = "cancelled"   // by a cancel or a timeout
	IndexClientGone = "client_gone" // the client of the CREATE INDEX left
	IndexLost       = "lost"        // the backend was lost, or a drain ended
)

// These are values of the label outcome of dsql_prepared_statements_total, which counts uses of prepared statements.
const (
	PreparedHit         = "hit"         // the backend had the statement
	PreparedPrepared    = "prepared"    // the client's own Parse went to the server
	PreparedMiss        = "miss"        // prepared by Sluice before a Bind
	PreparedInvalidated = "invalidated" // removed, because its description is out of date
	PreparedEvicted     = "evicted"     // closed for room, as the least recently used
)

// These are values of the label feature of dsql_statements_refused_total, which says what in a request Sluice refused.
const (
	FeaturePlanChanged    = "plan_changed"
	FeatureLongStatement  = "long_statement"
	FeatureManyStatements = "many_statements"
	FeatureSetting        = "setting"
	FeaturePins           = "pins"
	FeatureFunctionCall   = "function_call"
	FeatureTwoPhase       = "two_phase"
	FeatureReplication    = "replication"
	FeatureToldTime       = "told_time"
)

// These are values of the label cause of dsql_schema_loads_total, which says why Sluice read the database's schema.
const (
	LoadStart   = "start"   // no schema was known
	LoadChange  = "change"  // DDL of this process, or a change that the server reported
	LoadMissing = "missing" // a text names an unknown relation
	LoadError   = "error"   // the server did not know a relation or column
	LoadBackend = "backend" // a backend may know a newer schema
)

var (
	endCauses = []string{EndTerminated, EndDisconnected, EndProtocol, EndDrained, EndClosed, EndIdle,
		EndIdleTransaction, EndBackendLost, EndServer, EndFault}
	refusedReasons = []string{RefusedClients, RefusedTimeout, RefusedProtocol, RefusedPlaintext, RefusedTLS,
		RefusedAuth, RefusedGuesses, RefusedDatabase, RefusedParameter, RefusedReplication, RefusedBackend, RefusedDraining, RefusedGone, RefusedMemory}
	pinReasons = []string{PinSession, PinPrepare, PinListen, PinHoldCursor, PinTemporary, PinAdvisoryLock,
		PinSetConfig, PinSequence, PinSeed, PinLoad, PinProcedural, PinUnparsed, PinRole}
	localKinds = []string{LocalEmpty, LocalBegin, LocalEnd, LocalParse, LocalDescribe, LocalSetting, LocalShow,
		LocalStatement, LocalSavepoint}
	loadCauses      = []string{LoadStart, LoadChange, LoadMissing, LoadError, LoadBackend}
	lockOutcomes    = []string{LockTaken, LockRefused, LockTakenOver, LockReleased, LockLost}
	cancelOutcomes  = []string{CancelDropped, CancelForwarded, CancelDiscarded, CancelIneffective, CancelUnknownKey, CancelGuesses}
	indexCauses     = []string{IndexCancelled, IndexClientGone, IndexLost}
	lostWhens       = []string{LostIdle, LostTransaction, LostUnknownOutcome, LostReplaying}
	preparedResults = []string{PreparedHit, PreparedPrepared, PreparedMiss, PreparedInvalidated, PreparedEvicted}
	features        = []string{FeaturePlanChanged, FeatureLongStatement, FeatureManyStatements, FeatureSetting,
		FeaturePins, FeatureFunctionCall, FeatureTwoPhase, FeatureReplication, FeatureToldTime}

	// sqlStates are the SQLSTATEs of errors that Sluice itself creates.
	sqlStates = []string{"08006", "08007", "08P01", "0A000", "22003", "22008", "22009", "22021", "22023", "22P02", "22P03", "22P04", "23502", "23503", "23505", "23514", "25000", "25001", "25006", "25P01", "25P02", "25P03", "26000", "28000", "28P01",
		"34000", "3B001", "3D000", "40000", "40001", "42501", "42601", "42602", "42701", "42702", "42703", "42704", "42710", "42809", "42P02", "42P03", "42P04", "42P05", "42P07", "42P10", "42P11", "53200", "53300", "54000", "55000", "55006", "55P02", "55P03", "57014",
		"57P01", "57P05", "58000", "XX000"}

	// discardReasons are the reasons for which a backend is closed. Tests of package reservoir compare this list with the
	// reasons of that package.
	discardReasons = []string{"aged", "guarded", "broken", "pinned", "dedicated", "cancelled", "client_gone", "client_left",
		"unclean", "shutdown", "surplus", "peek_failed", "unleased", "revoked", "silent", "probe_failed"}
	// refillFailures are the labels of failed dials. A label names the step of the dial that failed, or a refusal by
	// quota.
	refillFailures = []string{"dns", "tcp", "tls", "credentials", "token", "auth", "startup",
		"too_many_connections", "rate_exceeded"}
	dialSteps = []string{"dns", "tcp", "tls", "credentials", "token", "startup", "total"}
)

// fixedLabelCounter is a counter with one label, whose values are fixed. Counting takes one look-up in a map and no
// lock.
type fixedLabelCounter struct {
	counters map[string]prometheus.Counter
	other    prometheus.Counter
}

func newFixedLabelCounter(reg prometheus.Registerer, name, help, label string, values []string) fixedLabelCounter {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	reg.MustRegister(vec)
	c := fixedLabelCounter{counters: make(map[string]prometheus.Counter, len(values)), other: vec.WithLabelValues(Other)}
	for _, v := range values {
		c.counters[v] = vec.WithLabelValues(v)
	}
	return c
}

func (c fixedLabelCounter) inc(value string) {
	if counter, ok := c.counters[value]; ok {
		counter.Inc()
		return
	}
	c.other.Inc()
}
