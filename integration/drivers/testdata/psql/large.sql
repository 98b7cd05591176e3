-- Rows of megabytes and many rows.
\pset format unaligned
\pset tuples_only on
SELECT repeat('0123456789', 300000);
SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
SELECT md5(string_agg(i::text, ',')) FROM generate_series(1, 100000) i;
SELECT repeat('x', 3000000)::int;
SELECT 'after' AS state;
