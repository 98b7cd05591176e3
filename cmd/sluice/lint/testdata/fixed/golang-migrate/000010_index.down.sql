-- the index
-- sluice: reindex: DSQL is not known to take REINDEX. To do: leave REINDEX out - where an index must be made anew, CREATE INDEX ASYNC another one, wait for its job, and DROP INDEX the old one
REINDEX INDEX entries_amount;
