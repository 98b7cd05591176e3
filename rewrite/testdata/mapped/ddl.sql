Statements that change the schema, where bytea keys are mapped. mappedNames has the
tables that are there.

-- in
CREATE TABLE IF NOT EXISTS "S"."X" ("Id" bytea UNIQUE, n int REFERENCES plain)
-- out
CREATE TABLE IF NOT EXISTS "S"."X" ("Id__byteahex" text CONSTRAINT "X_Id_key" UNIQUE, n int REFERENCES plain)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k pg_catalog.bytea UNIQUE, "weird ""name" "bytea", UNIQUE ("weird ""name") INCLUDE (k))
-- out
CREATE TABLE x (k__byteahex text CONSTRAINT x_k_key UNIQUE, "weird ""name__byteahex" text, CONSTRAINT "x_weird ""name_k_key" UNIQUE ("weird ""name__byteahex") INCLUDE (k__byteahex))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea[] UNIQUE, later bytea)
-- out
CREATE TABLE x (k bytea[] UNIQUE, later__byteahex text)
-- rules
bytea bytea_key rewritten info
dialect column_type flagged error

-- in
CREATE TABLE x (k bytea UNIQUE, UNIQUE (k), UNIQUE (k, n), n int, b bytea, UNIQUE (b, n), UNIQUE (n, b))
-- out
CREATE TABLE x (k__byteahex text CONSTRAINT x_k_key UNIQUE, UNIQUE (k__byteahex), CONSTRAINT x_k_n_key UNIQUE (k__byteahex, n), n int, b__byteahex text, CONSTRAINT x_b_n_key UNIQUE (b__byteahex, n), CONSTRAINT x_n_b_key UNIQUE (n, b__byteahex))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea PRIMARY KEY UNIQUE, n int)
-- out
CREATE TABLE x (k__byteahex text PRIMARY KEY UNIQUE, n int)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea DEFAULT '\x00' NOT NULL UNIQUE DEFERRABLE, n int DEFAULT 3)
-- out
CREATE TABLE x (k__byteahex text DEFAULT pg_catalog.encode('\x00', 'hex') NOT NULL CONSTRAINT x_k_key UNIQUE DEFERRABLE, n int DEFAULT 3)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea DEFAULT ('a' || 'b')::bytea, n int, PRIMARY KEY (k))
-- out
CREATE TABLE x (k__byteahex text DEFAULT pg_catalog.encode(('a' || 'b')::bytea, 'hex'), n int, PRIMARY KEY (k__byteahex))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea CONSTRAINT mine UNIQUE CHECK (length(k) > 3))
-- out
CREATE TABLE x (k__byteahex text CONSTRAINT mine UNIQUE CONSTRAINT x_k_check CHECK (length(pg_catalog.decode(k__byteahex, 'hex')) > 3))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea, n int CHECK (n > 3) CONSTRAINT "both" CHECK (n < 5), CONSTRAINT x_k_key UNIQUE (k), UNIQUE (k, n))
-- out
CREATE TABLE x (k__byteahex text, n int CHECK (n > 3) CONSTRAINT "both" CHECK (n < 5), CONSTRAINT x_k_key UNIQUE (k__byteahex), CONSTRAINT x_k_n_key UNIQUE (k__byteahex, n))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (a int, kk bytea, FOREIGN KEY (a, kk) REFERENCES t (a, k) ON DELETE CASCADE)
-- out
CREATE TABLE x (a int, kk__byteahex text, CONSTRAINT x_a_kk_fkey FOREIGN KEY (a, kk__byteahex) REFERENCES t (a, k__byteahex) ON DELETE CASCADE)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (a int, kk bytea, CONSTRAINT f FOREIGN KEY (a, kk) REFERENCES public.t)
-- out
CREATE TABLE x (a int, kk__byteahex text, CONSTRAINT f FOREIGN KEY (a, kk__byteahex) REFERENCES public.t)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (kk bytea REFERENCES u, m bytea REFERENCES u ("Id") ON DELETE SET NULL)
-- out
CREATE TABLE x (kk__byteahex text CONSTRAINT x_kk_fkey REFERENCES u, m__byteahex text CONSTRAINT x_m_fkey REFERENCES u ("Id__byteahex") ON DELETE SET NULL)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (kk text REFERENCES u)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: create the table anew with the column of type bytea, and name both in rewrite.bytea_columns.

-- in
CREATE TABLE x (kk bytea PRIMARY KEY REFERENCES plain (k))
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: create the table anew with the column of type bytea, and name both in rewrite.bytea_columns.

