package rewriting

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// scripts are what one client sends, under a policy, and what it is told: tags, codes, and
// notices by their first words.
var scripts = []struct {
	name, policy string
	env          harness.Env
	faults       string
	simple       bool // by simple Query only
	steps        [][2]string
}{
	{name: "modes behind BEGIN", policy: "refuse", simple: true, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SET T"}, {"SELECT 1", "SELECT 1 T"}, {"INSERT INTO kept VALUES (9)", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"START TRANSACTION", "START TRANSACTION T"}, {"SET TRANSACTION READ ONLY", "SET T"}, {"SET TRANSACTION READ WRITE", "SET T"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"COMMIT", "COMMIT I"},
		{"BEGIN READ ONLY", "BEGIN T"}, {"SET TRANSACTION READ WRITE", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"SET TRANSACTION READ ONLY", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SET TRANSACTION READ ONLY", "SET T"}, {"ROLLBACK", "ROLLBACK I"}, {"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"ROLLBACK", "ROLLBACK I"},
	}},
	{name: "one statement of DDL is run as it is asked", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT count(*) FROM a", "42P01 I"},
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"COMMIT", "COMMIT I"}, {"SELECT count(*) FROM kept", "42P01 I"},
	}},
	{name: "refused, with the tools' switches", policy: "refuse", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "0A000 E Run each statement of DDL in a transaction of its own: Rails disable_ddl_transaction!"},
		{"ROLLBACK", "ROLLBACK I"}, {"CREATE TABLE a (id int); INSERT INTO a VALUES (1)", "CREATE TABLE 0A000 I Run each statement of DDL"}, {"SELECT count(*) FROM a", "42P01 I"},
	}},
	{name: "what a rollback leaves", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"},
		{"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"SELECT count(*) FROM a", "SELECT 1 T"},
		{"ALTER TABLE a ADD COLUMN v int", "ALTER TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO a VALUES (1)."},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)."},
		{"SELECT v FROM a", "42703 I"}, {"SELECT id FROM a", "SELECT 1 I"},
	}},
	{name: "what a failed block leaves", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"},
		{"INSERT INTO a VALUES (1)", "23505 E"}, {"CREATE TABLE b (id int)", "25P02 E"},
		{"COMMIT", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"BEGIN", "BEGIN T"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT count(*) FROM a", "SELECT 1 I"},
	}},
	{name: "a DROP is not committed early", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"CREATE TABLE kept (id int)", "0A000 E Send the DROP as the last statement"}, {"ROLLBACK", "ROLLBACK I"},
		{"DROP TABLE kept; CREATE TABLE kept (id int)", "0A000 I Send the DROP as the last"},
		{"BEGIN", "BEGIN T"}, {"ALTER TABLE kept DROP COLUMN n", "ALTER TABLE T"}, {"INSERT INTO kept VALUES (1)", "0A000 E Send the DROP"}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT n FROM kept", "SELECT 1 I"},
		{"CREATE TABLE b (id int); DROP TABLE kept", "CREATE TABLE DROP TABLE I WARNING|01000|a part"}, {"SELECT n FROM kept", "42P01 I"},
	}},
	{name: "unless it is opted into", policy: "autocommit-destructive", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"DROP TABLE kept", "DROP TABLE T"}, {"CREATE TABLE kept (m int)", "CREATE TABLE T WARNING|01000|a part"}, {"COMMIT", "COMMIT I"}, {"SELECT m FROM kept", "SELECT 0 I"},
	}},
	{name: "a string stops at its error", policy: "autocommit", steps: [][2]string{
		{"CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); INSERT INTO a VALUES (1); CREATE TABLE b (id int)",
			"CREATE TABLE INSERT 0 1 23505 I WARNING|01000|a part WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int PRIMARY KEY)."},
		{"SELECT 1 FROM a", "SELECT 0 I"}, {"SELECT 1 FROM b", "42P01 I"},
		{"CREATE TABLE b (id int); INSERT INTO b VALUES (1), (2) RETURNING idd", "CREATE TABLE 42703 at 66 I WARNING|01000|a part WARNING|01000|what was"},
		{"BEGIN; CREATE TABLE c (id int); CREATE TABLE d (id int); COMMIT", "BEGIN CREATE TABLE CREATE TABLE COMMIT I WARNING|01000|a part"},
		{"BEGIN; CREATE TABLE e (id int); CREATE TABLE c (id int); COMMIT", "BEGIN CREATE TABLE 42P07 E WARNING|01000|a part"},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE e (id int)."},
		{"CREATE TABLE f (id int); CREATE TRIGGER x BEFORE INSERT ON f EXECUTE FUNCTION y()", "CREATE TABLE 0A000 I"}, {"SELECT 1 FROM f", "42P01 I"},
	}},
	{name: "SET LOCAL", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET LOCAL statement_timeout = '5s'", "SET T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "0A000 E Write SET without LOCAL."}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"SET timezone = 'Asia/Tokyo'", "SET T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"SELECT to_char(to_timestamp(0), 'HH24')::int / (to_char(to_timestamp(0), 'HH24')::int - 9)", "22012 E"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
	}},
	{name: "savepoints", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SAVEPOINT two", "SAVEPOINT T"},
		{"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"}, {"RELEASE SAVEPOINT two", "RELEASE T"}, {"RELEASE SAVEPOINT two", "3B001 E"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO a VALUES (2)", "INSERT 0 1 T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"ROLLBACK TO SAVEPOINT one", "ROLLBACK T"}, {"COMMIT", "COMMIT I"}, {"SELECT 1 FROM b", "42P01 I"}, {"DELETE FROM a", "DELETE 1 I"},
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"INSERT INTO a VALUES (2)", "INSERT 0 1 T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"ROLLBACK TO SAVEPOINT one", "0A000 E Roll the whole transaction back."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"}, {"SELECT 1 FROM b", "42P01 I"},
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT s", "SAVEPOINT T"}, {"CREATE TABLE c (id int)", "CREATE TABLE T"}, {"ROLLBACK TO s", "ROLLBACK T"}, {"INSERT INTO a VALUES (3)", "INSERT 0 1 T"}, {"COMMIT", "COMMIT I"},
		{"SELECT 1 FROM c", "42P01 I"}, {"SELECT 1 FROM a", "SELECT 2 I"},
	}},
	{name: "savepoints behind which nothing was run", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SAVEPOINT \"a \"\"two\"", "SAVEPOINT T"},
		{"INSERT INTO a VALUES (NULL)", "23502 E WARNING|01000|a part"}, {"ROLLBACK TO \"a \"\"two\"", "ROLLBACK T"}, {"INSERT INTO a VALUES (1)", "INSERT 0 1 T"},
		{"ROLLBACK TO one", "ROLLBACK T"}, {"INSERT INTO a VALUES (2)", "INSERT 0 1 T"}, {"RELEASE one", "RELEASE T"}, {"COMMIT", "COMMIT I"}, {"SELECT 1 FROM a WHERE id = 2", "SELECT 1 I"}, {"SELECT 1 FROM a", "SELECT 1 I"},
		// What is released takes those with it that were set since.
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"INSERT INTO a VALUES (3)", "INSERT 0 1 T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"SAVEPOINT two", "SAVEPOINT T"}, {"RELEASE one", "RELEASE T"}, {"ROLLBACK TO two", "3B001 E"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		// A setting that was made since is kept by the early commit.
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SET statement_timeout = '7s'", "SET T"}, {"INSERT INTO b VALUES (3)", "INSERT 0 1 T WARNING|01000|a part"},
		{"ROLLBACK TO one", "0A000 E Roll the whole transaction back."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"}, {"DROP TABLE b", "DROP TABLE I"},
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SET timezone = 'Asia/Tokyo'", "SET T"}, {"INSERT INTO b VALUES (3)", "INSERT 0 1 T WARNING|01000|a part"},
		{"ROLLBACK TO one", "0A000 E Roll the whole transaction back."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
	}},
	{name: "cursors", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"DECLARE c CURSOR FOR SELECT n FROM kept", "DECLARE CURSOR T"}, {"DECLARE h CURSOR WITH HOLD FOR SELECT n FROM kept", "DECLARE CURSOR T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"},
		{"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"}, {"FETCH h", "FETCH 1 T"}, {"FETCH c", "34000 E Declare the cursor WITH HOLD, or read it before the next statement of DDL."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"FETCH c", "34000 I"},
	}},
	{name: "a savepoint whose part is not committed", policy: "autocommit", env: harness.Env{"DSQL_RETRY_ENABLED": "true", "DSQL_RETRY_MAX_RETRIES": "1"},
		faults: `[{"at": "commit", "action": "fail", "error": "conflict", "count": 9}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "40001 E"},
			{"ROLLBACK TO one", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT 1 FROM kept WHERE n > 4", "SELECT 0 I"},
		}},
	{name: "a conflict behind a part", policy: "autocommit", env: harness.Env{"DSQL_RETRY_ENABLED": "false", "DSQL_RETRY_SAVEPOINTS": "off"},
		faults: `[{"at": "commit", "action": "fail", "error": "conflict", "skip": 1, "count": 2}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE T WARNING|01000|a part"},
			{"INSERT INTO kept VALUES (6)", "25000 E Do not send the whole transaction again: go on behind what is committed."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (7)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "40001 E"}, {"ROLLBACK", "ROLLBACK I"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
		}},
	{name: "a conflict behind a part of a string", policy: "autocommit", simple: true, env: harness.Env{"DSQL_RETRY_ENABLED": "false", "DSQL_RETRY_SAVEPOINTS": "off"},
		faults: `[{"at": "statement", "contains": "VALUES (6)", "action": "fail", "error": "conflict", "count": -1}, {"at": "commit", "action": "fail", "error": "conflict", "skip": 1, "count": 1}]`, steps: [][2]string{
			{"INSERT INTO kept VALUES (5); CREATE TABLE a (id int); INSERT INTO kept VALUES (6)", "INSERT 0 1 CREATE TABLE 25000 I Do not send the whole transaction again: go on behind what is committed. WARNING|01000|a part WARNING|01000|a part WARNING|01000|what was"},
			{"INSERT INTO kept VALUES (6); CREATE TABLE b (id int)", "40001 I"},
			{"BEGIN; INSERT INTO kept VALUES (5); COMMIT; INSERT INTO kept VALUES (6)", "BEGIN INSERT 0 1 COMMIT 40001 I"},
			// In PostgreSQL the block has what stands in front of its BEGIN in the string.
			{"INSERT INTO kept VALUES (5); BEGIN; INSERT INTO kept VALUES (6); CREATE TABLE b (id int); COMMIT", "INSERT 0 1 BEGIN 25000 E Do not send WARNING|01000|a part"},
			{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: INSERT INTO kept VALUES (5)."},
			{"INSERT INTO kept VALUES (5); BEGIN; INSERT INTO kept VALUES (7); CREATE TABLE b (id int); COMMIT", "INSERT 0 1 BEGIN INSERT 0 1 25000 E Do not send WARNING|01000|a part"},
			{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: INSERT INTO kept VALUES (5)."},
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (6)", "40001 E"}, {"ROLLBACK", "ROLLBACK I"},
		}},
	{name: "the backend is lost in an early COMMIT", policy: "autocommit",
		faults: `[{"at": "committed", "action": "cut"}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int PRIMARY KEY)", "08007 E"}, {"ROLLBACK", "ROLLBACK I"},
			{"SELECT 1 FROM kept WHERE n > 4", "SELECT 1 I"},
		}},
	{name: "of several steps", policy: "autocommit", simple: true, env: harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "ALTER TABLE T WARNING|01000|a part WARNING|01000|a part"},
		{"INSERT INTO kept VALUES (6)", "INSERT 0 1 T"}, {"CREATE UNIQUE INDEX of_n ON kept (n)", "CREATE INDEX T WARNING|01000|a part WARNING|01000|a part"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"INSERT INTO kept VALUES (6)", "23505 I"}, {"SELECT 1 FROM kept WHERE d = 4 AND n > 1", "SELECT 2 I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (8)", "INSERT 0 1 T"}, {"CREATE UNIQUE INDEX of_d ON kept (d)", "23505 E WARNING|01000|a part"}, {"COMMIT", "ROLLBACK I WARNING|01000|what was"},
		{"SELECT 1 FROM kept WHERE n = 8", "SELECT 1 I"},
	}},
	{name: "an ALTER TABLE of several steps", policy: "autocommit", env: harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "ALTER TABLE T WARNING|01000|a part"}, {"ALTER TABLE kept ADD CONSTRAINT once UNIQUE (n)", "ALTER TABLE T WARNING|01000|a part"},
		{"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"ALTER TABLE kept ADD CONSTRAINT small CHECK (n < 5)", "23514 E WARNING|01000|a part"}, {"SELECT 1", "25P02 E"},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: ALTER TABLE kept ADD COLUMN d int DEFAULT 4; ALTER TABLE kept ADD CONSTRAINT once UNIQUE (n); INSERT INTO kept VALUES (5)."},
		{"INSERT INTO kept VALUES (5)", "23505 I"}, {"INSERT INTO kept VALUES (7)", "INSERT 0 1 I"},
	}},
	{name: "a string with an ALTER TABLE of several steps", policy: "autocommit", simple: true, env: harness.Env{"DSQL_DDL_CARRY_OUT": "all"}, steps: [][2]string{
		{"CREATE TABLE b (id int PRIMARY KEY, name varchar(5) NOT NULL DEFAULT 'x', n int); INSERT INTO b VALUES (1, 'one', 2)", "CREATE TABLE INSERT 0 1 I WARNING|01000|a part"},
		{"ALTER TABLE b ALTER COLUMN name DROP NOT NULL;ALTER TABLE b ALTER COLUMN name DROP DEFAULT;ALTER TABLE b ALTER COLUMN name TYPE varchar(50);",
			"ALTER TABLE ALTER TABLE ALTER TABLE I WARNING|01000|a part WARNING|01000|a part WARNING|01000|column \"name\" is the last"},
		{"INSERT INTO b (id, name) VALUES (2, repeat('y', 50))", "INSERT 0 1 I"},
		{"ALTER TABLE b ADD CONSTRAINT once UNIQUE (n); INSERT INTO b VALUES (3, 2, 'a')", "ALTER TABLE 23505 I WARNING|01000|a part WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: ALTER TABLE b ADD CONSTRAINT once UNIQUE (n)."},
		{"BEGIN; ALTER TABLE b ADD COLUMN d int NOT NULL DEFAULT 4; INSERT INTO b VALUES (4, 5, 'a'); COMMIT", "BEGIN ALTER TABLE INSERT 0 1 COMMIT I WARNING|01000|column \"d\" is held WARNING|01000|a part"},
		{"SELECT 1 FROM b WHERE d = 4", "SELECT 3 I"},
		{"ALTER TABLE b ALTER COLUMN n DROP NOT NULL; ALTER TABLE b ALTER COLUMN id TYPE bigint", "ALTER TABLE 0A000 I The column is in the primary key WARNING|01000|a part WARNING|01000|what was"},
		{"ALTER TABLE b ALTER COLUMN n DROP NOT NULL; CREATE TRIGGER x BEFORE INSERT ON b EXECUTE FUNCTION y(); ALTER TABLE b ADD UNIQUE (d)", "ALTER TABLE 0A000 I Do it in the application"},
		{"CREATE TABLE c (id int); CREATE TABLE d (id int); ALTER TABLE b ADD PRIMARY KEY (n)", "CREATE TABLE 0A000 I It is sent as one transaction since DSQL refuses statement 3 of it, of which nothing is carried out. To that one: Name the key in CREATE TABLE"},
	}},
	{name: "a string with a choice in front", policy: "auto", simple: true, env: harness.Env{"DSQL_CLIENT_MAY_SET": "ddl.carry_out"}, steps: [][2]string{
		{"/* é */ SET sluice.ddl.carry_out = 'all'; /* é */ SELECT nothing", "SET 42703 at 58 I NOTICE|00000|ddl.carry_out is all for this client: DDL that DSQL has nothing exactly like is carried out in another way, each time with a WARNING|"},
		{"SET sluice.ddl.carry_out = 'all'; CREATE TABLE a (id int); CREATE TABLE b (id int)", "SET CREATE TABLE CREATE TABLE I NOTICE|00000|ddl.carry_out is all for this client: DDL that DSQL has nothing exactly like is carried out in another way, each time with a WARNING| WARNING|01000|a part"},
		{"SET sluice.ddl.carry_out = 'all'; CREATE TABLE c (id int); SELECT é", "SET CREATE TABLE 42703 at 67 I NOTICE|00000|ddl.carry_out is all for this client: DDL that DSQL has nothing exactly like is carried out in another way, each time with a WARNING|"}, {"SELECT 1 FROM c", "42P01 I"},
	}},
	{name: "a string with what is not carried out", policy: "autocommit", simple: true, steps: [][2]string{
		{"ALTER TABLE kept ALTER COLUMN n DROP NOT NULL; ALTER TABLE kept ALTER COLUMN n TYPE bigint", "ALTER TABLE 0A000 I Make the column anew"},
	}},
	{name: "what is neither DDL nor a change of rows goes with everything", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"ANALYZE kept", "ANALYZE T"}, {"SELECT n FROM kept WHERE n = 1 FOR UPDATE", "SELECT 1 T"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT 1 FROM kept", "SELECT 1 I"},
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"SELECT n FROM kept FOR UPDATE", "SELECT 1 T"}, {"SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS T"}, {"ANALYZE kept", "ANALYZE T"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT 1 FROM a", "42P01 I"},
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"WITH w AS (INSERT INTO kept VALUES (6) RETURNING n) SELECT n FROM w", "SELECT 1 T WARNING|01000|a part"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
	}},
	{name: "what lasts for a transaction", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int)", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"CREATE SCHEMA other", "CREATE SCHEMA I"}, {"SET LOCAL search_path = other; CREATE TABLE here (id int); CREATE TABLE there (id int)", "0A000 I Write SET without LOCAL."},
		{"SELECT 1 FROM here", "42P01 I"}, {"SELECT 1 FROM other.here", "42P01 I"},
		{"BEGIN; SET LOCAL search_path = other; CREATE TABLE here (id int); CREATE TABLE there (id int); COMMIT", "BEGIN SET CREATE TABLE 0A000 E Write SET without LOCAL."}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT 1 FROM here", "42P01 I"}, {"SELECT 1 FROM other.here", "42P01 I"},
		{"SET search_path = other; CREATE TABLE here (id int); CREATE TABLE there (id int)", "SET CREATE TABLE CREATE TABLE I WARNING|01000|a part WARNING|01000|a part"}, {"SELECT 1 FROM other.here, other.there", "SELECT 0 I"},
	}},
	{name: "a string is refused before anything of it runs", policy: "autocommit", steps: [][2]string{
		{"CREATE TABLE b (id int); DROP TABLE kept; CREATE TABLE kept (id int)", "0A000 I Send the DROP as the last"}, {"SELECT 1 FROM b", "42P01 I"}, {"SELECT n FROM kept", "SELECT 1 I"},
		{"BEGIN; CREATE TABLE b (id int); COMMIT; DROP TABLE kept; CREATE TABLE kept (id int)", "0A000 I Send the DROP as the last"}, {"SELECT 1 FROM b", "42P01 I"},
		{"BEGIN; DROP TABLE kept; COMMIT; CREATE TABLE b (id int); CREATE TABLE c (id int)", "BEGIN DROP TABLE COMMIT CREATE TABLE CREATE TABLE I WARNING|01000|a part"}, {"SELECT 1 FROM b", "SELECT 0 I"},
	}},
	{name: "what the client is shown of its statements", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET timezone = 'Asia/Tokyo'", "SET T"}, {"CREATE   TABLE a (id\n\tint DEFAULT 7, name text DEFAULT 'secret')", "CREATE TABLE T"},
		{"INSERT INTO a VALUES (1, $$secret$$)", "INSERT 0 1 T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: SET timezone = ...; CREATE TABLE a (id int DEFAULT 7, name text DEFAULT ...."},
		{"CREATE TABLE \"Ünïcödé\" (id int)", "CREATE TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO a VALUES (1, ...."},
		{"SELECT 1", "SELECT 1 T"}, {"INSERT INTO a VALUES (2)", "INSERT 0 1 T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: CREATE TABLE \"Ünïcödé\" (id int)."},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: SET timezone = ...; CREATE TABLE a (id int DEFAULT 7, name text DEFAULT ...; INSERT INTO a VALUES (1, ...; CREATE TABLE"},
	}},
	{name: "what the client is shown of statements into which Sluice writes the time", policy: "autocommit", steps: [][2]string{
		{"CREATE TABLE timed (id int, at timestamptz DEFAULT now())", "CREATE TABLE I"}, {"BEGIN", "BEGIN T"}, {"INSERT INTO timed (id) VALUES (1)", "INSERT 0 1 T"}, {"SELECT now()", "SELECT 1 T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"INSERT INTO timed (id) VALUES (2)", "INSERT 0 1 T WARNING|01000|a part"}, {"INSERT INTO timed (id) VALUES (3); DELETE FROM timed WHERE at > now()", "INSERT 0 1 DELETE 0 T"},
		{"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO timed (id) VALUES (2); INSERT INTO timed (id) VALUES (3); DELETE FROM timed WHERE at > now()."},
		{"INSERT INTO timed (id) VALUES (4); CREATE TABLE c (id int)", "INSERT 0 1 CREATE TABLE T WARNING|01000|a part WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO timed (id) VALUES (4)."},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was"}, {"SELECT DISTINCT at FROM timed", "SELECT 1 I"},
	}},
	{name: "a block that cannot begin again", policy: "autocommit", simple: true, env: harness.Env{"DSQL_PAIRING": "session", "DSQL_RETRY_ENABLED": "false", "DSQL_RETRY_SAVEPOINTS": "off"},
		faults: `[{"at": "statement", "contains": "BEGIN", "action": "fail", "error": "conflict", "skip": 1, "count": 1}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int)", "25000"},
		}},
	{name: "a statement outside that fails is not told as committed", policy: "autocommit", steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"ALTER TABLE kept ADD CONSTRAINT large CHECK (n > 5)", "23514 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (2)", "INSERT 0 1 T"},
		{"ALTER TABLE kept ADD CONSTRAINT large CHECK (n > 5)", "23514 E WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO kept VALUES (2)."},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: INSERT INTO kept VALUES (2)."},
	}},
	{name: "no replay where the client wants none", policy: "autocommit", faults: `[{"at": "commit", "action": "fail", "error": "conflict", "skip": 1, "count": 1}]`, steps: [][2]string{
		{"BEGIN /* sluice: no-retry */", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T WARNING|01000|a part"}, {"COMMIT", "25000 I"},
	}},
	{name: "no replay of a string whose comment wants none", policy: "autocommit", simple: true, faults: `[{"at": "statement", "action": "fail", "error": "conflict", "contains": "VALUES (6)"}]`, steps: [][2]string{
		{"/* sluice: no-retry */ CREATE TABLE a (id int); INSERT INTO kept VALUES (5); CREATE TABLE b (id int); INSERT INTO kept VALUES (6)",
			"CREATE TABLE INSERT 0 1 CREATE TABLE 25000 I Do not send the whole transaction again: go on behind what is committed. WARNING|01000|a part WARNING|01000|a part WARNING|01000|a part WARNING|01000|what was"},
	}},
	{name: "modes behind a savepoint", policy: "refuse", simple: true, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"SET TRANSACTION READ ONLY", "0A000 E"}, {"ROLLBACK", "ROLLBACK I"},
	}},
	{name: "a block that a string begins", policy: "autocommit", simple: true, env: harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, steps: [][2]string{
		{"CREATE TABLE other (n int)", "CREATE TABLE I"},
		{"BEGIN; DROP TABLE kept", "BEGIN DROP TABLE T"}, {"ALTER TABLE other ADD COLUMN d int DEFAULT 4", "0A000 E Send the DROP as the last"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT n FROM kept", "SELECT 1 I"},
		{"BEGIN; INSERT INTO kept VALUES (5)", "BEGIN INSERT 0 1 T"},
		{"ALTER TABLE other ADD COLUMN d int DEFAULT 4", "ALTER TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO kept VALUES (5). WARNING|01000|a part"},
		{"ROLLBACK", "ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: INSERT INTO kept VALUES (5); ALTER TABLE other ADD COLUMN d int DEFAULT 4."},
		{"INSERT INTO kept VALUES (6); BEGIN; SELECT 1", "INSERT 0 1 BEGIN SELECT 1 T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T WARNING|01000|a part of the transaction is committed, since DSQL takes one statement of DDL in a transaction|Committed: INSERT INTO kept VALUES (6)."}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		{"BEGIN; SET LOCAL search_path = public", "BEGIN SET T"}, {"ALTER TABLE other ADD COLUMN e int DEFAULT 4", "0A000 E Write SET without LOCAL."}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (7)", "INSERT 0 1 T"}, {"COMMIT; BEGIN; SELECT 1", "COMMIT BEGIN SELECT 1 T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T"}, {"ROLLBACK", "ROLLBACK I"},
		{"SELECT 1 FROM kept", "SELECT 4 I"},
	}},
	{name: "a block that a string ends", policy: "autocommit", simple: true, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"INSERT INTO a VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"},
		{"INSERT INTO a VALUES (2); ROLLBACK", "INSERT 0 1 ROLLBACK I WARNING|01000|what was committed before stays (ddl.in_transactions)|Committed: CREATE TABLE a (id int)."},
		{"BEGIN", "BEGIN T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T"}, {"INSERT INTO b VALUES (1)", "INSERT 0 1 T WARNING|01000|a part"}, {"SELECT 1/0", "22012 E"}, {"SELECT 1; SELECT 2", "25P02 E"}, {"SELECT 1; COMMIT", "25P02 E"},
		{"ROLLBACK; SELECT 1", "ROLLBACK SELECT 1 I WARNING|01000|what was"},
		{"BEGIN", "BEGIN T"}, {"SAVEPOINT one", "SAVEPOINT T"}, {"INSERT INTO a VALUES (3)", "INSERT 0 1 T"}, {"CREATE TABLE c (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"COMMIT; BEGIN", "COMMIT BEGIN T"}, {"RELEASE one", "3B001 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO a VALUES (3)", "INSERT 0 1 T"}, {"CREATE TABLE d (id int)", "CREATE TABLE T WARNING|01000|a part"},
		{"COMMIT; BEGIN; INSERT INTO a VALUES (4)", "COMMIT BEGIN INSERT 0 1 T"}, {"SELECT 1/0", "22012 E"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT 1 FROM a", "SELECT 2 I"},
	}},
	{name: "a conflict behind the end of a block of parts", policy: "autocommit", simple: true, env: harness.Env{"DSQL_RETRY_ENABLED": "false", "DSQL_RETRY_SAVEPOINTS": "off"},
		faults: `[{"at": "statement", "contains": "VALUES (6)", "action": "fail", "error": "conflict", "count": -1}]`, steps: [][2]string{
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T WARNING|01000|a part"},
			{"COMMIT; BEGIN", "COMMIT BEGIN T"}, {"INSERT INTO kept VALUES (6)", "40001 E"}, {"ROLLBACK", "ROLLBACK I"},
			{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (5)", "INSERT 0 1 T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"},
			{"INSERT INTO kept VALUES (6); COMMIT; BEGIN", "25000 E Do not send WARNING|01000|a part"}, {"ROLLBACK", "ROLLBACK I WARNING|01000|what was"},
		}},
	{name: "READ ONLY, wherever it is said", policy: "autocommit", simple: true, env: harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"}, steps: [][2]string{
		{"BEGIN", "BEGIN T"}, {"SET TRANSACTION READ ONLY", "SET T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN READ ONLY; SELECT 1", "BEGIN SELECT 1 T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN; SET TRANSACTION READ ONLY; SELECT 1", "BEGIN SET SELECT 1 T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN; SET TRANSACTION READ ONLY; CREATE TABLE q (id serial)", "BEGIN SET 25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN READ ONLY; SELECT 1; ALTER TABLE kept ADD COLUMN d int DEFAULT 4; SELECT 2", "BEGIN SELECT 1 25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"COMMIT; BEGIN READ ONLY; SELECT 1", "COMMIT BEGIN SELECT 1 T"}, {"CREATE TABLE a (id int)", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (2)", "INSERT 0 1 T"}, {"COMMIT; BEGIN READ ONLY; SELECT 1", "COMMIT BEGIN SELECT 1 T"}, {"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "25006 E"}, {"COMMIT", "ROLLBACK I"},
		{"SELECT d FROM kept", "42703 I"}, {"SELECT 1 FROM kept", "SELECT 2 I"},
	}},
	{name: "modes behind a query", policy: "refuse", simple: true, steps: [][2]string{
		{"INSERT INTO kept VALUES (9); BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", "INSERT 0 1 25001 I"}, {"SELECT 1 FROM kept", "SELECT 1 I"},
		{"INSERT INTO kept VALUES (9); BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ; SELECT 1; COMMIT", "INSERT 0 1 25001 I"}, {"SELECT 1 FROM kept", "SELECT 1 I"},
		{"BEGIN", "BEGIN T"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN T WARNING|25001|there is already"}, {"ROLLBACK", "ROLLBACK I"}, {"SELECT 1 FROM kept", "SELECT 1 I"},
		{"INSERT INTO kept VALUES (9); COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SELECT 1", "INSERT 0 1 COMMIT BEGIN SELECT 1 T WARNING|25P01|there is no"}, {"COMMIT", "COMMIT I"}, {"SELECT 1 FROM kept", "SELECT 2 I"},
		{"BEGIN", "BEGIN T"}, {"BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN T WARNING|25001|there is already"}, {"INSERT INTO kept VALUES (9)", "INSERT 0 1 T"}, {"COMMIT", "COMMIT I"},
	}},
	{name: "modes that a BEGIN of Sluice's would lose", policy: "autocommit", steps: [][2]string{
		{"BEGIN READ ONLY", "BEGIN T"}, {"SELECT 1", "SELECT 1 T"}, {"CREATE TABLE a (id int)", "25006 E"}, {"ROLLBACK", "ROLLBACK I"},
		{"START TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION T"}, {"CREATE TABLE a (id int)", "CREATE TABLE T"}, {"CREATE TABLE b (id int)", "CREATE TABLE T WARNING|01000|a part"}, {"COMMIT", "COMMIT I"},
	}},
}

// Each policy does what it says, and the client is told all of it.
func TestPartsTold(t *testing.T) {
	t.Parallel()
	for _, script := range scripts {
		for _, extended := range []bool{false, true} {
			if extended && script.simple {
				continue
			}
			t.Run(fmt.Sprintf("%s, extended %v", script.name, extended), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				r := startParts(t, script.policy, script.env)
				r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
				if script.faults != "" {
					r.sim.Admin(t, http.MethodPost, "/faults", script.faults)
				}
				c, notices := r.dial(t, r.sluice.DSN("postgres"))
				for _, step := range script.steps {
					*notices = nil
					one := extended && !strings.Contains(step[0], ";")
					if got := toldOf(ctx, c, step[0], one, notices); !alike(got, step[1]) {
						t.Errorf("%s\n got %s\nwant %s", step[0], got, step[1])
					}
				}
			})
		}
	}
}

// JDBC puts BEGIN in front of a block's first statement, and both into one pipeline.
func TestPartsBehindBeginInAPipeline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startParts(t, "autocommit", harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"})
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)")
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	for _, step := range []struct {
		sql  string
		want []string
	}{
		{"BEGIN; ALTER TABLE kept ADD COLUMN d int NOT NULL DEFAULT 4", []string{"BEGIN", "ALTER TABLE", "T"}},
		{"SELECT d FROM kept", []string{`row ["4"]`, "SELECT 1", "T"}},
		{"COMMIT", []string{"COMMIT", "I"}},
		{"START TRANSACTION; ALTER TABLE kept ADD CONSTRAINT small CHECK (n > 1)", []string{"START TRANSACTION", "error 23514", "E"}},
		{"ROLLBACK; BEGIN; INSERT INTO kept VALUES (2)", []string{"ROLLBACK", "BEGIN", "INSERT 0 1", "T"}},
		{"ALTER TABLE kept ADD CONSTRAINT once UNIQUE (n); SELECT 1", []string{"error 0A000", "E"}},
		{"ROLLBACK", []string{"ROLLBACK", "I"}},
		{"BEGIN; SELECT n FROM kept; COMMIT", []string{"BEGIN", `row ["1"]`, "SELECT 1", "COMMIT", "I"}},
		{"BEGIN", []string{"BEGIN", "T"}}, {"COMMIT", []string{"COMMIT", "I"}},
	} {
		if got := answers(ctx, c, step.sql, true); !slices.Equal(got, step.want) {
			t.Errorf("%s\n got %q\nwant %q", step.sql, got, step.want)
		}
	}
}

