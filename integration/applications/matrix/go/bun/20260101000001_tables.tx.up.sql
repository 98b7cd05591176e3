CREATE TABLE authors (
    id BIGSERIAL PRIMARY KEY,
    name VARCHAR NOT NULL,
    email VARCHAR UNIQUE
);

--bun:split

CREATE TABLE books (
    id BIGSERIAL PRIMARY KEY,
    author_id BIGINT NOT NULL REFERENCES authors (id) ON DELETE CASCADE,
    title VARCHAR(100) NOT NULL,
    pages BIGINT,
    details JSONB,
    UNIQUE (author_id, title)
);

--bun:split

CREATE INDEX books_title ON books (title);

--bun:split

CREATE TABLE items (id BIGSERIAL PRIMARY KEY, name VARCHAR, value BIGINT);

--bun:split

CREATE TABLE counters (id BIGSERIAL PRIMARY KEY, name VARCHAR UNIQUE, n BIGINT NOT NULL DEFAULT 0);

--bun:split

CREATE TABLE entries (id BIGSERIAL PRIMARY KEY, counter_id BIGINT REFERENCES counters (id), label VARCHAR);
