CREATE TABLE entries (id bigint PRIMARY KEY, account_id bigint NOT NULL, amount bigint NOT NULL);
ALTER TABLE entries ADD FOREIGN KEY (account_id) REFERENCES accounts (id);
