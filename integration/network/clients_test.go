package network

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// clientEvents are what becomes of clients. The words for docs/operations.md are what play
// tries.
var clientEvents = []struct {
	name, sees, frees string
	play              func(w *world)
}{
	{"its host vanishes, in a transaction", "nothing", "after `client.tcp_keepalive` and five seconds", func(w *world) {
		idle, asking := w.client(), w.client()
		w.must(idle, "BEGIN")
		w.must(idle, "SELECT 1")
		w.must(asking, "BEGIN")
		w.ask(asking, "SELECT pg_sleep(1)") // its answer is never acknowledged
		w.holds(2)
		newWall(w, w.sluice.Port).swallow()
		w.frees(15 * time.Second)
	}},
	{"its host has forgotten the connection (half-open), in a transaction", "nothing", "after `client.tcp_keepalive`", func(w *world) {
		c := w.raw()
		c.query("BEGIN")
		c.query("SELECT 1")
		wall := newWall(w, w.sluice.Port)
		wall.swallow()
		c.conn.SetLinger(0)
		c.conn.Close()
		wall.open()
		w.frees(15 * time.Second)
	}},
	{"it is killed (SIGKILL), in a transaction", "nothing", "at once", func(w *world) {
		c := w.psql()
		c.hears("BEGIN; INSERT INTO t VALUES (1, 0);")
		w.holds(1)
		c.cmd.Process.Kill()
		w.frees(5 * time.Second)
		w.has(0)
	}},
	{"its connection is reset while a statement runs", "nothing", "within two seconds", func(w *world) {
		c := w.raw()
		c.send(&pgproto3.Query{String: "SELECT pg_sleep(60)"})
		w.holds(1)
		c.conn.SetLinger(0)
		c.conn.Close()
		w.frees(7 * time.Second)
	}},
	{"it is stopped (SIGSTOP) in a transaction, and goes on", "answered", "with the transaction", func(w *world) {
		c := w.psql()
		c.hears("BEGIN; INSERT INTO t VALUES (1, 0);")
		w.holds(1)
		c.stop(4 * deadAfter)
		c.say("COMMIT;")
		c.quit()
		w.has(1)
	}},
	{"it is stopped (SIGSTOP) while it reads, and goes on", "answered", "when it has read", func(w *world) {
		c := w.psql()
		c.hears("SELECT count(*) FROM t;")
		c.say("SELECT repeat('y', 100000) FROM pg_sleep(2), generate_series(1, 500);") // 50 MB
		w.holds(1)
		c.stop(4 * deadAfter)
		if rows := strings.Count(c.quit(), "yyy\n"); rows != 500 {
			w.Errorf("%d rows of 500", rows)
		}
	}},
	{"it sends a byte a second", "answered", "until its message is whole", func(w *world) {
		c := w.raw()
		for _, b := range encode(w, &pgproto3.Query{String: "SELECT 1"}) {
			if n := w.metric("dsql_reservoir_in_use"); n > 0 {
				w.Errorf("%v backends are in use while a message comes", n)
			}
			time.Sleep(time.Second)
			c.write([]byte{b})
		}
		ready(w.T, c.frontend)
		c.conn.Close()
	}},
	{"it reads a byte a second", "answered", "when it has read", func(w *world) {
		c := w.raw()
		c.send(&pgproto3.Query{String: "SELECT repeat('y', 1 << 20) FROM generate_series(1, 32)"})
		var read []byte
		for range 4 * int(deadAfter/time.Second) {
			time.Sleep(time.Second)
			read = append(read, 0)
			if _, err := io.ReadFull(c.conn, read[len(read)-1:]); err != nil {
				w.Fatal(err)
			}
		}
		w.holds(1)
		c.frontend = pgproto3.NewFrontend(io.MultiReader(bytes.NewReader(read), c.conn), c.conn)
		if n := ready(w.T, c.frontend); n != 32<<20 {
			w.Errorf("%d bytes of 32 MiB", n)
		}
		c.conn.Close()
	}},
	{"it ends its half of the connection behind a statement", "answered", "with the answer", func(w *world) {
		c := w.raw()
		c.send(&pgproto3.Query{String: "INSERT INTO t VALUES (1, 0); SELECT pg_sleep(3)"})
		if err := c.conn.CloseWrite(); err != nil {
			w.Fatal(err)
		}
		ready(w.T, c.frontend)
		w.frees(5 * time.Second)
		w.has(1)
	}},
}