-- in
CREATE TABLE x (id bytea PRIMARY KEY, parent bytea REFERENCES x, other bytea REFERENCES x (id))
-- out
CREATE TABLE x (id__byteahex text PRIMARY KEY, parent__byteahex text CONSTRAINT x_parent_fkey REFERENCES x, other__byteahex text CONSTRAINT x_other_fkey REFERENCES x (id__byteahex))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (LIKE t)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: LIKE would copy a table that has such columns.

-- in
CREATE TABLE x (LIKE plain, k bytea primary key)
-- out
CREATE TABLE x (LIKE plain, k__byteahex text primary key)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TEMP TABLE x (k bytea primary key)
-- out
same
-- rules
dialect temp_table flagged error

-- in
CREATE UNLOGGED TABLE x (k bytea primary key)
-- out
same
-- rules
dialect unlogged_table flagged error
bytea bytea_key flagged error

-- in
CREATE TABLE x (k bytea primary key) PARTITION BY HASH (k)
-- out
same
-- rules
dialect partitioning flagged error
bytea bytea_key flagged error

-- in
CREATE TABLE x (k bytea primary key) INHERITS (plain)
-- out
same
-- rules
dialect inheritance flagged error
bytea bytea_key flagged error

-- in
CREATE TABLE x (k bytea primary key, k int)
-- out
CREATE TABLE x (k__byteahex text primary key, k__byteahex int)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea COLLATE "C" primary key)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A bytea column in a key has COLLATE.

-- in
CREATE TABLE x (k12345678901234567890123456789012345678901234567890123 bytea primary key)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The name of a bytea column in a key has more than 53 bytes: there is no room for __byteahex behind it.

-- in
CREATE TABLE x (k1234567890123456789012345678901234567890123456789012 bytea primary key)
-- out
CREATE TABLE x (k1234567890123456789012345678901234567890123456789012__byteahex text primary key)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE tttttttttttttttttttttttttttttttttttttttttttttttttttttttt (a12345678901234567890123456789 bytea UNIQUE, b int, UNIQUE (b, a12345678901234567890123456789))
-- out
CREATE TABLE tttttttttttttttttttttttttttttttttttttttttttttttttttttttt (a12345678901234567890123456789__byteahex text CONSTRAINT ttttttttttttttttttttttttttttt_a1234567890123456789012345678_key UNIQUE, b int, CONSTRAINT ttttttttttttttttttttttttttttt_b_a12345678901234567890123456_key UNIQUE (b, a12345678901234567890123456789__byteahex))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea /* the key */ -- of it
PRIMARY KEY, id BIGSERIAL)
-- out
CREATE TABLE x (k__byteahex text /* the key */ -- of it
PRIMARY KEY, id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1))
-- rules
bytea bytea_key rewritten info
serial serial rewritten info

-- in
CREATE TABLE x (k bytea STORAGE EXTERNAL COMPRESSION pglz PRIMARY KEY)
-- out
CREATE TABLE x (k__byteahex text STORAGE EXTERNAL COMPRESSION pglz PRIMARY KEY)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea GENERATED ALWAYS AS ('a'::bytea) STORED PRIMARY KEY)
-- out
CREATE TABLE x (k__byteahex text GENERATED ALWAYS AS (pg_catalog.encode('a'::bytea, 'hex')) STORED PRIMARY KEY)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea primary key, z int GENERATED ALWAYS AS (length(k)) STORED)
-- out
CREATE TABLE x (k__byteahex text primary key, z int GENERATED ALWAYS AS (length(pg_catalog.decode(k__byteahex, 'hex'))) STORED)
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x AS SELECT k FROM t
-- out
CREATE TABLE x AS SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t
-- rules
bytea bytea_key rewritten info
dialect create_table_as flagged error

-- in
CREATE SCHEMA s CREATE TABLE x (k bytea primary key) CREATE TABLE y (z int)
-- out
CREATE SCHEMA s CREATE TABLE x (k__byteahex text primary key) CREATE TABLE y (z int)
-- rules
bytea bytea_key rewritten info

-- in
CREATE SCHEMA s CREATE TABLE x (k bytea primary key) CREATE INDEX ON x (k)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The statement makes a table and names it again.

