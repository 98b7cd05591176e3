package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options are the properties of a Set that are fixed when New creates it.
type Options struct {
	// Version is the version of the program, which dsql_build_info shows.
	Version string
	// IgnoredSettings are the label values of dsql_settings_ignored_total. Other names are counted together.
	IgnoredSettings []string
	// ClientOptionKeys are the label values of dsql_choices_total: configuration keys that clients may set.
	ClientOptionKeys []string
}

// Set holds all metrics of one process. The parts of a Set are never nil.
type Set struct {
	// Registry is the registry that the admin listener serves. Registry belongs to this Set, and nothing is registered
	// with Prometheus's default registry.
	Registry *prometheus.Registry

	Proxy     *Proxy
	Reservoir *Reservoir
	Lease     *Lease
	Rewrite   *Rewrite
	Admin     *Admin
}

// New returns a Set in which every series exists and has the value 0.
func New(o Options) *Set {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		buildInfo(o.Version),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return &Set{
		Registry:  reg,
		Proxy:     newProxy(reg, o.IgnoredSettings, o.ClientOptionKeys),
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
