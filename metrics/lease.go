package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// These are values of the label outcome of dsql_lease_calls_total, which counts calls of the lease table.
const (
	CallAnswered  = "answered"
	CallThrottled = "throttled"
	CallTimeout   = "timeout"
	CallFailed    = "failed"
)

// These are values of the label cause of dsql_lease_problem, which says why calls of the lease table fail.
const (
	CauseTableMissing   = "table_missing"
	CauseNotInitialised = "not_initialised"
	CauseTwoLedgers     = "two_ledgers"
	CauseAccessDenied   = "access_denied"
	CauseCredentials    = "credentials"
	CauseThrottled      = "throttled"
	CauseTimeout        = "timeout"
	CauseUnreachable    = "unreachable"
	CauseServerError    = "server_error"
	// CauseSuspended means that no call failed, but that the process did not run until its lease ended.
	CauseSuspended = "suspended"
	CauseOther     = "other"
)

// LeaseCauses lists all values of the label cause of dsql_lease_problem.
var LeaseCauses = []string{CauseTableMissing, CauseNotInitialised, CauseTwoLedgers, CauseAccessDenied, CauseCredentials,
	CauseThrottled, CauseTimeout, CauseUnreachable, CauseServerError, CauseSuspended, CauseOther}

// These are values of the label setting of dsql_lease_settings_differ. The values name settings whose value in the
// lease table differs from the configured value.
const (
	SettingLimit = "limit"
	SettingRate  = "rate"
	SettingBurst = "burst"
	// SettingUnusable means that this process cannot use the table's format, number of shards or limits, and uses the
	// earlier ones.
	SettingUnusable = "unusable"
)

// LeaseSettings lists all values of the label setting of dsql_lease_settings_differ.
var LeaseSettings = []string{SettingLimit, SettingRate, SettingBurst, SettingUnusable}

var (
	callKinds    = []string{"settings", "look", "change", "reserve"}
	callOutcomes = []string{CallAnswered, CallThrottled, CallTimeout, CallFailed}
	leasePhases  = []string{"starting", "ok", "degraded", "draining", "lost"}
)

// Lease counts the calls of the lease table, a table in DynamoDB. Its methods may be called on nil.
type Lease struct {
	calls    fixedLabelCounter
	duration map[string]prometheus.Observer
	gauges   snapshotMetrics[LeaseGauges]
}

// LeaseGauges is a snapshot of the lease, with counts since the process started.
type LeaseGauges struct {
	Phase               string          // one of leasePhases, "" when nothing is shared
	Problem             string          // one of LeaseCauses, "" when no call fails
	Differs             map[string]bool // by LeaseSettings
	Held, InUse         int
	Waiting, Excess     int
	Limit, Fair         int
	Age, Queue          time.Duration
	Local               bool
	Granted, Returned   uint64
	Refused, Resolved   uint64
	Reaped, ReapsLost   uint64
	PredecessorsRemoved uint64
	PlacesWritten       bool
	ReapedSelf, Lapsed  uint64
	GivenBack, Drifts   uint64
	Tickets, Stale      uint64
	LocalDials, Resets  uint64
}

func newLease(reg prometheus.Registerer) *Lease {
	l := &Lease{
		calls: newFixedLabelCounter(reg, "dsql_lease_calls_total",
			"Calls of the lease table, by outcome.", "outcome", callOutcomes),
		duration: make(map[string]prometheus.Observer, len(callKinds)),
	}
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "dsql_lease_call_seconds", Help: "Duration of calls of the lease table, by kind.", Buckets: dialBuckets,
	}, []string{"kind"})
	for _, kind := range callKinds {
		l.duration[kind] = duration.WithLabelValues(kind)
	}
	l.gauges.rows = leaseRows()
	reg.MustRegister(duration, &l.gauges)
	return l
}

// SetSource sets f as the source of the lease's gauges and counts, which is called at each scrape.
func (l *Lease) SetSource(f func() LeaseGauges) {
	if l != nil {
		l.gauges.setSource(f)
	}
}

// CountCall counts a call of the lease table and the time it took.
func (l *Lease) CountCall(kind, outcome string, d time.Duration) {
	if l == nil {
		return
	}
	l.calls.inc(outcome)
	if o, ok := l.duration[kind]; ok {
		o.Observe(d.Seconds())
	}
}