// A BEGIN takes what its pipeline has in front of it into the block, and so do its parts: it is committed early as
// anything else is, with a warning, and a DROP refuses that.
func TestPartsInFrontOfABegin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startParts(t, "autocommit", harness.Env{"DSQL_DDL_ADD_COLUMN_DEFAULT": "backfill"})
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int); CREATE TABLE doomed (n int)")
	c, notices := r.dial(t, r.sluice.DSN("postgres"))
	for _, step := range []struct {
		sql      string
		extended bool
		want     []string
		warnings int
	}{
		{"INSERT INTO kept VALUES (1); BEGIN", true, []string{"INSERT 0 1", "BEGIN", "T"}, 0},
		{"CREATE TABLE made (n int)", false, []string{"CREATE TABLE", "T"}, 1},
		{"ROLLBACK", true, []string{"ROLLBACK", "I"}, 2},
		{"SELECT n FROM kept", false, []string{`row ["1"]`, "SELECT 1", "I"}, 2},
		{"DROP TABLE doomed; BEGIN", true, []string{"DROP TABLE", "BEGIN", "T"}, 2},
		{"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", false, []string{"error 0A000", "E"}, 2},
		{"ROLLBACK", false, []string{"ROLLBACK", "I"}, 2},
		{"SELECT count(*) FROM doomed", false, []string{`row ["0"]`, "SELECT 1", "I"}, 2},
		{"INSERT INTO kept VALUES (2); SELECT 1", true, []string{"INSERT 0 1", `row ["1"]`, "SELECT 1", "I"}, 2},
		{"BEGIN", false, []string{"BEGIN", "T"}, 2}, {"CREATE TABLE made (n int)", true, []string{"CREATE TABLE", "T"}, 2}, {"ROLLBACK", false, []string{"ROLLBACK", "I"}, 2},
	} {
		if got := answers(ctx, c, step.sql, step.extended); !slices.Equal(got, step.want) || len(*notices) != step.warnings {
			t.Errorf("%s\n got %q, %q\nwant %q, %d warnings", step.sql, got, *notices, step.want, step.warnings)
		}
	}
}

