CREATE INDEX entries_amount ON entries (amount);
