package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// event is what the stand-in's ledger tells of a connection.
type event struct {
	Session uint64    `json:"session"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Outcome string    `json:"outcome"`
}

func ledger(t *testing.T, sim *harness.DSQLSim, kind string) []event {
	t.Helper()
	var all, found []event
	if err := json.Unmarshal([]byte(sim.Admin(t, http.MethodGet, "/ledger", "")), &all); err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// clients run short transactions until they are stopped, and count what is not
// as it should be.
type clients struct {
	stop    context.CancelFunc
	done    sync.WaitGroup
	queries atomic.Int64
	errors  atomic.Int64
	ended   atomic.Int64 // sockets that the daemon closed
	lost    atomic.Int64 // of errors, those that tell of a lost backend
	lastAt  atomic.Int64 // in Unix nanoseconds, of the last error
	last    atomic.Pointer[error]
}

func startClients(t *testing.T, s *harness.Sluice, n int) *clients {
	ctx, cancel := context.WithCancel(t.Context())
	c := &clients{stop: cancel}
	for range n {
		conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		c.done.Go(func() {
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				_, err := conn.Exec(context.Background(), "SELECT 1")
				switch {
				case err == nil:
					c.queries.Add(1)
				case conn.IsClosed():
					c.ended.Add(1)
					c.last.Store(&err)
					return
				default:
					if refusal, ok := errors.AsType[*pgconn.PgError](err); ok && refusal.Code == "08006" {
						c.lost.Add(1)
					}
					c.errors.Add(1)
					c.lastAt.Store(time.Now().UnixNano())
					c.last.Store(&err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *clients) end() {
	c.stop()
	c.done.Wait()
}

func scrape(t *testing.T, s *harness.Sluice) string {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ready is how many backends can be lent or are.
func ready(t *testing.T, s *harness.Sluice) int {
	text := scrape(t, s)
	return int(metric(t, text, "dsql_reservoir_size") + metric(t, text, "dsql_reservoir_in_use"))
}

// A cold start fills as fast as the cluster's rate lets it and never meets its
// refusal. The crowd, dialled together, ages out under load: at least four
// fifths stay ready and nobody waits. Then all backends are cut at once: the
// clients keep their sockets, and the shelf refills at the same rate.
func TestColdStartAgingAndMassDrop(t *testing.T) {
	const (
		target = 50
		rate   = 20 // per second, of the cluster and of the daemon
		burst  = 10
	)
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pgtest.Shared(t),
		Args: []string{"--rate", strconv.Itoa(rate), "--burst", strconv.Itoa(burst + 2)}})
	env := sim.Env().With(harness.Env{
		"DSQL_RESERVOIR_MAX_OPEN":             strconv.Itoa(target),
		"DSQL_RESERVOIR_BASE_LIFETIME":        "26s", // what replacing 50 at this rate needs
		"DSQL_RESERVOIR_LIFETIME_JITTER":      "0s",
		"DSQL_RESERVOIR_GUARD_WINDOW":         "1s",
		"DSQL_CONNECTION_RATE_LIMIT":          strconv.Itoa(rate),
		"DSQL_CONNECTION_BURST_LIMIT":         strconv.Itoa(burst),
		"DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "30s",
	})
	s := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: env}) // ready: all are there
	dials := ledger(t, sim, "connect")
	if len(dials) < target {
		t.Fatalf("ready with %d of %d", len(dials), target)
	}
	const ideal = time.Second * (target - burst) / rate
	took := dials[target-1].Time.Sub(dials[0].Time)
	t.Logf("cold start: %d in %v, ideal %v, ratio %.2f", target, took.Round(time.Millisecond), ideal, ideal.Seconds()/took.Seconds())
	if ideal.Seconds()/took.Seconds() < 0.9 {
		t.Errorf("%d took %v, the rate allows %v", target, took, ideal)
	}

	load := startClients(t, s, 8)
	least := target
	for began := time.Now(); time.Since(began) < 26*time.Second; time.Sleep(100 * time.Millisecond) {
		least = min(least, ready(t, s))
	}
	replaced := len(ledger(t, sim, "connect")) - target
	empty := metric(t, scrape(t, s), "dsql_reservoir_empty_total")
	t.Logf("aging: %d replaced, at least %d of %d ready, %v waits, %d queries", replaced, least, target, empty, load.queries.Load())
	if replaced < target || least < target*4/5 || empty != 0 {
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
	before := len(ledger(t, sim, "connect"))
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
	}
	cutting := time.Since(cut)
	eventually(t, "the shelf is full again", 30*time.Second, func() bool {
		text := sim.Admin(t, http.MethodGet, "/metrics", "")
		return len(ledger(t, sim, "connect"))-before >= target && metric(t, text, "dsqlsim_connections") >= target-2
	})
	refilled := time.Since(cut)
	load.end()
	t.Logf("mass drop: %d cut, refilled in %v, %d errors of %d queries, %d sockets lost",
		len(open), refilled.Round(time.Millisecond), load.errors.Load(), load.queries.Load(), load.ended.Load())
	if load.ended.Load() != 0 {
		t.Errorf("clients lost their sockets: %v", *load.last.Load())
	}
	// Whoever was in the middle of a statement when its backend was cut is told,
	// and nobody is afterwards.
	after := time.Unix(0, load.lastAt.Load()).Sub(cut)
	if n := load.errors.Load(); n > int64(len(open)) || n != load.lost.Load() || after > cutting+time.Second {
		t.Errorf("%d errors, %d of them for a lost backend, %v after the first cut, the last: %v", n, load.lost.Load(), after, *load.last.Load())
	}
	for line := range strings.SplitSeq(sim.Admin(t, http.MethodGet, "/metrics", ""), "\n") {
		if strings.HasPrefix(line, "dsqlsim_refused_connections_total") && !strings.HasSuffix(line, " 0") {
			t.Errorf("the cluster had to refuse: %s", line)
		}
	}
}
