package harness

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// stopGrace is how long a program may take to end when its test does. Tests of
// the drain itself signal and wait on their own.
const stopGrace = 10 * time.Second

// SluiceConfig says how to run the daemon.
type SluiceConfig struct {
	Bin Bin
	Dir string // for its log; must exist

	// Port and AdminPort are chosen when 0.
	Port, AdminPort int
	// Env names the backend (DSQLSim.Env, PostgresEnv) and whatever else a test
	// sets, as DSQL_* variables. It wins over what the harness sets.
	Env Env
	// Args follow `serve`.
	Args []string
}

// Sluice is a running daemon that was ready once.
type Sluice struct {
	*Program
	Host     string
	Port     int
	AdminURL string // http://127.0.0.1:port, without a path
}

// Ready is nil when /readyz says yes, else what it says.
func (s *Sluice) Ready(ctx context.Context) error {
	_, err := ask(ctx, http.MethodGet, s.AdminURL+"/readyz", "")
	return err
}

// LaunchSluice starts the daemon and waits until /readyz says yes. The caller
// ends it with Stop.
func LaunchSluice(ctx context.Context, c SluiceConfig) (*Sluice, error) {
	var s *Sluice
	err := onFreePorts(2, func(free []int) (err error) {
		at := c
		if at.Port == 0 {
			at.Port = free[0]
		}
		if at.AdminPort == 0 {
			at.AdminPort = free[1]
		}
		s, err = launchSluice(ctx, at)
		return err
	})
	return s, err
}

func launchSluice(ctx context.Context, c SluiceConfig) (*Sluice, error) {
	env := Env{
		"DSQL_LISTEN_ADDRESS": address(c.Port),
		"DSQL_ADMIN_ADDRESS":  address(c.AdminPort),
		// Shorter than stopGrace: a client that a test forgot must not look like a hang.
		"DSQL_DRAIN_TIMEOUT": "5s",
		// The first backend is enough for most tests.
		"DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "0s",
	}.With(c.Env)
	program, err := launch(c.Bin.path("sluice"), c.Dir, env, append([]string{"serve"}, c.Args...)...)
	if err != nil {
		return nil, err
	}
	s := &Sluice{Program: program, Host: loopback, Port: c.Port, AdminURL: "http://" + env["DSQL_ADMIN_ADDRESS"]}
	if err := s.waitReady(ctx, s.AdminURL+"/readyz"); err != nil {
		s.Stop(syscall.SIGKILL, stopGrace)
		return nil, err
	}
	return s, nil
}

// DSN is a URL for a client without TLS; user and database as Sluice's defaults
// have them.
func (s *Sluice) DSN(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("admin"), Host: address(s.Port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Metrics is the text that Prometheus would scrape.
func (s *Sluice) Metrics(ctx context.Context) (string, error) {
	return ask(ctx, http.MethodGet, s.AdminURL+"/metrics", "")
}

// PostgresEnv makes pg itself the backend: kind postgres, TLS verified where
// the server has it.
func PostgresEnv(pg *pgtest.Server) Env {
	env := Env{
		"DSQL_BACKEND_KIND":     "postgres",
		"DSQL_BACKEND_ENDPOINT": pg.Host,
		"DSQL_BACKEND_PORT":     strconv.Itoa(pg.Port),
		"DSQL_BACKEND_USER":     pg.User,
		"DSQL_BACKEND_SSLMODE":  "disable",
	}
	if pg.Password != "" {
		env["DSQL_BACKEND_PASSWORD"] = pg.Password
	}
	if pg.CAFile != "" {
		env["DSQL_BACKEND_SSLMODE"] = "verify-full"
		env["DSQL_BACKEND_CA_FILE"] = pg.CAFile
	}
	return env
}
