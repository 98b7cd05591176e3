package proxy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
)

// prepares has a client prepare a text of so many bytes under a name, and returns the answer.
func (c *rawClient) prepares(t *testing.T, name string, bytes int) string {
	t.Helper()
	c.queue(encode(t, &pgproto3.Parse{Name: name, Query: fmt.Sprintf("SELECT 1 AS %s /*%s*/", c.tag(name), strings.Repeat("x", bytes))}, &pgproto3.Sync{}))
	return c.readThrough("Z")
}

// tag makes texts of two clients differ.
func (c *rawClient) tag(name string) string {
	return strings.NewReplacer(":", "_", ".", "_", "[", "_", "]", "_").Replace("a_" + name + c.conn.LocalAddr().String())
}

// The texts of one client's statements are bounded in bytes; what it deallocates makes room.
func TestTextsOfAClient(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.PreparedBytesPerClient = 4 << 20 }))
	c, other := dialRaw(t, s.addr), dialRaw(t, s.addr)
	fits := 0
	for ; fits < 10 && !strings.Contains(c.prepares(t, fmt.Sprint("s", fits), 500_000), "E S="); fits++ {
	}
	if fits != 4 { // a text counts twice
		t.Fatalf("%d texts of 500 kB fit into 4 MiB, want 4", fits)
	}
	if got := c.prepares(t, "more", 500_000); !strings.Contains(got, "C=53200") || !strings.Contains(got, "prepared.bytes_per_client") {
		t.Errorf("one more: %s", got)
	}
	if got := c.prepares(t, "", 1_000_000); strings.Contains(got, "E S=") {
		t.Errorf("the unnamed statement, which keeps nothing of those: %s", got)
	}
	if got := other.prepares(t, "s", 500_000); strings.Contains(got, "E S=") {
		t.Errorf("another client: %s", got)
	}
	for i, free := range []func(){
		func() { c.queue(encode(t, &pgproto3.Close{ObjectType: 'S', Name: "s0"}, &pgproto3.Sync{})) },
		func() { c.queue(encodeLine(t, "Q", "DEALLOCATE s1")) },
		func() { c.queue(encodeLine(t, "Q", "DEALLOCATE s2; SELECT 1")) },
		func() { c.queue(encodeLine(t, "Q", "DEALLOCATE ALL")) },
	} {
		free()
		c.readThrough("Z")
		if got := c.prepares(t, fmt.Sprint("again", i), 500_000); strings.Contains(got, "E S=") {
			t.Errorf("after %d statements were deallocated: %s", i+1, got)
		}
	}
	// What an error takes back counts no more.
	for range 10 {
		c.queue(encode(t, &pgproto3.Parse{Query: "SELECT 1/0"}, &pgproto3.Bind{}, &pgproto3.Execute{},
			&pgproto3.Parse{Name: "late", Query: "SELECT 1 /*" + strings.Repeat("y", 500_000) + "*/"}, &pgproto3.Sync{}))
		if got := c.readThrough("Z"); !strings.Contains(got, "C=22012") {
			t.Fatalf("a Parse behind an error: %s", got)
		}
	}
	if got := c.prepares(t, "last", 500_000); strings.Contains(got, "E S=") {
		t.Errorf("behind Parses that were skipped: %s", got)
	}
}

// The texts of all clients are bounded together. What is only remembered goes first, and
// the memory of those who have left is there for others.
func TestTextsOfAll(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) {
		c.PreparedBytesPerClient, c.PreparedTotalBytes = 4<<20, 8<<20
	}))
	first := dialRaw(t, s.addr)
	for i := range 200 { // 24 MB with their keys
		if got := first.prepares(t, "", 60_000+i); strings.Contains(got, "E S=") {
			t.Fatalf("text %d that nobody keeps: %s", i, got)
		}
	}
	var clients []*rawClient
	refused := false
	for range 5 {
		c := dialRaw(t, s.addr)
		clients = append(clients, c)
		for i := range 4 {
			got := c.prepares(t, fmt.Sprint("s", i), 450_000)
			if refused = strings.Contains(got, "E S="); refused {
				if !strings.Contains(got, "C=53200") || !strings.Contains(got, "prepared.total_bytes") {
					t.Errorf("a text too many: %s", got)
				}
				break
			}
		}
	}
	if !refused {
		t.Error("five clients keep 18 MB of texts, of 8 MiB")
	}
	runtime.GC() // what was refused
	waitFor(t, "no more to be kept than may be", func() bool { return s.Stats().TextBytes <= 8<<20 })
	for _, c := range clients {
		c.conn.Close()
	}
	waitFor(t, "the clients to be gone", func() bool { return s.Stats().Clients == 1 })
	waitFor(t, "room", func() bool { return !strings.Contains(first.prepares(t, "", 900_000), "E S=") })
}