// What follows the end of a failed block in a multi-statement query is committed in parts like any other such query.
func TestPartsBehindAFailedBlock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := startParts(t, "autocommit", nil)
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int)")
	c, _ := r.dial(t, r.sluice.DSN("postgres"))
	for _, step := range []struct {
		sql  string
		want []string
	}{
		{"BEGIN; SELECT 1/0", []string{"BEGIN", "error 22012", "E"}},
		{"COMMIT; CREATE TABLE one (n int); INSERT INTO kept VALUES (1)", []string{"ROLLBACK", "CREATE TABLE", "INSERT 0 1", "I"}},
		{"BEGIN; SELECT 1/0", []string{"BEGIN", "error 22012", "E"}},
		{"ROLLBACK; BEGIN; CREATE TABLE two (n int); CREATE TABLE three (n int); INSERT INTO kept VALUES (2)",
			[]string{"ROLLBACK", "BEGIN", "CREATE TABLE", "CREATE TABLE", "INSERT 0 1", "T"}},
		{"SELECT 1/0", []string{"error 22012", "E"}},
		{"ROLLBACK; SELECT n FROM kept", []string{"ROLLBACK", `row ["1"]`, "SELECT 1", "I"}},
		{"BEGIN; SELECT 1/0", []string{"BEGIN", "error 22012", "E"}},
		{"INSERT INTO kept VALUES (3); COMMIT", []string{"error 25P02", "E"}},
		{"ROLLBACK; SELECT count(*) FROM three", []string{"ROLLBACK", `row ["0"]`, "SELECT 1", "I"}},
	} {
		if got := answers(ctx, c, step.sql, false); !slices.Equal(got, step.want) {
			t.Errorf("%s\n got %q\nwant %q", step.sql, got, step.want)
		}
	}
}

