package main

import (
	"slices"
	"strings"
	"testing"
)

const topText = `File: sluice
Type: cpu
Duration: 5.01s, Total samples = 970ms (19.38%)
Showing nodes accounting for 530ms, 54.64% of 970ms total
      flat  flat%   sum%        cum   cum%
      10ms  1.03%  1.03%      630ms 64.95%  github.com/sluice-proxy/sluice/proxy.(*Server).welcome
     400ms 41.24% 42.27%      400ms 41.24%  internal/runtime/syscall/linux.Syscall6
         0     0% 42.27%      390ms 40.21%  github.com/sluice-proxy/sluice/proxy.(*session).serve
         0     0% 42.27%      120ms 12.37%  crypto/tls.(*Conn).Write
         0     0% 42.27%       30ms  3.09%  crypto/tls.(*Conn).Read
         0     0% 42.27%       20ms  2.06%  github.com/sluice-proxy/sluice/reservoir.(*Conn).Release (inline)
`

func TestShares(t *testing.T) {
	groups, functions := parseShares(topText)
	if want := []profileShare{{"proxy.(*session).serve", 40.21}, {"reservoir.(*Conn).Release", 2.06}}; !slices.Equal(functions, want) {
		t.Errorf("functions %v, want %v", functions, want)
	}
	if groups[0].Percent != 41.24 || groups[1].Percent < 15.4 || groups[1].Percent > 15.5 || groups[2].Percent != 0 {
		t.Errorf("groups %v", groups)
	}
	r := report{Shares: []workloadShares{{"a workload", groups, functions}}}
	for id, ratio := range map[string]float64{"a": 1.5, "b": 0.9, "c": 1.2, "d": 1.1} {
		r.Workloads = append(r.Workloads, workloadResult{ID: id, CPUToPgBouncer: roundSummary{Median: ratio, Rounds: 1}})
	}
	r.Workloads = append(r.Workloads, workloadResult{ID: "not measured"})
	if got := r.worstWorkloads(); !slices.Equal(got, []string{"a", "c", "d"}) {
		t.Errorf("the worst are %v", got)
	}
	var text strings.Builder
	r.printShares(&text)
	if !strings.Contains(text.String(), "a workload") || !strings.Contains(text.String(), "TLS 15.5;") {
		t.Errorf("%s", &text)
	}
}
