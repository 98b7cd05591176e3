package pgtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Start runs a server for the length of one test.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	shared.mu.Lock()
	active := shared.active
	shared.mu.Unlock()
	opts = append([]Option{keepInMemory}, opts...)
	if active {
		opts = append([]Option{useTemplate}, opts...)
	}
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

// useTemplate makes Launch copy a server's cluster from the test binary's template instead of running initdb.
func useTemplate(o *options) { o.template = &shared.template }

// keepInMemory makes Launch put the files of a test's server in memory, if there is enough room.
func keepInMemory(o *options) { o.memory = true }

// shared is the only server of the test binary, which the first call of Shared starts.
var shared struct {
	mu     sync.Mutex
	opts   []Option
	active bool // Main runs and will stop it
	server *Server
	err    error

	template clusterTemplate // of all clusters that are made while Main runs
}

// Main is the body of a TestMain: it runs the tests and returns the exit code. Before it returns, it stops the server
// that Shared may have started with these options.
func Main(m *testing.M, opts ...Option) int {
	shared.mu.Lock()
	shared.opts, shared.active = opts, true
	shared.mu.Unlock()

	code := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.active = false
	err := shared.template.remove()
	if shared.server != nil {
		err = errors.Join(err, shared.server.Close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "stop PostgreSQL: %v\n", err)
		return max(code, 1)
	}
	return code
}

// Shared returns the shared server of the test binary, and starts it on first use. Tests that share the server use
// separate databases (see NewDatabase) or schemas.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.active {
		tb.Fatal("pgtest.Shared needs a TestMain that calls pgtest.Main")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Launch(append([]Option{useTemplate, keepInMemory}, shared.opts...)...)
	}
	if shared.err != nil {
		tb.Fatalf("start PostgreSQL: %v", shared.err)
	}
	return shared.server
}

// NewDatabase creates an empty database for one test. At the end of the test it drops the database and ends the
// connections to it.
func (s *Server) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := s.SQL(tb, "postgres", "SELECT 'test_' || replace(gen_random_uuid()::text, '-', '')")
	s.SQL(tb, "postgres", "CREATE DATABASE "+name)
	tb.Cleanup(func() { s.SQL(tb, "postgres", "DROP DATABASE "+name+" WITH (FORCE)") })
	return name
}
