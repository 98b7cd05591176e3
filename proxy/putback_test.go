package proxy_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// A RESET that a function or a DO block runs returns to what the client's startup gave, as on a
// connection of its own: in the block, behind it, and where only a part of it stays.
func TestResetsInsideFunctions(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions+`CREATE SCHEMA one; CREATE TABLE one.place AS SELECT 'one' AS a; CREATE TABLE public.place AS SELECT 'public' AS a;
		CREATE PROCEDURE proceeds(text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE $1; END $$`)
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	calls := func(sql string) string { // does(text) by a FunctionCall
		return "F " + pg.SQL(t, "postgres", "SELECT 'does(text)'::regprocedure::oid") + " | " + sql + "\n< Z\n"
	}
	look := q("SELECT current_setting('TimeZone'), current_setting('DateStyle'), current_setting('search_path'), current_setting('extra_float_digits'), current_setting('work_mem'), current_setting('my.place', true)") + q("SELECT * FROM place")
	for name, script := range map[string]string{
		"DO":                    q("DO 'BEGIN RESET TimeZone; RESET search_path; END'") + look,
		"DO, all":               q("DO 'BEGIN RESET ALL; END'") + look,
		"DO, to a default":      q("DO 'BEGIN SET DateStyle TO DEFAULT; SET extra_float_digits TO DEFAULT; END'") + look,
		"DO, another":           q("DO 'BEGIN RESET TimeZone; SET TimeZone TO ''Europe/Berlin''; SET search_path TO public; END'") + look,
		"DO, the usual one":     q("DO 'BEGIN SET TimeZone TO ''UTC''; SET search_path TO public; END'") + look,
		"DO behind a SET":       q("SET search_path TO public") + q("SET TimeZone TO 'Europe/Berlin'") + q("DO 'BEGIN RESET search_path; RESET TimeZone; END'") + look,
		"CALL":                  q("CALL proceeds('RESET ALL')") + look,
		"DO in a block":         q("BEGIN") + q("DO 'BEGIN RESET ALL; END'") + look + q("COMMIT") + look,
		"DO, rolled back":       q("BEGIN") + q("DO 'BEGIN RESET ALL; END'") + look + q("ROLLBACK") + look,
		"function":              q("SELECT does('RESET TimeZone')") + q("SHOW TimeZone"),
		"function in a block":   q("BEGIN") + q("SELECT does('RESET search_path')") + look + q("COMMIT") + look,
		"local":                 q("BEGIN") + q("SELECT does('SET LOCAL search_path TO DEFAULT')") + look + q("COMMIT") + look,
		"local behind a SET":    q("BEGIN") + q("SET search_path TO public") + q("SELECT does('SET LOCAL search_path TO DEFAULT')") + look + q("COMMIT") + look,
		"at a savepoint":        q("BEGIN") + q("SET search_path TO public") + q("SAVEPOINT a") + q("SELECT does('RESET ALL')") + look + q("ROLLBACK TO a") + look + q("COMMIT") + look,
		"released":              q("BEGIN") + q("SAVEPOINT a") + q("SELECT does('RESET ALL')") + q("RELEASE a") + look + q("COMMIT") + look,
		"behind a failure":      q("BEGIN") + q("SELECT does('RESET ALL')") + q("SELECT 1/0") + q("COMMIT") + look,
		"in a failed statement": q("BEGIN") + q("SELECT does('RESET ALL'), 1/0") + q("COMMIT") + look,
		"extended":              q("BEGIN") + ext("SELECT does('RESET ALL')") + "S\n< Z\n" + look + ext("COMMIT") + "S\n< Z\n" + look,
		"of a kept backend":     q("LISTEN a") + q("SELECT does('RESET ALL')") + look,
		"chained":               q("BEGIN") + q("SELECT does('RESET ALL')") + q("COMMIT AND CHAIN") + look + q("COMMIT") + look,
		"with a dot":            q("LISTEN a") + q("SELECT does('RESET my.place')") + look + q("SET my.place TO two") + q("DO 'BEGIN RESET my.place; END'") + look,
		"with a dot, and empty": q("LISTEN a") + q("SET my.place TO ''") + q("DO 'BEGIN PERFORM 1; END'") + look + q("BEGIN") + q("SELECT does('SELECT 1')") + look + q("COMMIT") + look,
		"with a dot, in blocks": q("BEGIN") + q("SELECT does('RESET my.place')") + look + q("SET my.place TO two") + q("SELECT does('SELECT 1')") + look + q("COMMIT") + look,
		"by a FunctionCall":     q("BEGIN") + calls("RESET TimeZone") + look + calls("RESET my.place") + look + q("COMMIT") + look,
		"by a bare call":        calls("RESET TimeZone") + look + q("LISTEN a") + calls("RESET ALL") + look,
		"by set_config":         q("BEGIN") + q("SELECT does('SELECT set_config(''TimeZone'', NULL, false)')") + look + q("COMMIT") + look,
	} {
		t.Run(name, func(t *testing.T) {
			for route, opts := range map[string][]option{"plain": nil, "replay": {fastReplay}, "never": {configure(func(c *proxy.Config) { c.Reset = proxy.ResetNever })}} {
				s := startSluice(t, pg, append(opts, maxOpen(2))...)
				perform(t, s.addr, "Q SELECT 1\n< Z\n") // a backend tells what clients are told
				params := map[string]string{"TimeZone": "Asia/Tokyo", "DateStyle": "SQL, DMY", "search_path": "one", "extra_float_digits": "0", "work_mem": "8MB", "my.place": "one"}
				direct, _ := dialWith(t, pg.addr, params)
				c, _ := dialWith(t, s.addr, params)
				if got, want := c.play(t, script), direct.play(t, script); got != want {
					t.Errorf("%s: %s", route, firstDifference(got, want))
				}
			}
		})
	}
}

