package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// pulled shows a snapshot S of its owner as metrics at each scrape. Before connect is called, pulled shows the zero S.
type pulled[S any] struct {
	read atomic.Pointer[func() S]
	rows []row[S]
}

// row is one series that is made from a snapshot S.
type row[S any] struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  func(S) float64
	labels []string
}

func gauge[S any](name, help string, value func(S) float64) row[S] {
	return row[S]{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue, value: value}
}

func counter[S any](name, help string, value func(S) float64) row[S] {
	return row[S]{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.CounterValue, value: value}
}

// connect makes f the source of snapshots. Each scrape calls f, which must be safe for concurrent use.
func (p *pulled[S]) connect(f func() S) { p.read.Store(&f) }

func (p *pulled[S]) snapshot() S {
	if f := p.read.Load(); f != nil {
		return (*f)()
	}
	var none S
	return none
}

// Describe implements prometheus.Collector by sending the descriptions of all rows.
func (p *pulled[S]) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range p.rows {
		ch <- r.desc
	}
}

// Collect implements prometheus.Collector by reading a snapshot and sending its rows.
func (p *pulled[S]) Collect(ch chan<- prometheus.Metric) { p.collect(p.snapshot(), ch) }

func (p *pulled[S]) collect(s S, ch chan<- prometheus.Metric) {
	for _, r := range p.rows {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(s), r.labels...)
	}
}
