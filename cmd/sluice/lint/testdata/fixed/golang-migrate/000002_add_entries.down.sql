-- sluice: truncate: DSQL refuses TRUNCATE. To do: set rewrite.truncate to delete or batches, DELETE in batches of at most 3,000 rows, or DROP and CREATE the table
TRUNCATE entries; DROP TABLE entries;
