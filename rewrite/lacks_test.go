package rewrite

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A statement behind DDL of its text that may concern mapped columns says so, and no statement beside other DDL.
func TestBehindDDL(t *testing.T) {
	t.Parallel()
	p, err := New(Config{MaxBytes: DefaultMaxBytes, MaxNesting: DefaultMaxNesting, CacheEntries: 1000, CacheBytes: 1 << 20, Rules: Rules{Bytea: ByteaHex, InTransactions: CommitDDL}})
	if err != nil {
		t.Fatal(err)
	}
	names := schema.New([]schema.Relation{{Schema: "public", Name: "m", Columns: []schema.Column{{Name: "k", Mapped: true}, {Name: "v"}}}, {Schema: "other", Name: "m"},
		{Schema: "public", Name: "u", Columns: []schema.Column{{Name: "k"}}}}).ResolverFor([]string{"other", "public"})
	for sql, want := range map[string]bool{
		"CREATE TABLE n (k bytea PRIMARY KEY); INSERT INTO n VALUES ('a')": true, "BEGIN; CREATE TABLE n (k bytea PRIMARY KEY); COMMIT; SELECT * FROM n": true,
		"CREATE TABLE n (k bytea PRIMARY KEY); CREATE INDEX ON n (k)": true, "ALTER TABLE public.m ADD COLUMN w int; SELECT * FROM public.m": true,
		"ALTER TABLE public.m RENAME TO n; SELECT * FROM n": true, "ALTER TABLE u RENAME TO m; SELECT * FROM m": true, "DROP TABLE other.m; SELECT * FROM m": true,
		"CREATE TABLE other.u (k bytea PRIMARY KEY); SELECT * FROM u": true, "CREATE TABLE n (k bytea PRIMARY KEY); COMMENT ON COLUMN n.k IS 'x'": true,
		"DROP TABLE other.m; COMMENT ON COLUMN m.k IS 'x'": true, "CREATE TABLE n (k bytea PRIMARY KEY); COMMENT ON TABLE u IS 'x'": false,
		"CREATE TABLE n (k bytea); INSERT INTO n VALUES ('a')": false, "ALTER TABLE u ADD COLUMN w int; SELECT * FROM u": false, "CREATE TABLE n (k bytea PRIMARY KEY); SELECT 1": false,
		"CREATE TABLE n (k bytea PRIMARY KEY); CREATE TABLE o (k bytea PRIMARY KEY)": false, "CREATE TABLE n (k bytea PRIMARY KEY); SELECT * FROM u": false,
		"SELECT * FROM m; ALTER TABLE public.m ADD COLUMN w int": false, "ALTER TABLE public.m ADD COLUMN w int; DROP TABLE public.m": false, "BEGIN; DROP TABLE public.m; COMMIT": false,
	} {
		plan := p.PlanWithNames([]byte(sql), names)
		if plan.BehindDDL != want || want && !plan.ExceedsTransaction() {
			t.Errorf("%s: %t, exceeds a transaction: %t", sql, plan.BehindDDL, plan.ExceedsTransaction())
		}
	}
}

