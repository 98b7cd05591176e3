package fleet

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// A burst of connections and a rate per second.
type pace struct{ rate, burst int }

// crowded starts a daemon of so many backends in front of a cluster. It is ready
// when all are there, dialled together.
func crowded(t *testing.T, crowd int, daemon, cluster pace) (*harness.Sluice, *harness.DSQLSim) {
	t.Helper()
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pgtest.Shared(t),
		Args: []string{"--rate", strconv.Itoa(cluster.rate), "--burst", strconv.Itoa(cluster.burst)}})
	return harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{
		"DSQL_RESERVOIR_MAX_OPEN":             strconv.Itoa(crowd),
		"DSQL_RESERVOIR_BASE_LIFETIME":        "26s", // what replacing them at the rate needs
		"DSQL_RESERVOIR_LIFETIME_JITTER":      "0s",
		"DSQL_RESERVOIR_GUARD_WINDOW":         "1s",
		"DSQL_CONNECTION_RATE_LIMIT":          strconv.Itoa(daemon.rate),
		"DSQL_CONNECTION_BURST_LIMIT":         strconv.Itoa(daemon.burst),
		"DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "30s",
	})}), sim
}

// A cold start, at the rate that a cluster takes, fills as fast as that and never
// meets its refusal. It is timed: so it runs before the tests that run together,
// and again when others had the machine for themselves.
func TestColdStart(t *testing.T) {
	const (
		crowd, rate, burst = 25, 10, 5 // a slow machine begins 20 processes of PostgreSQL's a second
		ideal              = time.Second * (crowd - burst) / rate
		tries              = 5
	)
	var ratio float64
	for try := 0; try < tries && ratio < 0.9; try++ {
		t.Run("", func(t *testing.T) { // ends what it starts
			_, sim := crowded(t, crowd, pace{rate, burst}, pace{100, 1000}) // DSQL's own
			dials := ledger(t, sim, "connect")
			if len(dials) < crowd {
				t.Fatalf("ready with %d of %d", len(dials), crowd)
			}
			took := dials[crowd-1].Time.Sub(dials[0].Time)
			ratio = ideal.Seconds() / took.Seconds()
			t.Logf("cold start: %d in %v, ideal %v, ratio %.2f", crowd, took.Round(time.Millisecond), ideal, ratio)
			refusedNobody(t, sim)
		})
	}
	if ratio < 0.9 {
		t.Errorf("%d took longer than the rate allows, %d times", crowd, tries)
	}
}

// A crowd ages out under load: at least four fifths stay ready and nobody waits.
// Then all backends are cut at once: the clients keep their sockets, and the
// shelf refills at the rate.
func TestCrowdAgesAndIsCut(t *testing.T) {
	t.Parallel()
	const crowd, rate, burst = 50, 20, 10
	// The cluster takes a second's worth more at once: connections may be late, and
	// come together.
	s, sim := crowded(t, crowd, pace{rate, burst}, pace{rate, burst + rate})
	load := startClients(t, s, 8)
	least := crowd
	for began := time.Now(); time.Since(began) < 26*time.Second; time.Sleep(100 * time.Millisecond) {
		least = min(least, ready(t, s))
	}
	replaced := len(ledger(t, sim, "connect")) - crowd
	empty := metric(t, scrape(t, s), "dsql_reservoir_empty_total")
	t.Logf("aging: %d replaced, at least %d of %d ready, %v waits, %d queries", replaced, least, crowd, empty, load.queries.Load())
	if replaced < crowd || least < crowd*4/5 || empty != 0 {
		t.Error("the crowd was not replaced as promised")
	}

	var open []uint64
	closed := map[uint64]bool{}
	for _, e := range ledger(t, sim, "close") {
		closed[e.Session] = true
	}
	for _, e := range ledger(t, sim, "connect") {
		if !closed[e.Session] {
			open = append(open, e.Session)
		}
	}
	cut := time.Now()
	before, gone := len(ledger(t, sim, "connect")), 0
	for _, id := range open {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, sim.AdminURL+"/sessions/"+strconv.FormatUint(id, 10), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusNoContent { // else it has just been retired
			gone++
		}
	}
	cutting := time.Since(cut)
	eventually(t, "the shelf is full again", 30*time.Second, func() bool {
		text := sim.Admin(t, http.MethodGet, "/metrics", "")
		return len(ledger(t, sim, "connect"))-before >= gone && metric(t, text, "dsqlsim_connections") >= crowd-2
	})
	refilled := time.Since(cut)
	load.end()
	t.Logf("mass drop: %d cut, refilled in %v, %d errors of %d queries, %d sockets lost",
		gone, refilled.Round(time.Millisecond), load.errors.Load(), load.queries.Load(), load.ended.Load())
	if load.ended.Load() != 0 {
		t.Errorf("clients lost their sockets: %v", *load.last.Load())
	}
	// Whoever was in the middle of a statement when its backend was cut is told,
	// and nobody is afterwards.
	after := time.Unix(0, load.lastAt.Load()).Sub(cut)
	if n := load.errors.Load(); n > int64(len(open)) || n != load.lost.Load() || after > cutting+time.Second {
		t.Errorf("%d errors, %d of them for a lost backend, %v after the first cut, the last: %v", n, load.lost.Load(), after, *load.last.Load())
	}
	refusedNobody(t, sim)
}
