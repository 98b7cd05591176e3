CREATE TABLE entries (id bigint PRIMARY KEY, account_id bigint NOT NULL, amount bigint NOT NULL);
-- sluice: alter_add_constraint: DSQL adds only CHECK and FOREIGN KEY ... NOT VALID, and UNIQUE USING INDEX. To do: run the statement alone outside of a transaction: it is then carried out in the steps that DSQL has
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: add x-multi-statement=true to the URL of the database, which splits the file at each semicolon - or leave one statement in the file
ALTER TABLE entries ADD FOREIGN KEY (account_id) REFERENCES accounts (id);
