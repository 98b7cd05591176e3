set_config() as a SET, and LOCK TABLE of what a snapshot keeps.

-- in
SELECT set_config('search_path', '', false)
-- out
SET search_path TO ''
-- rules
session set_config rewritten info

-- in
SELECT pg_catalog.set_config('search_path', '', false);
-- out
SET search_path TO '';
-- rules
session set_config rewritten info

-- in
select SET_CONFIG('TimeZone', 'Asia/Tokyo', true) AS zone
-- out
SET LOCAL timezone TO 'Asia/Tokyo'
-- rules
session set_config rewritten info

-- in
SELECT /* a */ set_config( 'Search_Path' , 's1, "My ""Own""", $user' , FALSE ) -- b
-- out
SET search_path TO 's1', 'My "Own"', '$user'
-- rules
session set_config rewritten info

-- in
SELECT set_config('application_name', 'it''s', false), set_config('statement_timeout', '5s', true) AS t
-- out
same
-- rules
session set_config answered info

-- in
SELECT set_config('app.tenant', E'a\\b', false)
-- out
SET app.tenant TO E'a\\b'
-- rules
session set_config rewritten info

-- in
SELECT set_config('timezone', 'UTC'::text, 't')
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('timezone', 'UTC'::text, true); SELECT 1 FOR SHARE
-- out
SET LOCAL timezone TO 'UTC'; SELECT 1 FOR UPDATE
-- rules
session set_config rewritten info
locking for_share rewritten info

-- in
SELECT set_config('timezone', $1, false)
-- out
same
-- rules
session set_config answered info

-- in
SELECT set_config('timezone', NULL, false)
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('transaction_read_only', 'on', true)
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('a b', 'x', true)
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('timezone', 'UTC', false) FROM t
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('timezone', 'UTC', false), 1
-- out
same
-- rules
session set_config flagged error

-- in
SELECT other.set_config('timezone', 'UTC', false)
-- out
same
-- rules


-- in
SELECT set_config(is_local => true, setting_name => 'timezone', new_value => 'UTC')
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('search_path', 'a,,b', false)
-- out
SET search_path TO 'a,,b'
-- rules
session set_config rewritten info

-- in
SELECT set_config('search_path', 'pg_temp', false)
-- out
SET search_path TO 'pg_temp'
-- rules
session set_config rewritten info
dialect temp_table flagged error

-- in
SELECT set_config('role', 'r', true)
-- out
SET LOCAL role TO 'r'
-- rules
session set_config rewritten info

-- in
LOCK TABLE public.t, "My s"."T""x" IN ACCESS SHARE MODE
-- out
SELECT 1 WHERE false AND EXISTS (SELECT 1 FROM "public"."t") AND EXISTS (SELECT 1 FROM "My s"."T""x")
-- rules
dialect lock_table rewritten info
tag LOCK TABLE

-- in
lock t in access share mode nowait
-- out
SELECT 1 WHERE false AND EXISTS (SELECT 1 FROM "t")
-- rules
dialect lock_table rewritten info
tag LOCK TABLE

-- in
LOCK TABLE ONLY t IN ACCESS SHARE MODE
-- out
SELECT 1 WHERE false AND EXISTS (SELECT 1 FROM "t")
-- rules
dialect lock_table rewritten info
tag LOCK TABLE

-- in
LOCK TABLE t
-- out
same
-- rules
dialect lock_table flagged error

-- in
LOCK TABLE t IN ROW SHARE MODE
-- out
same
-- rules
dialect lock_table flagged error

-- in
LOCK TABLE d.s.t IN ACCESS SHARE MODE
-- out
same
-- rules
dialect lock_table flagged error

-- in
BEGIN; LOCK TABLE t IN ACCESS SHARE MODE; SELECT a FROM t FOR SHARE
-- out
BEGIN; SELECT 1 WHERE false AND EXISTS (SELECT 1 FROM "t"); SELECT a FROM t FOR UPDATE
-- rules
dialect lock_table rewritten info
locking for_share rewritten info
tag LOCK TABLE

-- in
SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'
-- out
SELECT NULL::text AS set_config WHERE false
-- rules
session set_config rewritten info

-- in
SELECT set_config(name, 'view', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'
-- out
same
-- rules
session set_config flagged error

-- in
RESET default_transaction_isolation
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag RESET

-- in
SET default_transaction_isolation TO DEFAULT
-- out
SELECT 1
-- rules
isolation isolation_level answered info
tag SET

-- in
SET default_transaction_read_only = on
-- out
same
-- rules
isolation transaction_mode answered info

-- in
SET default_transaction_read_only = off
-- out
same
-- rules
isolation transaction_mode answered info

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY
-- out
same
-- rules
isolation transaction_mode answered info

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY
-- out
same
-- rules
isolation serializable flagged error

-- in
SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, DEFERRABLE
-- out
same
-- rules
isolation transaction_mode answered info

-- in
SELECT set_config('default_transaction_read_only', 'on', false)
-- out
SET default_transaction_read_only TO 'on'
-- rules
session set_config rewritten info

-- in
RESET default_transaction_read_only; SET LOCAL default_transaction_read_only = off
-- out
same
-- rules
isolation transaction_mode answered info
isolation transaction_mode answered info

-- in
SELECT set_config('search_path', $1, true), pg_catalog.set_config('timezone', $2::text, false) AS zone
-- out
same
-- rules
session set_config answered info

-- in
SELECT set_config('search_path', $2, true)
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config($1, 'on', true)
-- out
same
-- rules
session set_config flagged error

-- in
SELECT set_config('timezone', $1::varchar, true)
-- out
same
-- rules
session set_config flagged error

