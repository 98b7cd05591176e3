package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-proxy/sluice/metrics"
)

var update = flag.Bool("update", false, "write testdata anew")

// names of the families that Sluice chose.
func names(t *testing.T, reg *prometheus.Registry) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "dsql_") {
			names = append(names, f.GetName())
		}
	}
	return names
}

// value is one series' value, or a histogram's count; labels are alternating
// names and values.
func value(t *testing.T, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName(), l.GetValue())
			}
			if slices.Equal(has, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no series %s%v", name, labels)
	return 0
}

func TestNamesFollowPrometheusConventions(t *testing.T) {
	t.Parallel()
	reg := metrics.New(metrics.Options{Version: "1"}).Registry
	problems, err := testutil.GatherAndLint(reg, names(t, reg)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if p.Metric == "dsql_retry_attempts_histogram" {
			continue // its name is given; it names its type
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The names, types and help texts are an interface: dashboards and alerts are
// built on them. go test ./metrics -update accepts a change.
func TestNamesAreStable(t *testing.T) {
	t.Parallel()
	families, err := metrics.New(metrics.Options{}).Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "dsql_") {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", f.GetName(), f.GetHelp(), strings.ToLower(f.GetType().String()))
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&b, "%s{%s=%q}\n", f.GetName(), l.GetName(), l.GetValue())
			}
		}
	}
	const golden = "testdata/metrics.prom"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("metrics differ from %s (go test ./metrics -update accepts them); got:\n%s", golden, got)
	}
}

func TestTableNamesEveryMetricAndItsLabels(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := metrics.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	table := b.String()
	for _, name := range names(t, metrics.New(metrics.Options{}).Registry) {
		if strings.Count(table, "| `"+name+"` |") != 1 {
			t.Errorf("%s is not in the table once:\n%s", name, table)
		}
	}
	want := "| `dsql_backends_lost_total` | counter | `when`: idle, other, replaying, transaction, unknown_outcome | Backends that were found dead, by their use at that time. |\n"
	if !strings.Contains(table, want) {
		t.Errorf("table lacks\n%s\ngot\n%s", want, table)
	}
	if strings.Contains(table, "go_goroutines") {
		t.Error("the Go runtime's metrics are in the table")
	}
}

func TestVerbsCount(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{IgnoredSettings: []string{"jit", "standard_conforming_strings=on"}})
	p, r := set.Proxy, set.Reservoir
	tests := []struct {
		name   string
		labels []string
		count  func()
	}{
		{"dsql_sessions_started_total", nil, p.CountSessionStart},
		{"dsql_sessions_ended_total", []string{"cause", "drained"}, func() { p.CountSessionEnd(metrics.EndDrained) }},
		{"dsql_startups_refused_total", []string{"reason", "auth"}, func() { p.CountStartupRefusal(metrics.RefusedAuth) }},
		{"dsql_turns_total", nil, p.CountTurn},
		{"dsql_serializable_weakened_total", nil, p.CountWeakenedIsolation},
		{"dsql_pins_total", []string{"reason", "listen"}, func() { p.CountPin(metrics.PinListen) }},
		{"dsql_local_answers_total", []string{"kind", "begin"}, func() { p.CountLocalAnswer(metrics.LocalBegin) }},
		{"dsql_settings_ignored_total", []string{"name", "jit"}, func() { p.CountIgnoredSetting("jit") }},
		{"dsql_settings_ignored_total", []string{"name", "standard_conforming_strings"},
			func() { p.CountIgnoredSetting("standard_conforming_strings") }},
		{"dsql_errors_sent_total", []string{"sqlstate", "53300"}, func() { p.CountErrorSent("53300") }},
		{"dsql_cancels_total", []string{"outcome", "dropped"}, func() { p.CountCancel(metrics.CancelDropped) }},
		{"dsql_backends_lost_total", []string{"when", "transaction"}, func() { p.CountBackendLost(metrics.LostTransaction) }},
		{"dsql_indexes_left_total", []string{"cause", "client_gone"}, func() { p.CountIndexLeft(metrics.IndexClientGone) }},
		{"dsql_prepared_statements_total", []string{"outcome", "miss"}, func() { p.CountPreparedUse(metrics.PreparedMiss) }},
		{"dsql_statements_refused_total", []string{"feature", "pins"}, func() { p.CountRefusal(metrics.FeaturePins) }},
		{"dsql_schema_loads_total", []string{"cause", "missing"}, func() { p.CountSchemaLoad(metrics.LoadMissing) }},
		{"dsql_reservoir_discards_total", []string{"reason", "aged"}, func() { r.CountDiscard("aged") }},
		{"dsql_reservoir_refills_total", nil, func() { r.CountDial(time.Millisecond) }},
		{"dsql_reservoir_refill_failures_total", []string{"reason", "rate_exceeded"}, func() { r.CountDialFailure("rate_exceeded") }},
		{"dsql_reservoir_dial_seconds", []string{"step", "tls"}, func() { r.ObserveDialStep("tls", time.Millisecond) }},
		{"dsql_reservoir_checkout_latency_seconds", nil, func() { r.ObserveWait(time.Millisecond) }},
	}
	for _, tt := range tests {
		before := value(t, set.Registry, tt.name, tt.labels...)
		tt.count()
		if got := value(t, set.Registry, tt.name, tt.labels...) - before; got != 1 {
			t.Errorf("%s%v grew by %v, want 1", tt.name, tt.labels, got)
		}
	}
}

