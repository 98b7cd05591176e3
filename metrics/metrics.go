package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options are the properties of a Set that are fixed from the start.
type Options struct {
	// Version of the program, shown by dsql_build_info.
	Version string
	// IgnoredSettings are the label values of dsql_settings_ignored_total; other names are counted
	// together.
	IgnoredSettings []string
	// ChoiceKeys are the label values of dsql_choices_total.
	ChoiceKeys []string
}

// Set is one process's metrics. Its parts are never nil.
type Set struct {
	// Registry is served by the admin listener. It belongs to this Set: nothing is registered with
	// Prometheus's default one.
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
