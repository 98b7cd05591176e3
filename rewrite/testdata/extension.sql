Extensions, and their functions.

-- in
CREATE EXTENSION IF NOT EXISTS "uuid-ossp"
-- out
SELECT 1
-- rules
extension extension answered warning
tag CREATE EXTENSION

-- in
create extension pgcrypto with schema public version '1.3' cascade
-- out
SELECT 1
-- rules
extension extension answered warning
tag CREATE EXTENSION

-- in
CREATE EXTENSION IF NOT EXISTS plpgsql WITH SCHEMA pg_catalog
-- out
SELECT 1
-- rules
extension extension answered info
tag CREATE EXTENSION

-- in
CREATE EXTENSION IF NOT EXISTS postgis
-- out
same
-- rules
extension extension flagged error

-- in
CREATE EXTENSION IF NOT EXISTS "UUID-OSSP"
-- out
same
-- rules
extension extension flagged error

-- in
CREATE EXTENSION hstore
-- out
same
-- rules
extension extension flagged error

-- in
COMMENT ON EXTENSION plpgsql IS 'PL/pgSQL procedural language'
-- out
SELECT 1
-- rules
extension extension answered info
tag COMMENT

-- in
COMMENT ON EXTENSION "uuid-ossp" IS NULL
-- out
SELECT 1
-- rules
extension extension answered info
tag COMMENT

-- in
COMMENT ON EXTENSION hstore IS 'x'
-- out
same
-- rules
extension extension flagged error

-- in
COMMENT ON TABLE t IS 'x'
-- out
same
-- rules


-- in
DROP EXTENSION IF EXISTS "uuid-ossp"
-- out
SELECT 1
-- rules
extension extension answered info
tag DROP EXTENSION

-- in
DROP EXTENSION pgcrypto, "uuid-ossp" CASCADE
-- out
SELECT 1
-- rules
extension extension answered info
tag DROP EXTENSION

-- in
DROP EXTENSION IF EXISTS hstore, pgcrypto
-- out
SELECT 1
-- rules
extension extension answered info
tag DROP EXTENSION

-- in
DROP EXTENSION hstore
-- out
same
-- rules
extension extension flagged error

-- in
ALTER EXTENSION pgcrypto UPDATE
-- out
same
-- rules
extension extension flagged error

-- in
BEGIN; CREATE EXTENSION IF NOT EXISTS pgcrypto; CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid()); COMMIT
-- out
BEGIN; SELECT 1; CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid()); COMMIT
-- rules
extension extension answered warning
tag CREATE EXTENSION

-- in
CREATE EXTENSION IF NOT EXISTS pgcrypto; CREATE EXTENSION IF NOT EXISTS hstore
-- out
SELECT 1; CREATE EXTENSION IF NOT EXISTS hstore
-- rules
extension extension answered warning
extension extension flagged error
tag CREATE EXTENSION

-- in
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT uuid_generate_v4())
-- out
CREATE TABLE t (id uuid PRIMARY KEY DEFAULT gen_random_uuid())
-- rules
extension uuid_generate_v4 rewritten info

-- in
CREATE TABLE t (id uuid DEFAULT public.uuid_generate_v4() NOT NULL, a text DEFAULT (uuid_generate_v4())::text)
-- out
CREATE TABLE t (id uuid DEFAULT gen_random_uuid() NOT NULL, a text DEFAULT (gen_random_uuid())::text)
-- rules
extension uuid_generate_v4 rewritten info

