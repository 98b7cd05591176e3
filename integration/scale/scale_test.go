// Package scale tests the built daemon with more clients than it has backends.
package scale

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, pgtest.TLS())) }

const backends = 10

func start(t *testing.T, env harness.Env) *harness.Sluice {
	t.Helper()
	pg := pgtest.Shared(t)
	return harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg).With(harness.Env{
		"DSQL_RESERVOIR_MAX_OPEN": strconv.Itoa(backends), "DSQL_CONNECTION_RATE_LIMIT": "100",
		"DSQL_RESERVOIR_CHECKOUT_WAIT": "60s", "DSQL_LOG_LEVEL": "warn"}).With(env)})
}

// gauge reads one series without labels.
func gauge(t *testing.T, s *harness.Sluice, name string) float64 {
	t.Helper()
	text, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, found := harness.SumMetric(t, text, name, "")
	if !found {
		t.Fatalf("no %s", name)
	}
	return n
}

func connect(t *testing.T, s *harness.Sluice) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// 2,000 idle clients hold no backend, and each works when it wants to.
func TestManyIdleClients(t *testing.T) {
	const clients = 2000
	s := start(t, nil)
	conns := make([]*pgx.Conn, clients)
	for i := range conns {
		conns[i] = connect(t, s)
	}
	if n := gauge(t, s, "dsql_clients"); n != clients {
		t.Errorf("%g clients, want %d", n, clients)
	}
	for i, conn := range conns {
		var back int
		if err := conn.QueryRow(t.Context(), "SELECT $1::int", i).Scan(&back); err != nil || back != i {
			t.Fatalf("client %d: %d, %v", i, back, err)
		}
	}
	used := gauge(t, s, "dsql_reservoir_in_use")
	if size := gauge(t, s, "dsql_reservoir_size"); used != 0 || size > backends {
		t.Errorf("%g backends in use, %g ready; want none and at most %d", used, size, backends)
	}
}

// 200 busy clients on 10 backends wait for each other and see no error.
func TestManyBusyClients(t *testing.T) {
	const clients, each = 200, 25
	s := start(t, nil)
	pgtest.Shared(t).SQL(t, "postgres", "CREATE TABLE busy (id int PRIMARY KEY, n int NOT NULL); INSERT INTO busy SELECT g, 0 FROM generate_series(1, 200) g")
	var done atomic.Int64
	var all sync.WaitGroup
	for id := range clients {
		conn := connect(t, s)
		all.Go(func() {
			for range each {
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), "UPDATE busy SET n = n + 1 WHERE id = $1", id+1); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.001)")
					return err
				})
				if err != nil {
					t.Errorf("client %d: %v", id, err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	if got, want := pgtest.Shared(t).SQL(t, "postgres", "SELECT sum(n) FROM busy"), strconv.FormatInt(done.Load(), 10); got != want || done.Load() != clients*each {
		t.Errorf("%s counted, %s acknowledged, want %d", got, want, clients*each)
	}
}

// What 5,000 connections cost has been given back when they are gone: the next
// 5,000 leave no more behind than the first.
func TestChurnLeavesNothing(t *testing.T) {
	// Descriptors may differ by the request that reads them and a backend that is
	// being replaced just then.
	const connects, workers, inFlight = 5000, 16, 2
	s := start(t, nil)
	churn := func() {
		var left atomic.Int64
		left.Store(connects)
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					conn, err := pgconn.Connect(t.Context(), s.DSN("postgres"))
					if err != nil {
						t.Errorf("connect: %v", err)
						return
					}
					if _, err := conn.Exec(t.Context(), "SELECT 1").ReadAll(); err != nil {
						t.Errorf("query: %v", err)
					}
					conn.Close(context.Background())
				}
			})
		}
		all.Wait()
	}
	settled := func() (goroutines, descriptors, memory float64) {
		for end := time.Now().Add(20 * time.Second); gauge(t, s, "dsql_clients") > 0 || gauge(t, s, "dsql_reservoir_size") < backends; {
			if time.Now().After(end) {
				t.Fatal("clients do not go, or the shelf does not fill")
			}
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(200 * time.Millisecond) // the last descriptors close behind the count
		return gauge(t, s, "go_goroutines"), gauge(t, s, "process_open_fds"), gauge(t, s, "process_resident_memory_bytes")
	}
	churn()
	g1, d1, m1 := settled()
	churn()
	g2, d2, m2 := settled()

	for end := time.Now().Add(10 * time.Second); (g2 > g1 || d2 > d1+inFlight) && time.Now().Before(end); {
		g2, d2, m2 = settled()
	}
	t.Logf("after %d and %d connections: goroutines %g, %g; descriptors %g, %g; resident %.1f, %.1f MiB",
		connects, 2*connects, g1, g2, d1, d2, m1/(1<<20), m2/(1<<20))
	if g2 > g1 || d2 > d1+inFlight || m2 > 1.1*m1 {
		t.Error("the second half left more behind than the first")
	}
}

// Clients that vanish in the middle of everything cost nobody anything.
func TestAbruptClients(t *testing.T) {
	const clients = 200
	s := start(t, nil)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			conn, err := pgconn.Connect(t.Context(), s.DSN("postgres"))
			if err != nil {
				t.Errorf("connect: %v", err)
				return
			}
			tcp := conn.Conn().(*net.TCPConn)
			switch i % 4 {
			case 0: // in a transaction
				if _, err := conn.Exec(t.Context(), "BEGIN; SELECT 1").ReadAll(); err != nil {
					t.Errorf("begin: %v", err)
				}
			case 1: // in the middle of a frame
				tcp.Write([]byte{'Q', 0, 0, 1, 0, 'S'})
			case 2: // while a statement runs
				tcp.Write([]byte("Q\x00\x00\x00\x18SELECT pg_sleep(30)\x00"))
			}
			tcp.SetLinger(0) // a reset instead of a goodbye
			tcp.Close()
			runtime.Gosched()
		})
	}
	all.Wait()
	conn := connect(t, s)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var n int
		err := conn.QueryRow(t.Context(), "SELECT 1").Scan(&n)
		var refusal *pgconn.PgError
		if err != nil && !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		if err == nil && gauge(t, s, "dsql_clients") == 1 && gauge(t, s, "dsql_reservoir_in_use") == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%g clients and %g backends still there", gauge(t, s, "dsql_clients"), gauge(t, s, "dsql_reservoir_in_use"))
		}
	}
}
