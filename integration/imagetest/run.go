package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/pgtest"
	"github.com/sluice-proxy/sluice/integration/sockets"
)

const (
	endpoint = "localdevelopment0000000000.dsql.us-east-1.on.aws" // dsqlsim's own
	writers  = 16
	// thought is how long a writer's transaction stays open. working is how long the writers run before the test ends
	// Sluice, which happens in the middle of many transactions.
	thought = 50 * time.Millisecond
	working = 3 * time.Second
)

// runningImages holds the running containers, their server and their ports.
type runningImages struct {
	engine
	pg                         *pgtest.Server
	dsqlsim, sluice            string // containers
	port, admin, sim, simAdmin int
}

// checkRunning runs both images, and ends Sluice while its clients write.
func (e engine) checkRunning(ctx context.Context, tag, user string) error {
	pg, err := pgtest.Launch()
	if err != nil {
		return err
	}
	defer pg.Close()
	ports, err := sockets.FreePorts(4)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "imagetest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil { // whoever the user is
		return err
	}
	suffix := strconv.Itoa(os.Getpid())
	w := &runningImages{engine: e, pg: pg, dsqlsim: "dsqlsim-" + suffix, sluice: "sluice-" + suffix,
		port: ports[0], admin: ports[1], sim: ports[2], simAdmin: ports[3]}
	defer e.removeContainer(w.dsqlsim)
	defer e.removeContainer(w.sluice)
	if err := w.startAll(ctx, tag, user, dir); err != nil {
		return errors.Join(err, w.logsError(ctx))
	}
	if err := w.checkConfinement(ctx, user); err != nil {
		return err
	}
	if err := w.checkDrain(ctx); err != nil {
		return errors.Join(err, w.logsError(ctx))
	}
	return nil
}

