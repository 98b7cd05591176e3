Statements over t (a, k mapped, v; key a, k), u ("Id" mapped, n) and plain (a, k).

-- in
SELECT a, k FROM t WHERE a = $1 AND k = $2
-- out
SELECT a, pg_catalog.decode(k__byteahex, 'hex') AS k FROM t WHERE a = $1 AND k__byteahex = pg_catalog.encode($2, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
SELECT * FROM t
-- out
SELECT "t".a, pg_catalog.decode("t".k__byteahex, 'hex') AS k, "t".v FROM t
-- rules
bytea bytea_key rewritten info

-- in
SELECT t.*, plain.k FROM t, plain WHERE t.k = plain.k
-- out
SELECT "t".a, pg_catalog.decode("t".k__byteahex, 'hex') AS k, "t".v, plain.k FROM t, plain WHERE t.k__byteahex = pg_catalog.encode(plain.k, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
SELECT x.k AS "K", upper(x.k::text), k::text FROM public.t AS x ORDER BY k LIMIT 1
-- out
SELECT pg_catalog.decode(x.k__byteahex, 'hex') AS "K", upper(pg_catalog.decode(x.k__byteahex, 'hex')::text), pg_catalog.decode(k__byteahex, 'hex')::text AS k FROM public.t AS x ORDER BY k LIMIT 1
-- rules
bytea bytea_key rewritten info

-- in
SELECT k FROM t ORDER BY 1, t.a
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t ORDER BY "t".k__byteahex, t.a
-- rules
bytea bytea_key rewritten info

-- in
SELECT DISTINCT k FROM t ORDER BY k
-- out
SELECT DISTINCT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t ORDER BY k
-- rules
bytea bytea_key rewritten info

-- in
SELECT DISTINCT ON (k) k, v FROM t ORDER BY k, v
-- out
SELECT DISTINCT ON ("t".k__byteahex) pg_catalog.decode(k__byteahex, 'hex') AS k, v FROM t ORDER BY "t".k__byteahex, v
-- rules
bytea bytea_key rewritten info

-- in
SELECT k, count(*) FROM t GROUP BY 1 HAVING k > $1 ORDER BY k
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k, count(*) FROM t GROUP BY "t".k__byteahex HAVING k__byteahex > pg_catalog.encode($1, 'hex') ORDER BY "t".k__byteahex
-- rules
bytea bytea_key rewritten info

-- in
SELECT k FROM t UNION SELECT "Id" FROM u ORDER BY k
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t UNION SELECT pg_catalog.decode("Id__byteahex", 'hex') AS "Id" FROM u ORDER BY k
-- rules
bytea bytea_key rewritten info

-- in
SELECT v FROM t WHERE (a, k) > ($1, $2) AND k IN ($3, '\x00', k) AND k BETWEEN $4 AND $5 || $6
-- out
SELECT v FROM t WHERE (a, k__byteahex) > ($1, pg_catalog.encode($2, 'hex')) AND k__byteahex IN (pg_catalog.encode($3, 'hex'), pg_catalog.encode('\x00', 'hex'), k__byteahex) AND k__byteahex BETWEEN pg_catalog.encode($4, 'hex') AND pg_catalog.encode($5 || $6, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
SELECT v FROM t WHERE $1 = k AND k IS NOT NULL AND k IS DISTINCT FROM $2 AND k <> ALL ($3)
-- out
SELECT v FROM t WHERE pg_catalog.encode($1, 'hex') = k__byteahex AND k__byteahex IS NOT NULL AND k__byteahex IS DISTINCT FROM pg_catalog.encode($2, 'hex') AND k__byteahex <> ALL (CASE WHEN COALESCE($3, NULL::pg_catalog.bytea[]) IS NULL THEN NULL ELSE ARRAY(SELECT pg_catalog.encode(v, 'hex') FROM pg_catalog.unnest(COALESCE($3, NULL::pg_catalog.bytea[])) AS u (v)) END)
-- rules
bytea bytea_key rewritten info

-- in
SELECT v FROM t WHERE k = ANY (ARRAY(SELECT "Id" FROM u)) AND k IN (SELECT k FROM plain) AND (a, k) IN (SELECT a, k FROM plain)
-- out
SELECT v FROM t WHERE k__byteahex = ANY (ARRAY(SELECT "Id__byteahex" FROM u)) AND k__byteahex IN (SELECT pg_catalog.encode(k, 'hex') FROM plain) AND (a, k__byteahex) IN (SELECT a, pg_catalog.encode(k, 'hex') FROM plain)
-- rules
bytea bytea_key rewritten info

-- in
SELECT v FROM t WHERE (a, k) IN ((1, $1), (2, $2)) AND k = ANY (ARRAY[$1, v]) AND k = ANY (ARRAY[$1, $2])
-- out
SELECT v FROM t WHERE (a, k__byteahex) IN ((1, pg_catalog.encode($1, 'hex')), (2, pg_catalog.encode($2, 'hex'))) AND k__byteahex = ANY (ARRAY[pg_catalog.encode($1, 'hex'), pg_catalog.encode(v, 'hex')]) AND pg_catalog.decode(k__byteahex, 'hex') = ANY (ARRAY[$1, $2])
-- rules
bytea bytea_key rewritten info

-- in
SELECT v FROM t WHERE k IN (SELECT $1) OR k = (SELECT max(v) FROM plain) OR EXISTS (SELECT 1 FROM plain p WHERE p.k = t.k)
-- out
SELECT v FROM t WHERE pg_catalog.decode(k__byteahex, 'hex') IN (SELECT $1) OR k__byteahex = pg_catalog.encode((SELECT max(v) FROM plain), 'hex') OR EXISTS (SELECT 1 FROM plain p WHERE pg_catalog.encode(p.k, 'hex') = t.k__byteahex)
-- rules
bytea bytea_key rewritten info

-- in
SELECT a FROM t JOIN u ON t.k = u."Id" LEFT JOIN plain p ON p.k = u."Id"
-- out
SELECT a FROM t JOIN u ON t.k__byteahex = u."Id__byteahex" LEFT JOIN plain p ON pg_catalog.encode(p.k, 'hex') = u."Id__byteahex"
-- rules
bytea bytea_key rewritten info

-- in
SELECT k FROM t, plain
-- out
same
-- rules
bytea bytea_key rejected error
refusal 42702: 

-- in
SELECT t FROM t
-- out
SELECT t FROM (SELECT "a", pg_catalog.decode(k__byteahex, 'hex') AS k, "v" FROM "t") AS "t"
-- rules
bytea bytea_followed rewritten warning

-- in
SELECT a FROM t NATURAL JOIN plain
-- out
SELECT a FROM (SELECT "a", pg_catalog.decode(k__byteahex, 'hex') AS k, "v" FROM "t") AS "t" NATURAL JOIN plain
-- rules
bytea bytea_followed rewritten warning

-- in
INSERT INTO t (a, k, v) VALUES ($1, $2, $3), (1, DEFAULT, 'x'), ((2), ('\x00'), (3))
-- out
INSERT INTO t (a, k__byteahex, v) VALUES ($1, pg_catalog.encode($2, 'hex'), $3), (1, DEFAULT, 'x'), ((2), pg_catalog.encode(('\x00'), 'hex'), (3))
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t VALUES ($1, $2) ON CONFLICT (a, k) DO UPDATE SET (a, k, v) = (excluded.a, excluded.k, excluded.v) WHERE t.k <> excluded.k RETURNING k
-- out
INSERT INTO t VALUES ($1, pg_catalog.encode($2, 'hex')) ON CONFLICT (a, k__byteahex) DO UPDATE SET (a, k__byteahex, v) = (excluded.a, excluded.k__byteahex, excluded.v) WHERE t.k__byteahex <> excluded.k__byteahex RETURNING pg_catalog.decode(k__byteahex, 'hex') AS k
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t (a, k) SELECT a, k FROM plain ON CONFLICT DO NOTHING
-- out
INSERT INTO t (a, k__byteahex) SELECT a, pg_catalog.encode(k, 'hex') FROM plain ON CONFLICT DO NOTHING
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t (a, k) SELECT DISTINCT a, k FROM plain RETURNING *
-- out
INSERT INTO t (a, k__byteahex) SELECT c1, pg_catalog.encode(c2, 'hex') FROM (SELECT DISTINCT a, k FROM plain) AS sluice (c1, c2) RETURNING "t".a, pg_catalog.decode("t".k__byteahex, 'hex') AS k, "t".v
-- rules
bytea bytea_key rewritten info

-- in
INSERT INTO t SELECT * FROM t AS o
-- out
INSERT INTO t SELECT "o".a, "o".k__byteahex, "o".v FROM t AS o
-- rules
bytea bytea_key rewritten info

-- in
UPDATE t SET k = $1, v = k, a = a + 1 FROM u WHERE k = "Id" AND k = '\x01' RETURNING t.k
-- out
UPDATE t SET k__byteahex = pg_catalog.encode($1, 'hex'), v = pg_catalog.decode(k__byteahex, 'hex'), a = a + 1 FROM u WHERE k__byteahex = "Id__byteahex" AND k__byteahex = pg_catalog.encode('\x01', 'hex') RETURNING pg_catalog.decode(t.k__byteahex, 'hex') AS k
-- rules
bytea bytea_key rewritten info

-- in
UPDATE t SET (a, k) = (SELECT a, k FROM plain LIMIT 1) WHERE k = $1
-- out
UPDATE t SET (a, k__byteahex) = (SELECT a, pg_catalog.encode(k, 'hex') FROM plain LIMIT 1) WHERE k__byteahex = pg_catalog.encode($1, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
DELETE FROM t USING u WHERE t.k = u."Id" AND u."Id" = $1
-- out
DELETE FROM t USING u WHERE t.k__byteahex = u."Id__byteahex" AND u."Id__byteahex" = pg_catalog.encode($1, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
WITH w AS (SELECT k FROM t), t AS (SELECT k FROM w) SELECT * FROM t WHERE k = $1
-- out
WITH w AS (SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t), t AS (SELECT k FROM w) SELECT * FROM t WHERE k = $1
-- rules
bytea bytea_key rewritten info

-- in
COPY t TO STDOUT
-- out
COPY (SELECT "a", pg_catalog.decode(k__byteahex, 'hex') AS k, "v" FROM "t") TO STDOUT
-- rules
bytea bytea_key rewritten info

-- in
COPY t (k) TO STDOUT
-- out
COPY (SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM "t") TO STDOUT
-- rules
bytea bytea_key rewritten info

-- in
COPY t FROM STDIN
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: COPY writes to the columns as they are stored.

-- in
EXPLAIN SELECT k FROM t FOR UPDATE
-- out
EXPLAIN SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t FOR UPDATE
-- rules
bytea bytea_key rewritten info

-- in
SELECT k FROM t WHERE a = 1 FOR SHARE
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t WHERE a = 1 FOR UPDATE
-- rules
bytea bytea_key rewritten info
locking for_share rewritten info

-- in
SELECT CASE WHEN a > 1 THEN v ELSE k END, (SELECT k FROM t LIMIT 1), row_number() OVER (PARTITION BY k ORDER BY k DESC) FROM t
-- out
SELECT CASE WHEN a > 1 THEN v ELSE pg_catalog.decode(k__byteahex, 'hex') END AS k, (SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t LIMIT 1), row_number() OVER (PARTITION BY k__byteahex ORDER BY k__byteahex DESC) FROM t
-- rules
bytea bytea_key rewritten info

-- in
CREATE VIEW w AS SELECT k, v FROM t
-- out
CREATE VIEW w AS SELECT pg_catalog.decode(k__byteahex, 'hex') AS k, v FROM t
-- rules
bytea bytea_key rewritten info

-- in
PREPARE p AS DELETE FROM t WHERE k = $1
-- out
PREPARE p AS DELETE FROM t WHERE k__byteahex = pg_catalog.encode($1, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
UPDATE t SET v = t.* FROM u
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: A star within an expression reads whole rows.

-- in
SELECT k FROM t WHERE v LIKE 'x' AND k = lower($1)::bytea AND (a = 1 OR k > ($1 || 'x'))
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t WHERE v LIKE 'x' AND k__byteahex = pg_catalog.encode(lower($1)::bytea, 'hex') AND (a = 1 OR k__byteahex > pg_catalog.encode(($1 || 'x'), 'hex'))
-- rules
bytea bytea_key rewritten info

-- in
SELECT /* hint */ k -- comment
FROM t WHERE k= $1::bytea AND k=decode($2, 'hex')
-- out
SELECT /* hint */ pg_catalog.decode(k__byteahex, 'hex') AS k -- comment
FROM t WHERE k__byteahex= pg_catalog.encode($1::bytea, 'hex') AND k__byteahex=pg_catalog.encode(decode($2, 'hex'), 'hex')
-- rules
bytea bytea_key rewritten info

-- in
SELECT (SELECT sum(n) FROM u WHERE "Id" = k) FROM t
-- out
SELECT (SELECT sum(n) FROM u WHERE "Id__byteahex" = k__byteahex) FROM t
-- rules
bytea bytea_key rewritten info

-- in
SELECT array_agg(k ORDER BY k), string_agg(DISTINCT k, ',' ORDER BY k), percentile_disc(0.5) WITHIN GROUP (ORDER BY k) FROM t
-- out
SELECT array_agg(pg_catalog.decode(k__byteahex, 'hex') ORDER BY k__byteahex), string_agg(DISTINCT pg_catalog.decode(k__byteahex, 'hex'), ',' ORDER BY pg_catalog.decode(k__byteahex, 'hex')), percentile_disc(0.5) WITHIN GROUP (ORDER BY pg_catalog.decode(k__byteahex, 'hex')) FROM t
-- rules
bytea bytea_key rewritten info

-- in
SELECT a FROM t GROUP BY GROUPING SETS ((a, k), (k)) HAVING GROUPING(k) = 0
-- out
SELECT a FROM t GROUP BY GROUPING SETS ((a, k__byteahex), (k__byteahex)) HAVING GROUPING(k__byteahex) = 0
-- rules
bytea bytea_key rewritten info

-- in
SELECT k FROM t, generate_series(1, 3) AS g WHERE k = $1
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t, generate_series(1, 3) AS g WHERE k__byteahex = pg_catalog.encode($1, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM f() WHERE k = $1)
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: The name k may belong to a function or a table whose columns are not known, or to a mapped column of a query around: write the table before it.

-- in
VALUES ((SELECT k FROM t LIMIT 1))
-- out
VALUES ((SELECT pg_catalog.decode(k__byteahex, 'hex') AS k FROM t LIMIT 1))
-- rules
bytea bytea_key rewritten info

-- in
SELECT 1 FROM t z (x, y) WHERE y = $1 AND z.y = $2
-- out
SELECT 1 FROM t z (x, y) WHERE y = pg_catalog.encode($1, 'hex') AND z.y = pg_catalog.encode($2, 'hex')
-- rules
bytea bytea_key rewritten info

-- in
MERGE INTO t USING u ON t.k = u."Id" WHEN MATCHED THEN DELETE
-- out
same
-- rules
bytea bytea_key rejected error
refusal 0A000: MERGE over mapped columns is not rewritten.

-- in
SELECT k FROM other.t WHERE k = $1
-- out
same
-- rules


-- in
INSERT INTO t (k, v) VALUES (uuid_send(uuid_generate_v4()), NULL) RETURNING k, uuid_generate_v4()
-- out
INSERT INTO t (k__byteahex, v) VALUES (pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex'), NULL) RETURNING pg_catalog.decode(k__byteahex, 'hex') AS k, gen_random_uuid() AS uuid_generate_v4
-- rules
bytea bytea_key rewritten info
extension uuid_generate_v4 rewritten info

-- in
SELECT k, uuid_generate_v4(), (SELECT uuid_generate_v4()) FROM t WHERE k = uuid_send(uuid_generate_v4()) ORDER BY k
-- out
SELECT pg_catalog.decode(k__byteahex, 'hex') AS k, gen_random_uuid() AS uuid_generate_v4, (SELECT gen_random_uuid() AS uuid_generate_v4) FROM t WHERE k__byteahex = pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex') ORDER BY "t".k__byteahex
-- rules
bytea bytea_key rewritten info
extension uuid_generate_v4 rewritten info

-- in
UPDATE t SET k = uuid_send(uuid_generate_v4()) WHERE k IN (uuid_send(uuid_generate_v4()), $1) RETURNING uuid_generate_v4()
-- out
UPDATE t SET k__byteahex = pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex') WHERE k__byteahex IN (pg_catalog.encode(uuid_send(gen_random_uuid()), 'hex'), pg_catalog.encode($1, 'hex')) RETURNING gen_random_uuid() AS uuid_generate_v4
-- rules
bytea bytea_key rewritten info
extension uuid_generate_v4 rewritten info

