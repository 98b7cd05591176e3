\set ON_ERROR_STOP on
/* a header; with a semicolon */ CREATE TABLE t (id smallserial); SELECT 1; CREATE INDEX t_id ON t (id);

COPY t (id) FROM stdin;
1
-- sluice: truncate: no comment, but data
\.
TRUNCATE t;
BEGIN; SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  SELECT id FROM t
    FOR SHARE;
COMMIT;
CREATE TABLE h (k bytea PRIMARY KEY);
SELECT pg_advisory_unlock_all()
