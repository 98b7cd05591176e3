package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options are what the metrics must know before the first sample.
type Options struct {
	// Version of the program, shown by dsql_build_info.
	Version string
	// IgnoredSettings are the names that dsql_settings_ignored_total tells
	// apart; others are counted together.
	IgnoredSettings []string
	// ChoiceKeys are the keys that dsql_choices_total tells apart.
	ChoiceKeys []string
}

// Set is one process's metrics. Its parts are never nil.
type Set struct {
	// Registry is what the admin listener serves. It is this Set's own: nothing
	// is registered with Prometheus' default one.
	Registry *prometheus.Registry

	Proxy     *Proxy
	Reservoir *Reservoir
	Lease     *Lease
	Rewrite   *Rewrite
	Admin     *Admin
}

// New returns a Set in which every series exists and reads 0.
func New(o Options) *Set {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		buildInfo(o.Version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return &Set{
		Registry:  reg,
		Proxy:     newProxy(reg, o.IgnoredSettings, o.ChoiceKeys),
		Reservoir: newReservoir(reg),
		Lease:     newLease(reg),
		Rewrite:   newRewrite(reg),
		Admin:     NewAdmin(reg),
	}
}

func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "dsql_build_info",
		Help:        "Always 1; the label is the program's version.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
}
