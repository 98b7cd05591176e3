-- +goose Up
ALTER TABLE author ADD COLUMN born DATE;
CREATE INDEX author_born ON author (born);

-- +goose Down
DROP INDEX author_born;
ALTER TABLE author DROP COLUMN born;
