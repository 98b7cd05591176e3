ALTER TABLE authors ADD COLUMN born DATE;

--bun:split

CREATE INDEX authors_born ON authors (born);
