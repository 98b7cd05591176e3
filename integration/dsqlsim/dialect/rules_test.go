package dialect

import (
	"strings"
	"testing"
)

// refusals is the table of what DSQL refuses; the evidence of each is at its rule.
var refusals = []struct{ sql, code, message string }{
	{"SAVEPOINT s", "0A000", "unsupported transaction statement: SAVEPOINT"},
	{"ROLLBACK TO SAVEPOINT s", "0A000", "unsupported transaction statement: ROLLBACK TO"},
	{"RELEASE s", "0A000", "unsupported transaction statement: RELEASE"},
	{"PREPARE TRANSACTION 'x'", "0A000", "unsupported transaction statement: PREPARE TRANSACTION"},
	{"COMMIT AND CHAIN", "0A000", "unsupported transaction statement: AND CHAIN"},
	{"BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000", "Unsupported isolation level: SERIALIZABLE"},
	{"START TRANSACTION ISOLATION LEVEL read committed", "0A000", "Unsupported isolation level: READ COMMITTED"},
	{"SET TRANSACTION READ ONLY", "0A000", `setting configuration parameter "TRANSACTION" not supported`},
	{"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "0A000", "Unsupported isolation level: SERIALIZABLE"},
	{"SET LOCAL TRANSACTION READ ONLY, ISOLATION LEVEL read committed", "0A000", "Unsupported isolation level: READ COMMITTED"},
	{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "0A000", `setting configuration parameter "TRANSACTION" not supported`},
	{"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "0A000", `setting configuration parameter "SESSION CHARACTERISTICS" not supported`},
	{"SET default_transaction_isolation = 'repeatable read'", "0A000", `setting configuration parameter "default_transaction_isolation" not supported`},
	{"SET statement_timeout = 5", "0A000", `setting configuration parameter "statement_timeout" not supported`},
	{"RESET Lock_Timeout", "0A000", `setting configuration parameter "lock_timeout" not supported`},
	{"SET ROLE app", "0A000", `setting configuration parameter "role" not supported`},
	{"SET my.setting = 1", "0A000", `setting configuration parameter "my.setting" not supported`},
	{"SELECT set_config('search_path', '', false)", "0A000", `setting configuration parameter "search_path" not supported`},
	{"SELECT 1 WHERE (SELECT pg_catalog.set_config('a.b', 'c', true)) IS NULL", "0A000", `setting configuration parameter "a.b" not supported`},
	{"SHOW lc_collate", "42704", `unrecognized configuration parameter "lc_collate"`},
	{"DECLARE c CURSOR FOR SELECT 1", "0A000", "unsupported statement: DeclareCursor"},
	{"LISTEN c", "0A000", "unsupported statement: Listen"},
	{"UNLISTEN *", "0A000", "unsupported statement: Unlisten"},
	{"NOTIFY c", "0A000", "unsupported statement: Notify"},
	{"TRUNCATE t", "0A000", "unsupported statement: Truncate"},
	{"CREATE SEQUENCE s AS integer CACHE 1", "0A000", "datatype integer not supported, sequence type must be bigint"},
	{"CREATE SEQUENCE s CACHE 1 AS smallint", "0A000", "datatype smallint not supported, sequence type must be bigint"},
	{"ALTER SEQUENCE s CACHE 20", "0A000", "ALTER SEQUENCE is not supported with this cache size. please define CACHE greater than or equal to 65536 or equal to 1"},
	{"ALTER SEQUENCE s AS bigint", "0A000", "AS not supported for ALTER SEQUENCE"},
	{"COPY t FROM STDIN", "0A000", "unsupported statement: Copy"},
	{"LOCK TABLE t", "0A000", "unsupported statement: Lock"},
	{"DO $$ BEGIN NULL; END $$", "0A000", "unsupported statement: Do"},
	{"DISCARD ALL", "0A000", "unsupported statement: Discard"},
	{"VACUUM t", "0A000", "unsupported VACUUM statement"},
	{"ALTER SYSTEM SET work_mem = '4MB'", "0A000", "unsupported statement: AlterSystem"},
	{"CREATE DATABASE d", "0A000", "unsupported statement: Createdb"},
	{"CREATE EXTENSION IF NOT EXISTS pgcrypto", "0A000", "unsupported statement: CreateExtension"},
	{"CREATE TABLESPACE s LOCATION '/tmp/s'", "0A000", "unsupported statement: CreateTableSpace"},
	{"CREATE FOREIGN TABLE f (id int) SERVER s", "0A000", "unsupported statement: CreateForeignTable"},
	{"CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()", "0A000", "CREATE TRIGGER not supported"},
	{"CREATE POLICY p ON t", "0A000", "unsupported statement: CreatePolicy"},
	{"CREATE TYPE p AS (a int)", "0A000", "unsupported statement: CompositeType"},
	{"CREATE TYPE r AS RANGE (subtype = int4)", "0A000", "unsupported statement: CreateRange"},
	{"CREATE TYPE m AS ENUM ('a')", "0A000", "CREATE TYPE not supported"},
	{"ALTER TYPE m ADD VALUE 'b'", "0A000", "ALTER TYPE not supported"},
	{"ALTER TYPE m RENAME TO n", "0A000", "unsupported object in RENAME statement"},
	{"DROP TYPE IF EXISTS m", "0A000", "unsupported object in DROP statement"},
	{"CREATE TABLE t AS SELECT 1", "0A000", "unsupported statement: CreateTableAs"},
	{"SELECT 1 INTO t", "0A000", "unsupported statement: CreateTableAs"},
	{"CREATE MATERIALIZED VIEW v AS SELECT 1", "0A000", "unsupported statement: CreateTableAs"},
	{"CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$", "0A000", "CREATE FUNCTION with language plpgsql not supported"},
	{"CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'", "0A000", "PROCEDURE is not supported"},
	{"MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE", "0A000", "unsupported statement type: MERGE"},
	{"GRANT USAGE ON SCHEMA public TO app", "0A000", "feature not supported on system entity"},

	{"ALTER DOMAIN d ADD CONSTRAINT c CHECK (VALUE > '') NOT VALID", "0A000", "unsupported ALTER DOMAIN ADD CONSTRAINT statement"},
	{"ALTER DOMAIN d ADD CHECK (VALUE > '')", "0A000", "unsupported ALTER DOMAIN ADD CONSTRAINT statement"},
	{"ALTER DOMAIN d SET NOT NULL", "0A000", "unsupported ALTER DOMAIN SET NOT NULL statement"},
	{"DROP DOMAIN IF EXISTS d CASCADE", "0A000", "DROP DOMAIN with CASCADE unsupported"},

	{"CREATE TEMP TABLE t (id int)", "0A000", "TEMPORARY or TEMP table not supported for CREATE TABLE"},
	{"CREATE UNLOGGED TABLE t (id int)", "0A000", "UNLOGGED table not supported for CREATE TABLE"},
	{"CREATE TABLE t (id int) PARTITION BY RANGE (id)", "0A000", "PARTITION BY clause not supported for CREATE TABLE"},
	{"CREATE TABLE t (id serial PRIMARY KEY)", "42704", `type "serial" does not exist`},
	{"CREATE TABLE t (v money)", "0A000", "datatype money not supported"},
	{"CREATE TABLE t (v varbit(8))", "0A000", "datatype bit varying not supported"},
	{"CREATE TABLE t (v int[])", "0A000", "datatype integer[] not supported"},
	{`CREATE TABLE t (v text COLLATE "C")`, "0A000", "COLLATE clause not supported"},
	{"CREATE TABLE t (id bytea PRIMARY KEY)", "0A000", "datatype bytea is not supported in a key"},
	{"CREATE TABLE t (id int, d jsonb, UNIQUE (id, d))", "0A000", "datatype jsonb is not supported in a key"},
	{"CREATE TABLE t (id smallint GENERATED BY DEFAULT AS IDENTITY (CACHE 1))", "0A000", "datatype smallint not supported, identity column type must be bigint"},
	{"CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY)", "0A000", "identity column is not supported without an explicit cache size. please define CACHE greater than or equal to 65536 or equal to 1"},
	{"CREATE SEQUENCE s CACHE 100", "0A000", "CREATE SEQUENCE is not supported without an explicit cache size. please define CACHE greater than or equal to 65536 or equal to 1"},

	{"CREATE INDEX i ON t (a)", "0A000", "unsupported mode. please use CREATE INDEX ASYNC."},
	{"CREATE INDEX CONCURRENTLY i ON t (a)", "0A000", "CONCURRENTLY not supported for CREATE INDEX"},
	{"CREATE INDEX ASYNC i ON t USING btree (a)", "0A000", "USING not supported for CREATE INDEX"},
	{"CREATE UNIQUE INDEX ASYNC i ON t (a DESC)", "0A000", "specifying sort order not supported for index keys"},
	{"CREATE INDEX ASYNC i ON t (a text_pattern_ops)", "0A000", "opclass not supported for index keys"},

	{"ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 0", "0A000", "ALTER TABLE ADD COLUMN with constraint not supported"},
	{"ALTER TABLE t ADD COLUMN c text[]", "0A000", "datatype text[] not supported"},
	{"ALTER TABLE t ADD COLUMN c serial", "42704", `type "serial" does not exist`},
	{"ALTER TABLE t ALTER COLUMN a TYPE varchar(20)", "0A000", "unsupported ALTER TABLE ALTER COLUMN ... SET DATA TYPE statement"},
	{"ALTER TABLE t ALTER COLUMN a SET NOT NULL", "0A000", "unsupported ALTER TABLE ALTER COLUMN ... SET NOT NULL statement"},
	{"ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)", "0A000", "unsupported ALTER TABLE ADD CONSTRAINT statement"},
	{"ALTER TABLE t ADD CHECK (a > 0)", "0A000", "unsupported ALTER TABLE ADD CONSTRAINT statement"},
	{"ALTER TABLE t VALIDATE CONSTRAINT c", "0A000", "unsupported ALTER TABLE VALIDATE CONSTRAINT statement"},
	{"ALTER TABLE t ENABLE ROW LEVEL SECURITY", "0A000", "unsupported ALTER TABLE ENABLE ROW SECURITY statement"},

	{"ALTER TABLE t ALTER COLUMN a ADD GENERATED ALWAYS AS IDENTITY", "0A000", "identity column is not supported without an explicit cache size. please define CACHE greater than or equal to 65536 or equal to 1"},
	{`ALTER TABLE t ADD COLUMN c text COLLATE "C"`, "0A000", "COLLATE clause not supported"},

	{"CREATE TABLE t (v \"char\")", "0A000", `datatype "char" not supported`},
	{"CREATE TABLE t (v oid)", "0A000", "datatype oid not supported"},
	{"CREATE TABLE t (v timestamptz[])", "0A000", "datatype timestamp with time zone[] not supported"},
	{"CREATE TABLE t (v bit(8))", "0A000", "datatype bit not supported"},
	{"CREATE TABLE t (v pg_catalog.point)", "0A000", "datatype point not supported"},
	{"CREATE TABLE t (v varchar(65536))", "54000", "Datatype limit greater than 65535 bytes not supported for varchar"},
	{"ALTER TABLE t ADD COLUMN v char(4097)", "54000", "Datatype limit greater than 4096 bytes not supported for char"},
	{"CREATE TABLE t (id int) WITH (fillfactor = 70)", "0A000", "WITH clause not supported for CREATE TABLE"},
	{"CREATE TABLE t (id int) TABLESPACE s", "0A000", "TABLESPACE clause not supported for CREATE TABLE"},
	{"CREATE TABLE t (id int) USING heap", "0A000", "USING clause not supported for CREATE TABLE"},
	{"CREATE TABLE t (id int) INHERITS (u)", "0A000", "INHERITS clause not supported for CREATE TABLE"},
	{"CREATE INDEX ASYNC i ON t (a) WITH (fillfactor = 70)", "0A000", "WITH not supported for CREATE INDEX"},
	{`CREATE INDEX ASYNC i ON t (a COLLATE "C")`, "0A000", "COLLATE clause not supported"},
	{"DROP MATERIALIZED VIEW v", "0A000", "unsupported object in DROP statement"},
	{"DROP TRIGGER g ON t", "0A000", "unsupported object in DROP statement"},
	{"DROP SCHEMA sys CASCADE", "0A000", "feature not supported on system entity"},
	{"ALTER TRIGGER g ON t RENAME TO h", "0A000", "unsupported object in RENAME statement"},
	{"ALTER TYPE m OWNER TO app", "0A000", "ALTER TYPE not supported"},
	{"REVOKE ALL ON SCHEMA public FROM app", "0A000", "feature not supported on system entity"},
	{"GRANT SELECT ON sys.jobs TO app", "0A000", "feature not supported on system entity"},

	{"SELECT * FROM t TABLESAMPLE system (1)", "0A000", "TABLESAMPLE clause not supported"},
	{"SELECT line('{1,2,3}')", "0A000", "datatype line not supported"},
	{"UPDATE t SET a = ('(1,2)'::point)::text", "0A000", "datatype point not supported"},
	{"SELECT to_tsvector('english', a) FROM t", "42704", `text search configuration "english" does not exist`},
	{"SELECT 1 WHERE to_tsvector('simple', 'a') @@ plainto_tsquery('german'::regconfig, 'a')", "42704", `text search configuration "german" does not exist`},
	{"SELECT pg_advisory_lock(1)", "0A000", "function pg_advisory_lock not supported"},
	{"SELECT 1 WHERE pg_catalog.pg_try_advisory_xact_lock(1, 2)", "0A000", "function pg_try_advisory_xact_lock not supported"},
	{"INSERT INTO t SELECT PG_Advisory_Unlock(1)", "0A000", "function pg_advisory_unlock not supported"},
	{"PREPARE p AS SELECT pg_advisory_unlock_all()", "0A000", "function pg_advisory_unlock_all not supported"},
	{"SELECT ts_headline('english', a, to_tsquery('x')) FROM t", "42704", `text search configuration "english" does not exist`},
	{"SELECT x.n FROM p LEFT JOIN LATERAL (SELECT c.a, p.id + 1 AS n FROM c WHERE c.p = p.id) x ON true", "42804", "attribute 2 of type c has wrong type"},

	{"SELECT 1 FROM t FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"SELECT 1 FROM t FOR NO KEY UPDATE SKIP LOCKED", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"UPDATE t SET a = (SELECT b FROM u LIMIT 1 FOR SHARE)", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"WITH x AS (SELECT 1 FROM t FOR SHARE) SELECT * FROM x", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"PREPARE p AS SELECT 1 FROM t FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"SELECT 1 FROM (SELECT 1 FROM t) s FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"SELECT 1 FROM t JOIN u ON true FOR UPDATE OF t FOR SHARE OF u", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"SELECT 1 FROM t FOR KEY SHARE FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
	{"EXPLAIN SELECT 1 FROM t FOR SHARE", "0A000", "locking clauses other than FOR UPDATE/FOR KEY SHARE are not supported"},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		for _, spelling := range []string{c.sql, "/* x */ " + c.sql + " ; -- y"} {
			text := New(Options{}).Analyze(spelling)
			if text.Unread || len(text.Statements) != 1 || text.Statements[0].Refusal == nil {
				t.Errorf("%s: not refused", spelling)
				continue
			}
			if got := *text.Statements[0].Refusal; got != (Refusal{c.code, c.message}) {
				t.Errorf("%s:\n got %v\nwant %v %v", spelling, got, c.code, c.message)
			}
		}
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"SELECT 1", "SELECT app.pg_advisory_lock(1)", "SELECT pg_advisory FROM t", "SELECT substring('abc' for 2)", "VALUES (1)", "TABLE t", "WITH x AS (SELECT 1) SELECT * FROM x",
		"SELECT 1 FROM t FOR UPDATE", "SELECT 1 FROM t JOIN u USING (id) FOR UPDATE OF t NOWAIT", "SELECT 1 FROM t FOR KEY SHARE",
		"SELECT 1 FOR SHARE", "SELECT 1 FROM t FOR SHARE FOR UPDATE",
		"SELECT 1 FROM t JOIN u ON true FOR SHARE OF u FOR UPDATE OF u", "SELECT 1 FROM (SELECT 1 FROM t FOR UPDATE) s FOR SHARE",
		"WITH x AS (SELECT 1) SELECT * FROM x FOR SHARE", "SELECT * FROM generate_series(1, 2) g FOR SHARE", "SELECT * FROM (VALUES (1)) v FOR SHARE",
		"SELECT path, line FROM t WHERE point > 1", "SELECT to_tsvector('hello'), to_tsquery('simple', 'a'), '1.1.1.1'::inet, ARRAY[1], int4range(1, 2)",
		"SELECT ts_headline(a, to_tsquery('x'), 'MaxWords=2') FROM t",
		"SELECT x.n FROM p LEFT JOIN LATERAL (SELECT count(*) + p.id AS n FROM c) x ON true", "SELECT x.n FROM p CROSS JOIN LATERAL (SELECT p.id AS n FROM c) x",
		"SELECT x.n FROM p LEFT JOIN LATERAL (SELECT c.n FROM c WHERE c.p = p.id) x ON true",
		"CREATE TABLE t (v money_amount, w app.point)", "CREATE STATISTICS s ON a, b FROM t", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO app",
		"ALTER TABLE t ALTER COLUMN a DROP IDENTITY", "ALTER TABLE t ALTER COLUMN a RESTART WITH 5", "CALL sys.wait_for_job('x')",
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "START TRANSACTION", "END", "ABORT", "COMMIT AND NO CHAIN",
		"SET search_path TO a, b", "SET LOCAL ROLE app", "SET TIME ZONE 'UTC'", "RESET ALL", "SET Application_Name = 'x'", "SHOW ALL",
		"SET CONSTRAINTS ALL DEFERRED", "SET disable_sync_create_index = off",
		"INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING RETURNING id", "UPDATE t SET a = 1", "DELETE FROM t USING u",
		"CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY (CACHE 65536) PRIMARY KEY, b bytea, j jsonb, v varchar(20))",
		"CREATE SEQUENCE s CACHE 1", "CREATE SEQUENCE s AS bigint CACHE 65536", "ALTER SEQUENCE s RESTART WITH 5 CACHE 1", "ALTER SEQUENCE s OWNED BY t.a", "CREATE VIEW v AS SELECT 1", "CREATE DOMAIN d AS text CHECK (VALUE > '')", "ALTER DOMAIN d SET DEFAULT 'x'", "ALTER DOMAIN d DROP DEFAULT", "ALTER DOMAIN d DROP NOT NULL", "ALTER DOMAIN d RENAME TO e", "ALTER DOMAIN d RENAME CONSTRAINT a TO b", "DROP DOMAIN d",
		"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$",
		"CREATE INDEX ASYNC i ON t (a NULLS LAST) INCLUDE (b) WHERE a > 0", "CREATE UNIQUE INDEX ASYNC ON t (a) NULLS NOT DISTINCT",
		"ALTER TABLE t ADD COLUMN c text", "ALTER TABLE t RENAME TO u", "ALTER TABLE t ADD CHECK (a > 0) NOT VALID",
		"ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX i", "ALTER TABLE ASYNC t VALIDATE CONSTRAINT c", "DROP TABLE t",
		"GRANT SELECT ON t TO app", "ANALYZE t", "EXPLAIN SELECT 1", "DEALLOCATE ALL", "PREPARE p AS SELECT 1", "EXECUTE p",
	} {
		text := New(Options{}).Analyze(sql)
		if text.Unread || len(text.Statements) != 1 {
			t.Errorf("%s: not read", sql)
		} else if r := text.Statements[0].Refusal; r != nil {
			t.Errorf("%s: refused: %s", sql, r.Message)
		}
	}
}

func TestEveryRuleNamesItsEvidence(t *testing.T) {
	t.Parallel()
	check := func(node string, r dialectRule) {
		word, _, _ := strings.Cut(r.evidence, ":")
		word, _, _ = strings.Cut(word, ",")
		switch word {
		case "recorded", "measured", "documented", "presumed":
		default:
			t.Errorf("%s: evidence %q", node, r.evidence)
		}
	}
	for node, list := range rules {
		for _, r := range list {
			check(node, r)
		}
	}
	for _, r := range universalRules {
		check("everywhere", r)
	}
}

func TestCopyIsAllowedOnDemand(t *testing.T) {
	t.Parallel()
	text := New(Options{Copy: true}).Analyze("COPY t FROM STDIN")
	if r := text.Statements[0].Refusal; r != nil {
		t.Errorf("refused: %s", r.Message)
	}
}

func TestTransactionRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sql  string
		want string // the refusal of the last statement
	}{
		{"BEGIN; CREATE TABLE a (id int); CREATE TABLE b (id int)", severalDDL.Message},
		{"CREATE TABLE a (id int); CREATE INDEX ASYNC ON a (id)", severalDDL.Message},
		{"BEGIN; CREATE TABLE a (id int); INSERT INTO a VALUES (1)", mixedDDL.Message},
		{"INSERT INTO a VALUES (1); GRANT SELECT ON a TO b", mixedDDL.Message},
		{"BEGIN; CREATE TABLE a (id int); SELECT 1", ""},
		{"CREATE TABLE a (id int); COMMIT; INSERT INTO a VALUES (1)", ""},
		{"BEGIN; INSERT INTO a VALUES (1); ROLLBACK; DROP TABLE a", ""},
	} {
		var tx Transaction
		got := ""
		for i, st := range New(Options{}).Analyze(c.sql).Statements {
			if got != "" {
				t.Errorf("%s: statement %d refused too early", c.sql, i)
			}
			if r := tx.AddStatement(&st); r != nil {
				got = r.Message
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.sql, got, c.want)
		}
	}
}
