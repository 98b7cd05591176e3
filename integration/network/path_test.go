package network

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// world is a daemon in front of the stand-in for DSQL, with a relay between the two, and a
// wall between the daemon and the relay.
type world struct {
	*testing.T
	sim    *harness.DSQLSim
	sluice *harness.Sluice
	relay  *relay
	wall   *wall
}

// deadAfter is the path's limit in these tests; a look comes once a second.
const deadAfter = 2 * time.Second

func start(t *testing.T, env harness.Env) *world {
	t.Helper()
	bin, dir := harness.Binaries(t), t.TempDir()
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Dir: dir, Upstream: pgtest.Start(t)})
	between := newRelay(t, net.JoinHostPort(sim.Host, strconv.Itoa(sim.Port)))
	w := &world{T: t, sim: sim, relay: between, wall: newWall(t, between.port)}
	w.sluice = harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Dir: dir, Env: sim.Env().With(harness.Env{
		"DSQL_BACKEND_PORT":             strconv.Itoa(between.port),
		"DSQL_BACKEND_TCP_USER_TIMEOUT": deadAfter.String(), "DSQL_BACKEND_TCP_KEEPALIVE": deadAfter.String(),
		"DSQL_RESERVOIR_DIAL_TIMEOUT": "2s", "DSQL_RESERVOIR_CHECKOUT_WAIT": "3s", "DSQL_RESERVOIR_MAX_OPEN": "12",
		// All backends are there before anything happens: none is dialled while it does.
		"DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "30s",
	}).With(env)})
	return w
}

func (w *world) client() *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), w.sluice.DSN("postgres")+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (w *world) must(conn *pgx.Conn, sql string) {
	w.Helper()
	if _, err := conn.Exec(w.Context(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// told is what a client was told, and how long that took.
type told struct {
	code string // "" for success
	took time.Duration
}

// ask runs a statement beside others. With the test it ends, before its connection does.
func (w *world) ask(conn *pgx.Conn, sql string) <-chan told {
	answer, over := make(chan told, 1), make(chan struct{})
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	w.Cleanup(func() {
		stop()
		<-over
	})
	go func() {
		defer close(over)
		began := time.Now()
		_, err := conn.Exec(ctx, sql)
		var refusal *pgconn.PgError
		switch {
		case errors.As(err, &refusal):
			answer <- told{refusal.Code, time.Since(began)}
		case err != nil:
			answer <- told{err.Error(), time.Since(began)}
		default:
			answer <- told{"", time.Since(began)}
		}
	}()
	return answer
}

// A server that takes nothing for longer than any limit of the path is no dead one: its
// host acknowledges. So is a client that reads nothing.
func TestShutWindows(t *testing.T) {
	t.Parallel()
	// Half of what the server sleeps; a slow machine acknowledges late.
	w := start(t, harness.Env{"DSQL_CLIENT_TCP_KEEPALIVE": deadAfter.String(), "DSQL_BACKEND_TCP_USER_TIMEOUT": (2 * deadAfter).String()})
	conn, err := net.Dial("tcp", net.JoinHostPort(w.sluice.Host, strconv.Itoa(w.sluice.Port)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pgproto3.NewFrontend(conn, conn)
	client.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "admin", "database": "postgres"}})
	if err := client.Flush(); err != nil {
		t.Fatal(err)
	}
	ready(t, client)
	// One turn, more than the sockets on its way hold: the server takes the rest of it when
	// it has slept.
	sent := make(chan error, 1)
	go func() {
		for _, m := range []pgproto3.FrontendMessage{&pgproto3.Parse{Query: "SELECT pg_sleep(8)"}, &pgproto3.Bind{}, &pgproto3.Execute{},
			&pgproto3.Parse{Query: "SELECT length($1::text)"}} {
			client.Send(m)
		}
		long := [][]byte{[]byte(strings.Repeat("x", 1<<20))}
		for range 64 {
			client.Send(&pgproto3.Bind{Parameters: long})
			client.Send(&pgproto3.Execute{})
		}
		client.Send(&pgproto3.Sync{})
		for range 3 {
			client.Send(&pgproto3.Query{String: "SELECT repeat('y', 8 << 20)"})
		}
		sent <- client.Flush()
	}()
	time.Sleep(3 * deadAfter)
	select {
	case err := <-sent:
		t.Fatalf("all was taken while the server sleeps (%v): nothing was tested", err)
	default:
	}
	ready(t, client)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * deadAfter)
	for range 3 {
		if n := ready(t, client); n < 8<<20 {
			t.Errorf("%d bytes of a row of 8 MiB", n)
		}
	}
}

// ready reads up to a ReadyForQuery, and returns how many bytes of rows came before.
func ready(t *testing.T, client *pgproto3.Frontend) (bytes int) {
	t.Helper()
	for {
		msg, err := client.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch m := msg.(type) {
		case *pgproto3.DataRow:
			for _, v := range m.Values {
				bytes += len(v)
			}
		case *pgproto3.ErrorResponse:
			t.Fatalf("%s: %s", m.Code, m.Message)
		case *pgproto3.ReadyForQuery:
			return bytes
		}
	}
}

func (w *world) metric(name string) float64 {
	w.Helper()
	text, err := w.sluice.Metrics(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	n, found := harness.SumMetric(w, text, name, "")
	if !found {
		w.Fatalf("there is no metric %s", name)
	}
	return n
}
