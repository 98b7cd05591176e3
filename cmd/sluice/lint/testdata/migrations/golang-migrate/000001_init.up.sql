BEGIN;

CREATE TABLE IF NOT EXISTS accounts (
  id BIGSERIAL PRIMARY KEY, -- the owner's
  owner VARCHAR NOT NULL,
  balance BIGINT NOT NULL
);

CREATE INDEX ON accounts (owner);

COMMIT;
