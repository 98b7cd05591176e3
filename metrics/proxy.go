package metrics

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Proxy counts events of clients' sessions. Its methods may be called on nil.
type Proxy struct {
	started                   prometheus.Counter
	batches, backfills, early prometheus.Counter
	copies                    prometheus.Counter
	ended                     fixedLabelCounter
	startups                  fixedLabelCounter
	turns                     atomic.Uint64
	weakened                  prometheus.Counter
	pins                      fixedLabelCounter
	local                     fixedLabelCounter
	settings, choices         fixedLabelCounter
	errors                    fixedLabelCounter
	cancels                   fixedLabelCounter
	lost, indexes             fixedLabelCounter
	prepared                  fixedLabelCounter
	refused                   fixedLabelCounter
	locks                     fixedLabelCounter
	loads                     fixedLabelCounter
	tx                        *txMetrics
	gauges                    snapshotMetrics[ProxyGauges]

	unsupported *prometheus.CounterVec
}

// ProxyGauges is a snapshot of all sessions.
type ProxyGauges struct {
	Clients int // open sessions
	Idle    int // open sessions that are idle outside a transaction
	Pinned  int // open sessions that keep their backend
	Waiting int // open sessions that wait for a backend
	Locks   int // advisory locks of all sessions
	AtGate  int // open sessions that wait at the gate, behind others that want the same rows

	LogBytes  int64 // logs of open transactions, for replays
	HeldBytes int64 // answers that are not sent yet
	TextBytes int64 // texts of prepared statements
}

func newProxy(reg prometheus.Registerer, ignoredSettings, choiceKeys []string) *Proxy {
	unsupported := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dsql_unsupported_feature_total",
		Help: "Statements with a feature that DSQL treats otherwise than PostgreSQL, rewritten or not (sluice lint explains the features).",
	}, []string{"operation", "feature"})
	unsupported.WithLabelValues(Other, Other) // so that the metric exists from the start
	p := &Proxy{
		unsupported: unsupported,
		tx:          newTxMetrics(reg, time.Now, unsupported),
		started: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dsql_sessions_started_total", Help: "Sessions whose startup was answered."}),
		weakened: newWeakenedCounter(),
		ended:    newFixedLabelCounter(reg, "dsql_sessions_ended_total", "Sessions that ended, by cause.", "cause", endCauses),
		startups: newFixedLabelCounter(reg, "dsql_startups_refused_total",
			"Connections that did not become sessions, by reason.", "reason", refusedReasons),
		pins: newFixedLabelCounter(reg, "dsql_pins_total",
			"Sessions that began to keep a backend, by reason.", "reason", pinReasons),
		local: newFixedLabelCounter(reg, "dsql_local_answers_total", "Requests answered without a backend, by kind.", "kind", localKinds),
		settings: newFixedLabelCounter(reg, "dsql_settings_ignored_total",
			"SETs and startup parameters answered without effect because DSQL refuses them, by name.", "name",
			settingNames(ignoredSettings)),
		errors: newFixedLabelCounter(reg, "dsql_errors_sent_total",
			"Errors that Sluice itself sent to clients, by SQLSTATE.", "sqlstate", sqlStates),
		cancels: newFixedLabelCounter(reg, "dsql_cancels_total",
			"Cancel requests, by outcome.", "outcome", cancelOutcomes),
		lost: newFixedLabelCounter(reg, "dsql_backends_lost_total",
			"Backends that were found dead, by their use at that time.", "when", lostWhens),
		prepared: newFixedLabelCounter(reg, "dsql_prepared_statements_total",
			"Uses of prepared statements, by outcome.", "outcome", preparedResults),
		refused: newFixedLabelCounter(reg, "dsql_statements_refused_total",
			"Requests that Sluice itself refused, by feature.", "feature", features),
		loads: newFixedLabelCounter(reg, "dsql_schema_loads_total",
			"Reads of the database's relations, by cause.", "cause", loadCauses),
	}
	ownTransactions := p.addOwnTxCounters(reg, choiceKeys)
	turns := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "dsql_turns_total", Help: "Turns: requests answered up to a ReadyForQuery.",
	}, func() float64 { return float64(p.turns.Load()) })
	p.gauges.rows = []seriesRow[ProxyGauges]{
		gaugeRow("dsql_advisory_locks_held", "Advisory locks of open sessions, in a table.", func(g ProxyGauges) float64 { return float64(g.Locks) }),
		gaugeRow("dsql_clients", "Open client sessions.", func(g ProxyGauges) float64 { return float64(g.Clients) }),
		gaugeRow("dsql_clients_idle", "Client sessions idle outside a transaction.", func(g ProxyGauges) float64 { return float64(g.Idle) }),
		gaugeRow("dsql_clients_pinned", "Client sessions that keep a backend.",
			func(g ProxyGauges) float64 { return float64(g.Pinned) }),
		gaugeRow("dsql_clients_waiting", "Client sessions that wait for a backend.",
			func(g ProxyGauges) float64 { return float64(g.Waiting) }),
		gaugeRow("dsql_tx_gate_waiting", "Transactions that wait at the gate for others that want the same rows.",
			func(g ProxyGauges) float64 { return float64(g.AtGate) }),
		gaugeRow("dsql_tx_log_bytes", "Bytes of the logs for replays of open transactions; retry.log_total_bytes bounds them.",
			func(g ProxyGauges) float64 { return float64(g.LogBytes) }),
		gaugeRow("dsql_tx_held_bytes", "Bytes of answers held back while their turn may be replayed; retry.held_total_bytes bounds them.",
			func(g ProxyGauges) float64 { return float64(g.HeldBytes) }),
		gaugeRow("dsql_prepared_text_bytes", "Bytes of the texts of prepared statements, clients' and remembered ones; prepared.total_bytes bounds them.",
			func(g ProxyGauges) float64 { return float64(g.TextBytes) }),
	}
	p.locks = newFixedLabelCounter(reg, "dsql_advisory_locks_total", "Advisory locks in a table (rewrite.advisory_locks), by outcome.", "outcome", lockOutcomes)
	reg.MustRegister(ownTransactions...)
	reg.MustRegister(p.started, p.weakened, turns, &p.gauges, p.unsupported)
	return p
}

