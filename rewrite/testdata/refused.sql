What DSQL refuses and Sluice leaves as it is.

-- in
TRUNCATE t
-- out
same
-- rules
dialect truncate flagged error

-- in
TRUNCATE TABLE a, b RESTART IDENTITY CASCADE
-- out
same
-- rules
dialect truncate flagged error

-- in
VACUUM t
-- out
same
-- rules
dialect vacuum flagged error

-- in
ANALYZE t
-- out
same
-- rules


-- in
CREATE EXTENSION IF NOT EXISTS pgcrypto
-- out
SELECT 1
-- rules
extension extension answered warning
tag CREATE EXTENSION

-- in
CREATE TRIGGER g AFTER INSERT ON t EXECUTE FUNCTION f()
-- out
same
-- rules
dialect trigger flagged error

-- in
CREATE TABLE t AS SELECT 1
-- out
same
-- rules
dialect create_table_as flagged error

-- in
SELECT 1 INTO t
-- out
same
-- rules
dialect create_table_as flagged error

-- in
CREATE MATERIALIZED VIEW v AS SELECT 1
-- out
same
-- rules
dialect create_table_as flagged error

-- in
REFRESH MATERIALIZED VIEW v
-- out
same
-- rules
dialect create_table_as flagged error

-- in
CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$
-- out
same
-- rules


-- in
CREATE FUNCTION f() RETURNS int RETURN 1
-- out
same
-- rules


-- in
CREATE PROCEDURE p() LANGUAGE sql AS $$ SELECT 1 $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
CALL sys.wait_for_job('x')
-- out
same
-- rules


-- in
CREATE TYPE m AS ENUM ('a')
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE TYPE c AS (a int)
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE TYPE r AS RANGE (subtype = int4)
-- out
same
-- rules
dialect user_type flagged error

-- in
DROP TYPE IF EXISTS m
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE DOMAIN d AS text CHECK (VALUE <> '')
-- out
same
-- rules


-- in
CREATE POLICY p ON t USING (true)
-- out
same
-- rules
dialect row_security flagged error

-- in
ALTER TABLE t ENABLE ROW LEVEL SECURITY
-- out
same
-- rules
dialect row_security flagged error

-- in
CREATE TABLESPACE s LOCATION '/x'
-- out
same
-- rules
dialect tablespace flagged error

-- in
CREATE FOREIGN TABLE t (a int) SERVER s
-- out
same
-- rules
dialect foreign_table flagged error

-- in
LOCK TABLE t IN SHARE MODE
-- out
same
-- rules
dialect lock_table flagged error

-- in
SELECT pg_advisory_lock(1)
-- out
same
-- rules
dialect advisory_lock flagged error

-- in
SELECT pg_try_advisory_xact_lock(1)
-- out
same
-- rules
dialect advisory_lock flagged error

-- in
LISTEN c
-- out
same
-- rules
dialect listen_notify flagged error

-- in
NOTIFY c, 'x'
-- out
same
-- rules
dialect listen_notify flagged error

-- in
DECLARE c CURSOR FOR SELECT 1
-- out
same
-- rules
cursors cursor answered info
cursor 0 "c" "                     SELECT 1" 0

-- in
FETCH 1 FROM c
-- out
same
-- rules
cursors cursor answered info
cursor 1 "c" "" 1

-- in
CLOSE c
-- out
same
-- rules
cursors cursor answered info
cursor 3 "c" "" 0

-- in
SAVEPOINT s
-- out
same
-- rules
dialect savepoint flagged error

-- in
RELEASE SAVEPOINT s
-- out
same
-- rules
dialect savepoint flagged error

-- in
ROLLBACK TO s
-- out
same
-- rules
dialect savepoint flagged error

-- in
PREPARE TRANSACTION 'x'
-- out
same
-- rules
dialect two_phase_commit flagged error

-- in
COMMIT PREPARED 'x'
-- out
same
-- rules
dialect two_phase_commit flagged error

