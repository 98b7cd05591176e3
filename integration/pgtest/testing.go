package pgtest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// Start runs a server for the length of one test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Launch(opts...)
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return s
}

// shared is the test binary's one server, started by whoever first asks.
var shared struct {
	mu     sync.Mutex
	opts   []Option
	active bool // Main runs and will stop it
	server *Server
	err    error
}

// Main is the body of a TestMain: it runs the tests, then stops the server that
// Shared may have started with these options, and returns the exit code.
func Main(m *testing.M, opts ...Option) int {
	shared.mu.Lock()
	shared.opts, shared.active = opts, true
	shared.mu.Unlock()

	code := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.active = false
	if shared.server == nil {
		return code
	}
	if err := shared.server.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "stop PostgreSQL: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Shared returns the test binary's one server, starting it on first use. Tests
// that share it keep to databases or schemas of their own (see NewDatabase).
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.active {
		tb.Fatal("pgtest.Shared needs a TestMain that calls pgtest.Main")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Launch(shared.opts...)
	}
	if shared.err != nil {
		tb.Fatalf("start PostgreSQL: %v", shared.err)
	}
	return shared.server
}

// SQL runs statements with psql as the superuser over the Unix socket and
// returns their rows, unaligned, without the trailing line end.
func (s *Server) SQL(tb testing.TB, database, sql string) string {
	tb.Helper()
	cmd := s.Program("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database)
	cmd.Stdin = strings.NewReader(sql)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("psql: %v\n%s", err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// NewDatabase creates an empty database for one test, dropped at its end with
// whatever is still connected to it.
func (s *Server) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := s.SQL(tb, "postgres", "SELECT 'test_' || replace(gen_random_uuid()::text, '-', '')")
	s.SQL(tb, "postgres", "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.SQL(tb, "postgres", "DROP DATABASE "+name+" WITH (FORCE)") })
	return name
}
