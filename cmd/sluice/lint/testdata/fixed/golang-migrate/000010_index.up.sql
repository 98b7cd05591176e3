-- sluice: create_index: rewritten to CREATE INDEX ASYNC, and nobody waits for its job, as Sluice does for that of CREATE INDEX (DSQL builds indexes only by CREATE INDEX ASYNC)
CREATE INDEX ASYNC entries_amount ON entries (amount);