-- in
ALTER TABLE ONLY t ALTER COLUMN id SET DEFAULT "public"."uuid_generate_v4" ( )
-- out
ALTER TABLE ONLY t ALTER COLUMN id SET DEFAULT gen_random_uuid ( )
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT uuid_generate_v4()
-- out
SELECT gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
select UUID_GENERATE_V4 () from t
-- out
select gen_random_uuid () AS uuid_generate_v4 from t
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT uuid_generate_v4() AS id, uuid_generate_v4() id2, uuid_generate_v4()::text, (uuid_generate_v4()), cast(uuid_generate_v4() AS text) FROM t
-- out
SELECT gen_random_uuid() AS id, gen_random_uuid() id2, gen_random_uuid()::text AS uuid_generate_v4, (gen_random_uuid()) AS uuid_generate_v4, cast(gen_random_uuid() AS text) AS uuid_generate_v4 FROM t
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT DISTINCT uuid_generate_v4() -- why
, count(*) FROM t GROUP BY uuid_generate_v4() ORDER BY uuid_generate_v4
-- out
SELECT DISTINCT gen_random_uuid() AS uuid_generate_v4 -- why
, count(*) FROM t GROUP BY gen_random_uuid() ORDER BY uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT coalesce(a, uuid_generate_v4()), uuid_generate_v4() = a, upper(uuid_generate_v4()::text), uuid_generate_v4() || 'x' FROM t
-- out
SELECT coalesce(a, gen_random_uuid()), gen_random_uuid() = a, upper(gen_random_uuid()::text), gen_random_uuid() || 'x' FROM t
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT CASE WHEN a THEN b ELSE uuid_generate_v4() END, CASE WHEN a THEN uuid_generate_v4() END, (SELECT uuid_generate_v4()), ARRAY[uuid_generate_v4()], uuid_generate_v4()::text COLLATE "C" FROM t
-- out
SELECT CASE WHEN a THEN b ELSE gen_random_uuid() END AS uuid_generate_v4, CASE WHEN a THEN gen_random_uuid() END, (SELECT gen_random_uuid() AS uuid_generate_v4), ARRAY[gen_random_uuid()], gen_random_uuid()::text COLLATE "C" AS uuid_generate_v4 FROM t
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT (SELECT uuid_generate_v4() LIMIT 1), EXISTS (SELECT uuid_generate_v4()), x.* FROM (SELECT uuid_generate_v4()) x, LATERAL (VALUES (uuid_generate_v4())) v
-- out
SELECT (SELECT gen_random_uuid() AS uuid_generate_v4 LIMIT 1), EXISTS (SELECT gen_random_uuid() AS uuid_generate_v4), x.* FROM (SELECT gen_random_uuid() AS uuid_generate_v4) x, LATERAL (VALUES (gen_random_uuid())) v
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT * FROM uuid_generate_v4()
-- out
SELECT * FROM gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT * FROM uuid_generate_v4() AS id
-- out
SELECT * FROM gen_random_uuid() AS id
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT * FROM uuid_generate_v4() WITH ORDINALITY, ROWS FROM (uuid_generate_v4(), generate_series(1, length(uuid_generate_v4()::text))) r, generate_series(1, length(uuid_generate_v4()::text))
-- out
SELECT * FROM gen_random_uuid() WITH ORDINALITY AS uuid_generate_v4, ROWS FROM (uuid_generate_v4(), generate_series(1, length(gen_random_uuid()::text))) r, generate_series(1, length(gen_random_uuid()::text))
-- rules
extension uuid_generate_v4 rewritten info

-- in
WITH a AS (SELECT uuid_generate_v4()) SELECT uuid_generate_v4 FROM a UNION ALL SELECT uuid_generate_v4()
-- out
WITH a AS (SELECT gen_random_uuid() AS uuid_generate_v4) SELECT uuid_generate_v4 FROM a UNION ALL SELECT gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
INSERT INTO t (id, a) VALUES (uuid_generate_v4(), $1), (public.uuid_generate_v4(), 'uuid_generate_v4()') RETURNING id, uuid_generate_v4()
-- out
INSERT INTO t (id, a) VALUES (gen_random_uuid(), $1), (gen_random_uuid(), 'uuid_generate_v4()') RETURNING id, gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
INSERT INTO t SELECT uuid_generate_v4() FROM u ON CONFLICT (id) DO UPDATE SET id = uuid_generate_v4()
-- out
INSERT INTO t SELECT gen_random_uuid() AS uuid_generate_v4 FROM u ON CONFLICT (id) DO UPDATE SET id = gen_random_uuid()
-- rules
extension uuid_generate_v4 rewritten info

-- in
UPDATE t SET id = uuid_generate_v4() WHERE a = uuid_generate_v4() RETURNING uuid_generate_v4()
-- out
UPDATE t SET id = gen_random_uuid() WHERE a = gen_random_uuid() RETURNING gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
DELETE FROM t WHERE id = uuid_generate_v4() RETURNING uuid_generate_v4() AS x, uuid_generate_v4()
-- out
DELETE FROM t WHERE id = gen_random_uuid() RETURNING gen_random_uuid() AS x, gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
CREATE VIEW v AS SELECT uuid_generate_v4(), a FROM t
-- out
CREATE VIEW v AS SELECT gen_random_uuid() AS uuid_generate_v4, a FROM t
-- rules
extension uuid_generate_v4 rewritten info

-- in
CREATE FUNCTION f() RETURNS uuid LANGUAGE sql AS 'SELECT uuid_generate_v4()'
-- out
same
-- rules


-- in
CREATE FUNCTION f() RETURNS uuid LANGUAGE sql BEGIN ATOMIC SELECT uuid_generate_v4(); END
-- out
CREATE FUNCTION f() RETURNS uuid LANGUAGE sql BEGIN ATOMIC SELECT gen_random_uuid() AS uuid_generate_v4; END
-- rules
extension uuid_generate_v4 rewritten info

-- in
CREATE FUNCTION f(a uuid DEFAULT uuid_generate_v4()) RETURNS uuid LANGUAGE sql RETURN uuid_generate_v4()
-- out
CREATE FUNCTION f(a uuid DEFAULT gen_random_uuid()) RETURNS uuid LANGUAGE sql RETURN gen_random_uuid()
-- rules
extension uuid_generate_v4 rewritten info

