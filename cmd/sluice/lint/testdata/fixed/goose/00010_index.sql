-- +goose NO TRANSACTION
-- +goose Up
-- sluice: create_index: rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX (DSQL builds indexes only by CREATE INDEX ASYNC)
CREATE INDEX ASYNC users_created_at ON users (created_at);
-- sluice: create_index: rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX (DSQL builds indexes only by CREATE INDEX ASYNC)
CREATE INDEX ASYNC users_email ON users (email);

-- +goose StatementBegin
CREATE TABLE one (a int);
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: put -- +goose NO TRANSACTION at the top of the file - goose notes its version in the same transaction otherwise
CREATE TABLE two (a int);
-- +goose StatementEnd

-- +goose Down
DROP INDEX users_created_at;
DROP INDEX users_email;
