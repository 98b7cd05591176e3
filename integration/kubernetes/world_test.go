package kubernetes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dynalite"
	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/kubernetes/cluster"
	"github.com/sluice-proxy/sluice/integration/kubernetes/event"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

var (
	tools    = flag.String("tools", "", "directory of the cluster's programs")
	programs = flag.String("programs", "", "directory of sluice and dsqlsim")
	images   = flag.String("images", "", "directory of the images' archives")
)

// world is what all tests share.
var world struct {
	*cluster.Cluster
	pg       *pgtest.Server
	sim      *harness.DSQLSim
	ledger   *event.Collector
	aws      *aws
	endpoint string
}

// A signal ends this process at once, the first one of its namespace, and with it all
// that it has started; .ci/e2e-kubernetes puts the machine back.
func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "cluster-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	world.Cluster, err = cluster.Start(ctx, *tools, dir)
	defer func() { err = errors.Join(err, world.Cluster.Stop()) }()
	if err != nil {
		return 1, err
	}
	fmt.Printf("the cluster is ready after %v\n", time.Since(began).Round(100*time.Millisecond))
	for _, image := range []string{"pause", "ledger", "sluice", "temporal"} {
		if err := world.Load(ctx, filepath.Join(*images, image+".tar")); err != nil {
			return 1, err
		}
	}
	if world.pg, err = pgtest.Launch(pgtest.MaxConnections(400)); err != nil {
		return 1, err
	}
	defer world.pg.Close()
	if err := standIn(ctx, dir); err != nil {
		return 1, err
	}
	defer world.sim.Stop(syscall.SIGTERM, 5*time.Second)
	if world.ledger, err = event.Collect(net.JoinHostPort(cluster.Address, "0")); err != nil {
		return 1, err
	}
	defer world.ledger.Close()
	dynamodb, err := dynalite.Launch()
	if err != nil {
		return 1, err
	}
	defer dynamodb.Stop()
	if world.aws, err = startAWS(ctx, dynamodb.URL); err != nil {
		return 1, err
	}
	defer world.aws.stop()
	names, err := serveNames()
	if err != nil {
		return 1, err
	}
	defer names.Close()
	// In the order of their names: Sluice's is inject.sluice.dev.
	for name, path := range map[string]string{"pod-identity-webhook": "/pod-identity", "trust-bundle": "/trust"} {
		if _, err := world.Kubectl(ctx, world.aws.configuration(name, path), "apply", "-f", "-"); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// standIn starts dsqlsim where pods reach it.
func standIn(ctx context.Context, dir string) (err error) {
	address := net.JoinHostPort(cluster.Address, strconv.Itoa(simPort))
	world.sim, err = harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: harness.Bin(*programs), Dir: dir, Upstream: world.pg,
		Args: []string{"--listen", address, "--access-key", accessKey, "--secret-key", secretKey, "--session-token", sessionToken}})
	return err
}

const simPort = 5433

// ask runs SQL at the PostgreSQL under the stand-in, which sees what no client tells.
func ask(t *testing.T, sql string) [][]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, world.pg.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	result := conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	rows := make([][]string, 0, len(result.Rows))
	for _, row := range result.Rows {
		var texts []string
		for _, value := range row {
			texts = append(texts, string(value))
		}
		rows = append(rows, texts)
	}
	return rows
}
