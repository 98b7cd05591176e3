-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION touch() RETURNS trigger AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
ALTER TABLE users ADD COLUMN updated_at timestamptz NULL;

-- +goose Down
ALTER TABLE users DROP COLUMN updated_at;
DROP FUNCTION touch();
