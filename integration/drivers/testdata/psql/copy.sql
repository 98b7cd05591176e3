-- needs copy
-- COPY both ways, and a row that is none.
CREATE TABLE {t} (id int PRIMARY KEY, v text);
COPY {t} FROM STDIN;
1	one
2	\N
\.
\copy {t} from stdin with (format csv)
3,three
4,"a,b"
\.
COPY {t} FROM STDIN;
5	five
x	bad
6	six
\.
SELECT * FROM {t} ORDER BY id;
COPY {t} TO STDOUT (FORMAT csv, HEADER);
\copy (select id from {t} order by id) to stdout
\copy nosuchtable from stdin
1
\.
COPY (SELECT 1/0) TO STDOUT;
BEGIN;
COPY {t} (id) FROM STDIN;
7
\.
ROLLBACK;
SELECT count(*) FROM {t};
