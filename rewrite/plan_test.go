package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/parse"
)

var (
	kindNames = []string{"empty", "read", "setting", "control", "write", "ddl", "unknown"}
	pinNames  = [pinCount]string{"", "prepare", "listen", "hold", "temp", "advisory", "set_config", "sequence", "seed",
		"load", "procedural", "unparsed", "role"}
	verbNames = []string{"", "begin", "commit", "rollback", "savepoint", "release", "rollback to", "prepare",
		"commit prepared", "rollback prepared", "set transaction", "characteristics"}
	isolationNames = []string{"", "read uncommitted", "read committed", "repeatable read", "serializable"}
	actionNames    = []string{"set", "local", "reset", "reset all", "discard all"}
)

// describe writes what a plan says, as short as can be: per statement the kind,
// then what else there is.
func describe(p *Plan) string {
	if len(p.Statements) == 0 {
		return strings.TrimSuffix(kindNames[p.Kind]+" pin:"+pinNames[p.Pin], " pin:")
	}
	var all []string
	for _, st := range p.Statements {
		words := []string{kindNames[st.Kind]}
		say := func(ok bool, format string, args ...any) {
			if ok {
				words = append(words, fmt.Sprintf(format, args...))
			}
		}
		say(st.Tx.Verb != NoVerb, "%s", verbNames[st.Tx.Verb])
		say(st.Tx.Isolation != DefaultIsolation, "[%s]", isolationNames[st.Tx.Isolation])
		say(st.Tx.ReadOnly, "[read only]")
		say(st.Tx.ReadWrite, "[read write]")
		say(st.Tx.Deferrable, "[deferrable]")
		say(st.Tx.Waits, "[waits]")
		say(st.Tx.Chain, "[chain]")
		say(st.Tx.Name != "", "name:%s", st.Tx.Name)
		say(st.Tx.Snapshot != "", "snapshot:%s", st.Tx.Snapshot)
		for _, c := range st.Changes {
			words = append(words, strings.TrimSpace(actionNames[c.Action]+" "+c.Name))
			say(c.SQL != "", "= %s", c.SQL)
			say(c.Text != "", "(%s)", c.Text)
		}
		say(st.Show != "", "show:%s", st.Show)
		say(st.Deallocate != "", "deallocate:%s", st.Deallocate)
		say(st.Does == DeallocatesAll, "deallocate all")
		say(st.Copy != NoCopy, "copy")
		say(len(st.Tables) > 0, "%s", strings.Join(st.Tables, ","))
		say(st.Pin != NoPin, "pin:%s", pinNames[st.Pin])
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}

// parsed plans a text by the parser, whatever the scan says.
func parsed(t testing.TB, sql string) *Plan {
	t.Helper()
	if Defaults().checkLimits([]byte(sql)) != parse.Fits {
		t.Fatalf("%.80q is over the guard", sql)
	}
	tree, err := parse.Tree(sql)
	if err != nil {
		t.Fatalf("%q: %v", sql, err)
	}
	plan, _ := buildPlan(sql, tree)
	return plan
}

type planCase struct{ sql, want string }

func checkPlans(t *testing.T, cases []planCase) {
	t.Helper()
	t.Parallel()
	for _, c := range cases {
		if got := describe(parsed(t, c.sql)); got != c.want {
			t.Errorf("%s\n got  %s\n want %s", c.sql, got, c.want)
		}
	}
}

func TestQueries(t *testing.T) {
	checkPlans(t, []planCase{
		{"SELECT 1", "read"},
		{"VALUES (1), (2)", "read"},
		{"TABLE a", "read a"},
		{"SELECT abalance FROM pgbench_accounts WHERE aid = 1", "read pgbench_accounts"},
		{"SELECT count(*), max(a), now(), random(), gen_random_uuid(), version() FROM t", "read t"},
		{"SELECT a, lag(b) OVER (PARTITION BY c ORDER BY d) FROM t", "read t"},
		{"SELECT coalesce(a, greatest(b, nullif(c, 1))), CASE WHEN d THEN 1 END, e[1], (f).g FROM t", "write t"},
		{"SELECT coalesce(a, greatest(b, nullif(c, 1))), CASE WHEN d THEN 1 END, e[1], f.g FROM t f", "read t"},
		{"SELECT extract(epoch FROM a), a AT TIME ZONE 'UTC', substring(b FROM 1 FOR 2), trim(c), position('x' IN d), " +
			"overlay(e PLACING 'a' FROM 1), a LIKE 'x' ESCAPE 'y', b SIMILAR TO 'x', normalize(c), a::date + interval '1 day', " +
			"(a, b) OVERLAPS (c, d), collation for (e), current_user, current_date FROM t", "read t"},
		{"SELECT pg_catalog.count(*) FROM pg_catalog.pg_class", "read pg_catalog.pg_class"},
		{"SELECT pg_sleep(1), current_setting('a.b'), pg_backend_pid()", "read"},
		{"SELECT * FROM generate_series(1, 10) g, unnest(ARRAY[1]) u", "read"},

		{"SELECT my_function(1)", "write"},
		{"SELECT public.count(1)", "write"},
		{`SELECT "Count"(1)`, "write"},
		{"SELECT * FROM my_function()", "write"},
		{"SELECT 1 WHERE EXISTS (SELECT f() FROM t)", "write t"},
		{"SELECT count(*) FILTER (WHERE f(1)) FROM t", "write t"},
		{"SELECT pg_terminate_backend(1)", "write"},
		{"SELECT lo_creat(1)", "write"},
		{"SELECT query_to_xml('DELETE FROM t', true, true, '')", "write"},
		{"SELECT ts_stat('SELECT f()')", "write"},
		{"SELECT pg_notify('a', 'b')", "write"},
		{"SELECT nextval('s')", "write"},
		{"SELECT setval('s', 1)", "write"},
		{"SELECT ('s'::regclass).nextval", "write"},
		{"SELECT ($1).f", "write"},

		{"SELECT 1 FOR UPDATE", "write"},
		{"SELECT * FROM a.b x, c WHERE true FOR SHARE OF x NOWAIT", "write a.b,c"},
		{"SELECT * FROM (SELECT * FROM t FOR KEY SHARE SKIP LOCKED) s", "write t"},
		{"WITH x AS (SELECT * FROM t FOR NO KEY UPDATE) SELECT * FROM x", "write t"},
		{"WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x", "write t"},
		{"SELECT * INTO b FROM a", "ddl b,a"},
		{"SELECT * INTO TEMP b FROM a", "ddl b,a pin:temp"},
		{"SELECT * INTO TEMPORARY TABLE b FROM a", "ddl b,a pin:temp"},

		{"INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a", "write t"},
		{"INSERT INTO a.t SELECT * FROM b JOIN c USING (x)", "write a.t,b,c"},
		{"UPDATE t SET a = s.a FROM s WHERE s.b = t.b", "write t,s"},
		{"UPDATE t SET a = 1 WHERE CURRENT OF c", "write t"},
		{"DELETE FROM t USING s WHERE t.a IN (SELECT a FROM r)", "write t,s,r"},
		{"MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE", "write t,s"},
		{"LOCK TABLE a, b IN SHARE MODE", "write a,b"},
		{"TRUNCATE a, b.c", "write a,b.c"},
		{"NOTIFY a, 'b'", "write"},
		{"CHECKPOINT", "write"},
		{"SET CONSTRAINTS ALL DEFERRED", "write"},
	})
}

// TestApplicationTexts has the forms that a workflow engine's persistence sends.
func TestApplicationTexts(t *testing.T) {
	checkPlans(t, []planCase{
		{"SELECT range_id FROM shards WHERE shard_id = $1 FOR UPDATE", "write shards"},
		{"SELECT next_event_id FROM executions\n WHERE shard_id = $1 AND run_id = $2 FOR SHARE", "write executions"},
		{"SELECT c.run_id FROM current_runs c\nINNER JOIN runs r ON r.id = c.id AND r.shard = c.shard WHERE c.shard = $1 FOR UPDATE OF c",
			"write current_runs,runs"},
		{"SELECT * FROM history WHERE (shard, tree, branch) > ($1, $2, $3) ORDER BY shard, tree LIMIT $4", "read history"},
		{"INSERT INTO queue (type, id) VALUES ($1, (SELECT coalesce(max(id), -1) + 1 FROM queue WHERE type = $1))", "write queue"},
		{"DELETE FROM members WHERE id = ANY(ARRAY(\nSELECT id FROM members WHERE expiry < $1 LIMIT 10))", "write members"},
		{"UPDATE tasks SET data = $1 WHERE id = $2 AND version = $3;", "write tasks"},
		{"SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()", "read pg_catalog.pg_tables"},
		{"CREATE INDEX i ON visibility USING gin (a jsonb_path_ops) WHERE b IS NULL", "ddl visibility"},
		{"CREATE TABLE v (a jsonb, b text GENERATED ALWAYS AS (a->>'b') STORED, PRIMARY KEY (b))", "ddl v"},
		{"ALTER TABLE v ADD COLUMN c VARCHAR(255) NOT NULL DEFAULT '', DROP COLUMN d", "ddl v"},
		{"CREATE DATABASE d", "ddl"},
		{"DROP DATABASE IF EXISTS d", "ddl"},
		{"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
			"write pg_stat_activity"},
	})
}

func TestTables(t *testing.T) {
	checkPlans(t, []planCase{
		{"SELECT * FROM b, a, b", "read b,a"},
		{`SELECT * FROM "Mixed"."Case"`, "read Mixed.Case"},
		{"SELECT * FROM db.sch.t", "read db.sch.t"},
		{"SELECT a.x FROM t a JOIN LATERAL (SELECT * FROM u) b ON true", "read t,u"},
		{"SELECT (SELECT 1 FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c)", "read a,b,c"},
		{"SELECT 1 FROM a UNION SELECT 1 FROM b EXCEPT (SELECT 1 FROM c)", "read a,b,c"},
		{"SELECT * FROM ONLY a TABLESAMPLE system (1)", "read a"},

		{"WITH a AS (SELECT * FROM b) SELECT * FROM a", "read b"},
		{"WITH a AS (SELECT * FROM a) SELECT * FROM a", "read a"},
		{"WITH RECURSIVE a AS (SELECT 1 UNION SELECT * FROM a) SELECT * FROM a", "read"},
		{"WITH a AS (SELECT 1), b AS (SELECT * FROM a, c) SELECT * FROM b", "read c"},
		{"WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", "read b"},
		{"SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) s, a", "read a"},
		{"WITH a AS (SELECT 1) SELECT * FROM public.a", "read public.a"},
		{"WITH a AS (SELECT 1) INSERT INTO a SELECT * FROM a", "write a"},
		{"WITH a AS (SELECT 1) UPDATE b SET x = 1 FROM a", "write b"},
		{"WITH a AS (SELECT 1) SELECT 1 FROM a UNION SELECT 1 FROM a, b", "read b"},
	})
}

func TestDefinitions(t *testing.T) {
	checkPlans(t, []planCase{
		{"CREATE TABLE IF NOT EXISTS s.t (a int PRIMARY KEY REFERENCES u, b text DEFAULT lastval())", "ddl s.t,u"},
		{"ALTER TABLE t ADD COLUMN a int", "ddl t"},
		{"DROP TABLE IF EXISTS a, s.b CASCADE", "ddl a,s.b"},
		{"DROP VIEW v", "ddl v"},
		{"DROP INDEX i", "ddl"},
		{"CREATE UNIQUE INDEX i ON t (a)", "ddl t"},
		{"CREATE VIEW v AS SELECT f() FROM t", "ddl v,t"},
		{"CREATE VIEW v AS SELECT currval('s')", "ddl v"},
		{"CREATE MATERIALIZED VIEW v AS SELECT 1", "ddl v"},
		{"CREATE SEQUENCE s", "ddl s"},
		{"CREATE DATABASE d", "ddl"},
		{"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "ddl"},
		{"GRANT SELECT ON a, b TO c", "ddl a,b"},
		{"REVOKE ALL ON SCHEMA s FROM c", "ddl"},
		{"COMMENT ON TABLE t IS 'x'", "ddl"},
		{"VACUUM ANALYZE t", "ddl t"},
		{"ANALYZE", "ddl"},
		{"REINDEX TABLE t", "ddl t"},
		{"ALTER SYSTEM SET a = 1", "ddl"},
		{"ALTER ROLE r SET a = 1", "ddl"},

		{"CREATE TEMP TABLE t (a int)", "ddl t pin:temp"},
		{"CREATE LOCAL TEMPORARY TABLE t (a int) ON COMMIT DROP", "ddl t pin:temp"},
		{"CREATE TABLE pg_temp.t (a int)", "ddl pg_temp.t pin:temp"},
		{"CREATE TEMP TABLE t AS SELECT 1", "ddl t pin:temp"},
		{"CREATE TABLE t AS SELECT setseed(0.5)", "ddl t pin:seed"},
		{"CREATE TEMP VIEW v AS SELECT 1", "ddl v pin:temp"},
		{"CREATE TEMP SEQUENCE s", "ddl s pin:temp"},
		{"CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "ddl pin:temp"},
		{"SELECT pg_temp.f()", "write pin:temp"},
		{"SELECT 'pg_temp'", "read"},
		{"INSERT INTO pg_temp_3.t VALUES (1)", "write pg_temp_3.t pin:temp"},
		{"DROP TABLE pg_temp.t", "ddl pg_temp.t pin:temp"},
	})
}

func TestPins(t *testing.T) {
	checkPlans(t, []planCase{
		{"PREPARE p AS SELECT set_config('a', 'b', false) FROM t", "write t pin:prepare"},
		{"PREPARE p (int) AS INSERT INTO t VALUES ($1)", "write t pin:prepare"},
		{"EXECUTE p (1)", "write pin:prepare"},
		{"EXPLAIN EXECUTE p", "read pin:prepare"},
		{"CREATE TABLE t AS EXECUTE p", "ddl t pin:prepare"},
		{"LISTEN a", "write pin:listen"},
		{"UNLISTEN *", "write"},
		{"LOAD 'auto_explain'", "write pin:load"},
		{"DO $$ BEGIN END $$", "ddl pin:procedural"},
		{"CALL p(1)", "ddl pin:procedural"},
		{"DECLARE c CURSOR FOR SELECT * FROM t", "read t"},
		{"DECLARE c CURSOR FOR SELECT * FROM t FOR UPDATE", "write t"},
		{"DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT * FROM t", "read t pin:hold"},
		{"DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1", "read"},
		{"FETCH 10 FROM c", "write"},
		{"MOVE c", "write"},
		{"CLOSE ALL", "write"},

		{"SELECT pg_advisory_lock(1)", "write pin:advisory"},
		{"SELECT pg_catalog.pg_try_advisory_lock_shared(1, 2)", "write pin:advisory"},
		{"SELECT (1::bigint).pg_advisory_lock", "write pin:advisory"},
		{"SELECT pg_advisory_xact_lock(1)", "write"},
		{"SELECT pg_advisory_unlock_all()", "write"},
		{"SELECT other.pg_advisory_lock(1)", "write"},
		{"SELECT currval('s')", "write"},
		{"INSERT INTO t VALUES (1) RETURNING lastval()", "write t"},
		{"SELECT setseed(0.5)", "write pin:seed"},
		{"SELECT set_config('a', 'b', false)", "write local pin:set_config"},
		{"SELECT set_config('a', 'b', true)", "write local"},
		{"SELECT set_config('a', 'b', $1)", "write local pin:set_config"},
		{"SELECT set_config(is_local => true, setting_name => 'a', new_value => 'b')", "write local pin:set_config"},
		{"UPDATE pg_settings SET setting = 'a' WHERE name = 'b'", "write pg_settings pin:set_config"},
		{"UPDATE t SET a = (SELECT set_config('a', 'b', false))", "write local t pin:set_config"},
		{"SELECT lastval FROM t", "read t"},

		{"EXPLAIN SELECT f(), set_config('a', 'b', false) FROM t FOR UPDATE", "read t"},
		{"EXPLAIN INSERT INTO t VALUES (1)", "read t"},
		{"EXPLAIN (ANALYZE off) INSERT INTO t VALUES (1)", "read t"},
		{"EXPLAIN (ANALYZE 0) INSERT INTO t VALUES (1)", "read t"},
		{"EXPLAIN ANALYZE SELECT * FROM t", "read t"},
		{"EXPLAIN ANALYZE INSERT INTO t VALUES (1)", "write t"},
		{"EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM t FOR UPDATE", "write t"},
		{"EXPLAIN (ANALYZE true) SELECT setseed(0)", "write pin:seed"},
		{"EXPLAIN ANALYZE CREATE TABLE u AS SELECT * FROM t", "ddl u,t"},

		{"COPY t FROM STDIN", "write copy t"},
		{"COPY t (a, b) TO STDOUT (FORMAT csv)", "read copy t"},
		{"COPY (SELECT f() FROM t) TO STDOUT", "write copy t"},
		{"COPY t TO '/tmp/x'", "write t"},
		{"COPY t FROM PROGRAM 'x'", "write t"},
	})
}

func TestTransactionControl(t *testing.T) {
	checkPlans(t, []planCase{
		{"BEGIN", "control begin"},
		{"BEGIN WORK", "control begin"},
		{"START TRANSACTION READ WRITE", "control begin [read write]"},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ", "control begin [repeatable read]"},
		{"BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", "control begin [serializable] [read only] [deferrable] [waits]"},
		{"BEGIN NOT DEFERRABLE, DEFERRABLE", "control begin [deferrable] [waits]"},
		{"BEGIN DEFERRABLE NOT DEFERRABLE", "control begin [deferrable]"},
		{"BEGIN NOT DEFERRABLE", "control begin [deferrable]"},
		{"COMMIT", "control commit"},
		{"END", "control commit"},
		{"COMMIT AND CHAIN", "control commit [chain]"},
		{"COMMIT AND NO CHAIN", "control commit"},
		{"ROLLBACK", "control rollback"},
		{"ABORT", "control rollback"},
		{"ROLLBACK AND CHAIN", "control rollback [chain]"},
		{"SAVEPOINT a", "control savepoint name:a"},
		{"RELEASE a", "control release name:a"},
		{`ROLLBACK TO SAVEPOINT "B c"`, "control rollback to name:B c"},
		{"PREPARE TRANSACTION 'x'", "control prepare name:x"},
		{"COMMIT PREPARED 'x'", "control commit prepared name:x"},
		{"ROLLBACK PREPARED 'x'", "control rollback prepared name:x"},
		{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "control set transaction [read committed] [read only]"},
		{"SET LOCAL TRANSACTION READ ONLY", "control set transaction [read only]"},
		{"SET TRANSACTION SNAPSHOT '0-1'", "control set transaction snapshot:0-1"},
		{"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE, NOT DEFERRABLE",
			"setting characteristics [serializable] [read write] [deferrable] " +
				"set default_transaction_isolation = 'serializable' (serializable) " +
				"set default_transaction_read_only = 'off' (off) set default_transaction_deferrable = 'off' (off)"},
	})
}

func TestDeferrableBegin(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"BEGIN":                                 true,
		"begin transaction read write":          true,
		"BEGIN ISOLATION LEVEL REPEATABLE READ": true,
		"BEGIN ISOLATION LEVEL READ COMMITTED":  false,
		"BEGIN ISOLATION LEVEL SERIALIZABLE":    false,
		"BEGIN READ ONLY":                       false,
		"BEGIN READ ONLY READ WRITE":            false,
		"BEGIN DEFERRABLE":                      false,
		"COMMIT":                                false,
		"SET TRANSACTION READ WRITE":            false,
		"START TRANSACTION READ WRITE, ISOLATION LEVEL REPEATABLE READ": true,
	} {
		if got := parsed(t, sql).SingleStatement().Tx.IsDeferrableBegin(); got != want {
			t.Errorf("%s: got %v, want %v", sql, got, want)
		}
	}
}

func TestOddStatements(t *testing.T) {
	checkPlans(t, []planCase{
		{"", "empty"},
		{" ;; ", "empty"},
		{"-- ping", "empty"},
		{"/* a /* nested */ one */ ; -- and more", "empty"},
		{"SHOW TimeZone", "read show:timezone"},
		{"SHOW TIME ZONE", "read show:timezone"},
		{"SHOW ALL", "read show:all"},
		{"SHOW my.custom", "read show:my.custom"},
		{"SHOW TRANSACTION ISOLATION LEVEL", "read show:transaction_isolation"},
		{"DEALLOCATE a", "setting deallocate:a"},
		{`DEALLOCATE PREPARE "A b"`, "setting deallocate:A b"},
		{"DEALLOCATE ALL", "setting deallocate all"},
		{"DISCARD ALL", "setting discard all"},
		{"DISCARD PLANS", "setting"},
		{"DISCARD SEQUENCES", "setting"},
		{"DISCARD TEMP", "setting"},
	})
}

func TestStatementsOfOneText(t *testing.T) {
	t.Parallel()
	const sql = "  /* a; */ SELECT 1 ; -- b;\n\tUPDATE t SET a = 'x;y';;BEGIN; LISTEN c;DO '' ; SELECT 'é' "
	p := parsed(t, sql)
	want := "read; write t; control begin; write pin:listen; ddl pin:procedural; read"
	if got := describe(p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p.Kind != DDL || p.Pin != PinListen {
		t.Errorf("kind %d, pin %d: want the greatest kind and the first pin", p.Kind, p.Pin)
	}
	if p.SingleStatement() != nil {
		t.Error("Single of six statements")
	}
	var texts []string
	for _, st := range p.Statements {
		texts = append(texts, sql[st.Start:st.End])
	}
	wantTexts := "SELECT 1|UPDATE t SET a = 'x;y'|BEGIN|LISTEN c|DO ''|SELECT 'é'"
	if got := strings.Join(texts, "|"); got != wantTexts {
		t.Errorf("got  %s\nwant %s", got, wantTexts)
	}
}
