package dsqlsim

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics holds dsqlsim's Prometheus metrics for the path /metrics, in a separate registry.
type metrics struct {
	registry           *prometheus.Registry
	connected          prometheus.Counter
	refusedConnections *prometheus.CounterVec
	statements         *prometheus.CounterVec
	errors             *prometheus.CounterVec
	cancels            *prometheus.CounterVec
	transactions       *prometheus.CounterVec
	faults             *prometheus.CounterVec
}

func newMetrics(connections, most, established func() int) *metrics {
	registry := prometheus.NewRegistry()
	make := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return make.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dsqlsim_connections", Help: "Clients connected now.",
	}, func() float64 { return float64(connections()) })
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dsqlsim_connections_most", Help: "Clients connected at once, at most, since the start.",
	}, func() float64 { return float64(most()) })
	make.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dsqlsim_sessions", Help: "Sessions that have their client and their PostgreSQL connection.",
	}, func() float64 { return float64(established()) })
	return &metrics{
		registry: registry,
		connected: make.NewCounter(prometheus.CounterOpts{
			Name: "dsqlsim_connections_total", Help: "Connections that became sessions.",
		}),
		refusedConnections: counters("dsqlsim_refused_connections_total",
			"Connections refused, by the SQLSTATE that was answered.", "code"),
		statements: counters("dsqlsim_statements_total",
			"Statements that ran to their end, by kind.", "kind"),
		errors: counters("dsqlsim_errors_total",
			"Errors answered to statements: refused in DSQL's words, conflict, or PostgreSQL's own.", "kind"),
		cancels: counters("dsqlsim_cancels_total", "Cancel requests, by what became of them.", "outcome"),
		transactions: counters("dsqlsim_transactions_total",
			"Transactions that ended, statements outside a block included, by what became of them.", "outcome"),
		faults: counters("dsqlsim_faults_total", "Planned faults that happened, by moment and action.", "at", "action"),
	}
}
