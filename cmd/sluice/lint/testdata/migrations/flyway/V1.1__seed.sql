INSERT INTO person (id, name) VALUES (1, 'Axel; the first');
INSERT INTO person (id, name) VALUES (2, 'Mr. Foo');