// alike compares an answer with what is wanted; each notice, and a hint, may be wanted by its
// beginning, or a hint not at all.
func alike(got, want string) bool {
	gots, wants := strings.Split(got, " WARNING|"), strings.Split(want, " WARNING|")
	if len(gots) != len(wants) || !strings.HasPrefix(gots[0]+" ", wants[0]+" ") && !(strings.Contains(wants[0], "000 ") && strings.HasPrefix(gots[0], wants[0])) {
		return false
	}
	for i := 1; i < len(wants); i++ {
		if !strings.HasPrefix(gots[i], wants[i]) {
			return false
		}
	}
	return true
}

// toldOf is all that one request was told, in one line.
func toldOf(ctx context.Context, c *pgconn.PgConn, sql string, extended bool, notices *[]string) string {
	var words []string
	var err error
	if extended {
		r := c.ExecParams(ctx, sql, nil, nil, nil, nil).Read()
		if err = r.Err; err == nil {
			words = append(words, r.CommandTag.String())
		}
	} else {
		var all []*pgconn.Result
		all, err = c.Exec(ctx, sql).ReadAll()
		for _, r := range all {
			if r.Err == nil {
				words = append(words, r.CommandTag.String())
			}
		}
	}
	hint := ""
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if words, hint = append(words, e.Code), e.Hint; e.Position > 0 && e.Code == "42703" && strings.Contains(sql, ";") {
			words = append(words, fmt.Sprintf("at %d", e.Position))
		}
	} else if err != nil {
		words = append(words, err.Error())
	}
	words = append(words, string(c.TxStatus()))
	if hint != "" {
		words = append(words, hint)
	}
	if strings.Contains(hint, "Do not send the whole") && strings.Contains(hint, "Retry the whole") {
		words[0] = "two hints against each other: " + words[0]
	}
	return strings.Join(append(words, *notices...), " ")
}

