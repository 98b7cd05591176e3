Statements over mapped columns, where the server converts by casts (rewrite.bytea: hex-cast).

-- in
SELECT k, n FROM t WHERE k = $1
-- out
SELECT ('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea AS k, n FROM t WHERE k__byteahex = pg_catalog.substring(pg_catalog.byteacat($1, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)
-- rules
bytea bytea_key rewritten info

-- in
SELECT * FROM t
-- out
SELECT "t".a, ('\x' OPERATOR(pg_catalog.||) "t".k__byteahex)::pg_catalog.bytea AS k, "t".v FROM t
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t (a, k) VALUES (1, $1), (2, '\x00')
-- out
INSERT INTO t (a, k__byteahex) VALUES (1, pg_catalog.substring(pg_catalog.byteacat($1, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)), (2, pg_catalog.substring(pg_catalog.byteacat('\x00', '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4))
-- rules
bytea bytea_key rewritten info

-- in
SELECT a FROM t WHERE k = ANY ($1)
-- out
SELECT a FROM t WHERE k__byteahex = ANY (CASE WHEN COALESCE($1, NULL::pg_catalog.bytea[]) IS NULL THEN NULL ELSE ARRAY(SELECT pg_catalog.substring(pg_catalog.byteacat(v, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) FROM pg_catalog.unnest(COALESCE($1, NULL::pg_catalog.bytea[])) AS u (v)) END)
-- rules
bytea bytea_key rewritten info

-- in
SELECT a FROM t WHERE (a, k) > ($1, $2) ORDER BY k
-- out
SELECT a FROM t WHERE (a, k__byteahex) > ($1, pg_catalog.substring(pg_catalog.byteacat($2, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)) ORDER BY k__byteahex
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (k bytea DEFAULT '\x00' PRIMARY KEY CHECK (length(k) > 3))
-- out
CREATE TABLE x (k__byteahex text DEFAULT pg_catalog.substring(pg_catalog.byteacat('\x00', '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) PRIMARY KEY CONSTRAINT x_k_check CHECK (length(('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea) > 3) CONSTRAINT k__byteahex CHECK (pg_catalog.translate(k__byteahex, '0123456789abcdef', '') = '' AND pg_catalog.length(k__byteahex) % 2 = 0))
-- rules
bytea bytea_key rewritten info

-- in
CREATE TABLE x (a bytea, k bytea GENERATED ALWAYS AS (a) STORED UNIQUE)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The digits of a generated column would depend on a setting (bytea_output) where they are made by casts.

-- in
CREATE INDEX i ON t (length(k))
-- out
CREATE INDEX ASYNC i ON t (length(('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea))
-- rules
bytea bytea_key rewritten info
index create_index rewritten info
job awaited

-- in
COPY t TO STDOUT
-- out
COPY (SELECT "a", ('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea AS k, "v" FROM "t") TO STDOUT
-- rules
bytea bytea_key rewritten info

-- in
SELECT row_to_json(t) FROM t
-- out
SELECT row_to_json(t) FROM (SELECT "a", ('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea AS k, "v" FROM "t") AS "t"
-- rules
bytea bytea_followed rewritten warning

-- in
SELECT (t).k FROM t
-- out
SELECT ('\x' OPERATOR(pg_catalog.||) (t).k__byteahex)::pg_catalog.bytea AS k FROM t
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t (k) SELECT k FROM plain ORDER BY 1
-- out
INSERT INTO t (k__byteahex) SELECT pg_catalog.substring(pg_catalog.byteacat(c1, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) FROM (SELECT k FROM plain ORDER BY 1) AS sluice (c1)
-- rules
bytea bytea_key rewritten info

-- in
UPDATE t SET k = f(k) WHERE k BETWEEN '\x00' AND $1
-- out
UPDATE t SET k__byteahex = pg_catalog.substring(pg_catalog.byteacat(f(('\x' OPERATOR(pg_catalog.||) k__byteahex)::pg_catalog.bytea), '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) WHERE k__byteahex BETWEEN pg_catalog.substring(pg_catalog.byteacat('\x00', '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) AND pg_catalog.substring(pg_catalog.byteacat($1, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4)
-- rules
bytea bytea_key rewritten info

-- in
DELETE FROM t WHERE k IN (SELECT p.k FROM plain p)
-- out
DELETE FROM t WHERE k__byteahex IN (SELECT pg_catalog.substring(pg_catalog.byteacat(p.k, '')::pg_catalog.text, pg_catalog.replace(pg_catalog.current_setting('bytea_output'), 'hex', '3')::pg_catalog.int4) FROM plain p)
-- rules
bytea bytea_key rewritten info

