package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// These constants are an invented endpoint and an invented key. They have the form of real ones, and are valid
// nowhere.
const (
	region    = "us-east-1"
	endpoint  = "standinstandinstandinstand.dsql." + region + ".on.aws"
	accessKey = "made-up-access-key"
	secretKey = "made-up-secret-key"
)

// DSQLSimConfig says how to run dsqlsim, the simulated DSQL cluster.
type DSQLSimConfig struct {
	Bin      Bin
	Dir      string // for its log and certificates; must exist
	Upstream *pgtest.Server

	// Port and AdminPort are free ports if they are 0.
	Port, AdminPort int
	// Args are further flags of dsqlsim, for faults or limits.
	Args []string
}

// DSQLSim is a running dsqlsim, a simulated DSQL cluster. It has reported at least once that it was ready.
type DSQLSim struct {
	*Program
	Endpoint string
	Host     string
	Port     int
	CAFile   string
	AdminURL string
}

// LaunchDSQLSim starts dsqlsim, the simulated DSQL cluster, and waits until it is ready. The caller ends it with Stop.
func LaunchDSQLSim(ctx context.Context, c DSQLSimConfig) (*DSQLSim, error) {
	var s *DSQLSim
	err := startOnFreePorts(2, func(free []int) (err error) {
		at := c
		if at.Port == 0 {
			at.Port = free[0]
		}
		if at.AdminPort == 0 {
			at.AdminPort = free[1]
		}
		s, err = launchDSQLSim(ctx, at)
		return err
	})
	return s, err
}

func launchDSQLSim(ctx context.Context, c DSQLSimConfig) (*DSQLSim, error) {
	certDir := filepath.Join(c.Dir, "dsqlsim-tls")
	upstream := fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", c.Upstream.Host, c.Upstream.Port, c.Upstream.User)
	args := append([]string{
		"--listen", loopbackAddress(c.Port),
		"--admin", loopbackAddress(c.AdminPort),
		"--upstream", upstream,
		"--endpoint", endpoint,
		"--access-key", accessKey,
		"--secret-key", secretKey,
		"--cert-dir", certDir,
	}, c.Args...)
	program, err := launchProgram(c.Bin.path("dsqlsim"), c.Dir, nil, args...)
	if err != nil {
		return nil, err
	}
	s := &DSQLSim{
		Program: program, Endpoint: endpoint, Host: loopback, Port: c.Port,
		CAFile: filepath.Join(certDir, "ca.pem"), AdminURL: "http://" + loopbackAddress(c.AdminPort),
	}
	if err := s.waitReady(ctx, s.AdminURL+"/livez"); err != nil {
		s.Stop(syscall.SIGKILL, stopGrace)
		return nil, err
	}
	return s, nil
}

// Ask sends a request to dsqlsim's admin interface (faults, the ledger) and returns the answer. Any status but 2xx
// is an error.
func (s *DSQLSim) Ask(ctx context.Context, method, path, body string) (string, error) {
	return adminRequest(ctx, method, s.AdminURL+path, body)
}

// Env returns the variables that make dsqlsim the backend of a Sluice. Sluice finds dsqlsim like a real cluster,
// except for the dialled address.
func (s *DSQLSim) Env() Env {
	return Env{
		"DSQL_BACKEND_ENDPOINT": s.Endpoint,
		"DSQL_BACKEND_ADDRESS":  s.Host,
		"DSQL_BACKEND_PORT":     strconv.Itoa(s.Port),
		"DSQL_BACKEND_CA_FILE":  s.CAFile,
		"AWS_REGION":            region,
		"AWS_ACCESS_KEY_ID":     accessKey,
		"AWS_SECRET_ACCESS_KEY": secretKey,
	}
}
