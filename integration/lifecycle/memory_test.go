package lifecycle

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// attacks are what clients do to make a daemon grow; most is by how many MiB it may. Go lets
// what lives double before it collects, and keeps what it has freed for a while.
var attacks = []struct {
	name   string
	most   int
	attack func(t *testing.T, s *harness.Sluice)
}{
	{"15,000 Describes behind a statement that sleeps", 64, func(t *testing.T, s *harness.Sluice) {
		c := greet(t, s)
		columns := make([]string, 500)
		for i := range columns {
			columns[i] = fmt.Sprintf("%d AS a_column_with_a_name_that_is_long_enough_for_us_%d", i, i)
		}
		c.send(&pgproto3.Parse{Name: "wide", Query: "SELECT " + strings.Join(columns, ", ")}, &pgproto3.Describe{ObjectType: 'S', Name: "wide"}, &pgproto3.Sync{})
		c.read()
		c.send(&pgproto3.Parse{Query: "SELECT pg_sleep(4)"}, &pgproto3.Bind{}, &pgproto3.Execute{})
		for range 15_000 {
			c.send(&pgproto3.Describe{ObjectType: 'S', Name: "wide"})
		}
		c.send(&pgproto3.Sync{})
		time.Sleep(2 * time.Second) // the daemon has read them, and nobody its answers
	}},
	{"60 prepared statements of 1.9 MB", 96, func(t *testing.T, s *harness.Sluice) { prepare(t, s, 60, 1_900_000) }},
	{"200 Parses of 2 MB", 96, func(t *testing.T, s *harness.Sluice) { prepare(t, s, 200, 2_000_000) }},
	{"1,500 texts of 60 kB", 128, func(t *testing.T, s *harness.Sluice) { prepare(t, s, 1500, 60_000) }},
	{"40 clients with as much as each may have", 384, func(t *testing.T, s *harness.Sluice) {
		for range 40 {
			prepare(t, s, 8, 1_000_000)
		}
	}},
}

// However much its clients ask it to keep, a daemon keeps no more than it is configured to.
func TestMemoryOfAttacks(t *testing.T) {
	pg := pgtest.Shared(t)
	for _, a := range attacks {
		t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
			// All that is dialled ahead is there before the first measurement.
			s := harness.StartSluice(t, harness.SluiceConfig{Env: harness.PostgresEnv(pg).With(harness.Env{"DSQL_LOG_LEVEL": "warn",
				"DSQL_RESERVOIR_TARGET_READY": "4", "DSQL_RESERVOIR_LOW_WATERMARK": "4", "DSQL_RESERVOIR_INITIAL_FILL_TIMEOUT": "30s"})})
			prepare(t, s, 1, 2_000_000) // what the first one costs is everybody's
			before := resident(t, s)
			a.attack(t, s)
			grown := (resident(t, s) - before) >> 20
			t.Logf("%s: from %d MiB by %d MiB", a.name, before>>20, grown)
			if grown > a.most {
				t.Errorf("%s: by %d MiB, want %d at most", a.name, grown, a.most)
			}
			// The daemon serves on.
			c := greet(t, s)
			c.send(&pgproto3.Query{String: "SELECT 1"})
			if got := c.read(); got != "" {
				t.Errorf("behind the attack: %s", got)
			}
		})
	}
}

// prepare prepares different texts under names of their own. The client stays to the end of
// the test. What is refused must be refused for its bytes.
func prepare(t *testing.T, s *harness.Sluice, n, bytes int) {
	t.Helper()
	c := greet(t, s)
	for i := range n {
		c.send(&pgproto3.Parse{Name: fmt.Sprint("s", i), Query: fmt.Sprintf("SELECT %d AS n /*%s %s*/", i, c.conn.LocalAddr(), strings.Repeat("x", bytes))}, &pgproto3.Sync{})
		if got := c.read(); got != "" && got != "53200" {
			t.Fatalf("text %d: %s", i, got)
		}
	}
}

// attacker is a client without a driver, which keeps nothing.
type attacker struct {
	*testing.T
	conn net.Conn
	in   *pgproto3.Frontend
}

func greet(t *testing.T, s *harness.Sluice) *attacker {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &attacker{T: t, conn: conn, in: pgproto3.NewFrontend(conn, conn)}
	c.in.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "postgres", "database": "postgres"}})
	if got := c.read(); got != "" {
		t.Fatal(got)
	}
	return c
}

func (c *attacker) send(messages ...pgproto3.FrontendMessage) {
	c.Helper()
	for _, m := range messages {
		c.in.Send(m)
	}
	if err := c.in.Flush(); err != nil {
		c.Fatal(err)
	}
}

// read reads up to ReadyForQuery, and returns the SQLSTATE of an error before it.
func (c *attacker) read() (code string) {
	c.Helper()
	if err := c.in.Flush(); err != nil {
		c.Fatal(err)
	}
	for {
		msg, err := c.in.Receive()
		if err != nil {
			c.Fatal(err)
		}
		switch m := msg.(type) {
		case *pgproto3.ErrorResponse:
			code = m.Code
		case *pgproto3.ReadyForQuery:
			return code
		}
	}
}

// resident is the memory of a daemon in bytes.
func resident(t *testing.T, s *harness.Sluice) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
