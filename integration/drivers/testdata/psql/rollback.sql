-- needs savepoint
-- ON_ERROR_ROLLBACK puts a savepoint before each statement.
CREATE TABLE {t} (id int PRIMARY KEY);
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO {t} VALUES (1);
INSERT INTO {t} VALUES (1);
INSERT INTO {t} VALUES (2);
COMMIT;
SELECT count(*) FROM {t};
\set ON_ERROR_ROLLBACK off
