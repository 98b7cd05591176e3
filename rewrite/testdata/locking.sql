Locking clauses: every form, every place, every policy.

-- in
SELECT a FROM t WHERE b = 1 FOR SHARE
-- out
SELECT a FROM t WHERE b = 1 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
select a from t where b = 1 for share
-- out
select a from t where b = 1 for update
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t FOR NO KEY UPDATE
-- out
SELECT a FROM t FOR UPDATE
-- rules
locking for_no_key_update rewritten info

-- in
select a from t for no key update;
-- out
select a from t for update;
-- rules
locking for_no_key_update rewritten info

-- in
SELECT a FROM t FOR UPDATE
-- out
same
-- rules


-- in
SELECT a FROM t FOR KEY SHARE
-- out
same
-- rules


-- in
SELECT a FROM t FOR READ ONLY
-- out
same
-- rules


-- in
SELECT a FROM t x FOR SHARE OF x
-- out
SELECT a FROM t x FOR UPDATE OF x
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t x, u y FOR SHARE OF x FOR NO KEY UPDATE OF y
-- out
SELECT a FROM t x, u y FOR UPDATE OF x FOR UPDATE OF y
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT a FROM t x, u y FOR SHARE OF x, y NOWAIT
-- out
SELECT a FROM t x, u y FOR UPDATE OF x, y NOWAIT
-- rules
locking nowait flagged warning
locking for_share rewritten info

-- in
SELECT a FROM t FOR SHARE SKIP LOCKED
-- out
SELECT a FROM t FOR UPDATE SKIP LOCKED
-- rules
locking skip_locked flagged warning
locking for_share rewritten info

-- in
SELECT a FROM t FOR UPDATE SKIP LOCKED
-- out
same
-- rules
locking skip_locked flagged warning

-- in
SELECT a FROM t FOR NO KEY UPDATE NOWAIT
-- out
SELECT a FROM t FOR UPDATE NOWAIT
-- rules
locking nowait flagged warning
locking for_no_key_update rewritten info

-- in
SELECT a FROM t FOR SHARE LIMIT 1
-- out
SELECT a FROM t FOR UPDATE LIMIT 1
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t LIMIT 1 FOR SHARE
-- out
SELECT a FROM t LIMIT 1 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t ORDER BY a FOR SHARE OFFSET 1 FETCH FIRST 2 ROWS ONLY
-- out
SELECT a FROM t ORDER BY a FOR UPDATE OFFSET 1 FETCH FIRST 2 ROWS ONLY
-- rules
locking for_share rewritten info

-- in
SELECT * FROM (SELECT a FROM t FOR SHARE) s
-- out
SELECT * FROM (SELECT a FROM t FOR UPDATE) s
-- rules
locking for_share rewritten info

-- in
SELECT * FROM (SELECT a FROM t FOR SHARE) s, (SELECT b FROM u FOR NO KEY UPDATE) r, v FOR UPDATE OF v
-- out
SELECT * FROM (SELECT a FROM t FOR UPDATE) s, (SELECT b FROM u FOR UPDATE) r, v FOR UPDATE OF v
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
WITH c AS (SELECT a FROM t FOR SHARE) SELECT * FROM c
-- out
WITH c AS (SELECT a FROM t FOR UPDATE) SELECT * FROM c
-- rules
locking for_share rewritten info

-- in
WITH c AS MATERIALIZED (SELECT a FROM t FOR NO KEY UPDATE), d AS (SELECT * FROM c, u FOR SHARE OF u) SELECT * FROM d FOR SHARE
-- out
WITH c AS MATERIALIZED (SELECT a FROM t FOR UPDATE), d AS (SELECT * FROM c, u FOR UPDATE OF u) SELECT * FROM d FOR UPDATE
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
WITH RECURSIVE c AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM c WHERE a < 3) SELECT * FROM t WHERE b IN (SELECT a FROM c) FOR SHARE
-- out
WITH RECURSIVE c AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM c WHERE a < 3) SELECT * FROM t WHERE b IN (SELECT a FROM c) FOR UPDATE
-- rules
locking for_share rewritten info

