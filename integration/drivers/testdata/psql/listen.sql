-- needs listen
-- psql shows notifications after the statement that they came with.
LISTEN {t};
NOTIFY {t}, 'hello';
SELECT 1 AS one;
SELECT pg_notify('{t}', 'from a function');
UNLISTEN *;
NOTIFY {t}, 'not heard';
