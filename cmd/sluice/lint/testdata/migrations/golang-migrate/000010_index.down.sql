-- the index
REINDEX INDEX entries_amount;