func leaseRows() []seriesRow[LeaseGauges] {
	integer := func(name, help string, value func(LeaseGauges) int) seriesRow[LeaseGauges] {
		return gaugeRow(name, help, func(g LeaseGauges) float64 { return float64(value(g)) })
	}
	count := func(name, help string, value func(LeaseGauges) uint64) seriesRow[LeaseGauges] {
		return counterRow(name, help, func(g LeaseGauges) float64 { return float64(value(g)) })
	}
	rows := []seriesRow[LeaseGauges]{
		integer("dsql_lease_held_slots", "Slots of the cluster's connection count held here.", func(g LeaseGauges) int { return g.Held }),
		integer("dsql_lease_used_slots", "Held slots that a backend uses.", func(g LeaseGauges) int { return g.InUse }),
		integer("dsql_lease_waiting_dials", "Dials that wait for a slot.", func(g LeaseGauges) int { return g.Waiting }),
		integer("dsql_lease_excess_backends", "Backends that must close because other sidecars have a right to their slots, or because the lease ends.",
			func(g LeaseGauges) int { return g.Excess }),
		integer("dsql_lease_limit_slots", "Slots of the whole cluster, from the table.", func(g LeaseGauges) int { return g.Limit }),
		integer("dsql_lease_fair_slots", "This process's fair share, an estimate.", func(g LeaseGauges) int { return g.Fair }),
		gaugeRow("dsql_lease_age_seconds", "Time since the lease was renewed.", func(g LeaseGauges) float64 { return g.Age.Seconds() }),
		count("dsql_lease_granted_slots_total", "Slots taken from the table.", func(g LeaseGauges) uint64 { return g.Granted }),
		count("dsql_lease_returned_slots_total", "Slots given back to the table.", func(g LeaseGauges) uint64 { return g.Returned }),
		count("dsql_lease_given_slots_total", "Slots given back because others waited below their fair share.",
			func(g LeaseGauges) uint64 { return g.GivenBack }),
		count("dsql_lease_refused_changes_total", "Changes of the table that failed by their condition.", func(g LeaseGauges) uint64 { return g.Refused }),
		count("dsql_lease_resolved_changes_total", "Changes with an outcome that was unknown for a while.", func(g LeaseGauges) uint64 { return g.Resolved }),
		count("dsql_lease_reaped_records_total", "Records of dead sidecars that this process freed.", func(g LeaseGauges) uint64 { return g.Reaped }),
		count("dsql_lease_predecessor_records_total", "Records that this process gave back for a predecessor that has certainly ended.", func(g LeaseGauges) uint64 { return g.PredecessorsRemoved }),
		gaugeRow("dsql_lease_file", "1 while distributed.conn_lease_file is locked and names this process's records.", func(g LeaseGauges) float64 { return boolValue(g.PlacesWritten) }),
		count("dsql_lease_lost_reaps_total", "Records of dead sidecars that another sidecar freed first.", func(g LeaseGauges) uint64 { return g.ReapsLost }),
		count("dsql_lease_reaped_self_total", "Records of this process that other sidecars removed.", func(g LeaseGauges) uint64 { return g.ReapedSelf }),
		count("dsql_lease_lapsed_total", "Times that the lease was not renewed in time and everything closed.", func(g LeaseGauges) uint64 { return g.Lapsed }),
		count("dsql_lease_drifts_total", "Reads of a shard with numbers that disagree. Must stay 0.", func(g LeaseGauges) uint64 { return g.Drifts }),
		count("dsql_rate_tickets_total", "Tickets reserved from the cluster's connection rate.", func(g LeaseGauges) uint64 { return g.Tickets }),
		count("dsql_rate_stale_tickets_total", "Tickets that were not used in time.", func(g LeaseGauges) uint64 { return g.Stale }),
		count("dsql_rate_local_dials_total", "Dials by the local share, for sidecars that cannot reach the table.", func(g LeaseGauges) uint64 { return g.LocalDials }),
		count("dsql_rate_resets_total", "Impossible ticket times that were set back.", func(g LeaseGauges) uint64 { return g.Resets }),
		gaugeRow("dsql_rate_queue_seconds", "Time between now and the cluster's latest ticket, at the last read of the table.",
			func(g LeaseGauges) float64 { return g.Queue.Seconds() }),
		gaugeRow("dsql_rate_local", "1 while dials use the local share of the rate.", func(g LeaseGauges) float64 { return boolValue(g.Local) }),
	}
	phase := prometheus.NewDesc("dsql_lease_phase", "1 for the current phase of the lease.", []string{"phase"}, nil)
	for _, p := range leasePhases {
		rows = append(rows, seriesRow[LeaseGauges]{desc: phase, kind: prometheus.GaugeValue, labels: []string{p},
			value: func(g LeaseGauges) float64 { return boolValue(g.Phase == p) }})
	}
	problem := prometheus.NewDesc("dsql_lease_problem", "1 for the cause of the current failures of calls of the lease table.", []string{"cause"}, nil)
	for _, cause := range LeaseCauses {
		rows = append(rows, seriesRow[LeaseGauges]{desc: problem, kind: prometheus.GaugeValue, labels: []string{cause},
			value: func(g LeaseGauges) float64 { return boolValue(g.Problem == cause) }})
	}
	differs := prometheus.NewDesc("dsql_lease_settings_differ", "1 for a figure that differs between the lease table and this process's configuration; the table's applies.",
		[]string{"setting"}, nil)
	for _, setting := range LeaseSettings {
		rows = append(rows, seriesRow[LeaseGauges]{desc: differs, kind: prometheus.GaugeValue, labels: []string{setting},
			value: func(g LeaseGauges) float64 { return boolValue(g.Differs[setting]) }})
	}
	return rows
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
