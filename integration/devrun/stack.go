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

// stopGrace is the time for Sluice to drain. An idle psql ends at once, and a forgotten transaction is not worth a
// longer wait.
const stopGrace = 6 * time.Second

// drainTimeout is Sluice's drain timeout, one second shorter than stopGrace.
const drainTimeout = stopGrace - time.Second

// devStack holds the running programs, in the order of their start. A field is nil until its program runs.
type devStack struct {
	config
	out io.Writer

	postgres *pgtest.Server
	standIn  *harness.DSQLSim // nil with backend postgres
	sluice   *harness.Sluice
}

// startAll starts all programs. After an error, stopAll ends the programs that startAll has started.
func (s *devStack) startAll(ctx context.Context) (err error) {
	fmt.Fprintln(s.out, "starting PostgreSQL")
	if s.postgres, err = pgtest.Launch(pgtest.TLS()); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "loading pgbench's tables")
	if err := s.loadPgbenchTables(ctx); err != nil {
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

// loadPgbenchTables makes pgbench's tables on the PostgreSQL server directly, because DSQL refuses some statements of
// pgbench's initialization.
func (s *devStack) loadPgbenchTables(ctx context.Context) error {
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

// printInstructions prints how to use the programs.
func (s *devStack) printInstructions() {
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

// waitForEnd returns when ctx ends, or with an error when a program ends.
func (s *devStack) waitForEnd(ctx context.Context) error {
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

// stopAll ends the programs, in the reverse order of their start, and removes the directory.
func (s *devStack) stopAll() error {
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