-- in
COMMIT AND CHAIN
-- out
same
-- rules
dialect two_phase_commit flagged error

-- in
COMMIT
-- out
same
-- rules


-- in
MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE
-- out
same
-- rules
dialect merge flagged error

-- in
WITH x AS (SELECT 1) SELECT * FROM t TABLESAMPLE system (1)
-- out
same
-- rules
dialect tablesample flagged error

-- in
ALTER SYSTEM SET work_mem = '1MB'
-- out
same
-- rules
dialect alter_system flagged error

-- in
CREATE TEMP TABLE t (a int)
-- out
same
-- rules
dialect temp_table flagged error

-- in
CREATE UNLOGGED TABLE t (a int)
-- out
same
-- rules
dialect unlogged_table flagged error

-- in
CREATE TABLE t (a int) PARTITION BY RANGE (a)
-- out
same
-- rules
dialect partitioning flagged error

-- in
CREATE TABLE t (a int) INHERITS (b)
-- out
same
-- rules
dialect inheritance flagged error

-- in
CREATE TABLE t (a text COLLATE "de_DE", b int[], c inet, d varbit(8), EXCLUDE USING gist (a WITH =))
-- out
same
-- rules
dialect collate flagged error
dialect column_type flagged error
dialect column_type flagged error
dialect column_type flagged error
dialect exclude flagged error

-- in
CREATE TABLE t (a bytea PRIMARY KEY)
-- out
same
-- rules
bytea bytea_key flagged error

-- in
CREATE TABLE t (a bytea, b jsonb UNIQUE, PRIMARY KEY (a, b))
-- out
same
-- rules
bytea bytea_key flagged error
bytea bytea_key flagged error

-- in
CREATE TABLE t (a int) TABLESPACE x
-- out
same
-- rules
dialect tablespace flagged error

-- in
CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL DEFAULT 'x' CHECK (a <> ''), b bytea, c jsonb, FOREIGN KEY (id) REFERENCES u (id))
-- out
same
-- rules


-- in
CREATE SEQUENCE s
-- out
CREATE SEQUENCE s CACHE 1
-- rules
serial sequence_cache rewritten info

-- in
CREATE SEQUENCE s CACHE 1
-- out
same
-- rules


-- in
CREATE SEQUENCE s CACHE 100
-- out
CREATE SEQUENCE s CACHE 1
-- rules
serial sequence_cache rewritten info

-- in
CREATE SEQUENCE s INCREMENT 2 CACHE 65536
-- out
same
-- rules


-- in
ALTER TABLE t ADD COLUMN a int
-- out
same
-- rules


-- in
ALTER TABLE t ADD a int NULL, ADD b int NOT NULL
-- out
same
-- rules
dialect alter_set_not_null rewritten warning
step ALTER TABLE t ADD COLUMN a int
step ALTER TABLE t ADD COLUMN b int
step ALTER TABLE t ADD CONSTRAINT "t_b_sluice_not_null" CHECK ("b" IS NOT NULL) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_b_sluice_not_null"

-- in
ALTER TABLE t ADD COLUMN a int DEFAULT 1
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a inet
-- out
same
-- rules
dialect column_type flagged error

-- in
ALTER TABLE t DROP COLUMN a
-- out
same
-- rules