-- in
(SELECT a FROM t FOR SHARE) UNION ALL (SELECT b FROM u FOR SHARE)
-- out
(SELECT a FROM t FOR UPDATE) UNION ALL (SELECT b FROM u FOR UPDATE)
-- rules
locking for_share rewritten info

-- in
(SELECT a FROM t) INTERSECT (SELECT b FROM u FOR NO KEY UPDATE) ORDER BY 1 LIMIT 2
-- out
(SELECT a FROM t) INTERSECT (SELECT b FROM u FOR UPDATE) ORDER BY 1 LIMIT 2
-- rules
locking for_no_key_update rewritten info

-- in
SELECT a FROM t WHERE b = (SELECT max(c) FROM (SELECT c FROM u FOR SHARE) s) FOR SHARE
-- out
SELECT a FROM t WHERE b = (SELECT max(c) FROM (SELECT c FROM u FOR UPDATE) s) FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM t LIMIT (SELECT c FROM u FOR SHARE) FOR NO KEY UPDATE
-- out
SELECT a FROM t LIMIT (SELECT c FROM u FOR UPDATE) FOR UPDATE
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT a FROM t FOR NO KEY UPDATE LIMIT (SELECT c FROM u FOR SHARE)
-- out
SELECT a FROM t FOR UPDATE LIMIT (SELECT c FROM u FOR UPDATE)
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT EXISTS (SELECT 1 FROM t FOR SHARE), ARRAY(SELECT a FROM t FOR SHARE)
-- out
SELECT EXISTS (SELECT 1 FROM t FOR UPDATE), ARRAY(SELECT a FROM t FOR UPDATE)
-- rules
locking for_share rewritten info

-- in
SELECT substring((SELECT a FROM t FOR SHARE) FOR 2) FROM u
-- out
SELECT substring((SELECT a FROM t FOR UPDATE) FOR 2) FROM u
-- rules
locking for_share rewritten info

-- in
INSERT INTO u SELECT a FROM t FOR SHARE
-- out
INSERT INTO u SELECT a FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
UPDATE u SET a = (SELECT a FROM t FOR SHARE)
-- out
UPDATE u SET a = (SELECT a FROM t FOR UPDATE)
-- rules
locking for_share rewritten info

-- in
DELETE FROM u WHERE a IN (SELECT a FROM t ORDER BY a LIMIT 3 FOR NO KEY UPDATE SKIP LOCKED)
-- out
DELETE FROM u WHERE a IN (SELECT a FROM t ORDER BY a LIMIT 3 FOR UPDATE SKIP LOCKED)
-- rules
locking skip_locked flagged warning
locking for_no_key_update rewritten info

-- in
INSERT INTO u VALUES (1) ON CONFLICT (a) DO UPDATE SET b = (SELECT b FROM t FOR SHARE)
-- out
INSERT INTO u VALUES (1) ON CONFLICT (a) DO UPDATE SET b = (SELECT b FROM t FOR UPDATE)
-- rules
locking for_share rewritten info

-- in
PREPARE p (int) AS SELECT a FROM t WHERE b = $1 FOR SHARE
-- out
PREPARE p (int) AS SELECT a FROM t WHERE b = $1 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
EXPLAIN (ANALYZE, COSTS off) SELECT a FROM t FOR SHARE
-- out
EXPLAIN (ANALYZE, COSTS off) SELECT a FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
COPY (SELECT a FROM t FOR SHARE) TO STDOUT
-- out
COPY (SELECT a FROM t FOR UPDATE) TO STDOUT
-- rules
locking for_share rewritten info

-- in
CREATE VIEW w AS SELECT a FROM t FOR SHARE
-- out
CREATE VIEW w AS SELECT a FROM t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
DECLARE c CURSOR FOR SELECT a FROM t FOR SHARE
-- out
same
-- rules
locking for_share rewritten info
cursors cursor answered info
cursor 0 "c" "                     SELECT a FROM t FOR SHARE" 0

