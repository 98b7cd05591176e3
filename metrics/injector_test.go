package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-proxy/sluice/metrics"
)

func TestInjector(t *testing.T) {
	t.Parallel()
	reg := metrics.NewInjector("1", func() metrics.InjectorCounts {
		return metrics.InjectorCounts{Injected: 1, Present: 2, Skipped: 3, Refused: 4, Malformed: 5, ReloadFailures: 6, CertificateExpires: time.Unix(7, 0)}
	})
	for outcome, want := range map[string]float64{"injected": 1, "present": 2, "skipped": 3, "refused": 4} {
		if got := value(t, reg, "dsql_inject_pods_total", "outcome", outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
	for name, want := range map[string]float64{"dsql_inject_malformed_total": 5, "dsql_inject_reload_failures_total": 6, "dsql_inject_certificate_expiry_timestamp_seconds": 7} {
		if got := value(t, reg, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	problems, err := testutil.GatherAndLint(reg, names(t, reg)...)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", problems, err)
	}
	var table strings.Builder
	if err := metrics.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t, reg) {
		if strings.Count(table.String(), "| `"+name+"` |") != 1 {
			t.Errorf("%s is not in the table once", name)
		}
	}
}
