// Package fleet tests several built daemons that share one cluster and one
// lease table.
package fleet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/dynalite"
	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	limit     = 9 // of the cluster
	each      = 6 // what one daemon wants
	reapAfter = 24 * time.Second
	heartbeat = time.Second
)

// Lifetimes are scaled down as far as validation lets them.
func settings() harness.Env {
	return harness.Env{
		"DSQL_RESERVOIR_MAX_OPEN":               strconv.Itoa(each),
		"DSQL_RESERVOIR_BASE_LIFETIME":          "20s",
		"DSQL_RESERVOIR_LIFETIME_JITTER":        "1s",
		"DSQL_RESERVOIR_GUARD_WINDOW":           "1s",
		"DSQL_DISTRIBUTED_CONN_LEASE_ENABLED":   "true",
		"DSQL_DISTRIBUTED_RATE_LIMITER_ENABLED": "true",
		"DSQL_DISTRIBUTED_CONN_LEASE_TABLE":     "fleet",
		"DSQL_DISTRIBUTED_CONN_LIMIT":           strconv.Itoa(limit),
		"DSQL_DISTRIBUTED_CONN_MARGIN":          "0",
		"DSQL_DISTRIBUTED_CONN_SHARDS":          "1",
		"DSQL_DISTRIBUTED_HEARTBEAT":            heartbeat.String(),
		"DSQL_DISTRIBUTED_REAP_AFTER":           reapAfter.String(),
		"DSQL_DISTRIBUTED_GUARD":                "3s",
		"DSQL_DISTRIBUTED_TRANSACTION_LIMIT":    "1s",
	}
}

// Three daemons want twice what the cluster takes. It is never over its limit by
// its own count, and refuses nobody; each daemon gets its part. One is killed:
// nobody uses its slots before the reap time, the others do after it. In the end
// all is given back.
func TestFleetKeepsToTheLimit(t *testing.T) {
	pg := pgtest.Shared(t)
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg,
		Args: []string{"--connections", strconv.Itoa(limit)}})
	env := sim.Env().With(settings())
	env["AWS_ENDPOINT_URL_DYNAMODB"] = dynalite.Start(t).URL
	admin(t, bin, env, "init")

	fleet := make([]*harness.Sluice, 3)
	for i := range fleet {
		fleet[i] = harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: env})
	}
	open := func() int { return int(metric(t, sim.Admin(t, http.MethodGet, "/metrics", ""), "dsqlsim_connections")) }
	eventually(t, "the limit is used and shared within 2x", 20*heartbeat, func() bool {
		least, most := limit, 0
		for _, s := range fleet {
			least, most = min(least, held(t, s)), max(most, held(t, s))
		}
		return open() == limit && most <= 2*least
	})
	for _, s := range fleet {
		query(t, s)
	}

	dead, alive := fleet[0], fleet[1:]
	lost, killed := held(t, dead), time.Now()
	dead.Signal(syscall.SIGKILL)
	<-dead.Exited()
	living := func() int { return held(t, alive[0]) + held(t, alive[1]) }
	for time.Since(killed) < reapAfter-2*heartbeat {
		if got := living(); got > limit-lost {
			t.Fatalf("%v after the kill the others hold %d of %d, the dead one had %d", time.Since(killed), got, limit, lost)
		}
		for _, s := range alive {
			query(t, s)
		}
		time.Sleep(heartbeat / 4)
	}
	eventually(t, "the dead one's slots are used", reapAfter, func() bool { return living() == limit && open() == limit })
	t.Logf("%d slots of the dead one in use %v after the kill, reap time %v", lost, time.Since(killed).Round(time.Second/10), reapAfter)

	for _, s := range alive {
		if !s.Stop(syscall.SIGTERM, 20*time.Second) || s.ExitCode() != 0 {
			t.Errorf("ended with %d\n%s", s.ExitCode(), s.Tail())
		}
	}
	if got := open(); got != 0 {
		t.Errorf("%d connections after the end", got)
	}
	if status := admin(t, bin, env, "status"); !strings.Contains(status, fmt.Sprintf("%d of %[1]d slots free", limit)) {
		t.Errorf("after the end:\n%s", status)
	}
	for _, line := range strings.Split(sim.Admin(t, http.MethodGet, "/metrics", ""), "\n") {
		if strings.HasPrefix(line, "dsqlsim_refused_connections_total") && !strings.HasSuffix(line, " 0") {
			t.Errorf("the cluster had to refuse: %s", line)
		}
	}
}

// A table with other limits ends the daemon, which says what differs.
func TestOtherLimitsInTheTableEndTheDaemon(t *testing.T) {
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pgtest.Shared(t)})
	env := sim.Env().With(settings())
	env["AWS_ENDPOINT_URL_DYNAMODB"] = dynalite.Start(t).URL
	admin(t, bin, env, "init")
	env["DSQL_DISTRIBUTED_CONN_LIMIT"] = "8"
	_, err := harness.LaunchSluice(t.Context(), harness.SluiceConfig{Bin: bin, Dir: t.TempDir(), Env: env})
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "distributed.conn_limit less distributed.conn_margin") {
		t.Errorf("got %v", err)
	}
}

// admin runs sluice lease with one of its commands.
func admin(t *testing.T, bin harness.Bin, env harness.Env, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(string(bin), "sluice"), "lease", command)
	cmd.Env = append(os.Environ(), "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sluice lease %s: %v\n%s", command, err, out)
	}
	return string(out)
}

func held(t *testing.T, s *harness.Sluice) int {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(metric(t, text, "dsql_lease_held_slots"))
}

// metric is the value of a series without labels.
func metric(t *testing.T, text, name string) float64 {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
	}
	t.Fatalf("no %s in:\n%s", name, text)
	return 0
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
	for began := time.Now(); !true(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
