TRUNCATE entries; DROP TABLE entries;
