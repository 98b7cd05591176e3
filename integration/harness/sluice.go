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

// stopGrace is how long a program may take to end at the end of its test. Tests of the drain have their own limits.
const stopGrace = 10 * time.Second

// SluiceConfig says how to run sluice.
type SluiceConfig struct {
	Bin Bin
	Dir string // for its log; must exist

	// Port and AdminPort are free ports if they are 0.
	Port, AdminPort int
	// Env names the backend (DSQLSim.Env, PostgresEnv) and other settings of a test, as DSQL_* variables. It has
	// precedence over the variables of the harness.
	Env Env
	// Args are the arguments after `serve`.
	Args []string
}

// Sluice is a running sluice process. It has reported at least once that it was ready.
type Sluice struct {
	*Program
	Host     string
	Port     int
	AdminURL string // http://127.0.0.1:port, without a path
}

// CheckReady returns nil if /readyz answers 200, otherwise an error with the answer.
func (s *Sluice) CheckReady(ctx context.Context) error {
	_, err := adminRequest(ctx, http.MethodGet, s.AdminURL+"/readyz", "")
	return err
}

// LaunchSluice starts sluice and waits until /readyz answers 200. The caller ends it with Stop.
func LaunchSluice(ctx context.Context, c SluiceConfig) (*Sluice, error) {
	var s *Sluice
	err := startOnFreePorts(2, func(free []int) (err error) {
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
		"DSQL_LISTEN_ADDRESS": loopbackAddress(c.Port),
		"DSQL_ADMIN_ADDRESS":  loopbackAddress(c.AdminPort),
		// The drain timeout is shorter than stopGrace, so that a client which a test has left open is not mistaken for a
		// hang.
		"DSQL_DRAIN_TIMEOUT": "5s",
		// The initial fill is not awaited, since most tests need only the first backend.
		"DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "0s",
	}.With(c.Env)
	program, err := launchProgram(c.Bin.path("sluice"), c.Dir, env, append([]string{"serve"}, c.Args...)...)
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

// DSN returns a URL for a client without TLS. User and database are Sluice's defaults.
func (s *Sluice) DSN(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("admin"), Host: loopbackAddress(s.Port), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Metrics returns the text that Prometheus would scrape.
func (s *Sluice) Metrics(ctx context.Context) (string, error) {
	return adminRequest(ctx, http.MethodGet, s.AdminURL+"/metrics", "")
}

// PostgresEnv returns the variables that make the server pg the backend, with backend.kind postgres. TLS is verified
// if the server has TLS.
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
