package temporal

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

var chaos = flag.Int("chaos", 0, "how many workflows run at least while everything behind the server is disturbed; 0: that is not tried")

// conflicts fail this part of the commits; of one in a hundred the answer is lost.
func conflicts(probability float64) string {
	return fmt.Sprintf(`[
	{"at": "commit", "action": "fail", "error": "conflict", "probability": %v, "seed": 1},
	{"at": "statement", "verb": "INSERT", "contains": "INTO history_node", "action": "fail", "error": "conflict", "probability": %v, "seed": 2},
	{"at": "committing", "action": "cut", "probability": 0.005, "seed": 3},
	{"at": "committed", "action": "cut", "probability": 0.005, "seed": 4}
]`, probability, probability)
}

// disturbances come one after the other, each for as long as -settle says, while a
// backend is killed each second.
var disturbances = []struct {
	name string
	make func(d *deployment, t *testing.T)
}{
	{"5 % of the commits conflict", func(d *deployment, t *testing.T) { d.plan(t, conflicts(0.05)) }},
	{"20 % of the commits conflict", func(d *deployment, t *testing.T) { d.plan(t, conflicts(0.2)) }},
	{"the stand-in starts anew", (*deployment).restartSim},
	{"5 % of the commits conflict", func(d *deployment, t *testing.T) { d.plan(t, conflicts(0.05)) }},
	{"Sluice ends by SIGTERM and starts anew", func(d *deployment, t *testing.T) { d.restartSluice(t, syscall.SIGTERM, nil) }},
	{"Sluice ends by SIGKILL and starts anew", func(d *deployment, t *testing.T) { d.restartSluice(t, syscall.SIGKILL, nil) }},
	{"20 % of the commits conflict", func(d *deployment, t *testing.T) { d.plan(t, conflicts(0.2)) }},
	{"Sluice ends by SIGTERM and starts anew", func(d *deployment, t *testing.T) { d.restartSluice(t, syscall.SIGTERM, nil) }},
}

var settle = flag.Duration("settle", 15*time.Second, "how long each disturbance lasts")

// toldInChaos is what may reach Temporal while its database and Sluice fail: 57014 where
// it has sent a cancel, as its patience was at an end.
var toldInChaos = []string{"40001", "08006", "08007", "57P01", "53300", "57014"}

// TestChaos disturbs everything behind the server while workflows run. Temporal has to
// find out the outcome of what it was not told, and each workflow must come to its
// result and close once.
func TestChaos(t *testing.T) {
	if *chaos == 0 {
		return
	}
	for _, plugin := range []string{pgx5, libpq} {
		t.Run(plugin, func(t *testing.T) { disturbed(t, plugin) })
	}
}

func disturbed(t *testing.T, plugin string) {
	d := deploy(t, setup{
		plugin: plugin, faults: conflicts(0.05), fenced: true,
		// The rate at which connections are taken is what Sluice dials at, and few are saved up.
		standIn: []string{"--rate", "10", "--burst", "40"},
		env:     harness.Env{"DSQL_CONNECTION_RATE_LIMIT": "10", "DSQL_CONNECTION_BURST_LIMIT": "40"},
	})
	d.client.patient = true
	executed := d.work(t)
	before := d.rangeIDs(t)
	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	killed := d.killBackends(ctx)
	began := time.Now()
	ran := d.runWhile(t, executed, *chaos, func() {
		for _, disturbance := range disturbances {
			t.Logf("%v: %s", time.Since(began).Round(time.Second), disturbance.name)
			disturbance.make(d, t)
			time.Sleep(*settle)
		}
	})
	calm()
	took := time.Since(began)
	executed.verify(t)
	d.verifyVisibility(t, ran, shortForm)
	t.Logf("%d workflows in %v; callers asked again %d times; %d backends were killed", ran, took.Round(time.Second), d.client.again.Load(), killed.Load())
	d.verifyRangeIDs(t, before)
	d.verifyFence(t)
	d.reportTold(t)
	report(t, d)
	d.verifyErrors(t, append(toldInChaos, "23505")...)
	// Matching writes a task again whose outcome it does not know: it may be there.
	for _, odd := range d.tap.unexplained() {
		t.Errorf("no answer to an INSERT of that row was lost before: %v", odd)
	}
	if told, sent := len(d.tap.with("57014")), d.tap.cancelled(); told > sent {
		t.Errorf("Temporal was told 57014 %d times, and had sent %d cancels", told, sent)
	}
}

// shortForm has no long history: each attempt that is lost there costs it one more wait.
const shortForm = 0

// runWhile runs workflows for as long as disturb takes, and at least as many, and returns
// how many there were.
func (d *deployment) runWhile(t *testing.T, executed *executions, least int, disturb func()) int {
	var enough atomic.Bool
	var ran atomic.Int64
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		d.runMix(t, executed, "", func(n int) (*kind, bool) {
			if n >= least && enough.Load() {
				return nil, false
			}
			ran.Add(1)
			return mix(n, shortForm), true
		})
	}()
	disturb()
	enough.Store(true)
	<-finished
	return int(ran.Load())
}
