-- What psql does with answers.
SELECT 1 AS one, 'x' AS x, NULL AS nothing;
SELECT 1 AS a \; SELECT 2 AS b \; SELECT 1/0 \; SELECT 3 AS c;
\echo :ERROR :SQLSTATE :ROW_COUNT :LAST_ERROR_MESSAGE
SELECT generate_series(1, 3) AS n \gset row_
SELECT 42 AS answer, 'text' AS word \gset
\echo :answer :word
SELECT :answer + 1 AS next, :'word' AS quoted, :"word" FROM (SELECT 1 AS text) t;
SELECT format('SELECT %s AS n', i) FROM generate_series(1, 3) i \gexec
SELECT 1::int AS i, 'x'::text AS t, now() AS n \gdesc
\x on
SELECT 1 AS wide, 'y' AS table_;
\x off
\pset format csv
SELECT i, repeat('a', i) AS "a,b" FROM generate_series(1, 3) i;
\pset format aligned
SELEC;
SELECT * FROM nosuchtable;
SELECT 'multi
line' AS text;
;
\if :{?answer}
SELECT 'defined' AS state;
\endif
SELECT :'SERVER_VERSION_NUM' <> '' AS known, :'ENCODING' AS encoding;
\encoding
SET client_encoding = 'LATIN1';
\encoding
SELECT 'caf' || chr(233) = E'caf\u00e9' AS equal;
RESET client_encoding;
\encoding