// No caller can make a new series, whatever it passes.
func TestValuesOutsideTheirSetAreCountedTogether(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{IgnoredSettings: []string{"jit"}})
	p, r := set.Proxy, set.Reservoir
	series := func() int {
		n, err := testutil.GatherAndCount(set.Registry)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := series()
	for _, count := range []func(string){p.CountSessionEnd, p.CountStartupRefusal, p.CountPin, p.CountLocalAnswer, p.CountIgnoredSetting,
		p.CountErrorSent, p.CountCancel, p.CountBackendLost, p.CountIndexLeft, p.CountPreparedUse, p.CountRefusal, p.CountSchemaLoad, r.CountDiscard, r.CountDialFailure,
		func(s string) { r.ObserveDialStep(s, time.Second) }} {
		count("10.0.0.1")
		count("10.0.0.2")
	}
	if got := series(); got != before {
		t.Errorf("%d series, want %d", got, before)
	}
	for name, label := range map[string]string{"dsql_settings_ignored_total": "name", "dsql_errors_sent_total": "sqlstate",
		"dsql_reservoir_discards_total": "reason"} {
		if got := value(t, set.Registry, name, label, metrics.Other); got != 2 {
			t.Errorf("%s{%s=other} = %v, want 2", name, label, got)
		}
	}
}

func TestGaugesArePulledAtScrape(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{})
	clients := 0
	set.Proxy.SetSource(func() metrics.ProxyGauges { return metrics.ProxyGauges{Clients: clients, Pinned: 2} })
	set.Reservoir.SetSource(func() metrics.ReservoirGauges {
		return metrics.ReservoirGauges{Ready: 7, Checkouts: 12, Immediate: 10}
	})
	set.Rewrite.SetSource(func() metrics.RewriteCounts {
		return metrics.RewriteCounts{Parsed: 5, GuardedBytes: 2, GuardedNesting: 3, GuardedText: 4}
	})
	for range 2 {
		clients++
		for name, want := range map[string]int{"dsql_clients": clients, "dsql_clients_pinned": 2, "dsql_reservoir_size": 7,
			"dsql_reservoir_checkouts_total": 12, "dsql_rewrite_parsed_total": 5} {
			if got := value(t, set.Registry, name); got != float64(want) {
				t.Errorf("%s = %v, want %d", name, got, want)
			}
		}
	}
	for reason, want := range map[string]float64{"bytes": 2, "nesting": 3, "text": 4} {
		if got := value(t, set.Registry, "dsql_rewrite_guarded_total", "reason", reason); got != want {
			t.Errorf("guarded by %s = %v, want %v", reason, got, want)
		}
	}
}