// CountUnsupported counts one use of a feature that DSQL lacks or has differently. The statement planner bounds the
// values of feature.
func (p *Proxy) CountUnsupported(operation, feature string) {
	if p != nil {
		p.tx.operations.withLabel(operation, func(label string) { p.unsupported.WithLabelValues(label, feature).Inc() })
	}
}

// addOwnTxCounters creates the counters of transactions that Sluice itself makes, and the counter of options that
// clients set.
func (p *Proxy) addOwnTxCounters(reg prometheus.Registerer, choiceKeys []string) []prometheus.Collector {
	p.choices = newFixedLabelCounter(reg, "dsql_choices_total",
		"Values that clients chose at their startup or by SET (client.may_set), or got by user (client.users), by configuration key.", "key", choiceKeys)
	p.indexes = newFixedLabelCounter(reg, "dsql_indexes_left_total",
		"Indexes of a failed CREATE INDEX that may exist, not valid, because Sluice could not drop them, by the reason of the failure.", "cause", indexCauses)
	p.batches = newCounter("dsql_delete_batches_total", "Transactions that ran a DELETE of too many rows in batches (rewrite.chunked_delete, rewrite.truncate).")
	p.backfills = newCounter("dsql_backfill_batches_total", "Transactions that gave rows a value in an added column (ddl.add_column_default, ddl.alter_column_type).")
	p.early = newCounter("dsql_early_commits_total", "Parts of transactions with DDL that Sluice committed before the client's COMMIT (ddl.in_transactions).")
	p.copies = newCounter("dsql_copy_batches_total", "Transactions of INSERTs that ran a COPY FROM STDIN (copy.from).")
	return []prometheus.Collector{p.batches, p.backfills, p.early, p.copies}
}

// newCounter makes a counter without labels.
func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// CountDeleteBatch counts one batch of a DELETE that Sluice runs in several transactions.
func (p *Proxy) CountDeleteBatch() {
	if p != nil {
		p.batches.Inc()
	}
}

// CountCopyBatch counts one batch of INSERTs that Sluice makes from a COPY FROM STDIN.
func (p *Proxy) CountCopyBatch() {
	if p != nil {
		p.copies.Inc()
	}
}

// CountBackfillBatch counts one batch of rows that got values in an added column.
func (p *Proxy) CountBackfillBatch() {
	if p != nil {
		p.backfills.Inc()
	}
}

// CountAdvisoryLock counts an event of an advisory lock. outcome is a constant whose name begins with Lock.
func (p *Proxy) CountAdvisoryLock(outcome string) {
	if p != nil {
		p.locks.inc(outcome)
	}
}

