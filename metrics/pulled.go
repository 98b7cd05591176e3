package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// snapshotMetrics shows a snapshot S of its owner as metrics at each scrape. Before setSource is called,
// snapshotMetrics shows the zero S.
type snapshotMetrics[S any] struct {
	read atomic.Pointer[func() S]
	rows []seriesRow[S]
}

// seriesRow is one series of a metric, with the function that reads its value from a snapshot S.
type seriesRow[S any] struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(S) float64
	labels []string
}

func gaugeRow[S any](name, help string, value func(S) float64) seriesRow[S] {
	return seriesRow[S]{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, value: value}
}

func counterRow[S any](name, help string, value func(S) float64) seriesRow[S] {
	return seriesRow[S]{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.CounterValue, value: value}
}

// setSource makes f the source of snapshots. Each scrape calls f, which must be safe for concurrent use.
func (p *snapshotMetrics[S]) setSource(f func() S) { p.read.Store(&f) }

func (p *snapshotMetrics[S]) snapshot() S {
	if f := p.read.Load(); f != nil {
		return (*f)()
	}
	var none S
	return none
}

// Describe implements prometheus.Collector by sending the descriptions of all series.
func (p *snapshotMetrics[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range p.rows {
		ch <- r.desc
	}
}

// Collect implements prometheus.Collector by taking a snapshot and sending the series made from it.
func (p *snapshotMetrics[S]) Collect(ch chan<- prometheus.Metric) { p.collect(p.snapshot(), ch) }

func (p *snapshotMetrics[S]) collect(s S, ch chan<- prometheus.Metric) {
	for _, r := range p.rows {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(s), r.labels...)
	}
}
