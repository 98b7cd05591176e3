package proxy_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// chosenStatements are what the strings of TestChoicesInStrings consist of; # is a number of its own.
var chosenStatements = []string{
	"SET @ = 'backfill'", "SET @ TO refuse", "SET @ = backfill", "SET LOCAL @ = 'backfill'", "SET LOCAL @ = refuse", "RESET @", "RESET ALL", "SET @ TO DEFAULT",
	"SHOW @", "SHOW @", "SHOW @", "SHOW @", "SELECT 1 AS one", "SELECT 'ä' AS umlaut /* ; */", "INSERT INTO strung VALUES (#)", "INSERT INTO strung VALUES (#)", "SELECT count(*) FROM strung",
	"BEGIN", "BEGIN", "COMMIT", "COMMIT", "ROLLBACK", "END", "START TRANSACTION READ ONLY", "BEGIN READ WRITE", "BEGIN ISOLATION LEVEL REPEATABLE READ", "COMMIT AND CHAIN",
	"SELECT 1/0", "SELECT nothing FROM strung", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SET statement_timeout = 70000", "SHOW statement_timeout", "SHOW transaction_read_only",
}

// A string with choices anywhere in it tells and leaves what it does on PostgreSQL, to which they are settings as
// others are, whatever the string says about transactions and wherever it fails; or it is refused, and nothing of
// it is done.
func TestChoicesInStrings(t *testing.T) {
	t.Parallel()
	const key = "sluice.ddl.add_column_default"
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "ALTER ROLE postgres SET "+key+" = 'refuse'; ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'; CREATE TABLE strung (n int)")
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"dsql": {asDSQL}, "dsql, session": {asDSQL, sessionPairing}, "dsql, replay": {asDSQL, withReplay}, "postgres": nil,
	} {
		routes[name] = startSluice(t, pg, append(opts, mayChoose, maxOpen(2))...).addr
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	refused, ran := 0, 0
	for range 20 + 500/proxy.OneIn {
		var queries []string
		for range 1 + rng.IntN(5) {
			var all []string
			for range 1 + rng.IntN(6) {
				all = append(all, chosenStatements[rng.IntN(len(chosenStatements))])
			}
			queries = append(queries, strings.Join(all, "; "))
		}
		queries = append(queries, "SHOW @", "ROLLBACK", "SHOW @", "SELECT count(*), sum(n) FROM strung")
		var b strings.Builder
		for i, q := range queries {
			b.WriteString("Q " + strings.NewReplacer("@", key, "#", strconv.Itoa(i)).Replace(q) + "\n< Z\n")
		}
		script := b.String()
		pg.SQL(t, "postgres", "TRUNCATE strung")
		want := perform(t, pg.addr, script)
		for name, addr := range routes {
			pg.SQL(t, "postgres", "TRUNCATE strung")
			ran++
			var got strings.Builder
			for line := range strings.Lines(perform(t, addr, script)) {
				if !strings.Contains(line, " for this client: ") {
					got.WriteString(line)
				}
			}
			// A failed block on kind dsql refuses AND CHAIN.
			if strings.Contains(got.String(), "in this string of several") || strings.Contains(got.String(), "M=AND CHAIN is not supported") {
				refused++
				continue
			}
			if got.String() != want {
				t.Fatalf("seed %d, %s:\n%s\nof\n%s", seed, name, firstDifference(got.String(), want), script)
			}
		}
	}
	if t.Logf("%d of %d were refused", refused, ran); refused > ran/2 {
		t.Errorf("seed %d: %d of %d were refused", seed, refused, ran)
	}
}

// Where the COMMIT at the end of such a string fails, nothing of it stands.
func TestChoicesInStringsUncommitted(t *testing.T) {
	t.Parallel()
	const key = "sluice.ddl.add_column_default"
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for name, opts := range map[string][]option{"dsql": {asDSQL}, "dsql, session": {asDSQL, sessionPairing}, "dsql, replay": {asDSQL, withReplay}, "postgres": nil} {
		s := startSluice(t, pg, append(opts, mayChoose, maxOpen(1))...)
		got := perform(t, s.addr, "Q INSERT INTO late VALUES (1); SET "+key+" = 'backfill'; INSERT INTO late VALUES (1)\n< Z\nQ SHOW "+key+"\n< Z\nQ SELECT count(*) + 70 AS rows FROM late\n< Z\n")
		for _, want := range []string{"C=23505", "refuse\n", `\x0270`, "Z I\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: want %q in\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "Z T") || strings.Contains(got, "Z E") {
			t.Errorf("%s: a block is left:\n%s", name, got)
		}
	}
}
