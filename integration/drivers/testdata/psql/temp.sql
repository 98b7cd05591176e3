-- needs temp
CREATE TEMP TABLE {t} AS SELECT i FROM generate_series(1, 3) i;
\d {t}
SELECT sum(i) FROM {t};
PREPARE p AS SELECT count(*) FROM {t};
EXECUTE p;
\c -
SELECT count(*) FROM {t};
