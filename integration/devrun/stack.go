package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/child"
	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// stopGrace is for Sluice to drain: an open psql is told at once, a transaction
// somebody forgot is not worth more.
const stopGrace = 6 * time.Second

// drainTimeout is Sluice's own, one second shorter.
const drainTimeout = stopGrace - time.Second

// stack is what runs, bottom first. Fields are nil until they run.
type stack struct {
	config
	out io.Writer

	postgres *pgtest.Server
	standIn  *harness.DSQLSim // nil with backend postgres
	sluice   *harness.Sluice
}

// up starts everything; what it has started at an error is down's to end.
func (s *stack) up(ctx context.Context) (err error) {
	fmt.Fprintln(s.out, "starting PostgreSQL")
	if s.postgres, err = pgtest.Launch(pgtest.TLS()); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "loading pgbench's tables")
	if err := s.load(ctx); err != nil {
		return err
	}
	dir := s.postgres.SocketDir
	env := harness.PostgresEnv(s.postgres)
	if s.backend == "dsql" {
		fmt.Fprintln(s.out, "starting the stand-in for Aurora DSQL")
		s.standIn, err = harness.LaunchDSQLSim(ctx, harness.DSQLSimConfig{Bin: s.bin, Dir: dir, Upstream: s.postgres})
		if err != nil {
			return err
		}
		env = s.standIn.Env()
	}
	fmt.Fprintln(s.out, "starting Sluice")
	s.sluice, err = harness.LaunchSluice(ctx, harness.SluiceConfig{
		Bin: s.bin, Dir: dir, Port: s.port, AdminPort: s.adminPort,
		Env: env.With(harness.Env{"DSQL_PAIRING": s.pairing, "DSQL_DRAIN_TIMEOUT": drainTimeout.String()}),
	})
	return err
}

// load makes pgbench's tables on the server itself: DSQL refuses some of what
// pgbench sends for it.
func (s *stack) load(ctx context.Context) error {
	cmd := s.postgres.Program("pgbench", "--initialize", "--quiet", "--scale="+strconv.Itoa(s.scale), "postgres")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	pgbench, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-pgbench.Exited():
	case <-ctx.Done():
		pgbench.Stop(syscall.SIGKILL, stopGrace)
		return ctx.Err()
	}
	if err := pgbench.Err(); err != nil {
		return fmt.Errorf("pgbench: %w\n%s", err, output.String())
	}
	return nil
}

// announce says how to use it.
func (s *stack) announce() {
	user, behind, logs := "admin", "a local stand-in for Aurora DSQL", "sluice.log dsqlsim.log server.log"
	if s.backend == "postgres" {
		user, behind, logs = s.postgres.User, "a plain PostgreSQL", "sluice.log server.log"
	}
	conninfo := fmt.Sprintf("'host=%s port=%d user=%s dbname=postgres'", s.sluice.Host, s.sluice.Port, user)
	fmt.Fprintf(s.out, `
Sluice is ready, in front of %s.

    psql %s
    pgbench -n -S -c 16 -T 10 %s

  metrics  %s/metrics
  logs     %s: %s
  stop     Ctrl-C

`, behind, conninfo, conninfo, s.sluice.AdminURL, s.postgres.SocketDir, logs)
}

// wait returns when ctx ends, or with an error when something else does.
func (s *stack) wait(ctx context.Context) error {
	var standInExited <-chan struct{} // nil, never ready, when there is none
	if s.standIn != nil {
		standInExited = s.standIn.Exited()
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.postgres.Exited():
		return errors.New("PostgreSQL has ended; its log:\n" + lastLines(s.postgres.Log()))
	case <-standInExited:
		return errors.New("the stand-in has ended; its log:\n" + s.standIn.Tail())
	case <-s.sluice.Exited():
		return errors.New("sluice has ended; its log:\n" + s.sluice.Tail())
	}
}

// down ends what runs, top first, and removes the directory.
func (s *stack) down() error {
	if s.sluice != nil {
		s.sluice.Stop(syscall.SIGTERM, stopGrace)
	}
	if s.standIn != nil {
		s.standIn.Stop(syscall.SIGTERM, stopGrace)
	}
	if s.postgres != nil {
		return s.postgres.Close()
	}
	return nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
