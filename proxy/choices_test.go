package proxy_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// choiceSteps are parts of dialogues about a setting of Sluice's own. To PostgreSQL it is a setting as
// any that has a dot in its name. Its value shall be what PostgreSQL says, through blocks, savepoints,
// groups of the extended protocol and errors. Behind an error a Query in a group is skipped: hence the
// Sync behind it.
var choiceSteps = []string{
	"Q SET K = 'backfill'\n< Z\n", "Q SET K TO refuse\n< Z\n", "Q SET LOCAL K = 'backfill'\n< Z\n", "Q SET LOCAL K = 'refuse'\n< Z\n", "Q SET SESSION K = backfill; \n< Z\n",
	"Q RESET K\n< Z\n", "Q SET K TO DEFAULT\n< Z\n", "Q SET LOCAL K TO DEFAULT\n< Z\n", "Q DISCARD ALL\n< Z\n", "Q RESET ALL\n< Z\n",
	"Q SHOW K\n< Z\n", "Q SELECT current_setting('K')\n< Z\n", "Q SHOW K; SELECT 1 AS one\n< Z\n",
	"Q BEGIN\n< Z\n", "Q BEGIN\n< Z\nQ SELECT 1 AS one\n< Z\n", "Q COMMIT\n< Z\n", "Q ROLLBACK\n< Z\n", "Q SAVEPOINT a\n< Z\n", "Q ROLLBACK TO a\n< Z\n", "Q RELEASE a\n< Z\n", "Q SELECT 1/0\n< Z\n",
	"X SET K = 'backfill'\nX SHOW K\nS\n< Z\n", "X SET LOCAL K = 'backfill'\nX SHOW K\nX SELECT 1/0\nS\n< Z\n", "X SELECT 1/0\nX SET K = 'backfill'\nS\n< Z\n", "X SET K = 'backfill'\nX SELECT 1/0\nS\n< Z\n",
	"X RESET K\nX SHOW K\nS\n< Z\n", "X COMMIT\nX SHOW K\nS\n< Z\n", "X BEGIN\nX SET LOCAL K = 'backfill'\nX COMMIT\nX SHOW K\nS\n< Z\n", "X SELECT 2 AS two\nX SET K = 'backfill'\nX SHOW K\nS\n< Z\n",
	"X SELECT 2 AS two\nQ SET K = 'backfill'\nS\n< Z\n", "X SELECT 2 AS two\nQ SHOW K\nS\n< Z\n", "X SELECT 2 AS two\nQ RESET K\nS\n< Z\n", "X BEGIN\nX SELECT 2 AS two\nQ SET LOCAL K = 'backfill'\nS\n< Z\n",
	"P st | SET K = 'backfill'\nS\n< Z\n", "B - | st\nE -\nS\n< Z\n", "B - | st\nE -\nE -\nS\n< Z\n", "C S | st\nS\n< Z\n", "P - | SHOW K\nD S -\nB - | -\nD P -\nE - 1\nE -\nS\n< Z\n",
}

func TestChoicesAsPostgres(t *testing.T) {
	t.Parallel()
	const key = "sluice.ddl.add_column_default"
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "ALTER ROLE postgres SET "+key+" = 'refuse'") // what Sluice has without it
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"dsql": {asDSQL}, "dsql, session": {asDSQL, sessionPairing}, "dsql, replay": {asDSQL, withReplay}, "postgres": nil,
	} {
		routes[name] = startSluice(t, pg, append(opts, mayChoose, maxOpen(2))...).addr
	}
	rng := rand.New(rand.NewPCG(5, 1))
	for range 20 + 600/proxy.OneIn {
		var script strings.Builder
		for range 3 + rng.IntN(12) {
			for line := range strings.Lines(strings.ReplaceAll(choiceSteps[rng.IntN(len(choiceSteps))], "K", key)) {
				if sql, ok := strings.CutPrefix(line, "X "); ok {
					line = ext(strings.TrimSuffix(sql, "\n"))
				}
				script.WriteString(line)
			}
		}
		script.WriteString("Q SHOW " + key + "\n< Z\nQ ROLLBACK\n< Z\nQ SHOW " + key + "\n< Z\n")
		want := perform(t, pg.addr, script.String())
		for name, addr := range routes {
			var got strings.Builder
			for line := range strings.Lines(perform(t, addr, script.String())) {
				if !strings.Contains(line, " for this client: ") {
					got.WriteString(line)
				}
			}
			if got.String() != want {
				t.Fatalf("%s:\n%s\nof\n%s", name, firstDifference(got.String(), want), script.String())
			}
		}
	}
}

// Where no key is listed the names are Sluice's all the same, and no server sees them.
func TestNothingToChoose(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, opts := range map[string][]option{"dsql": {asDSQL}, "postgres": nil} {
		s := startSluice(t, pg, opts...)
		for sql, want := range map[string]string{
			"SET sluice.ddl.carry_out = 'all'": "C=42501", "RESET sluice.ddl.carry_out": "C=42501", "SHOW sluice.ddl.carry_out": "exact",
			"SET sluice.carry_out = 'all'": "C=42704", "SHOW sluice.carry_out": "C=42704", "SET sluice.retry = off": "C=55P02",
		} {
			for way, script := range map[string]string{"simple": "Q " + sql + "\n< Z\n", "extended": ext(sql) + "S\n< Z\n", "behind a group": ext("SELECT 1") + "Q " + sql + "\n< Z\n"} {
				if got := perform(t, s.addr, script+"Q SELECT 'still there'\n< Z\n"); !strings.Contains(got, want) || !strings.Contains(got, "still there") {
					t.Errorf("%s, %s, %s: want %s in\n%s", name, way, sql, want, got)
				}
			}
		}
		if n := s.count(t, "dsql_choices_total", "ddl.carry_out"); n != 0 {
			t.Errorf("%v choices", n)
		}
		if got := perform(t, s.addr, "Q SELECT 1; SET sluice.x = 1\n< Z\n"); !strings.Contains(got, "C=42704") {
			t.Errorf("%s: in a string: %s", name, got)
		}
	}
}
