-- migrate:up transaction:false
CREATE INDEX CONCURRENTLY users_name ON users (name);

-- migrate:down transaction:false
DROP INDEX users_name;
