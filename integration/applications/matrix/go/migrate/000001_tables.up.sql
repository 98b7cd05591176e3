CREATE TABLE IF NOT EXISTS author (
    id serial PRIMARY KEY,
    name VARCHAR (50) NOT NULL,
    email VARCHAR (300) UNIQUE NOT NULL
);
CREATE TABLE IF NOT EXISTS book (
    id serial PRIMARY KEY,
    author_id integer NOT NULL REFERENCES author (id),
    title VARCHAR (100) NOT NULL,
    details jsonb,
    UNIQUE (author_id, title)
);
CREATE INDEX book_title ON book (title);
