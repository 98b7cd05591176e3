package temporal

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// plan replaces the faults of the stand-in.
func (d *deployment) plan(t *testing.T, faults string) {
	t.Helper()
	d.sim.Admin(t, http.MethodDelete, "/faults", "")
	d.sim.Admin(t, http.MethodPost, "/faults", faults)
}

// counted are the metrics that say what was disturbed and mended.
var counted = []string{
	"dsqlsim_faults_total", `dsqlsim_errors_total{kind="conflict"`,
	"dsql_tx_retries_total", "dsql_tx_replay_refused_total", "dsql_tx_exhausted_total",
}

// tally adds up what the programs have counted, before they end.
func (d *deployment) tally(t *testing.T, text string) {
	t.Helper()
	for _, name := range counted {
		d.sums[name] += sum(series(text, name))
	}
}

// restartSluice ends it and starts another on its port, with further variables.
func (d *deployment) restartSluice(t *testing.T, signal syscall.Signal, env harness.Env) {
	t.Helper()
	text, err := d.sluice.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.tally(t, text)
	c := d.sluiceConfig
	c.Env = c.Env.With(env)
	c.Port = d.sluice.Port
	if !d.sluice.Stop(signal, 30*time.Second) {
		t.Errorf("Sluice did not end")
	}
	d.sluice = harness.StartSluice(t, c)
}

// restartSim ends the stand-in, with every backend, and starts another on its ports,
// without the faults.
func (d *deployment) restartSim(t *testing.T) {
	t.Helper()
	d.tally(t, d.sim.Admin(t, http.MethodGet, "/metrics", ""))
	c := d.simConfig
	c.Port, c.AdminPort = d.sim.Port, portOf(t, d.sim.AdminURL)
	if !d.sim.Stop(syscall.SIGTERM, 30*time.Second) {
		t.Errorf("the stand-in did not end")
	}
	d.sim = harness.StartDSQLSim(t, c)
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// killBackends cuts one connection of the stand-in each second, until ctx ends, and
// counts them.
func (d *deployment) killBackends(ctx context.Context) *atomic.Int64 {
	killed, sim := &atomic.Int64{}, *d.sim // its address stays
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		b := backends{live: map[uint64]bool{}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := b.follow(ctx, &sim); err != nil {
				b = backends{live: map[uint64]bool{}} // it starts anew
				continue
			}
			if len(b.live) == 0 {
				continue
			}
			sessions := slices.Collect(maps.Keys(b.live))
			if _, err := sim.Ask(ctx, http.MethodDelete, fmt.Sprintf("/sessions/%d", sessions[rand.IntN(len(sessions))]), ""); err == nil {
				killed.Add(1)
			}
		}
	}()
	return killed
}

// backends are the connections that the stand-in has, by its ledger.
type backends struct {
	last uint64
	live map[uint64]bool
}

func (b *backends) follow(ctx context.Context, sim *harness.DSQLSim) error {
	answer, err := sim.Ask(ctx, http.MethodGet, fmt.Sprintf("/ledger?after=%d", b.last), "")
	if err != nil {
		return err
	}
	var events []struct {
		Seq, Session uint64
		Kind         string
	}
	if err := json.Unmarshal([]byte(answer), &events); err != nil {
		return err
	}
	for _, e := range events {
		b.last = e.Seq
		if e.Kind == "close" {
			delete(b.live, e.Session)
		} else if e.Kind != "refuse" {
			b.live[e.Session] = true
		}
	}
	return nil
}

// rangeIDs are the leases of the shards, by shard.
func (d *deployment) rangeIDs(t *testing.T) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, row := range strings.Fields(d.pg.SQL(t, "postgres", "SELECT string_agg(shard_id || ':' || range_id, ' ') FROM shards")) {
		shard, id, _ := strings.Cut(row, ":")
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		ids[shard] = n
	}
	return ids
}

// verifyRangeIDs that the server took its shards anew for a reason: an error that it
// was told, or a connection that was lost or refused. Each can concern one shard, and an
// error in a transaction that has read a shard's lease concerns that one.
func (d *deployment) verifyRangeIDs(t *testing.T, before map[string]int) {
	t.Helper()
	lost, refused := d.tap.losses()
	errors := map[string]int{}
	for _, e := range d.tap.all() {
		errors[e.shard]++
	}
	anyShard, taken := errors[""]+lost+refused, 0
	for shard, id := range d.rangeIDs(t) {
		more := id - before[shard]
		t.Logf("shard %s was taken anew %d times; %d errors were told in transactions that had read its lease", shard, more, errors[shard])
		if more > errors[shard]+anyShard {
			t.Errorf("shard %s was taken anew %d times, for %d reasons", shard, more, errors[shard]+anyShard)
		}
		taken += more
	}
	t.Logf("shards were taken anew %d times; Temporal was told %d errors, lost %d connections that it used, and %d were refused", taken, len(d.tap.all()), lost, refused)
	if reasons := len(d.tap.all()) + lost + refused; taken > reasons {
		t.Errorf("shards were taken anew %d times, for %d reasons", taken, reasons)
	}
}

// reportTold prints what the tap saw, by SQLSTATE and message.
func (d *deployment) reportTold(t *testing.T) {
	t.Helper()
	times := map[string]int{}
	for _, e := range d.tap.all() {
		times[fmt.Sprintf("%s: %.160s: %.160s", e.sqlState, e.message, e.detail)]++
	}
	for _, what := range slices.Sorted(maps.Keys(times)) {
		t.Logf("Temporal was told %d times: %s", times[what], what)
	}
	for _, name := range counted {
		t.Logf("%s: %v before the programs were started anew", name, d.sums[name])
	}
}