-- in
CREATE INDEX ON t (k)
-- out
CREATE INDEX ASYNC t_k_idx ON t (k__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE UNIQUE INDEX ON t USING btree (k ASC, v) INCLUDE (a)
-- out
CREATE UNIQUE INDEX ASYNC t_k_v_a_idx ON t (k__byteahex, v) INCLUDE (a)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (v) INCLUDE (k)
-- out
CREATE INDEX ASYNC i ON t (v) INCLUDE (k__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON t (v, k) INCLUDE (k)
-- out
CREATE INDEX ASYNC t_v_k_k1_idx ON t (v, k__byteahex) INCLUDE (k__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX CONCURRENTLY ON public.t (v, k)
-- out
CREATE INDEX ASYNC t_v_k_idx ON public.t (v, k__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ASYNC ON t (k)
-- out
CREATE INDEX ASYNC t_k_idx ON t (k__byteahex)
-- rules
bytea bytea_key rewritten info

-- in
CREATE INDEX ASYNC i ON t (k)
-- out
CREATE INDEX ASYNC i ON t (k__byteahex)
-- rules
bytea bytea_key rewritten info

-- in
CREATE INDEX i ON t ((k))
-- out
CREATE INDEX ASYNC i ON t ((k__byteahex))
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (lower(v), k)
-- out
CREATE INDEX ASYNC i ON t (lower(v), k__byteahex)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON t (lower(v), k)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: An index over such a column and an expression has no name: give it one.

-- in
CREATE INDEX i ON t (md5(k))
-- out
CREATE INDEX ASYNC i ON t (md5(pg_catalog.decode(k__byteahex, 'hex')))
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (v) WHERE k > ''
-- out
CREATE INDEX ASYNC i ON t (v) WHERE pg_catalog.decode(k__byteahex, 'hex') > ''
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON t (v)
-- out
CREATE INDEX ASYNC ON t (v)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON plain (k)
-- out
CREATE INDEX ASYNC ON plain (k)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON other.t (k)
-- out
CREATE INDEX ASYNC ON other.t (k)
-- rules
index create_index rewritten info
job awaited

-- in
ALTER TABLE t RENAME COLUMN k TO kk
-- out
ALTER TABLE t RENAME COLUMN k__byteahex TO kk__byteahex
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE IF EXISTS ONLY public.t RENAME k TO "Kk"
-- out
ALTER TABLE IF EXISTS ONLY public.t RENAME k__byteahex TO "Kk__byteahex"
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t RENAME COLUMN k TO a
-- out
ALTER TABLE t RENAME COLUMN k__byteahex TO a
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t RENAME COLUMN a TO k
-- out
ALTER TABLE t RENAME COLUMN a TO k__byteahex
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t RENAME COLUMN a TO b
-- out
same
-- rules


-- in
ALTER TABLE t RENAME TO tt
-- out
same
-- rules


-- in
ALTER TABLE t RENAME CONSTRAINT k__byteahex TO z
-- out
same
-- rules


-- in
ALTER TABLE t DROP CONSTRAINT k__byteahex
-- out
same
-- rules


-- in
ALTER TABLE t DROP CONSTRAINT t_k_key
-- out
same
-- rules


-- in
ALTER TABLE t DROP COLUMN k
-- out
ALTER TABLE t DROP COLUMN k__byteahex
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t DROP IF EXISTS k CASCADE, ADD COLUMN b int, DROP COLUMN a
-- out
ALTER TABLE t DROP IF EXISTS k__byteahex CASCADE, ADD COLUMN b int, DROP COLUMN a
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ALTER COLUMN k SET DEFAULT '\x00'::bytea
-- out
ALTER TABLE t ALTER COLUMN k__byteahex SET DEFAULT pg_catalog.encode('\x00'::bytea, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ALTER k SET DEFAULT (substr('abc', 1, 2))::bytea, ALTER k DROP NOT NULL, ALTER v SET DEFAULT 'x'
-- out
ALTER TABLE t ALTER k__byteahex SET DEFAULT pg_catalog.encode((substr('abc', 1, 2))::bytea, 'hex'), ALTER k__byteahex DROP NOT NULL, ALTER v SET DEFAULT 'x'
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ALTER COLUMN k DROP DEFAULT
-- out
ALTER TABLE t ALTER COLUMN k__byteahex DROP DEFAULT
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ALTER COLUMN k TYPE text
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The column is stored as text, and its type is bytea to clients: create the table anew.

-- in
ALTER TABLE t ALTER COLUMN v TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ADD COLUMN k int
-- out
ALTER TABLE t ADD COLUMN k__byteahex int
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ADD COLUMN IF NOT EXISTS k bytea
-- out
ALTER TABLE t ADD COLUMN IF NOT EXISTS k__byteahex bytea
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ADD COLUMN k2 bytea
-- out
same
-- rules


-- in
ALTER TABLE t ADD CONSTRAINT c UNIQUE (k)
-- out
ALTER TABLE t ADD CONSTRAINT c UNIQUE (k__byteahex)
-- rules
bytea bytea_key rewritten info
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD UNIQUE (k, v)
-- out
ALTER TABLE t ADD CONSTRAINT t_k_v_key UNIQUE (k__byteahex, v)
-- rules
bytea bytea_key rewritten info
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD CONSTRAINT q UNIQUE USING INDEX i
-- out
same
-- rules


-- in
ALTER TABLE t ADD CHECK (length(k) > 3) NOT VALID
-- out
ALTER TABLE t ADD CONSTRAINT t_k_check CHECK (length(pg_catalog.decode(k__byteahex, 'hex')) > 3) NOT VALID
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ADD FOREIGN KEY (k) REFERENCES u NOT VALID
-- out
ALTER TABLE t ADD CONSTRAINT t_k_fkey FOREIGN KEY (k__byteahex) REFERENCES u NOT VALID
-- rules
bytea bytea_key rewritten info

-- in
ALTER TABLE t ADD FOREIGN KEY (v) REFERENCES u NOT VALID
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: create the table anew with the column of type bytea, and name both in rewrite.bytea_columns.

-- in
ALTER TABLE plain ADD FOREIGN KEY (k) REFERENCES u NOT VALID
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A FOREIGN KEY pairs a bytea column that is stored as text with a column that is not: create the table anew with the column of type bytea, and name both in rewrite.bytea_columns.

-- in
ALTER TABLE t OWNER TO x
-- out
same
-- rules


-- in
ALTER TABLE t SET SCHEMA x
-- out
same
-- rules


-- in
COMMENT ON COLUMN t.k IS 'x'
-- out
COMMENT ON COLUMN t.k__byteahex IS 'x'
-- rules
bytea bytea_key rewritten info

-- in
COMMENT ON COLUMN public.t."k" IS 'x'
-- out
COMMENT ON COLUMN public.t.k__byteahex IS 'x'
-- rules
bytea bytea_key rewritten info

-- in
COMMENT ON COLUMN other.t.k IS 'bytea'
-- out
same
-- rules


-- in
COMMENT ON TABLE t IS 'x'
-- out
same
-- rules


-- in
GRANT SELECT (k, v), UPDATE (a, k) ON t TO x
-- out
GRANT SELECT (k__byteahex, v), UPDATE (a, k__byteahex) ON t TO x
-- rules
bytea bytea_key rewritten info

-- in
REVOKE GRANT OPTION FOR SELECT (k) ON TABLE t FROM x
-- out
REVOKE GRANT OPTION FOR SELECT (k__byteahex) ON TABLE t FROM x
-- rules
bytea bytea_key rewritten info

-- in
GRANT SELECT (k) ON t, plain TO x
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The column is stored as text in some of the tables only: name each in a statement of its own.

-- in
GRANT SELECT ON t TO x
-- out
same
-- rules


-- in
ANALYZE t (k)
-- out
ANALYZE t (k__byteahex)
-- rules
bytea bytea_key rewritten info

-- in
ANALYZE VERBOSE public.t (v, k), plain
-- out
ANALYZE VERBOSE public.t (v, k__byteahex), plain
-- rules
bytea bytea_key rewritten info

-- in
VACUUM t
-- out
same
-- rules
dialect vacuum flagged error

-- in
CREATE VIEW w AS SELECT k FROM t
-- out
CREATE VIEW w AS SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t
-- rules
bytea bytea_key rewritten info

-- in
CREATE VIEW w AS SELECT k FROM plain
-- out
same
-- rules


-- in
CREATE STATISTICS st ON a, k FROM t
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: Statements of this kind over a table with such columns are not rewritten.

-- in
CREATE RULE r AS ON INSERT TO t DO NOTHING
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: Statements of this kind over a table with such columns are not rewritten.

-- in
CREATE POLICY p ON t USING (true)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: Statements of this kind over a table with such columns are not rewritten.

-- in
CREATE TRIGGER g BEFORE INSERT ON t EXECUTE FUNCTION f()
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: Statements of this kind over a table with such columns are not rewritten.

-- in
CREATE FUNCTION f() RETURNS bytea LANGUAGE sql AS 'SELECT k FROM t'
-- out
same
-- rules


-- in
CREATE FUNCTION f() RETURNS bytea LANGUAGE sql RETURN (SELECT k FROM t)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: Statements of this kind over a table with such columns are not rewritten.

-- in
DROP TABLE t
-- out
same
-- rules


-- in
DROP VIEW IF EXISTS t
-- out
same
-- rules


-- in
TRUNCATE t
-- out
same
-- rules
dialect truncate flagged error

-- in
LOCK t
-- out
same
-- rules
dialect lock_table flagged error

-- in
CREATE TABLE x (k bytea PRIMARY KEY, n int, CHECK (x IS NOT NULL))
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: An expression reads a whole row.

-- in
CREATE TABLE x (k bytea DEFAULT NULL UNIQUE, g bytea GENERATED ALWAYS AS (k) STORED UNIQUE, CHECK (k = g AND public.x.k <> $$a$$))
-- out
CREATE TABLE x (k__byteahex text DEFAULT pg_catalog.encode(NULL, 'hex') CONSTRAINT x_k_key UNIQUE, g__byteahex text GENERATED ALWAYS AS (pg_catalog.encode(pg_catalog.decode(k__byteahex, 'hex'), 'hex')) STORED CONSTRAINT x_g_key UNIQUE, CHECK (pg_catalog.decode(k__byteahex, 'hex') = pg_catalog.decode(g__byteahex, 'hex') AND pg_catalog.decode(public.x.k__byteahex, 'hex') <> $$a$$))
-- rules
bytea bytea_key rewritten info

-- in
CREATE INDEX i ON t ((t.k), (k || $$a$$), a)
-- out
CREATE INDEX ASYNC i ON t ((t.k__byteahex), (pg_catalog.decode(k__byteahex, 'hex') || $$a$$), a)
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON t (md5(k))
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: An index over such a column and an expression has no name: give it one.

-- in
ALTER TABLE t ADD CONSTRAINT c CHECK (k > $1::bytea OR v IS NULL)
-- out
ALTER TABLE t ADD CONSTRAINT c CHECK (pg_catalog.decode(k__byteahex, 'hex') > $1::bytea OR v IS NULL)
-- rules
bytea bytea_key rewritten info
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD CHECK (a > 0), ADD CHECK (k NOT BETWEEN v AND k)
-- out
ALTER TABLE t ADD CHECK (a > 0), ADD CHECK (pg_catalog.decode(k__byteahex, 'hex') NOT BETWEEN v AND pg_catalog.decode(k__byteahex, 'hex'))
-- rules
bytea bytea_key rewritten info
dialect alter_add_constraint flagged error
dialect alter_add_constraint flagged error

-- in
CREATE TABLE x (k bytea PRIMARY KEY DEFAULT gen()::bytea CHECK (true), CHECK ((SELECT k FROM t) = k))
-- out
CREATE TABLE x (k__byteahex text PRIMARY KEY DEFAULT pg_catalog.encode(gen()::bytea, 'hex') CHECK (true), CONSTRAINT x_k_check CHECK ((SELECT pg_catalog.decode(k__byteahex, 'hex') FROM t) = pg_catalog.decode(k__byteahex, 'hex')))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea PRIMARY KEY DEFAULT uuid_send(uuid_generate_v4()), n int GENERATED ALWAYS AS IDENTITY, u uuid DEFAULT uuid_generate_v4())
-- out
CREATE TABLE x (k__byteahex text PRIMARY KEY DEFAULT pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex'), n bigint GENERATED ALWAYS AS IDENTITY (CACHE 1 MAXVALUE 2147483647), u uuid DEFAULT gen_random_uuid())
-- rules
bytea bytea_key rewritten info
extension uuid_generate_v4 rewritten info
serial identity_type rewritten warning
shown CREATE TABLE
warning bigint, and wider than declared: n: The identity columns of a cluster are bigint (rewrite.serial).

-- in
CREATE INDEX i ON t (k bytea_ops DESC NULLS LAST)
-- out
CREATE INDEX ASYNC i ON t (k__byteahex NULLS FIRST)
-- rules
bytea bytea_key rewritten info
index index_order rewritten info
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (k DESC, v)
-- out
CREATE INDEX ASYNC i ON t (k__byteahex DESC, v)
-- rules
bytea bytea_key rewritten info
index index_order flagged error
job awaited

-- in
ALTER TABLE t ALTER COLUMN k SET DEFAULT uuid_send(uuid_generate_v4())
-- out
ALTER TABLE t ALTER COLUMN k__byteahex SET DEFAULT pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex')
-- rules
bytea bytea_key rewritten info
extension uuid_generate_v4 rewritten info

