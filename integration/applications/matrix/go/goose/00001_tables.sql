-- +goose Up
-- +goose StatementBegin
CREATE TABLE author (
    id SERIAL PRIMARY KEY,
    name TEXT NOT NULL,
    email VARCHAR(254) UNIQUE
);
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TABLE book (
    id SERIAL PRIMARY KEY,
    author_id INTEGER NOT NULL REFERENCES author (id) ON DELETE CASCADE,
    title VARCHAR(100) NOT NULL,
    pages INTEGER,
    details JSONB,
    UNIQUE (author_id, title)
);
-- +goose StatementEnd
CREATE INDEX book_title ON book (title);

-- +goose Down
DROP TABLE book;
DROP TABLE author;
