Databases, isolation levels, DISCARD.

-- in
CREATE DATABASE temporal
-- out
same
-- rules
database create_database answered info
refusal 42P04

-- in
create database "My Db" OWNER x
-- out
same
-- rules
database create_database answered info
refusal 42P04

-- in
DROP DATABASE temporal
-- out
SELECT 1
-- rules
database drop_database answered warning
tag DROP DATABASE

-- in
DROP DATABASE IF EXISTS temporal WITH (FORCE)
-- out
SELECT 1
-- rules
database drop_database answered warning
tag DROP DATABASE

-- in
DROP DATABASE temporal; SELECT 1 FOR SHARE
-- out
SELECT 1; SELECT 1 FOR UPDATE
-- rules
database drop_database answered warning
locking for_share rewritten info
tag DROP DATABASE

-- in
CREATE DATABASE a; SELECT a FROM t FOR SHARE
-- out
CREATE DATABASE a; SELECT a FROM t FOR UPDATE
-- rules
database create_database answered info
locking for_share rewritten info
refusal 42P04

-- in
BEGIN
-- out
same
-- rules


-- in
BEGIN ISOLATION LEVEL READ COMMITTED
-- out
BEGIN ISOLATION LEVEL REPEATABLE READ
-- rules
isolation isolation_level rewritten info

-- in
begin transaction isolation level read uncommitted, read only
-- out
begin transaction isolation level repeatable read, read only
-- rules
isolation isolation_level rewritten info

-- in
START TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED
-- out
START TRANSACTION READ WRITE, ISOLATION LEVEL REPEATABLE READ
-- rules
isolation isolation_level rewritten info

-- in
BEGIN ISOLATION LEVEL REPEATABLE READ
-- out
same
-- rules


-- in
BEGIN ISOLATION LEVEL SERIALIZABLE
-- out
same
-- rules
isolation serializable flagged error

-- in
BEGIN ISOLATION /* LEVEL READ */ LEVEL READ -- x
COMMITTED; SELECT 1; COMMIT
-- out
BEGIN ISOLATION /* LEVEL READ */ LEVEL REPEATABLE -- x
READ; SELECT 1; COMMIT
-- rules
isolation isolation_level rewritten info

-- in
SET TRANSACTION ISOLATION LEVEL READ COMMITTED
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ WRITE
-- out
same
-- rules
isolation transaction_mode flagged error

-- in
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE
-- out
same
-- rules
isolation serializable flagged error

-- in
SET TRANSACTION READ ONLY
-- out
same
-- rules
isolation transaction_mode flagged error

-- in
SET TRANSACTION READ WRITE
-- out
same
-- rules
isolation transaction_mode flagged error

-- in
SET LOCAL TRANSACTION ISOLATION LEVEL READ COMMITTED
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET TRANSACTION SNAPSHOT 'x'
-- out
same
-- rules
isolation transaction_mode flagged error

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY
-- out
same
-- rules
isolation transaction_mode answered info

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE
-- out
same
-- rules
isolation serializable flagged error

-- in
SET default_transaction_isolation TO 'read committed'
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET SESSION default_transaction_isolation = 'Repeatable Read'
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET default_transaction_isolation TO 'serializable'
-- out
same
-- rules
isolation serializable flagged error

-- in
SET default_transaction_isolation TO DEFAULT
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET transaction_isolation = 'read committed'
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
BEGIN; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SELECT a FROM t; COMMIT
-- out
BEGIN; SELECT 1; SELECT a FROM t; COMMIT
-- rules
isolation isolation_level answered info
tag SET

-- in
DISCARD ALL
-- out
same
-- rules


-- in
DISCARD PLANS
-- out
SELECT 1
-- rules
session discard answered info
tag DISCARD PLANS

-- in
DISCARD SEQUENCES
-- out
SELECT 1
-- rules
session discard answered info
tag DISCARD SEQUENCES

-- in
DISCARD TEMP
-- out
SELECT 1
-- rules
session discard answered info
tag DISCARD TEMP

-- in
RESET ALL
-- out
same
-- rules


-- in
DEALLOCATE ALL
-- out
same
-- rules


-- in
DEALLOCATE p
-- out
same
-- rules


-- in
UNLISTEN *
-- out
SELECT 1
-- rules
session discard answered info
tag UNLISTEN

-- in
close all
-- out
SELECT 1
-- rules
session discard answered info
tag CLOSE CURSOR ALL

-- in
SELECT pg_catalog.pg_advisory_unlock_all();
-- out
SELECT 1;
-- rules
session discard answered info
tag SELECT 1

-- in
SELECT pg_advisory_unlock_all() FROM t
-- out
same
-- rules
dialect advisory_lock flagged error

-- in
SELECT pg_advisory_unlock_all();CLOSE ALL;UNLISTEN *;RESET ALL;
-- out
SELECT 1;SELECT 1;SELECT 1;RESET ALL;
-- rules
session discard answered info
session discard answered info
session discard answered info
tag SELECT 1
tag CLOSE CURSOR ALL
tag UNLISTEN

