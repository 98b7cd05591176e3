package proxy

import (
	"bytes"
	"testing"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/retry"
)

// The metrics have a label for every reason, and count none of them as other.
func TestEveryReasonHasALabel(t *testing.T) {
	t.Parallel()
	set := metrics.New(metrics.Options{})
	for _, reason := range retry.RefusalReasons() {
		set.Proxy.CountReplayRefusal(reason)
	}
	families, err := set.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for _, f := range families {
		if f.GetName() != "dsql_tx_replay_refused_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			value, n := m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()
			seen.WriteString(value)
			if want := float64(1); n != want && value != metrics.Other || value == metrics.Other && n != 0 {
				t.Errorf("%s counted %v times", value, n)
			}
		}
	}
	if seen.Len() == 0 {
		t.Error("no such metric")
	}
}
