package lifecycle

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// Connections of clients, more than Sluice may have file descriptors, leave those that backends
// and the admin address need: who is in is served, and the health checks answer.
func TestScarceDescriptors(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	dir := t.TempDir() // a program of the same name that lowers the limit first
	script := fmt.Sprintf("#!/bin/sh\nulimit -n 260\nexec %s/sluice \"$@\"\n", harness.Binaries(t))
	if err := os.WriteFile(filepath.Join(dir, "sluice"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := harness.StartSluice(t, harness.SluiceConfig{Bin: harness.Bin(dir), Env: harness.PostgresEnv(pg).With(
		harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10", "DSQL_RESERVOIR_TARGET_READY": "1"})})
	if log := s.Tail(); !strings.Contains(log, "listen.max_clients follows the limit") || !strings.Contains(log, "max_clients=54") {
		t.Errorf("the log has\n%s", log)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(ctx)
	for range 400 { // that say nothing, so that each is in its startup
		conn, err := net.Dial("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	// Other backends than the one that was dialled at start are needed.
	for i := range 5 {
		var n int
		if err := in.QueryRow(ctx, "SELECT count(*) FROM pg_class").Scan(&n); err != nil || n == 0 {
			t.Errorf("query %d: %v", i, err)
		}
		reply, err := http.Get(s.AdminURL + "/livez")
		if err != nil {
			t.Errorf("livez: %v", err)
			continue
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Errorf("livez: %s", reply.Status)
		}
		http.DefaultClient.CloseIdleConnections()
	}
	if strings.Contains(s.Tail(), "too many open files") {
		t.Errorf("the log has\n%s", s.Tail())
	}
}
