package fleet

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/dynalite"
	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// dynamo is one dynalite for all tests, started by the first that needs it. Each
// test has a table of its own.
var dynamo = sync.OnceValues(dynalite.Launch)

var dynamoUsed atomic.Bool

func TestMain(m *testing.M) {
	// They mostly wait, for lifetimes and leases to end: all at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := pgtest.Main(m)
	if dynamoUsed.Load() {
		if s, err := dynamo(); err == nil {
			s.Stop()
		}
	}
	os.Exit(code)
}

func dynamoURL(t *testing.T) string {
	t.Helper()
	dynamoUsed.Store(true)
	s, err := dynamo()
	if err != nil {
		t.Fatal(err)
	}
	return s.URL
}

// gateway is a way to DynamoDB that can be cut: then no request arrives, and none
// is answered. Or AWS refuses each with a code.
type gateway struct {
	url     string
	away    atomic.Bool
	refusal atomic.Value // a string, "" for none
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	target, err := url.Parse(dynamoURL(t))
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{}
	forward := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.away.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server watch its caller
			<-r.Context().Done()               // who loses patience
			return
		}
		if code, _ := g.refusal.Load().(string); code != "" {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			text := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"User: arn:aws:sts::123456789012:assumed-role/x is refused"}`, code)
			w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 10))
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, text)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	g.url = front.URL
	return g
}

// world is a cluster that takes any number of connections, a lease table that
// allows fewer, and what daemons on both are started with.
type world struct {
	bin harness.Bin
	sim *harness.DSQLSim
	env harness.Env
}

// The times of a lease, as short as lifetimes that are worth the name allow.
const (
	reapAfter        = time.Minute
	heartbeat        = 2 * time.Second
	guard            = 5 * time.Second
	transactionLimit = 8 * time.Second
)

// newWorld makes a table of so many slots, in which each daemon wants so many.
func newWorld(t *testing.T, limit, each int) *world {
	t.Helper()
	bin := harness.Binaries(t)
	w := &world{bin: bin, sim: harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pgtest.Shared(t)})}
	w.env = w.sim.Env().With(harness.Env{
		"AWS_ENDPOINT_URL_DYNAMODB":             dynamoURL(t),
		"DSQL_RESERVOIR_MAX_OPEN":               strconv.Itoa(each),
		"DSQL_RESERVOIR_BASE_LIFETIME":          "40s",
		"DSQL_RESERVOIR_LIFETIME_JITTER":        "2s",
		"DSQL_RESERVOIR_GUARD_WINDOW":           "1s",
		"DSQL_DISTRIBUTED_CONN_LEASE_ENABLED":   "true",
		"DSQL_DISTRIBUTED_RATE_LIMITER_ENABLED": "true",
		"DSQL_DISTRIBUTED_CONN_LEASE_TABLE":     strings.ReplaceAll(t.Name(), "/", "."),
		"DSQL_DISTRIBUTED_CONN_LIMIT":           strconv.Itoa(limit),
		"DSQL_DISTRIBUTED_CONN_MARGIN":          "0",
		"DSQL_DISTRIBUTED_CONN_SHARDS":          "1",
		"DSQL_DISTRIBUTED_HEARTBEAT":            heartbeat.String(),
		"DSQL_DISTRIBUTED_REAP_AFTER":           reapAfter.String(),
		"DSQL_DISTRIBUTED_GUARD":                guard.String(),
		"DSQL_DISTRIBUTED_TRANSACTION_LIMIT":    transactionLimit.String(),
	})
	w.lease(t, "init")
	return w
}

// start runs a daemon, with other settings than the world's if any are given.
func (w *world) start(t *testing.T, other harness.Env) *harness.Sluice {
	t.Helper()
	return harness.StartSluice(t, harness.SluiceConfig{Bin: w.bin, Env: w.env.With(other)})
}

// lease runs sluice lease with one of its commands.
func (w *world) lease(t *testing.T, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(string(w.bin), "sluice"), "lease", command)
	cmd.Env = append(os.Environ(), "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
	for name, value := range w.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sluice lease %s: %v\n%s", command, err, out)
	}
	return string(out)
}

// open is how many connections the cluster counts.
func (w *world) open(t *testing.T) int { return w.count(t, "dsqlsim_connections") }

// closed is how many connections of the cluster have ended.
func (w *world) closed(t *testing.T) int { return w.count(t, "dsqlsim_connections_total") - w.open(t) }

func (w *world) count(t *testing.T, name string) int {
	t.Helper()
	return int(metric(t, w.sim.Admin(t, http.MethodGet, "/metrics", ""), name))
}

// keptTo fails the test if the cluster ever counted more connections than the
// table allows, or refused one.
func (w *world) keptTo(t *testing.T, limit int) {
	t.Helper()
	if most := w.count(t, "dsqlsim_connections_most"); most != limit {
		t.Errorf("the cluster counted %d connections at once, at most; the limit, which was used, is %d", most, limit)
	}
	refusedNobody(t, w.sim)
}

func refusedNobody(t *testing.T, sim *harness.DSQLSim) {
	t.Helper()
	for line := range strings.SplitSeq(sim.Admin(t, http.MethodGet, "/metrics", ""), "\n") {
		if strings.HasPrefix(line, "dsqlsim_refused_connections_total") && !strings.HasSuffix(line, " 0") {
			t.Errorf("the cluster had to refuse: %s", line)
		}
	}
}

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

func scrape(t *testing.T, s *harness.Sluice) string {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// held is how many slots a daemon has.
func held(t *testing.T, s *harness.Sluice) int {
	t.Helper()
	return int(metric(t, scrape(t, s), "dsql_lease_held_slots"))
}

// ready is how many backends can be lent or are.
func ready(t *testing.T, s *harness.Sluice) int {
	t.Helper()
	text := scrape(t, s)
	return int(metric(t, text, "dsql_reservoir_size") + metric(t, text, "dsql_reservoir_in_use"))
}

// leaseAge is the time since a daemon's lease was renewed.
func leaseAge(t *testing.T, s *harness.Sluice) time.Duration {
	t.Helper()
	return time.Duration(metric(t, scrape(t, s), "dsql_lease_age_seconds") * float64(time.Second))
}

func inPhase(t *testing.T, s *harness.Sluice, phase string) bool {
	t.Helper()
	return metric(t, scrape(t, s), `dsql_lease_phase{phase="`+phase+`"}`) == 1
}

// metric is the value of a metric, or of one series of it, in a text that has it.
func metric(t *testing.T, text, name string) float64 {
	t.Helper()
	n, found := harness.SumMetric(t, text, name, "")
	if !found {
		t.Fatalf("no %s in:\n%s", name, text)
	}
	return n
}

// query runs one statement as a client of s.
func query(t *testing.T, s *harness.Sluice) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var one int
	if err := conn.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Fatalf("got %d, %v", one, err)
	}
}

func eventually(t *testing.T, what string, within time.Duration, true func() bool) {
	t.Helper()
	for began := time.Now(); !true(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
