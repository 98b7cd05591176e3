-- Transactions as psql's users have them.
CREATE TABLE {t} (id int PRIMARY KEY);
BEGIN;
INSERT INTO {t} VALUES (1);
COMMIT;
BEGIN;
INSERT INTO {t} VALUES (2);
INSERT INTO {t} VALUES (2);
SELECT 'failed' AS state;
COMMIT;
SELECT * FROM {t};
\set AUTOCOMMIT off
INSERT INTO {t} VALUES (3);
SELECT count(*) FROM {t};
ROLLBACK;
INSERT INTO {t} VALUES (4);
COMMIT;
\set AUTOCOMMIT on
SELECT * FROM {t} ORDER BY id;
BEGIN \; INSERT INTO {t} VALUES (5) \; COMMIT \; SELECT count(*) FROM {t};
COMMIT;
DROP TABLE IF EXISTS {t}_nosuch;
SHOW TimeZone;
SET TimeZone TO 'Asia/Tokyo';
BEGIN; SET LOCAL TimeZone TO 'UTC'; SHOW TimeZone; COMMIT;
SHOW TimeZone;
\set ON_ERROR_STOP on
SELECT 1/1 AS fine;
\set ON_ERROR_STOP off