// Where there is no room for a text, a block can be ended all the same.
func TestTextsOfAllAndTheEndOfABlock(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) {
		c.PreparedBytesPerClient, c.PreparedTotalBytes = 4<<20, 4<<20
	}))
	running, failed, greedy, other := dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
	running.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
	failed.say(t, "Q BEGIN\n< Z\nQ SELECT 1/0\n< Z\n")
	for i := range 4 {
		if got := greedy.prepares(t, fmt.Sprint("s", i), 450_000); strings.Contains(got, "E S=") {
			t.Fatalf("text %d: %s", i, got)
		}
	}
	if got := other.prepares(t, "s", 450_000); !strings.Contains(got, "prepared.total_bytes") {
		t.Fatalf("a text too many: %s", got)
	}
	for end, c := range map[string]*rawClient{"COMMIT": running, "ROLLBACK": failed} {
		if got := c.say(t, "P - | "+end+"\nB - | -\nE -\nS\n< Z\n"); strings.Contains(got, "E S=") || !strings.HasSuffix(got, "Z I\n") {
			t.Errorf("%s: %s", end, got)
		}
	}
}

// A process that is short of memory lets what has begun come to its end, and begins nothing.
func TestShortOfMemory(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MemoryLimit = 1 }))
	running, idle, parsing, begun := dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
	for _, c := range []*rawClient{running, parsing} {
		c.say(t, "Q BEGIN\n< Z\nQ SELECT 1\n< Z\n")
	}
	begun.say(t, "Q BEGIN\n< Z\n")
	const rollback = "P - | ROLLBACK\nB - | -\nE -\nS\n< Z\n"
	waitFor(t, "a refusal", func() bool { return strings.Contains(idle.say(t, "Q SELECT 1\n< Z\n"), "C=53200") })
	if got := running.say(t, "Q SELECT 2\n< Z\nQ COMMIT\n< Z\n"); strings.Contains(got, "E S=") {
		t.Errorf("a transaction that had begun: %s", got)
	}
	if got := parsing.say(t, "P - | SELECT 2\nB - | -\nE -\nS\n< Z\nP - | COMMIT\nB - | -\nE -\nS\n< Z\n"); strings.Contains(got, "E S=") {
		t.Errorf("a transaction that had begun, by Parse: %s", got)
	}
	begun.say(t, "Q SELECT 1\n< Z\n") // refused: there is no backend for it
	if got := begun.say(t, rollback); strings.Contains(got, "E S=") || !strings.HasSuffix(got, "Z I\n") {
		t.Errorf("the end of a block that failed, by Parse: %s", got)
	}
	for name, script := range map[string]string{"statement": "Q SELECT 1\n< Z\n", "block": "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\n",
		"group": "P - | SELECT 1\nB - | -\nE -\nS\n< Z\n"} {
		if got := running.say(t, script); !strings.Contains(got, "C=53200") {
			t.Errorf("a new %s: %s", name, got)
		}
	}
	if _, err := pgconn.Connect(t.Context(), "postgres://postgres@"+s.addr+"/postgres?sslmode=disable"); code(err) != "53200" {
		t.Errorf("a new client: %v", err)
	}
	waitFor(t, "backends to be back", func() bool { return s.backends.Stats().InUse == 0 })
}