-- in
ALTER TABLE t ALTER COLUMN a TYPE text
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "a__new_1" text
step UPDATE t SET "a__new_1" = "a" WHERE ("id") IN (SELECT "id" FROM t WHERE "a__new_1" IS NULL AND "a" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "a__new_1" = NULL WHERE "a__new_1" IS NOT NULL AND (CAST("a__new_1" AS text) IS DISTINCT FROM CAST(CAST("a__was_1" AS text) AS text) OR "a__new_1" <> CAST("a__was_1" AS text))

-- in
ALTER TABLE t ALTER a SET NOT NULL, ALTER b DROP NOT NULL, ALTER c SET DEFAULT 1
-- out
same
-- rules
dialect alter_set_not_null flagged error

-- in
ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "c" CHECK (a > 0) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "c"

-- in
ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT VALID
-- out
same
-- rules


-- in
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (b)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "t_a_fkey" FOREIGN KEY (a) REFERENCES u (b) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_fkey"

-- in
ALTER TABLE t ADD PRIMARY KEY (a)
-- out
same
-- rules
dialect alter_add_primary_key flagged error

-- in
ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "c" ON t ("a")
step ALTER TABLE t ADD CONSTRAINT "c" UNIQUE USING INDEX "c"

-- in
ALTER TABLE t ADD CONSTRAINT c UNIQUE USING INDEX i
-- out
same
-- rules


-- in
ALTER TABLE t VALIDATE CONSTRAINT c
-- out
same
-- rules
dialect alter_validate_constraint flagged error

-- in
ALTER TABLE ASYNC t VALIDATE CONSTRAINT c
-- out
same
-- rules


-- in
ALTER TABLE t RENAME TO u
-- out
same
-- rules


-- in
CREATE TABLE a (x int); CREATE TABLE b (x int)
-- out
same
-- rules
dialect several_ddl flagged error

-- in
CREATE TABLE a (x int); INSERT INTO a VALUES (1)
-- out
same
-- rules
dialect ddl_and_dml flagged error

-- in
BEGIN; INSERT INTO a VALUES (1); COMMIT; BEGIN; DROP TABLE a; COMMIT
-- out
same
-- rules


-- in
INSERT INTO a VALUES (1); DROP TABLE a
-- out
same
-- rules
dialect ddl_and_dml flagged error

-- in
REINDEX TABLE t
-- out
same
-- rules
dialect reindex flagged error

-- in
REINDEX (VERBOSE) INDEX CONCURRENTLY i
-- out
same
-- rules
dialect reindex flagged error

-- in
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE t (a int); RETURN 1; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$
-- out
same
-- rules
dialect temp_function flagged error

-- in
DROP FUNCTION pg_temp.f()
-- out
same
-- rules
dialect temp_function flagged error

-- in
CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$
-- out
same
-- rules
dialect trigger flagged error

-- in
CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql SET search_path = public, pg_temp AS $$ BEGIN RETURN 1; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
CREATE TEMP TABLE t AS SELECT 1
-- out
same
-- rules
dialect temp_table flagged error

-- in
SELECT 1 INTO TEMP t
-- out
same
-- rules
dialect temp_table flagged error

-- in
CREATE TEMP TABLE t (a int GENERATED ALWAYS AS IDENTITY, b int[])
-- out
CREATE TEMP TABLE t (a bigint GENERATED ALWAYS AS IDENTITY (CACHE 1 MAXVALUE 2147483647), b int[])
-- rules
serial identity_type rewritten warning
dialect temp_table flagged error
shown CREATE TABLE
warning bigint, and wider than declared: a: The identity columns of a cluster are bigint (rewrite.serial).

-- in
CREATE TEMP SEQUENCE s
-- out
same
-- rules
dialect temp_table flagged error

-- in
SET ROLE app
-- out
same
-- rules
dialect set_role flagged error

-- in
SET SESSION ROLE 'app'
-- out
same
-- rules
dialect set_role flagged error

-- in
SET SESSION AUTHORIZATION app
-- out
same
-- rules
dialect set_role flagged error

-- in
SET ROLE NONE
-- out
same
-- rules


-- in
SET LOCAL ROLE app
-- out
same
-- rules


-- in
RESET ROLE
-- out
same
-- rules


-- in
SET SESSION AUTHORIZATION DEFAULT
-- out
same
-- rules


-- in
SELECT set_config('role', 'app', false)
-- out
SET role TO 'app'
-- rules
session set_config rewritten info
dialect set_role flagged error

