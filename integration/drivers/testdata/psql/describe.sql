-- The catalog queries of psql's own commands.
CREATE TABLE {t} (id int PRIMARY KEY, name varchar(20) NOT NULL DEFAULT 'x' UNIQUE, n numeric(10,2) CHECK (n > 0));
CREATE VIEW {t}_v AS SELECT id, name FROM {t};
\d {t}
\d+ {t}_v
\dt {t}*
\dv {t}*
\di {t}*
\d {t}_pkey
\dn public
\df now
\dT int4
\dp {t}
\d nosuch
\sf now
\sv {t}_v