// A transaction that has begun may prepare statements when the process is short of memory:
// many drivers send all of them so, its end too.
func TestShortOfMemoryInsideATransaction(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.MemoryLimit = 1 }))
	good, bad, idle := dialRaw(t, s.addr), dialRaw(t, s.addr), dialRaw(t, s.addr)
	good.say(t, "Q BEGIN\nQ SELECT 1\n< ZZ")
	bad.say(t, "Q BEGIN\nQ SELECT 1/0\n< ZZ")
	waitFor(t, "a refusal", func() bool { return strings.Contains(idle.say(t, "Q SELECT 1\n< Z\n"), "C=53200") })
	if got := good.say(t, "P - | SELECT 'short'\nB - | -\nE -\nS\n< Z\nP - | COMMIT\nB - | -\nE -\nS\n< Z"); strings.Contains(got, "E S=") || !strings.Contains(got, "C COMMIT") {
		t.Errorf("a transaction that had begun: %s", got)
	}
	if got := bad.say(t, "P - | ROLLBACK\nB - | -\nE -\nS\n< Z"); !strings.Contains(got, "C ROLLBACK") {
		t.Errorf("one that had failed: %s", got)
	}
	if got := idle.say(t, "P - | BEGIN\nB - | -\nE -\nS\n< Z"); !strings.Contains(got, "C=53200") {
		t.Errorf("a new one: %s", got)
	}
}

// The unnamed statement of a client is nobody's any more once a Query has destroyed it: its
// text makes room.
func TestTextOfADestroyedStatement(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) { c.PreparedBytesPerClient, c.PreparedTotalBytes = 4<<20, 32<<20 }))
	for range 10 {
		c := dialRaw(t, s.addr)
		c.prepares(t, "", 1_000_000)
		c.say(t, "Q DEALLOCATE ALL\nQ SELECT 1\n< ZZ")
	}
	waitFor(t, "the texts to be gone", func() bool { runtime.GC(); return s.Stats().TextBytes < 8<<20 })
}

// What is kept of the columns of a client's statements counts as their texts do.
func TestDescriptionsOfAll(t *testing.T) {
	t.Parallel()
	s := startSluice(t, sharedPostgres(t), configure(func(c *proxy.Config) {
		c.PreparedBytesPerClient, c.PreparedTotalBytes = 4<<20, 4<<20
	}))
	holder := dialRaw(t, s.addr) // so that the bound of all comes before the client's own
	holder.prepares(t, "s", 450_000)
	c := dialRaw(t, s.addr)
	columns := make([]string, 300)
	for i := range columns {
		columns[i] = fmt.Sprintf("1 AS %s%d", strings.Repeat("c", 50), i)
	}
	wide := c.tag("wide")
	c.say(t, "Q CREATE TABLE "+wide+" AS SELECT "+strings.Join(columns, ", ")+"\n< Z\n")
	t.Cleanup(func() { dialRaw(t, s.addr).say(t, "Q DROP TABLE "+wide+"\n< Z\n") })
	const statements = 220 // of 21 kB each
	name := func(i int) string { return fmt.Sprint("s", i) }
	for i := range statements {
		c.queue(encode(t, &pgproto3.Parse{Name: name(i), Query: fmt.Sprintf("SELECT %d, * FROM %s", i, wide)}, &pgproto3.Sync{}))
		if got := c.readThrough("Z"); strings.Contains(got, "E S=") {
			t.Fatalf("statement %d: %s", i, got)
		}
	}
	refused := 0
	for i := range statements {
		c.queue(encode(t, &pgproto3.Describe{ObjectType: 'S', Name: name(i)}, &pgproto3.Sync{}))
		if got := c.readThrough("Z"); strings.Contains(got, "E S=") {
			if refused++; !strings.Contains(got, "C=53200") || !strings.Contains(got, "prepared.total_bytes") {
				t.Fatalf("a description too many: %s", got)
			}
		}
	}
	if n := s.Stats().TextBytes; refused == 0 || n > 5<<20 {
		t.Errorf("%d bytes are kept of 4 MiB, and %d descriptions were refused", n, refused)
	}
	c.conn.Close()
	waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 1 })
	other := dialRaw(t, s.addr)
	waitFor(t, "room", func() bool { return !strings.Contains(other.prepares(t, "", 900_000), "E S=") })
}
