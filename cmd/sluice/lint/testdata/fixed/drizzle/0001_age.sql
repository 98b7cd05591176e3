-- sluice: ddl_and_dml: DSQL takes no DDL together with data changes in a transaction. To do: run each statement in a transaction of its own: Drizzle's migrator has no switch for that, and runs all files that are due in one transaction with a row of its own - run the files by psql -f
ALTER TABLE "users" ADD COLUMN "age" integer;
