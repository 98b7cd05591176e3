package rewrite

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

func TestScan(t *testing.T) {
	t.Parallel()
	for want, texts := range map[*Plan][]string{
		emptyPlan: {"", " ", ";", ";; ;", "-- ping", "/* a */", "/* /* */ */;--"},
		selectPlan: {
			"SELECT abalance FROM pgbench_accounts WHERE aid = 123",
			"select 1;",
			" /* app:x */ SELECT 1 -- done",
			";SELECT 1 ; ;",
			"SELECT count(*) FROM t WHERE a IN (1, 2) AND (b = 'c' OR NOT (d)) LIMIT (5)",
			"SELECT pg_catalog.count(*), max(a) filter (where b > 1) over (partition by c) FROM x.y",
			"SELECT a.b.c, d[1], (e), $1, 'text; FOR UPDATE', \"quoted\", E'it\\'s', $$dollar for$$ FROM t",
			"SELECT cast(a AS numeric(10, 2)), b::varchar(3), CASE WHEN (a) THEN (b) ELSE (c) END FROM t",
			"SELECT * FROM a JOIN b USING (c) LEFT JOIN d ON (a.x = d.x) ORDER BY 1",
			"SELECT 1 UNION ALL (SELECT 2)",
			"SELECT coalesce(a, now()), extract(year from b), EXISTS (SELECT 1) FROM t",
			"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t",
			"SELECT forgotten, intoxicated, forward FROM withered",
			"SELECT 1.5, .5, 10",
			"SELECT a FROM t WHERE b = ANY ($1) AND c -> 'd' ->> 'e' = 'f'",
			"SELECT " + strings.Repeat("1 + ", 30_000) + "1",
		},
		valuesPlan: {"VALUES (1), (2)"},
		updatePlan: {
			"UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 123456;",
			"UPDATE t SET (a, b) = (1, now()) WHERE c = 1",
			"UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1",
		},
		insertPlan: {
			"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 2, 3, 4, CURRENT_TIMESTAMP)",
			"insert /* c */ into t default values",
			`INSERT INTO t ("do", update) SELECT 1, 2 ON CONFLICT DO NOTHING`,
		},
		upsertPlan: {
			`INSERT INTO "t" ("a", "b") VALUES ($1, lower($2)) ON CONFLICT ("a") DO UPDATE SET b = excluded.b RETURNING *`,
			"insert INTO t VALUES (1) on conflict (a) where b do/**/\nUpDate SET a = 1",
		},
		deletePlan: {"DELETE FROM t WHERE a = 1 AND b IN (1, lower(c))"},
	} {
		for _, text := range texts {
			if got, _ := planByWords([]byte(text)); got != want && (got != sureSelect || want != selectPlan) {
				t.Errorf("%.80q: got %v, want kind %d", text, got, want.Kind)
			}
			if len(text) < 1000 {
				agree(t, text)
			}
		}
	}
}

func TestScanReadsNothingBehindTheText(t *testing.T) {
	t.Parallel()
	text := []byte(`SELECT E'\`) // the backslash takes along what is not there
	if got, _ := planByWords(text[:len(text):len(text)]); got != nil {
		t.Errorf("got kind %d, want it left to the parser", got.Kind)
	}
}

func TestScanLeavesToTheParser(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"BEGIN", "SET a = 1", "CREATE TABLE t (a int)", "WITH a AS (SELECT 1) SELECT 1", "TABLE t", "(SELECT 1)", "EXPLAIN SELECT 1",
		"SELECT 1 FOR UPDATE", "select 1 FoR share", "SELECT * INTO t FROM u", "SELECT 1; SELECT 2", "SELECT 1;;x",
		"SELECT f(1)", `SELECT "f"(1)`, `SELECT U&"\0066"(1)`, "SELECT public.count(1)", "SELECT pg_catalog(1)", "SELECT x.pg_catalog.count(1)",
		"SELECT pg_catalog.f(1)", "SELECT over(1)", "SELECT filter(1)", "SELECT f /* c */ (1)", "SELECT f\n(1)",
		"SELECT ('s'::regclass).nextval", "SELECT (a).b FROM t", "SELECT a[1].b FROM t", "SELECT $1.b",
		"SELECT nextval('s')", "SELECT set_config('a', 'b', true)", "SELECT currval('s')", "SELECT lastval()", "SELECT setseed(1)",
		"SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_xact_lock(1)", "SELECT pg_temp.f()", "SELECT * FROM pg_temp_1.t",
		"SELECT pg_notify('a', 'b')", "SELECT pg_terminate_backend(1)", "SELECT dblink('a')", "SELECT lo_unlink(1)",
		"UPDATE pg_settings SET setting = 1", `UPDATE "pg_settings" SET setting = 1`, "INSERT INTO t SELECT set_config('a', 'b', false)",
		"INSERT INTO t SELECT * FROM u FOR UPDATE", "INSERT INTO pg_temp.t VALUES (1)", `DELETE FROM "pg_temp".t`,
		`SELECT "set_config"('a', 'b', false)`, "INSERT INTO t VALUES (('s'::regclass).CURRVAL)", "WITH a AS (DELETE FROM t) SELECT 1",
		"SELECT 'open", `SELECT "open`, "SELECT /* open", "SELECT $a$ open", "SELECT E'\\'", "SELECT 1a", "SELECT $1a", "SELECT 0x1F",
		"SELECT E'\xff\\'", "SELECT 1\x00", "INSERT t VALUES (1)", "INSERT \"into\" t",
		"SELECT a FROM t x(y)",
		"INSERT INTO t VALUES (my_function(1))", "INSERT INTO t (a) SELECT f(1)", "UPDATE t SET a = f(1)", `DELETE FROM t WHERE "f"(a)`,
		"UPDATE t SET a = b.set(1)", "DELETE FROM t WHERE (a).f = 1",
	} {
		if got, _ := planByWords([]byte(text)); got != nil {
			t.Errorf("%q was cleared as kind %d", text, got.Kind)
		}
	}
}

// agree checks that what the scan says of a text is what its tree says.
func agree(t *testing.T, text string) {
	t.Helper()
	cleared, _ := planByWords([]byte(text))
	if cleared == nil || Defaults().checkLimits([]byte(text)) != parse.Fits {
		return
	}
	tree, err := parse.Tree(text)
	if err != nil {
		return // the server refuses it just so
	}
	full, _ := buildPlan(text, tree)
	if full.Kind != cleared.Kind || full.Contends != cleared.Contends || full.Pin != NoPin || len(full.Statements) != len(cleared.Statements) {
		t.Fatalf("%q: the scan says kind %d, the tree %s", text, cleared.Kind, describe(full))
	}
	for i, st := range full.Statements {
		if command, known := st.ReadOnlyViolation(); command != cleared.Statements[i].writeCommand || !known {
			t.Fatalf("%q in a transaction that is READ ONLY: the scan says %q, the tree %q, %v", text, cleared.Statements[i].writeCommand, command, known)
		}
		if len(st.Changes) > 0 || st.Calls || st.Copy != NoCopy || st.Show != "" || st.Tx.Verb != NoVerb {
			t.Fatalf("%q: the scan has missed %s", text, describe(full))
		}
	}
}
