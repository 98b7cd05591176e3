-- needs temp
-- Temporary tables live until psql connects anew.
CREATE TEMP TABLE {t} (i int);
INSERT INTO {t} VALUES (1), (2), (3);
\dt pg_temp.{t}*
SELECT sum(i) FROM {t};
PREPARE p AS SELECT count(*) FROM {t};
EXECUTE p;
\c -
SELECT count(*) FROM {t};
