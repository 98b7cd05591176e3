-- needs cursor
-- FETCH_COUNT makes psql read with a cursor.
\set FETCH_COUNT 3
SELECT i FROM generate_series(1, 10) i;
SELECT 1 / (5 - i) AS q FROM generate_series(1, 10) i;
\set FETCH_COUNT 0
