package rewriting

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// dumped is a schema with what DSQL has of schemas, made through Sluice as an application makes it,
// and rows that are hard to write: quotes, bytes, NULL, numbers that need all their digits.
const dumped = `CREATE SCHEMA shop;
CREATE TABLE shop.customers (id bigserial PRIMARY KEY, name text NOT NULL, born date, "Odd Name" text DEFAULT 'a''b');
CREATE TABLE shop.orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), customer bigint NOT NULL, total numeric(12,2) CHECK (total >= 0), placed timestamptz, data jsonb, raw bytea, f float8);
ALTER TABLE shop.orders ADD CONSTRAINT orders_customer FOREIGN KEY (customer) REFERENCES shop.customers (id);
CREATE UNIQUE INDEX customers_name ON shop.customers (name);
CREATE INDEX orders_placed ON shop.orders (placed, total) INCLUDE (customer);
CREATE SEQUENCE shop.numbers CACHE 65536;
CREATE VIEW shop.totals AS SELECT c.name, sum(o.total) AS total FROM shop.customers c JOIN shop.orders o ON o.customer = c.id GROUP BY c.name;
CREATE FUNCTION shop.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE DOMAIN shop.percent AS int CHECK (VALUE BETWEEN 0 AND 100);
CREATE TABLE public.rates (k text, v shop.percent, PRIMARY KEY (k));
COMMENT ON TABLE shop.orders IS 'what was ''ordered''';
INSERT INTO shop.customers (name, born) VALUES ('O''Brien \ "x"', '1970-01-02'), (E'tab\tline\nend', NULL);
INSERT INTO shop.orders (customer, total, placed, data, raw, f) SELECT 1 + i % 2, i / 4.0, timestamptz '2026-01-02 03:04:05.678901+00' + i * interval '1 hour', jsonb_build_object('i', i), decode('00ff5c', 'hex'), 1 / 3.0 + i
FROM generate_series(1, 200) i;
INSERT INTO rates VALUES ('a', 1), ('', 100);`

// dumpModes are ways to dump, and whether what comes out is all of the database.
var dumpModes = []struct {
	name  string
	args  []string
	whole bool
}{
	{"schema", []string{"-n", "shop", "-s"}, true},
	{"inserts", []string{"-n", "shop", "--inserts"}, true},
	{"copy", []string{"-n", "shop"}, true},
	{"custom format", []string{"-n", "shop", "-Fc"}, false},
	{"database", []string{"-N", "sys"}, false},
	{"rows in an INSERT", []string{"-n", "shop", "--rows-per-insert=50", "-a"}, false},
	{"one table", []string{"--column-inserts", "-t", "public.rates"}, false},
	{"clean", []string{"-N", "sys", "-s", "-c", "--if-exists", "-O", "-x"}, false},
	{"rows only", []string{"-n", "shop", "-a"}, false},
}

// A dump through Sluice is what pg_dump makes of the database under the stand-in, and PostgreSQL
// restores it.
func TestDumpThroughSluice(t *testing.T) {
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg, Args: []string{"--copy"}})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10"})})
	printed(t, pg.Program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", sluice.DSN("postgres")), dumped)
	older := asOlder(t, sluice)
	for _, m := range dumpModes {
		t.Run(m.name, func(t *testing.T) {
			args := append([]string{"-d", older}, m.args...)
			through := run(t, pg.Program("pg_dump", args...))
			args[1] = pg.DSN("postgres")
			plain := run(t, pg.Program("pg_dump", args...))
			if m.name == "custom format" {
				restored := pg.NewDatabase(t)
				restore := pg.Program("pg_restore", "-d", restored)
				restore.Stdin = strings.NewReader(through)
				run(t, restore)
				args[1], args[len(args)-1] = pg.DSN(restored), "-Fp"
				through = run(t, pg.Program("pg_dump", args...))
				args[1] = pg.DSN("postgres")
				plain = run(t, pg.Program("pg_dump", args...))
			}
			if got, want := comparable(through), comparable(plain); got != want {
				t.Errorf("through Sluice:\n%s\nof PostgreSQL:\n%s", got, want)
			}
			if m.whole {
				restored := pg.NewDatabase(t)
				printed(t, pg.Program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", restored), through)
				args[1] = pg.DSN(restored)
				if got, want := comparable(run(t, pg.Program("pg_dump", args...))), comparable(plain); got != want {
					t.Errorf("restored:\n%s\nof PostgreSQL:\n%s", got, want)
				}
			}
		})
	}
}

// Where a cluster refuses COPY, pg_dump is told which of its switches does without.
func TestDumpWithoutCopy(t *testing.T) {
	pg := pgtest.Start(t, pgtest.MaxConnections(200))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10"})})
	pg.SQL(t, "postgres", "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
	older := asOlder(t, sluice)
	for _, c := range []struct{ args, want string }{
		{"", "--inserts"}, {"-s --serializable-deferrable", "Unsupported isolation level: SERIALIZABLE"},
	} {
		args := append([]string{"-d", older, "-N", "sys"}, strings.Fields(c.args)...)
		if out, err := pg.Program("pg_dump", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, without %q:\n%s", c.args, err, c.want, out)
		}
	}
	if out := run(t, pg.Program("pg_dump", "-d", older, "--inserts", "-t", "t")); !strings.Contains(out, "INSERT INTO public.t VALUES (7);") {
		t.Errorf("behind the refusal:\n%s", out)
	}
}

// asOlder is a way to Sluice on which the server is of version 15: an older pg_dump does not speak
// to a server of a newer version, and the one here may be as old as the server beside it.
func asOlder(t *testing.T, sluice *harness.Sluice) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	t.Cleanup(func() { l.Close(); wait.Wait() })
	wait.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", net.JoinHostPort(sluice.Host, strconv.Itoa(sluice.Port)))
			if err != nil {
				client.Close()
				return
			}
			wait.Go(func() { io.Copy(server, client); server.Close() })
			wait.Go(func() { answerOlder(client, server); client.Close() })
		}
	})
	return strings.Replace(sluice.DSN("postgres"), ":"+strconv.Itoa(sluice.Port), ":"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port), 1)
}

// answerOlder passes on what a server says, and another version in the greeting, which ends with
// the first ReadyForQuery.
func answerOlder(client io.Writer, server io.Reader) {
	r := bufio.NewReader(server)
	var greeting []byte
	for !bytes.HasSuffix(greeting, []byte("Z\x00\x00\x00\x05I")) {
		b, err := r.ReadByte()
		if err != nil {
			break
		}
		if greeting = append(greeting, b); len(greeting) == 1 && b == 'N' { // to a request for TLS
			client.Write(greeting)
			greeting = nil
		}
	}
	client.Write(bytes.Replace(greeting, []byte("server_version\x0016."), []byte("server_version\x0015."), 1))
	io.Copy(client, r)
}

// run is what a program prints on its output; it must print no error.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
	}
	return out.String()
}

// comparable is a dump without what tells who made it.
func comparable(dump string) string {
	dump = regexp.MustCompile(`(?m)^(-- .*|\\(un)?restrict .*)?\n`).ReplaceAllString(dump, "")
	return dump
}
