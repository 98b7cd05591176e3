-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY users_created_at ON users USING btree (created_at);
CREATE INDEX users_email ON users (email);

-- +goose StatementBegin
CREATE TABLE one (a int);
CREATE TABLE two (a int);
-- +goose StatementEnd

-- +goose Down
DROP INDEX users_created_at;
DROP INDEX users_email;