// Whatever becomes of a client, it sees what the table says, its backend is free when the
// table says so, and nothing is left of it.
func TestClientEvents(t *testing.T) {
	for _, e := range clientEvents {
		t.Run(strings.ReplaceAll(e.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			w := start(t, harness.Env{"DSQL_CLIENT_TCP_KEEPALIVE": deadAfter.String()})
			w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
			w.until("no backend to be in use", 30*time.Second, func() bool { return w.metric("dsql_reservoir_in_use") == 0 })
			before := w.holdings()
			e.play(w)
			w.until("what was there before", 30*time.Second, func() bool { return w.holdings().within(before) })
		})
	}
}

// holds waits until so many backends are in use.
func (w *world) holds(n float64) {
	w.Helper()
	w.until(fmt.Sprint(n, " backends to be in use"), 30*time.Second, func() bool { return w.metric("dsql_reservoir_in_use") == n })
}

// frees waits until no backend is in use.
func (w *world) frees(limit time.Duration) {
	w.Helper()
	began := time.Now()
	w.until("no backend to be in use", limit, func() bool { return w.metric("dsql_reservoir_in_use") == 0 })
	w.Logf("free after %v", time.Since(began).Round(time.Millisecond))
}

// has checks how many rows the table has.
func (w *world) has(rows int) {
	w.Helper()
	c := w.client()
	defer c.Close(w.Context())
	var n int
	if err := c.QueryRow(w.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != rows {
		w.Errorf("%d rows (%v), want %d", n, err, rows)
	}
}

// rawClient is a client whose socket the test has.
type rawClient struct {
	w        *world
	conn     *net.TCPConn
	frontend *pgproto3.Frontend
}

func (w *world) raw() *rawClient {
	w.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(w.sluice.Host, strconv.Itoa(w.sluice.Port)))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	c := &rawClient{w, conn.(*net.TCPConn), pgproto3.NewFrontend(conn, conn)}
	c.send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "admin", "database": "postgres"}})
	ready(w.T, c.frontend)
	return c
}

func encode(w *world, msg pgproto3.FrontendMessage) []byte {
	w.Helper()
	text, err := msg.Encode(nil)
	if err != nil {
		w.Fatal(err)
	}
	return text
}

func (c *rawClient) send(msg pgproto3.FrontendMessage) {
	c.w.Helper()
	c.write(encode(c.w, msg))
}

func (c *rawClient) write(text []byte) {
	c.w.Helper()
	if _, err := c.conn.Write(text); err != nil {
		c.w.Fatal(err)
	}
}

func (c *rawClient) query(sql string) {
	c.w.Helper()
	c.send(&pgproto3.Query{String: sql})
	ready(c.w.T, c.frontend)
}

// psqlClient is a process of psql.
type psqlClient struct {
	w     *world
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   output
}

// output is what a process has said so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (w *world) psql() *psqlClient {
	w.Helper()
	c := &psqlClient{w: w, cmd: pgtest.Shared(w).Program("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", w.sluice.DSN("postgres"))}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		w.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

func (c *psqlClient) say(sql string) {
	c.w.Helper()
	if _, err := io.WriteString(c.stdin, sql+"\n"); err != nil {
		c.w.Fatal(err)
	}
}

// hears returns when psql has the answers to statements. That a backend is in use does not say that they run: the
// schema is read by one.
func (c *psqlClient) hears(sql string) {
	c.w.Helper()
	c.say(sql + " SELECT 'heard';")
	c.w.until("psql to have its answers", 30*time.Second, func() bool { return strings.Contains(c.out.String(), "heard") })
}

// stop freezes the process for so long; it keeps its backend.
func (c *psqlClient) stop(d time.Duration) {
	c.w.Helper()
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := c.cmd.Process.Signal(signal); err != nil {
			c.w.Fatal(err)
		}
		if signal == syscall.SIGSTOP {
			time.Sleep(d)
			c.w.holds(1)
		}
	}
}

// quit has psql end behind what it was told, without an error, and returns its output.
func (c *psqlClient) quit() string {
	c.w.Helper()
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		c.w.Fatalf("psql: %v: %.2000s", err, c.out.String())
	}
	return c.out.String()
}
