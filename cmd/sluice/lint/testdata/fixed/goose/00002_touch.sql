-- +goose Up
-- +goose StatementBegin
-- sluice: trigger: DSQL has no triggers. To do: do it in the application, or by a DEFAULT or a generated column
-- sluice: ddl_and_dml: DSQL takes no DDL together with data changes in a transaction. To do: run each statement in a transaction of its own: put -- +goose NO TRANSACTION at the top of the file - goose notes its version in the same transaction otherwise
CREATE OR REPLACE FUNCTION touch() RETURNS trigger AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: put -- +goose NO TRANSACTION at the top of the file - goose notes its version in the same transaction otherwise
-- sluice: alter_add_null: NULL is taken out: it is so without (DSQL takes the word NULL behind an added column for a constraint)
ALTER TABLE users ADD COLUMN updated_at timestamptz;

-- +goose Down
-- sluice: ddl_and_dml: DSQL takes no DDL together with data changes in a transaction. To do: run each statement in a transaction of its own: put -- +goose NO TRANSACTION at the top of the file - goose notes its version in the same transaction otherwise
ALTER TABLE users DROP COLUMN updated_at;
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: put -- +goose NO TRANSACTION at the top of the file - goose notes its version in the same transaction otherwise
DROP FUNCTION touch();
