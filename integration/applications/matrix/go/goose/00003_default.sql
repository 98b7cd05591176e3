-- +goose Up
ALTER TABLE book ADD COLUMN stock INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE book DROP COLUMN stock;
