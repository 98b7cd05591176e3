package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// InjectorCounts is a snapshot of the counts of sluice inject, which is a separate process.
type InjectorCounts struct {
	Injected, Present, Skipped, Refused, Malformed uint64
	ReloadFailures                                 uint64
	CertificateExpires                             time.Time
}

// NewInjector returns the registry with the metrics of sluice inject. Each scrape calls read, which must be safe for
// concurrent use.
func NewInjector(version string, read func() InjectorCounts) *prometheus.Registry {
	counts := &snapshotMetrics[InjectorCounts]{}
	pods := prometheus.NewDesc("dsql_inject_pods_total", "Requests to sluice inject about a pod, by outcome.", []string{"outcome"}, nil)
	outcome := func(name string, value func(InjectorCounts) uint64) seriesRow[InjectorCounts] {
		return seriesRow[InjectorCounts]{desc: pods, kind: prometheus.CounterValue, labels: []string{name},
			value: func(c InjectorCounts) float64 { return float64(value(c)) }}
	}
	counts.rows = []seriesRow[InjectorCounts]{
		outcome("injected", func(c InjectorCounts) uint64 { return c.Injected }),
		outcome("present", func(c InjectorCounts) uint64 { return c.Present }),
		outcome("refused", func(c InjectorCounts) uint64 { return c.Refused }),
		outcome("skipped", func(c InjectorCounts) uint64 { return c.Skipped }),
		counterRow("dsql_inject_malformed_total", "Requests that sluice inject refused: no AdmissionReview, or too many at once.",
			func(c InjectorCounts) float64 { return float64(c.Malformed) }),
		counterRow("dsql_inject_reload_failures_total", "Changes of the certificate of sluice inject that could not be read; the old one stays in use.",
			func(c InjectorCounts) float64 { return float64(c.ReloadFailures) }),
		gaugeRow("dsql_inject_certificate_expiry_timestamp_seconds", "Unix time of the end of the certificate of sluice inject.",
			func(c InjectorCounts) float64 { return float64(c.CertificateExpires.Unix()) }),
	}
	counts.setSource(read)
	reg := prometheus.NewRegistry()
	reg.MustRegister(counts, buildInfo(version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}
