package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-proxy/sluice/retry"
)

// maxAttempt is the highest number of a replay that has its own label value.
const maxAttempt = 5

var (
	// conflictStates are values of the label sqlstate of dsql_tx_retries_total: DSQL's codes, SQLSTATEs and other causes.
	conflictStates = []string{"OC000", "OC001", "40001", "backend_lost", "0A000", "unknown_name"}
	// errorTypes are the values of the label error_type: the classes (ResultClass) of package retry.
	errorTypes   = []string{"permanent", "condition_failed", "conflict", "unsupported"}
	partOutcomes = []string{PartSame, PartDiffers, PartFailed}
)

// These are values of the label outcome of dsql_discarded_parts_total. It counts parts of transactions, after a
// savepoint, that Sluice ran again before a ROLLBACK TO discarded them.
const (
	PartSame    = "same"
	PartDiffers = "differs"
	PartFailed  = "failed" // a conflict, a loss, a cancel
)

// txMetrics holds the metrics of transactions. txMetrics is a part of Proxy.
type txMetrics struct {
	operations operationTable
	retries    *prometheus.CounterVec
	conflicts  *prometheus.CounterVec
	conditions *prometheus.CounterVec
	errors     *prometheus.CounterVec
	exhausted  *prometheus.CounterVec
	attempts   *prometheus.HistogramVec
	durations  *prometheus.HistogramVec
	active     *prometheus.GaugeVec
	refused    fixedLabelCounter
	parts      fixedLabelCounter
	backoff    prometheus.Histogram
}

// operationHelp explains the label operation. operationHelp is appended to the help of metrics with that label.
const operationHelp = " The label operation has verb and first table, as in select_shards, of the transaction's first statement that locks or writes, else of its first that reads; or the name from a policy. It is other for names without a successful statement, and for the least used of more than 250."

func newTxMetrics(reg prometheus.Registerer, now func() time.Time, unsupported labelDeleter) *txMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"operation"}, labels...))
		reg.MustRegister(c)
		return c
	}
	t := &txMetrics{
		retries: counter("dsql_tx_retries_total", "Replays of transactions, by cause."+operationHelp, "sqlstate", "attempt"),
		conflicts: counter("dsql_tx_conflicts_total",
			"Conflicts (SQLSTATE 40001) that the server reported, replayed or not, by transaction."),
		conditions: counter("dsql_condition_failed_total", "UPDATEs and DELETEs that matched no row, by statement."),
		errors:     counter("dsql_errors_total", "Errors of the server, by transaction and by outcome.", "error_type"),
		exhausted: counter("dsql_tx_exhausted_total",
			"Transactions that Sluice stopped replaying because all attempts or the time were used up."),
		refused: newFixedLabelCounter(reg, "dsql_tx_replay_refused_total",
			"Conflicts and lost backends that reached the client because its transaction was not replayed, by reason.",
			"reason", retry.RefusalReasons()),
		parts: newFixedLabelCounter(reg, "dsql_discarded_parts_total",
			"Parts of transactions discarded by ROLLBACK TO that ran again on a second connection (retry.savepoints strict), by whether their answers were the same.",
			"outcome", partOutcomes),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dsql_retry_attempts_histogram",
			Help: "Replays for each transaction.", Buckets: []float64{0, 1, 2, 3, 5, 10}}, []string{"operation"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "dsql_operation_duration_seconds",
			Help:    "Time from a transaction's first frame at a backend to its end, with replays.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5}}, []string{"operation"}),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dsql_active_transactions",
			Help: "Transactions that have a log for a replay."}, []string{"operation"}),
		backoff: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dsql_tx_backoff_seconds",
			Help: "Wait before a replay, with the wait at the gate.", Buckets: []float64{.01, .05, .1, .2, .5, 1, 2, 4}}),
	}
	reg.MustRegister(t.attempts, t.durations, t.active, t.backoff)
	t.operations.init(now, func(name string) *operationSeries { // with Other every metric exists from the start
		return &operationSeries{name: name, active: t.active.WithLabelValues(name), attempts: t.attempts.WithLabelValues(name),
			durations: t.durations.WithLabelValues(name)}
	}, t.retries, t.conflicts, t.conditions, t.errors, t.exhausted, t.attempts, t.durations, t.active, unsupported)
	for _, c := range []*prometheus.CounterVec{t.conflicts, t.conditions, t.exhausted} {
		c.WithLabelValues(Other)
	}
	for _, class := range errorTypes {
		t.errors.WithLabelValues(Other, class)
	}
	for _, state := range conflictStates {
		t.retries.WithLabelValues(Other, state, Other)
		for i := range maxAttempt {
			t.retries.WithLabelValues(Other, state, strconv.Itoa(i+1))
		}
	}
	return t
}

// CountTxConflict counts a conflict (40001) that the server reported.
func (p *Proxy) CountTxConflict(operation string) {
	if p != nil {
		p.tx.operations.withLabel(operation, func(label string) { p.tx.conflicts.WithLabelValues(label).Inc() })
	}
}

// CountTxRetry counts a replay, which is the attempt-th of its transaction. cause is OC000, OC001, backend_lost,
// 0A000 or unknown_name. Any other cause counts as 40001. 0A000: Sluice can rewrite the refused statement in another
// way. unknown_name: a statement has a new plan by the current schema.
func (p *Proxy) CountTxRetry(operation, cause string, attempt int) {
	if p == nil {
		return
	}
	if !slices.Contains(conflictStates, cause) {
		cause = "40001"
	}
	which := Other
	if attempt >= 1 && attempt <= maxAttempt {
		which = strconv.Itoa(attempt)
	}
	p.tx.operations.withLabel(operation, func(label string) { p.tx.retries.WithLabelValues(label, cause, which).Inc() })
}

// CountReplayRefusal counts a transaction that was not run again. reason is the label of a retry.RefusalReason.
func (p *Proxy) CountReplayRefusal(reason string) {
	if p != nil {
		p.tx.refused.inc(reason)
	}
}

// CountDiscardedPart counts a part of a transaction, after a savepoint, that Sluice ran again before ROLLBACK TO
// discarded it. outcome is PartSame, PartDiffers or PartFailed.
func (p *Proxy) CountDiscardedPart(outcome string) {
	if p != nil {
		p.tx.parts.inc(outcome)
	}
}

// CountTxExhausted counts a transaction that is not replayed again, because it has used up its replays.
func (p *Proxy) CountTxExhausted(operation string) {
	if p != nil {
		p.tx.operations.withLabel(operation, func(label string) { p.tx.exhausted.WithLabelValues(label).Inc() })
	}
}

// ObserveTxBackoff observes the pause before a replay of a transaction.
func (p *Proxy) ObserveTxBackoff(d time.Duration) {
	if p != nil {
		p.tx.backoff.Observe(d.Seconds())
	}
}

// CountTxError counts an error of the server. class is the label of a retry.ResultClass.
func (p *Proxy) CountTxError(operation, class string) {
	if p == nil {
		return
	}
	if !slices.Contains(errorTypes, class) {
		class = errorTypes[0]
	}
	p.tx.operations.withLabel(operation, func(label string) { p.tx.errors.WithLabelValues(label, class).Inc() })
}

// CountConditionFailed counts an UPDATE or DELETE that matched no row.
func (p *Proxy) CountConditionFailed(operation string) {
	if p != nil {
		p.tx.operations.withLabel(operation, func(label string) { p.tx.conditions.WithLabelValues(label).Inc() })
	}
}