// A text that names a relation which the snapshot lacks says so, however it names it; texts
// that name none of those are not parsed for it.
func TestLacks(t *testing.T) {
	t.Parallel()
	p, err := New(Config{MaxBytes: DefaultMaxBytes, MaxNesting: DefaultMaxNesting, CacheEntries: 1000, CacheBytes: 1 << 20, Rules: Rules{Bytea: ByteaHex}})
	if err != nil {
		t.Fatal(err)
	}
	names := schema.New([]schema.Relation{{Schema: "public", Name: "t"}, {Schema: "public", Name: "u"}, {Schema: "other", Name: "o"},
		{Schema: "public", Name: "Odd name"}, {Schema: "pg_catalog", Name: "pg_class"}}).ResolverFor([]string{"public"})
	for _, sql := range []string{
		"SELECT * FROM x", "SELECT * FROM t, x", "SELECT * FROM (t JOIN x ON true)", "SELECT * FROM ((x CROSS JOIN u) CROSS JOIN t)", "select * from T join X on true",
		"SELECT * FROM t WHERE a IN (SELECT a FROM u, x)", "SELECT (SELECT 1 FROM x)", "SELECT * FROM ONLY x", "SELECT * FROM f(1), x", "TABLE x",
		"INSERT INTO x VALUES (1)", "INSERT INTO x(a) VALUES (1)", "INSERT INTO t SELECT * FROM x", "UPDATE x SET a = 1", "UPDATE t SET a = 1 FROM u, x",
		"DELETE FROM x", "DELETE FROM t USING u, x", "MERGE INTO x USING t ON true WHEN MATCHED THEN DELETE", "MERGE INTO t USING x ON true WHEN MATCHED THEN DELETE",
		"COPY x FROM STDIN", "COPY x TO STDOUT", "COPY (SELECT * FROM x) TO STDOUT", "SELECT * FROM o", "SELECT * FROM public.x", "SELECT * FROM other.t", "SELECT * FROM db.public.x",
		`SELECT * FROM "T"`, `SELECT * FROM "odd name"`, `SELECT * FROM U&"\0078"`, "WITH c AS (SELECT * FROM x) SELECT * FROM c", "WITH t2 AS (SELECT 1) SELECT * FROM t2, x",
		"SELECT 1 UNION SELECT a FROM x", "SELECT * FROM t LEFT JOIN LATERAL (SELECT * FROM x) s ON true", "EXPLAIN SELECT * FROM x", "SELECT 1; SELECT * FROM x",
		"SELECT a, count(*) FROM t GROUP BY a, b HAVING EXISTS (TABLE x)", "SELECT EXTRACT(year FROM a) FROM t, x", "CREATE VIEW v AS SELECT * FROM x", "SELECT * FROM t JOIN u USING (a), x",
		"PREPARE p AS SELECT * FROM x", "DECLARE c CURSOR FOR SELECT * FROM x", "SELECT * INTO n FROM x",
		"ALTER TABLE x ADD COLUMN a int", "CREATE INDEX ON x (a)", "CREATE UNIQUE INDEX ASYNC i ON public.x (a)", "CREATE TABLE n (a int REFERENCES x)", "CREATE TABLE n (LIKE x)",
		"CREATE TABLE n AS SELECT * FROM x", "SELECT 1; ALTER TABLE x DROP COLUMN a", "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES x NOT VALID", "ALTER TABLE x RENAME COLUMN a TO b",
	} {
		if !names.NeedsParse([]byte(sql)) {
			t.Errorf("%s: its words do not tell", sql)
		}
		if !p.PlanWithNames([]byte(sql), names).Lacks {
			t.Errorf("%s: lacks nothing", sql)
		}
	}
	for _, sql := range []string{
		"SELECT 1", "SELECT * FROM t", `SELECT * FROM public.t, "Odd name", other.o AS x`, "INSERT INTO t (a, b) VALUES ($1, $2) ON CONFLICT (a) DO UPDATE SET b = excluded.b",
		"UPDATE t SET a = 1, b = x.c WHERE d = 2 RETURNING e, f", "DELETE FROM t WHERE a = $1", "SELECT a, b FROM t x, u y WHERE x.a = y.a GROUP BY c, d ORDER BY e, f LIMIT 1",
		"SELECT * FROM generate_series(1, 2) g, pg_class, pg_catalog.pg_class c", "SELECT * FROM information_schema.tables, sys.jobs", "SELECT a FROM t FOR UPDATE SKIP LOCKED",
		"SELECT a FROM t FOR UPDATE OF t NOWAIT", "SELECT * FROM t WHERE a = ANY (SELECT b FROM u) AND c IN (d, e)", "BEGIN", "COMMIT", "SELECT * FROM unnest($1::int[]) WITH ORDINALITY",
	} {
		if names.NeedsParse([]byte(sql)) {
			t.Errorf("%s: is parsed for its names", sql)
		}
	}
	for _, sql := range []string{"WITH c AS (SELECT 1) SELECT * FROM c", "SELECT * FROM t JOIN u USING (a)", "SELECT EXTRACT(year FROM a) FROM t",
		"SELECT a IS DISTINCT FROM b FROM t", "CREATE TABLE x (a int)", "CREATE TABLE IF NOT EXISTS x (a int REFERENCES t)", "CREATE VIEW x AS TABLE t", "CREATE SEQUENCE x", "ALTER TABLE t ADD COLUMN a int", "CREATE INDEX x ON t (a)", "DROP TABLE x", "CREATE TABLE x AS SELECT * FROM t", "SELECT * FROM t x, LATERAL f(x.a)"} {
		if p.PlanWithNames([]byte(sql), names).Lacks {
			t.Errorf("%s: lacks something", sql)
		}
	}
}
