package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxAttempt is the highest attempt that is told apart.
const maxAttempt = 5

var (
	// operations are the first words of a transaction's first statement that
	// locks or writes.
	operations = []string{"select", "insert", "update", "delete", "merge", "copy", "fetch"}
	// conflictStates: DSQL's code where there is one.
	conflictStates = []string{"OC000", "OC001", "40001", "backend_lost", "0A000"}
	// errorTypes are the classes of package retry, refusedReplays its reasons;
	// package proxy tests that there are no others.
	errorTypes     = []string{"permanent", "condition_failed", "conflict", "unsupported"}
	refusedReplays = []string{"opted_out", "log_full", "memory_full", "copy_from", "cancelled", "timed_out", "inner_commit",
		"pinned", "unread", "masked", "partial_group", "failed", "differs", "delivered", "exhausted", "budget", "no_backend",
		"client_gone", "draining"}
)

// transactions counts what becomes of transactions. It is part of Proxy.
type transactions struct {
	retries    map[string]counters[string] // by operation, then state
	conflicts  closedCounter
	conditions closedCounter
	attempts   observers
	active     map[string]prometheus.Gauge
	errors     map[string]closedCounter
	durations  observers
	refused    closedCounter
	backoff    prometheus.Histogram
	exhausted  closedCounter
}

// counters are by attempt.
type counters[K comparable] map[K][maxAttempt + 1]prometheus.Counter

// observers are histograms by operation.
type observers map[string]prometheus.Observer

func newTransactions(reg prometheus.Registerer) transactions {
	all := append([]string{Other}, operations...)
	t := transactions{
		conflicts: newClosedCounter(reg, "dsql_tx_conflicts_total",
			"Conflicts (SQLSTATE 40001) that the server reported, replayed or not.", "operation", operations),
		conditions: newClosedCounter(reg, "dsql_condition_failed_total",
			"UPDATEs and DELETEs that matched no row.", "operation", operations),
		refused: newClosedCounter(reg, "dsql_tx_replay_refused_total",
			"Conflicts and lost backends that reached the client because its transaction was not run again, by reason.",
			"reason", refusedReplays),
		exhausted: newClosedCounter(reg, "dsql_tx_exhausted_total",
			"Transactions given up because every attempt met a conflict again, or time ran out.", "operation", operations),
		backoff: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dsql_tx_backoff_seconds",
			Help: "Wait before a replay, at the gate included.", Buckets: []float64{.01, .05, .1, .2, .5, 1, 2, 4}}),
		retries: map[string]counters[string]{}, errors: map[string]closedCounter{}, active: map[string]prometheus.Gauge{},
	}
	retries := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dsql_tx_retries_total",
		Help: "Replays of transactions, by what made them necessary."}, []string{"operation", "sqlstate", "attempt"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dsql_errors_total",
		Help: "Errors of the server, by what became of them."}, []string{"operation", "error_type"})
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dsql_active_transactions",
		Help: "Transactions that have a log for a replay."}, []string{"operation"})
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dsql_retry_attempts_histogram",
		Help: "Replays that a transaction took.", Buckets: []float64{0, 1, 2, 3, 5, 10}}, []string{"operation"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dsql_operation_duration_seconds",
		Help:    "From a transaction's first frame at a backend to its end, replays included.",
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5}}, []string{"operation"})
	reg.MustRegister(retries, failures, active, attempts, durations, t.backoff)
	t.attempts, t.durations = observers{}, observers{}
	for _, op := range all {
		t.retries[op] = counters[string]{}
		for _, state := range conflictStates {
			var by [maxAttempt + 1]prometheus.Counter
			by[0] = retries.WithLabelValues(op, state, Other)
			for i := 1; i <= maxAttempt; i++ {
				by[i] = retries.WithLabelValues(op, state, strconv.Itoa(i))
			}
			t.retries[op][state] = by
		}
		c := closedCounter{counters: map[string]prometheus.Counter{}}
		for _, class := range errorTypes {
			c.counters[class] = failures.WithLabelValues(op, class)
		}
		c.other = c.counters[errorTypes[0]]
		t.errors[op] = c
		t.active[op] = active.WithLabelValues(op)
		t.attempts[op] = attempts.WithLabelValues(op)
		t.durations[op] = durations.WithLabelValues(op)
	}
	return t
}

// bounded is the operation's label.
func bounded[V any](m map[string]V, operation string) V {
	if v, ok := m[operation]; ok {
		return v
	}
	return m[Other]
}

// TxBegan counts a transaction that can be run again, or says what it is once
// that is known: was is what it was counted as before, "" for nothing.
func (p *Proxy) TxBegan(was, operation string) {
	if p == nil {
		return
	}
	if was != "" {
		bounded(p.tx.active, was).Dec()
	}
	bounded(p.tx.active, operation).Inc()
}

// TxEnded counts its end, after that many replays.
func (p *Proxy) TxEnded(operation string, took time.Duration, replays int) {
	if p != nil {
		bounded(p.tx.active, operation).Dec()
		bounded(p.tx.durations, operation).Observe(took.Seconds())
		bounded(p.tx.attempts, operation).Observe(float64(replays))
	}
}

// TxConflict counts a conflict that the server reported.
func (p *Proxy) TxConflict(operation string) {
	if p != nil {
		p.tx.conflicts.inc(operation)
	}
}

// TxRetried counts a replay, the attempt-th of its transaction; cause is OC000,
// OC001, backend_lost or 0A000 (a statement in another form), and 40001 stands for any other.
func (p *Proxy) TxRetried(operation, cause string, attempt int) {
	if p == nil {
		return
	}
	states := bounded(p.tx.retries, operation)
	by, ok := states[cause]
	if !ok {
		by = states["40001"]
	}
	if attempt < 1 || attempt > maxAttempt {
		attempt = 0
	}
	by[attempt].Inc()
}

// TxReplayRefused counts a transaction that was not run again; reason is one of
// package retry.
func (p *Proxy) TxReplayRefused(reason string) {
	if p != nil {
		p.tx.refused.inc(reason)
	}
}

// TxExhausted counts a transaction whose attempts are used up.
func (p *Proxy) TxExhausted(operation string) {
	if p != nil {
		p.tx.exhausted.inc(operation)
	}
}

// TxBackoff notes the wait before a replay.
func (p *Proxy) TxBackoff(d time.Duration) {
	if p != nil {
		p.tx.backoff.Observe(d.Seconds())
	}
}

// TxError counts an error of the server; class is one of package retry.
func (p *Proxy) TxError(operation, class string) {
	if p != nil {
		bounded(p.tx.errors, operation).inc(class)
	}
}

// TxConditionFailed counts an UPDATE or DELETE that matched no row.
func (p *Proxy) TxConditionFailed(operation string) {
	if p != nil {
		p.tx.conditions.inc(operation)
	}
}