// The checkouts that did not wait are in the histogram too, else its quantiles
// would be those of the unlucky alone.
func TestCheckoutLatencyCountsThoseThatDidNotWait(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{})
	set.Reservoir.SetSource(func() metrics.ReservoirGauges { return metrics.ReservoirGauges{Checkouts: 102, Immediate: 100} })
	set.Reservoir.ObserveWait(20 * time.Millisecond)
	set.Reservoir.ObserveWait(time.Minute)
	const want = `# HELP dsql_reservoir_checkout_latency_seconds Time from the request for a backend to its checkout; checkouts that did not wait count as 0.
# TYPE dsql_reservoir_checkout_latency_seconds histogram
dsql_reservoir_checkout_latency_seconds_bucket{le="0.0001"} 100
dsql_reservoir_checkout_latency_seconds_bucket{le="0.001"} 100
dsql_reservoir_checkout_latency_seconds_bucket{le="0.0025"} 100
dsql_reservoir_checkout_latency_seconds_bucket{le="0.005"} 100
dsql_reservoir_checkout_latency_seconds_bucket{le="0.01"} 100
dsql_reservoir_checkout_latency_seconds_bucket{le="0.025"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="0.05"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="0.1"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="0.25"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="0.5"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="1"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="2.5"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="5"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="10"} 101
dsql_reservoir_checkout_latency_seconds_bucket{le="+Inf"} 102
dsql_reservoir_checkout_latency_seconds_sum 60.02
dsql_reservoir_checkout_latency_seconds_count 102
`
	if err := testutil.GatherAndCompare(set.Registry, strings.NewReader(want), "dsql_reservoir_checkout_latency_seconds"); err != nil {
		t.Error(err)
	}
}

// Every exported method may be called on nil.
func TestNilCountsNothing(t *testing.T) {
	t.Parallel()
	for _, v := range []any{(*metrics.Proxy)(nil), (*metrics.Reservoir)(nil), (*metrics.Rewrite)(nil)} {
		rv := reflect.ValueOf(v)
		if rv.NumMethod() == 0 {
			t.Errorf("%s has no method", rv.Type())
		}
		for i := range rv.NumMethod() {
			var args []reflect.Value
			for j := range rv.Method(i).Type().NumIn() {
				args = append(args, reflect.Zero(rv.Method(i).Type().In(j)))
			}
			rv.Method(i).Call(args) // a panic fails the test
		}
	}
}

func TestBuildInfoTellsTheVersion(t *testing.T) {
	t.Parallel()
	if got := value(t, metrics.New(metrics.Options{Version: "v1.2.3"}).Registry, "dsql_build_info", "version", "v1.2.3"); got != 1 {
		t.Errorf("dsql_build_info = %v, want 1", got)
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	set := metrics.New(metrics.Options{})
	if n := testing.AllocsPerRun(100, func() {
		set.Proxy.CountTurn()
		set.Proxy.CountLocalAnswer(metrics.LocalBegin)
		set.Proxy.CountPreparedUse(metrics.PreparedHit)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Names of operations are bounded, whoever gives them.
func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{})
	for i := range 1000 {
		op := fmt.Sprintf("select_%d", i)
		r := set.Proxy.CountTxStart(metrics.ActiveTx{}, op)
		set.Proxy.CountOperationSuccess(op)
		set.Proxy.CountTxConflict(op)
		set.Proxy.CountTxRetry(op, "OC000", 1)
		set.Proxy.CountTxError(op, "conflict")
		set.Proxy.CountConditionFailed(op)
		set.Proxy.CountTxExhausted(op)
		set.Proxy.CountTxEnd(r, op, time.Second, 1)
	}
	families, err := set.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		seen, total := map[string]bool{}, 0.0
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "operation" {
					seen[l.GetValue()] = true
					total += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		if len(seen) > 0 && len(seen) != 1 && (len(seen) != 251 || total != 1000 && total != 0 || !seen[metrics.Other]) {
			t.Errorf("%s: %d operations, %v counted", f.GetName(), len(seen), total)
		}
	}
	if n := value(t, set.Registry, "dsql_active_transactions", "operation", metrics.Other); n != 0 {
		t.Errorf("%v active", n)
	}
}
