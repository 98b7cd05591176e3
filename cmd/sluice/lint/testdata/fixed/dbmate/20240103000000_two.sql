-- migrate:up transaction:false
CREATE TABLE a (x int);
-- sluice: several_ddl: DSQL takes one DDL statement in a transaction. To do: run each statement in a transaction of its own: write -- migrate:up transaction:false, and leave one DDL statement in the file - dbmate notes its version in the same transaction otherwise
CREATE TABLE b (x int);

-- migrate:down
-- sluice: ddl_and_dml: DSQL takes no DDL together with data changes in a transaction. To do: run each statement in a transaction of its own: write -- migrate:down transaction:false, and leave one DDL statement in the file - dbmate notes its version in the same transaction otherwise
DROP TABLE a;
