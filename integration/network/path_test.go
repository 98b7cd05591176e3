package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// Existing connections to the server are swallowed, new ones work. A read is answered on
// another backend, a transaction is run again, and a commit is of unknown outcome, each
// soon.
func TestPathOfExistingConnectionsDies(t *testing.T) {
	w := start(t, nil)
	w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
	read, running, block, committing, write := w.client(), w.client(), w.client(), w.client(), w.client()
	for i, c := range []*pgx.Conn{block, committing} {
		w.must(c, "BEGIN")
		w.must(c, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", i))
	}
	sleeping := w.ask(running, "SELECT pg_sleep(3)")
	time.Sleep(500 * time.Millisecond)
	w.wall.swallow()
	answers := map[string]<-chan told{
		"a read that runs":       sleeping,
		"a read":                 w.ask(read, "SELECT 1"),
		"a statement of a block": w.ask(block, "INSERT INTO t VALUES (100, 0)"),
		"a COMMIT":               w.ask(committing, "COMMIT"),
		"a write":                w.ask(write, "INSERT INTO t VALUES (200, 0)"),
	}
	want := map[string]string{"a COMMIT": "08007", "a write": "08007"}
	for name, answer := range answers {
		got := <-answer
		t.Logf("%s: %q after %v", name, got.code, got.took.Round(time.Millisecond))
		if got.code != want[name] || got.took > 15*time.Second {
			t.Errorf("%s: %q after %v, want %q", name, got.code, got.took, want[name])
		}
	}
	w.must(block, "COMMIT")
}

// The server freezes: its host acknowledges, and nobody answers. Whoever waits is told
// within the time of silence, and served again when the server goes on.
func TestServerFreezes(t *testing.T) {
	w := start(t, harness.Env{"DSQL_BACKEND_SILENCE_TIMEOUT": "3s"})
	w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
	read, block, committing, write := w.client(), w.client(), w.client(), w.client()
	for i, c := range []*pgx.Conn{block, committing} {
		w.must(c, "BEGIN")
		w.must(c, fmt.Sprintf("INSERT INTO t VALUES (%d, 0)", i))
	}
	w.sim.Signal(syscall.SIGSTOP)
	defer w.sim.Signal(syscall.SIGCONT)
	for name, a := range map[string]struct {
		answer <-chan told
		want   []string
	}{
		// A backend that Sluice asks something itself first does not get the statement: 53300.
		"a read":                 {w.ask(read, "SELECT 1"), []string{"08006", "53300"}},
		"a statement of a block": {w.ask(block, "INSERT INTO t VALUES (100, 0)"), []string{"08006"}},
		"a COMMIT":               {w.ask(committing, "COMMIT"), []string{"08007"}},
		"a write":                {w.ask(write, "INSERT INTO t VALUES (200, 0)"), []string{"08007", "53300"}},
	} {
		got := <-a.answer
		t.Logf("%s: %q after %v", name, got.code, got.took.Round(time.Millisecond))
		if !slices.Contains(a.want, got.code) || got.took > 15*time.Second {
			t.Errorf("%s: %q after %v, want %q", name, got.code, got.took, a.want)
		}
	}
	w.sim.Signal(syscall.SIGCONT)
	w.must(block, "ROLLBACK")
	for _, c := range []*pgx.Conn{read, block, committing, write} {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			_, err := c.Exec(t.Context(), "SELECT 1")
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("behind the freeze: %v", err)
			}
		}
	}
}

// A server that takes nothing for longer than any limit of the path is no dead one: its
// host acknowledges. So is a client that reads nothing.
func TestShutWindows(t *testing.T) {
	w := start(t, harness.Env{"DSQL_CLIENT_TCP_KEEPALIVE": deadAfter.String()})
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
	n, found := harness.Metric(w, text, name, "")
	if !found {
		w.Fatalf("there is no metric %s", name)
	}
	return n
}
