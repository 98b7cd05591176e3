package temporal

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var pauses = flag.Int("pauses", 0, "in how many rounds the pauses before a replay are compared; 0: they are not")

// What is compared: retry.base_delay, and the part of the commits that conflict.
var (
	delays = []string{"100ms", "50ms", "20ms", "10ms", "5ms"}
	rates  = []float64{0, 0.05, 0.2}
)

// batch workflows make one sample, each of one activity.
const batch = 40

// TestPause measures, side by side, what the pause before a replay costs a server whose
// shards make one write after the other.
func TestPause(t *testing.T) {
	if *pauses == 0 {
		return
	}
	d := deploy(t, setup{plugin: pgx5})
	d.client.patient = true // for Sluice is started anew
	executed := d.work(t)
	samples := map[string][]float64{}
	for round := range *pauses {
		for _, delay := range delays {
			d.restartSluice(t, syscall.SIGTERM, harness.Env{"DSQL_RETRY_BASE_DELAY": delay, "DSQL_RETRY_FIRST_DELAY": delay})
			for _, rate := range rates {
				d.sim.Admin(t, http.MethodDelete, "/faults", "")
				d.batch(t, executed, fmt.Sprintf("warm-%d-%s-%v", round, delay, rate), batch/4) // connections and statements
				if rate > 0 {
					d.plan(t, conflictsOnly(rate, round))
				}
				took := d.batch(t, executed, fmt.Sprintf("pause-%d-%s-%v", round, delay, rate), batch)
				cell := fmt.Sprint(delay, rate)
				samples[cell] = append(samples[cell], batch/took.Seconds())
			}
		}
	}
	executed.verify(t)
	var rows strings.Builder
	rows.WriteString("\n| `retry.base_delay` | no conflicts | 5 % of the commits | 20 % |\n|---|---|---|---|\n")
	for _, delay := range delays {
		fmt.Fprintf(&rows, "| %s |", delay)
		for _, rate := range rates {
			s := samples[fmt.Sprint(delay, rate)]
			slices.Sort(s)
			fmt.Fprintf(&rows, " %.1f (%.1f–%.1f) |", s[len(s)/2], s[0], s[len(s)-1])
		}
		rows.WriteByte('\n')
	}
	t.Logf("workflows a second, medians of %d rounds of %d, lowest and highest:%s", *pauses, batch, rows.String())
	d.reportTold(t)
	report(t, d)
}

func conflictsOnly(rate float64, seed int) string {
	return fmt.Sprintf(`[
	{"at": "commit", "action": "fail", "error": "conflict", "probability": %v, "seed": %d},
	{"at": "statement", "verb": "INSERT", "contains": "INTO history_node", "action": "fail", "error": "conflict", "probability": %v, "seed": %d}
]`, rate, 2*seed+1, rate, 2*seed+2)
}

// batch runs as many workflows of the first kind, under IDs of their own, and returns
// how long that took.
func (d *deployment) batch(t *testing.T, executed *executions, name string, workflows int) time.Duration {
	began := time.Now()
	d.runMix(t, executed, name+"-", func(n int) (*kind, bool) { return &kinds[0], n < workflows })
	return time.Since(began)
}