// CountEarlyCommit counts a part of a client's transaction that Sluice committed before the client's COMMIT.
func (p *Proxy) CountEarlyCommit() {
	if p != nil {
		p.early.Inc()
	}
}

// CountClientOption counts an option that a client or its user has set. key is one of Options.ClientOptionKeys.
func (p *Proxy) CountClientOption(key string) {
	if p != nil {
		p.choices.inc(key)
	}
}

// settingNames returns the names in a configured list of settings, without an optional "=value".
func settingNames(configured []string) []string {
	var names []string
	for _, entry := range configured {
		name, _, _ := strings.Cut(entry, "=")
		names = append(names, strings.ToLower(strings.TrimSpace(name)))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SetSource sets f as the source of the sessions' gauges, which is called at each scrape.
func (p *Proxy) SetSource(f func() ProxyGauges) {
	if p != nil {
		p.gauges.setSource(f)
	}
}

// CountSessionStart counts a session whose startup was answered with success.
func (p *Proxy) CountSessionStart() {
	if p != nil {
		p.started.Inc()
	}
}

// CountSessionEnd counts the end of a started session. cause is a constant whose name begins with End.
func (p *Proxy) CountSessionEnd(cause string) {
	if p != nil {
		p.ended.inc(cause)
	}
}

// CountStartupRefusal counts a connection that did not become a session. reason is a constant whose name begins with
// Refused.
func (p *Proxy) CountStartupRefusal(reason string) {
	if p != nil {
		p.startups.inc(reason)
	}
}

// CountTurn counts a turn, from a request to its ReadyForQuery, by one atomic addition.
func (p *Proxy) CountTurn() {
	if p != nil {
		p.turns.Add(1)
	}
}

// CountPin counts a session that began to keep its backend. reason is a constant whose name begins with Pin.
func (p *Proxy) CountPin(reason string) {
	if p != nil {
		p.pins.inc(reason)
	}
}

// CountLocalAnswer counts a request that Sluice answered without a backend. kind is a constant whose name begins with
// Local.
func (p *Proxy) CountLocalAnswer(kind string) {
	if p != nil {
		p.local.inc(kind)
	}
}

// newWeakenedCounter returns the counter for Proxy.CountWeakenedIsolation.
func newWeakenedCounter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "dsql_serializable_weakened_total", Help: "Times that SERIALIZABLE was treated as REPEATABLE READ (rewrite.serializable)."})
}

// CountWeakenedIsolation counts a lowered isolation level, of a transaction or of a setting for later transactions.
func (p *Proxy) CountWeakenedIsolation() {
	if p != nil {
		p.weakened.Inc()
	}
}

// CountIgnoredSetting counts a setting that Sluice accepted without effect. Names outside Options.IgnoredSettings are
// counted together.
func (p *Proxy) CountIgnoredSetting(name string) {
	if p != nil {
		p.settings.inc(name)
	}
}

// CountErrorSent counts an error that Sluice itself sent to a client.
func (p *Proxy) CountErrorSent(sqlstate string) {
	if p != nil {
		p.errors.inc(sqlstate)
	}
}

// CountCancel counts a cancel request. outcome is a constant whose name begins with Cancel.
func (p *Proxy) CountCancel(outcome string) {
	if p != nil {
		p.cancels.inc(outcome)
	}
}

// CountBackendLost counts a backend whose connection was lost. when is a constant whose name begins with Lost.
func (p *Proxy) CountBackendLost(when string) {
	if p != nil {
		p.lost.inc(when)
	}
}

// CountIndexLeft counts an index that a failed CREATE INDEX may have left in an invalid state. cause is a constant
// whose name begins with Index.
func (p *Proxy) CountIndexLeft(cause string) {
	if p != nil {
		p.indexes.inc(cause)
	}
}

// CountPreparedUse counts a use of a prepared statement. outcome is a constant whose name begins with Prepared.
func (p *Proxy) CountPreparedUse(outcome string) {
	if p != nil {
		p.prepared.inc(outcome)
	}
}

// CountRefusal counts a request that Sluice refused. feature is a constant whose name begins with Feature.
func (p *Proxy) CountRefusal(feature string) {
	if p != nil {
		p.refused.inc(feature)
	}
}

// CountSchemaLoad counts a read of the database's schema. cause is a constant whose name begins with Load.
func (p *Proxy) CountSchemaLoad(cause string) {
	if p != nil {
		p.loads.inc(cause)
	}
}
