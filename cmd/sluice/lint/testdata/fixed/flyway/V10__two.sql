CREATE TABLE a (x int);
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: put executeInTransaction=false into a file beside it, of its name with .conf behind
CREATE TABLE b (x int);
CREATE TABLE c (x int);
-- sluice: ddl_and_dml: DSQL takes no DDL together with data changes in a transaction. To do: run each statement in a transaction of its own: put executeInTransaction=false into a file beside it, of its name with .conf behind
INSERT INTO a VALUES (1);