// startAll starts dsqlsim and then Sluice, each after the programs that it needs are healthy.
func (w *runningImages) startAll(ctx context.Context, tag, user, dir string) error {
	mount := []string{"--volume", dir + ":/run/dsqlsim"}
	err := w.startContainer(ctx, w.dsqlsim, "localhost/dsqlsim:"+tag, user, mount,
		"--listen", localAddress(w.sim), "--admin", localAddress(w.simAdmin), "--cert-dir", "/run/dsqlsim/tls",
		"--upstream", fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", w.pg.Host, w.pg.Port, w.pg.User))
	if err != nil {
		return err
	}
	if err := w.awaitHealthy(ctx, w.dsqlsim, "/dsqlsim", "healthcheck", "--admin", localAddress(w.simAdmin)); err != nil {
		return err
	}
	options := append(mount, "--stop-timeout", "30")
	for name, value := range map[string]string{
		"DSQL_BACKEND_ENDPOINT": endpoint, "DSQL_BACKEND_ADDRESS": "127.0.0.1", "DSQL_BACKEND_PORT": strconv.Itoa(w.sim),
		"DSQL_BACKEND_CA_FILE": "/run/dsqlsim/tls/ca.pem",
		"DSQL_LISTEN_ADDRESS":  localAddress(w.port), "DSQL_ADMIN_ADDRESS": localAddress(w.admin), "DSQL_RESERVOIR_MAX_OPEN": "8",
		"AWS_ACCESS_KEY_ID": "AKIADSQLSIM", "AWS_SECRET_ACCESS_KEY": "dsqlsim",
	} {
		options = append(options, "--env", name+"="+value)
	}
	if err := w.startContainer(ctx, w.sluice, "localhost/sluice:"+tag, user, options); err != nil {
		return err
	}
	return w.awaitHealthy(ctx, w.sluice, "/sluice", "healthcheck")
}

func localAddress(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// awaitHealthy waits until a container's health check succeeds.
func (w *runningImages) awaitHealthy(ctx context.Context, container string, command ...string) error {
	var err error
	for range 60 {
		if _, err = runProgram(ctx, w.podman, append([]string{"exec", container}, command...)...); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return err
}

func (w *runningImages) logsError(ctx context.Context) error {
	out, err := runProgram(ctx, w.podman, "logs", "--tail", "20", w.sluice)
	return fmt.Errorf("%s, %v", out, err)
}

// checkConfinement checks in /proc the rights of Sluice's process.
func (w *runningImages) checkConfinement(ctx context.Context, user string) error {
	pid, err := runProgram(ctx, w.podman, "inspect", "--format", "{{.State.Pid}}", w.sluice)
	if err != nil {
		return err
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return err
	}
	uid, _, _ := strings.Cut(user, ":")
	for _, want := range []string{"Uid:\t" + uid, "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), want) {
			return fmt.Errorf("no %q in its status:\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile(filepath.Join("/proc", pid, "mounts"))
	if err != nil {
		return err
	}
	_, options, _ := strings.Cut(string(mounts), " / ")
	_, options, _ = strings.Cut(options, " ")
	if !strings.HasPrefix(options, "ro,") {
		return fmt.Errorf("its root is not read-only: %.60s", options)
	}
	fmt.Printf("sluice runs as %s, root read-only, no capability, no new privileges\n", user)
	return nil
}

// checkDrain ends Sluice while its clients write. It checks that the table has exactly the acknowledged transactions,
// and that no transaction was cut.
func (w *runningImages) checkDrain(ctx context.Context) error {
	setup, err := w.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := setup.Exec(ctx, "CREATE TABLE ledger (writer int, n int, PRIMARY KEY (writer, n))").ReadAll(); err != nil {
		return err
	}
	setup.Close(ctx)
	var acknowledged, open, openAtEnd atomic.Int64
	ends := make(chan error, writers)
	for i := range writers {
		go func() { ends <- w.runWriter(ctx, i, &acknowledged, &open) }()
	}
	time.Sleep(working)
	before := acknowledged.Load()
	openAtEnd.Store(open.Load())
	began := time.Now()
	if _, err := runProgram(ctx, w.podman, "kill", "--signal", "TERM", w.sluice); err != nil {
		return err
	}
	var errs []error
	for range writers {
		errs = append(errs, <-ends)
	}
	code, err := runProgram(ctx, w.podman, "wait", w.sluice)
	took := time.Since(began)
	if errs = append(errs, err); code != "0" {
		errs = append(errs, fmt.Errorf("it ended with %s", code))
	}
	table, err := pgconn.Connect(ctx, w.pg.DSN("postgres"))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer table.Close(ctx)
	rows := table.ExecParams(ctx, "SELECT count(*) FROM ledger", nil, nil, nil, nil).Read()
	if errs = append(errs, rows.Err); rows.Err == nil && string(rows.Rows[0][0]) != strconv.FormatInt(acknowledged.Load(), 10) {
		errs = append(errs, fmt.Errorf("%s rows, %d were acknowledged", rows.Rows[0][0], acknowledged.Load()))
	}
	if before == 0 || openAtEnd.Load() == 0 {
		errs = append(errs, fmt.Errorf("%d transactions before SIGTERM, %d open at it: nothing was tried", before, openAtEnd.Load()))
	}
	fmt.Printf("SIGTERM with %d transactions open of %d sessions: ended after %v with code %s; %d acknowledged, all there\n",
		openAtEnd.Load(), writers, took.Round(time.Millisecond), code, acknowledged.Load())
	return errors.Join(errs...)
}

func (w *runningImages) connect(ctx context.Context) (*pgconn.PgConn, error) {
	return pgconn.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=app dbname=postgres sslmode=disable", w.port))
}

// runWriter runs transactions until the server says, between two transactions, that it ends.
func (w *runningImages) runWriter(ctx context.Context, writer int, acknowledged, open *atomic.Int64) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for n := 0; ; n++ {
		if _, err := conn.Exec(ctx, "BEGIN").ReadAll(); err != nil {
			return ignoreShutdown(err)
		}
		open.Add(1)
		_, err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO ledger VALUES (%d, %d)", writer, n)).ReadAll()
		time.Sleep(thought)
		if err == nil {
			_, err = conn.Exec(ctx, "COMMIT").ReadAll()
		}
		open.Add(-1)
		if err != nil {
			return fmt.Errorf("writer %d: transaction %d was cut: %w", writer, n, err)
		}
		acknowledged.Add(1)
	}
}

// ignoreShutdown returns nil for an error that an ending server may cause between transactions: 57P01, or a closed
// connection.
func ignoreShutdown(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code != "57P01" {
		return err
	}
	return nil
}