// A block in which startup values were looked at behind a call is not run again, whether any was reset: its client is
// told of the conflict, and stands in its block as PostgreSQL would have left it.
func TestPutBackBlocksAreNotReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions+changing)
	s := startSluice(t, pg, fastReplay, maxOpen(2))
	for _, call := range []string{"SELECT 1", "RESET work_mem"} {
		stumbles(t, pg, true)
		c, _ := startRaw(t, s.addr, map[string]string{"work_mem": "8MB"})
		got := c.say(t, "Q BEGIN\n< Z\nQ SELECT does('"+call+"')\n< Z\nQ SELECT stumble(1)\n< Z\nQ ROLLBACK\n< Z\nQ SHOW work_mem\n< Z\n")
		if !strings.Contains(got, conflictSeen) || !strings.Contains(got, "Z E") || !strings.Contains(got, "C ROLLBACK") || !strings.HasSuffix(got, "8MB\nC SHOW\\x00\nZ I\n") {
			t.Errorf("%s: told %s", call, got)
		}
	}
}

// What functions have left is the client's still where its transaction is not run again, and nobody else's.
func TestLeftBehindARefusedReplay(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", leavingFunctions+changing)
	q := func(sql string) string { return "Q " + sql + "\n< Z\n" }
	for name, script := range map[string]string{
		"in a block":     q("BEGIN") + q("SELECT does('SELECT pg_advisory_lock(1)')") + q("SELECT conflicts()") + q("ROLLBACK"),
		"by itself":      q("SELECT does('PREPARE left_statement AS SELECT 1'), conflicts()"),
		"without a word": q("BEGIN") + q("SELECT does('SELECT 1')") + q("SELECT conflicts()") + q("ROLLBACK"),
		"then a COMMIT":  q("BEGIN") + q("SELECT does('PREPARE left_statement AS SELECT 1')") + q("SELECT conflicts()") + q("SELECT 1") + q("COMMIT"),
		"given up later": q("SELECT does('SELECT pg_advisory_lock(1)'), conflicts()") + q("SELECT does('SELECT pg_advisory_unlock_all()')"),
		"extended":       q("BEGIN") + ext("SELECT does('SELECT pg_advisory_lock(1)')") + "S\n< Z\n" + ext("SELECT conflicts()") + "S\n< Z\n" + q("ROLLBACK"),
	} {
		t.Run(name, func(t *testing.T) {
			s := startSluice(t, pg, fastReplay, maxOpen(2), func(s *setup) { s.proxy.Retry.Policy.MaxRetries = 1 })
			direct, c := dialRaw(t, pg.addr), dialRaw(t, s.addr)
			want := direct.play(t, script+looksAround)
			direct.say(t, "X\n< $\n") // its lock must not meet that of the other
			got := c.play(t, script+looksAround)
			if _, want, _ := strings.Cut(want, "Q SELECT (SELECT count"); !strings.HasSuffix(got, want) {
				t.Errorf("told %s\ndirectly %s", got, want)
			}
			fresh := dialRaw(t, pg.addr).play(t, looksAround)
			for range 2 {
				if found := dialRaw(t, s.addr).play(t, looksAround); found != fresh {
					t.Errorf("another client finds\n%s", found)
				}
			}
		})
	}
}