-- in
PREPARE p AS INSERT INTO t VALUES (uuid_generate_v4())
-- out
PREPARE p AS INSERT INTO t VALUES (gen_random_uuid())
-- rules
extension uuid_generate_v4 rewritten info

-- in
EXPLAIN SELECT uuid_generate_v4() FROM t FOR SHARE
-- out
EXPLAIN SELECT gen_random_uuid() AS uuid_generate_v4 FROM t FOR UPDATE
-- rules
locking for_share rewritten info
extension uuid_generate_v4 rewritten info

-- in
CREATE SCHEMA s CREATE TABLE t (id uuid DEFAULT uuid_generate_v4())
-- out
CREATE SCHEMA s CREATE TABLE t (id uuid DEFAULT gen_random_uuid())
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT s.uuid_generate_v4(), uuid_generate_v4(1), uuid_generate_v4(DISTINCT a), uuid_generate_v4, x.uuid_generate_v4 FROM x
-- out
same
-- rules


-- in
SELECT uuid_generate_v4() OVER (), uuid_generate_v4(*)
-- out
same
-- rules


-- in
SELECT uuid_generate_v4() a UNION SELECT b FROM u WHERE c = uuid_generate_v4() ORDER BY 1 LIMIT 1
-- out
SELECT gen_random_uuid() a UNION SELECT b FROM u WHERE c = gen_random_uuid() ORDER BY 1 LIMIT 1
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT U&"uuid_generate_v4"()
-- out
SELECT gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT (uuid_generate_v4()).x, (uuid_generate_v4())[1]
-- out
SELECT (gen_random_uuid()).x, (gen_random_uuid())[1] AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT /* a */ uuid_generate_v4 /* b */ ( /* c */ ) /* d */ -- e
-- out
SELECT /* a */ gen_random_uuid /* b */ ( /* c */ ) AS uuid_generate_v4 /* d */ -- e
-- rules
extension uuid_generate_v4 rewritten info

-- in
DROP FUNCTION uuid_generate_v4()
-- out
same
-- rules


-- in
CREATE FUNCTION uuid_generate_v4() RETURNS uuid LANGUAGE sql AS 'SELECT gen_random_uuid()'
-- out
same
-- rules


-- in
SELECT uuid_generate_v1(), crypt('a', gen_salt('bf'))
-- out
same
-- rules


-- in
SELECT uuid_generate_v4() INTO x FROM t
-- out
SELECT gen_random_uuid() AS uuid_generate_v4 INTO x FROM t
-- rules
extension uuid_generate_v4 rewritten info
dialect create_table_as flagged error

-- in
SELECT uuid_generate_v4() FETCH FIRST ROW ONLY
-- out
SELECT gen_random_uuid() AS uuid_generate_v4 FETCH FIRST ROW ONLY
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT a, uuid_generate_v4() FROM t WINDOW w AS (ORDER BY a)
-- out
SELECT a, gen_random_uuid() AS uuid_generate_v4 FROM t WINDOW w AS (ORDER BY a)
-- rules
extension uuid_generate_v4 rewritten info

-- in
COPY (SELECT uuid_generate_v4()) TO STDOUT
-- out
COPY (SELECT gen_random_uuid() AS uuid_generate_v4) TO STDOUT
-- rules
extension uuid_generate_v4 rewritten info

-- in
CREATE VIEW v AS SELECT uuid_generate_v4() WITH LOCAL CHECK OPTION
-- out
same
-- rules
extension uuid_generate_v4 unverified error

-- in
INSERT INTO t SELECT 1, uuid_generate_v4() ON CONFLICT (a) DO UPDATE SET b = uuid_generate_v4() RETURNING uuid_generate_v4()
-- out
INSERT INTO t SELECT 1, gen_random_uuid() AS uuid_generate_v4 ON CONFLICT (a) DO UPDATE SET b = gen_random_uuid() RETURNING gen_random_uuid() AS uuid_generate_v4
-- rules
extension uuid_generate_v4 rewritten info

-- in
INSERT INTO t SELECT uuid_generate_v4()::text ON CONFLICT DO NOTHING
-- out
INSERT INTO t SELECT gen_random_uuid()::text AS uuid_generate_v4 ON CONFLICT DO NOTHING
-- rules
extension uuid_generate_v4 rewritten info

-- in
SELECT CASE WHEN t.on THEN 1 ELSE uuid_generate_v4() END FROM t
-- out
SELECT CASE WHEN t.on THEN 1 ELSE gen_random_uuid() END AS uuid_generate_v4 FROM t
-- rules
extension uuid_generate_v4 rewritten info

-- in
INSERT INTO t (a, b) SELECT a, uuid_generate_v4() FROM u JOIN v ON u.a = v.a
-- out
INSERT INTO t (a, b) SELECT a, gen_random_uuid() AS uuid_generate_v4 FROM u JOIN v ON u.a = v.a
-- rules
extension uuid_generate_v4 rewritten info

