BEGIN;

ALTER TABLE author ADD COLUMN born date;
CREATE INDEX author_born ON author (born);

COMMIT;