// Drivers close the portal that they have run in the same group (sqlx), or the statement (Postgrex). A statement of
// several steps is carried out then, and the Close answered behind it; anything else in its group has it refused.
func TestAlteredAndClosed(t *testing.T) {
	t.Parallel()
	r := startParts(t, "autocommit", harness.Env{"DSQL_DDL_CARRY_OUT": "all"})
	r.pg.SQL(t, "postgres", "CREATE TABLE kept (n int, m int)")
	closes := func(what byte, name string) pgproto3.FrontendMessage {
		return &pgproto3.Close{ObjectType: what, Name: name}
	}
	for i, way := range []struct {
		sql, portal string
		behind      []pgproto3.FrontendMessage
		want        string
	}{
		{"ALTER TABLE kept ADD CONSTRAINT one UNIQUE (n)", "", []pgproto3.FrontendMessage{closes('P', "")}, "CommandComplete ALTER TABLE, CloseComplete, "},
		{"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "p", []pgproto3.FrontendMessage{closes('P', "p"), closes('P', "p")}, "ErrorResponse 0A000, "},
		{"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "p", []pgproto3.FrontendMessage{closes('P', "p")}, "CommandComplete ALTER TABLE, CloseComplete, "},
		{"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "p", []pgproto3.FrontendMessage{closes('P', "p")}, "ErrorResponse 42701, "},
		{"DO $$ BEGIN CREATE TABLE a (id int); EXCEPTION WHEN duplicate_table THEN NULL; END $$", "", []pgproto3.FrontendMessage{closes('P', "")}, "CommandComplete DO, CloseComplete, "},
		{"ALTER TABLE kept ADD COLUMN e int DEFAULT 4", "", []pgproto3.FrontendMessage{closes('P', ""), &pgproto3.Parse{Query: "SELECT 1"}}, "ErrorResponse 0A000, "},
		{"ALTER TABLE kept ADD COLUMN d int DEFAULT 4", "", []pgproto3.FrontendMessage{closes('S', "")}, "ErrorResponse 42701, "},
		{"ALTER TABLE kept ADD COLUMN e int DEFAULT 4", "", []pgproto3.FrontendMessage{closes('P', "other")}, "ErrorResponse 0A000, "},
		{"ALTER TABLE kept ADD COLUMN e int DEFAULT 4", "", []pgproto3.FrontendMessage{closes('P', ""), closes('S', "")}, "CommandComplete ALTER TABLE, CloseComplete, CloseComplete, "},
		{"SELECT d FROM kept", "p", []pgproto3.FrontendMessage{closes('P', "p")}, "CommandComplete SELECT 0, CloseComplete, "},
	} {
		for _, block := range []bool{false, true} {
			sql, want := way.sql, way.want+"ReadyForQuery I"
			f, until := r.raw(t)
			if block { // the same, beside a table, on columns of its own
				sql = strings.NewReplacer(" one ", " two ", "(n)", "(m)", " d ", " dd ", " e ", " ee ", " a ", " aa ").Replace(sql)
				if want = want[:len(want)-1] + "T"; strings.Contains(want, "Error") {
					want = want[:len(want)-1] + "E"
				}
				if !strings.Contains(want, "SELECT") && !strings.Contains(want, "0A000") { // it is committed, and so is the statement
					want = "NoticeResponse, " + strings.Replace(want, "CloseComplete, Ready", "CloseComplete, NoticeResponse, Ready", 1)
				}
				f.Send(&pgproto3.Query{String: "BEGIN"})
				until("Ready")
				f.Send(&pgproto3.Query{String: fmt.Sprintf("CREATE TABLE beside%d (id int)", i)})
				until("Ready")
			}
			f.Send(&pgproto3.Parse{Query: sql})
			f.Send(&pgproto3.Bind{DestinationPortal: way.portal})
			f.Send(&pgproto3.Execute{Portal: way.portal})
			for _, m := range way.behind {
				f.Send(m)
			}
			f.Send(&pgproto3.Sync{})
			if got := strings.TrimPrefix(until("Ready"), "ParseComplete, BindComplete, "); got != want {
				t.Errorf("%s, closed %+v, in a block %v:\n got %s\nwant %s", sql, way.behind, block, got, want)
			}
		}
	}
}
