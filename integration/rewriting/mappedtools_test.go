package rewriting

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
	"github.com/sluice-proxy/sluice/integration/pgtest"
)

// printed is what a program prints, one space for each run of them.
func printed(t *testing.T, cmd *exec.Cmd, in string) string {
	t.Helper()
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return regexp.MustCompile(` +`).ReplaceAllString(string(out), " ")
}

// What people see of a mapped table through their tools: its rows and its views are natural,
// and whatever tells of the catalogue tells what is there.
func TestToolsOverMappedTables(t *testing.T) {
	t.Parallel()
	pg := pgtest.Start(t, pgtest.MaxConnections(100))
	bin := harness.Binaries(t)
	sim := harness.StartDSQLSim(t, harness.DSQLSimConfig{Bin: bin, Upstream: pg})
	sluice := harness.StartSluice(t, harness.SluiceConfig{Bin: bin, Env: sim.Env().With(harness.Env{"DSQL_RESERVOIR_MAX_OPEN": "10"})})
	psql := func(in string) string {
		return printed(t, pg.Program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", sluice.DSN("postgres")), in)
	}
	got := psql(`CREATE TABLE keyed (n int, k bytea, v bytea, PRIMARY KEY (n, k));
CREATE VIEW viewed AS SELECT * FROM keyed;
INSERT INTO keyed VALUES (1, '\x00ff', '\x01');
TABLE keyed;
TABLE viewed;
\d keyed
\d viewed
EXPLAIN (COSTS OFF) SELECT v FROM keyed WHERE n = 1 AND k = '\x00ff';
`)
	for _, want := range []string{
		" 1 | \\x00ff | \\x01\n(1 row)\n\n n | k | v \n---+--------+------\n 1 | \\x00ff | \\x01\n",
		"\n k__byteahex | text | | not null | \n v | bytea | | | \n",
		"Check constraints:\n \"k__byteahex\" CHECK (encode(decode(k__byteahex, 'hex'::text), 'hex'::text) = k__byteahex)\n",
		"View \"public.viewed\"\n Column | Type | Collation | Nullable | Default \n--------+---------+-----------+----------+---------\n n | integer | | | \n k | bytea | | | \n",
		"Index Cond: ((n = 1) AND (k__byteahex = '00ff'::text))\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("psql printed\n%s\nwithout\n%s", got, want)
		}
	}

	// A dump has the table as it is, and with the columns' names in each INSERT it can be
	// restored through Sluice: the column is mapped again, and the rows are the same.
	dump := printed(t, pg.Program("pg_dump", "--data-only", "--column-inserts", "--table=keyed", "postgres"), "")
	_, insert, found := strings.Cut(dump, "INSERT INTO public.keyed (n, k__byteahex, v)")
	if !found {
		t.Fatalf("the dump has no INSERT:\n%s", dump)
	}
	insert, _, _ = strings.Cut(insert, ";")
	psql("DROP VIEW viewed; DROP TABLE keyed;\n")
	psql(`CREATE TABLE keyed (n int NOT NULL, k__byteahex text NOT NULL, v bytea,
CONSTRAINT k__byteahex CHECK (encode(decode(k__byteahex, 'hex'), 'hex') = k__byteahex), PRIMARY KEY (n, k__byteahex));
INSERT INTO public.keyed (n, k__byteahex, v)` + insert + ";\n")
	var k, v []byte
	if err := dialled(t, sluice, pgx.QueryExecModeExec).QueryRow(t.Context(), "SELECT k, v FROM keyed WHERE n = 1").Scan(&k, &v); err != nil || !bytes.Equal(k, []byte{0, 0xff}) || !bytes.Equal(v, []byte{1}) {
		t.Errorf("restored: %x %x (%v)", k, v, err)
	}
}
