package temporal

import (
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// outage is how long the cluster is away.
const outage = time.Minute

// While the cluster is away Temporal is told 53300, and its log grows; afterwards the
// workflows that ran, and those that were started meanwhile, come to their ends.
func TestOutage(t *testing.T) {
	if !*limits {
		return
	}
	d := deploy(t, setup{plugin: pgx5})
	d.client.patient = true
	executed := d.work(t)
	var back time.Time
	moves := 0
	total := d.runWhile(t, executed, 24, func() {
		time.Sleep(10 * time.Second)
		moves = d.moves(t)
		c := d.simConfig
		c.Port, c.AdminPort = d.sim.Port, portOf(t, d.sim.AdminURL)
		if !d.sim.Stop(syscall.SIGTERM, 30*time.Second) {
			t.Error("the stand-in did not end")
		}
		logged := [2]int{len(d.server.program.Log()), len(d.sluice.Log())}
		time.Sleep(outage)
		t.Logf("in %v without the cluster the server logged %d kB, and Sluice %d kB", outage, (len(d.server.program.Log())-logged[0])>>10, (len(d.sluice.Log())-logged[1])>>10)
		d.sim = harness.StartDSQLSim(t, c)
		back = time.Now()
	})
	t.Logf("%d workflows; the last of those under way ended %v after the cluster was back; shards taken anew %d times", total, time.Since(back).Round(time.Second), d.moves(t)-moves)
	executed.verify(t)
	allowed := append([]string{"57014"}, toldInChaos...) // Temporal cancels what takes it too long
	for _, state := range allowed {
		t.Logf("Temporal was told %s %d times", state, len(d.tap.with(state)))
	}
	d.verifyErrors(t, allowed...)
	if !d.server.program.Stop(syscall.SIGTERM, time.Minute) { // it takes its time behind an outage
		t.Error("the server did not end")
	}
	if len(d.tap.with("53300")) == 0 {
		t.Error("Temporal was not told 53300")
	}
}