-- in
SELECT a FROM t FOR SHARE; SELECT b FROM u FOR NO KEY UPDATE ; SELECT 1
-- out
SELECT a FROM t FOR UPDATE; SELECT b FROM u FOR UPDATE ; SELECT 1
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
BEGIN; SELECT a FROM t FOR SHARE; COMMIT
-- out
BEGIN; SELECT a FROM t FOR UPDATE; COMMIT
-- rules
locking for_share rewritten info

-- in
SELECT a FROM stripped_t FOR SHARE
-- out
SELECT a FROM stripped_t
-- rules
locking for_share rewritten warning

-- in
SELECT a FROM public.stripped_t x WHERE a = 1
  FOR NO KEY UPDATE OF x SKIP LOCKED
  LIMIT 1 -- last
-- out
SELECT a FROM public.stripped_t x WHERE a = 1

  LIMIT 1 -- last
-- rules
locking skip_locked flagged warning
locking for_no_key_update rewritten warning

-- in
SELECT a FROM stripped_t FOR UPDATE
-- out
same
-- rules


-- in
SELECT a FROM stripped_t x, stripped_u y FOR SHARE OF x FOR UPDATE OF y
-- out
SELECT a FROM stripped_t x, stripped_u y FOR UPDATE OF y
-- rules
locking for_share rewritten warning

-- in
SELECT a FROM stripped_t, t FOR SHARE OF stripped_t
-- out
SELECT a FROM stripped_t, t FOR UPDATE OF stripped_t
-- rules
locking for_share rewritten info

-- in
SELECT a FROM stripped_t -- why
FOR SHARE -- because
LIMIT 1
-- out
SELECT a FROM stripped_t -- why
 -- because
LIMIT 1
-- rules
locking for_share rewritten warning

-- in
SELECT a FROM half FOR SHARE
-- out
SELECT a FROM half FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM half FOR NO KEY UPDATE
-- out
SELECT a FROM half
-- rules
locking for_no_key_update rewritten warning

-- in
SELECT a FROM half x, half y FOR SHARE OF x FOR NO KEY UPDATE OF y
-- out
SELECT a FROM half x, half y FOR UPDATE OF x FOR UPDATE OF y
-- rules
locking for_share rewritten info
locking for_no_key_update rewritten info

-- in
SELECT a FROM keyed FOR SHARE
-- out
SELECT a FROM keyed FOR KEY SHARE
-- rules
locking for_share rewritten warning

-- in
select a from keyed for no key update
-- out
select a from keyed for key share
-- rules
locking for_no_key_update rewritten warning

-- in
SELECT a FROM keyed, stripped_t FOR SHARE
-- out
SELECT a FROM keyed, stripped_t FOR KEY SHARE
-- rules
locking for_share rewritten warning

-- in
SELECT a FROM keyed, t FOR SHARE
-- out
SELECT a FROM keyed, t FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT a FROM flagged FOR SHARE
-- out
same
-- rules
locking for_share flagged error

-- in
SELECT a FROM flagged, t FOR SHARE
-- out
same
-- rules
locking for_share flagged error

-- in
SELECT a FROM rejected FOR SHARE
-- out
same
-- rules
locking for_share rejected error
refusal 0A000

-- in
SELECT a FROM rejected FOR UPDATE
-- out
same
-- rules


-- in
SELECT a FROM s.any, flagged FOR NO KEY UPDATE
-- out
same
-- rules
locking for_no_key_update rejected error
refusal 0A000

-- in
SELECT a FROM db.s.any FOR SHARE
-- out
same
-- rules
locking for_share rejected error
refusal 0A000

-- in
SELECT a FROM S.Any FOR SHARE
-- out
same
-- rules
locking for_share rejected error
refusal 0A000

-- in
SELECT 1 FOR SHARE
-- out
SELECT 1 FOR UPDATE
-- rules
locking for_share rewritten info

-- in
SELECT * FROM f() FOR SHARE
-- out
SELECT * FROM f() FOR UPDATE
-- rules
locking for_share rewritten info

-- in
VALUES (1) FOR SHARE
-- out
VALUES (1) FOR UPDATE
-- rules
locking for_share rewritten info

