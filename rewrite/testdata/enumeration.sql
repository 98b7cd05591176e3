Enumerations, and DO blocks of one statement, where a domain stands for an enumeration.

-- in
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')
-- out
CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('sad', 'ok', 'happy'))
-- rules
dialect user_type rewritten warning
shown CREATE TYPE
warning type "mood" is a domain over text, since DSQL has no enumerations: Its values compare and sort as texts, and not in the order of the type. A value that is none of them has the code 23514.

-- in
CREATE TYPE public."Mo""od" AS ENUM ('a', 'b')
-- out
CREATE DOMAIN "public"."Mo""od" AS text CHECK (VALUE IN ('a', 'b'))
-- rules
dialect user_type rewritten warning
shown CREATE TYPE
warning type "Mo"od" is a domain over text, since DSQL has no enumerations: Its values compare and sort as texts, which is the order of the type. A value that is none of them has the code 23514.

-- in
create type mood as enum ('it''s', E'a\\b', 'Größe', '')
-- out
CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('it''s', E'a\\b', 'Größe', ''))
-- rules
dialect user_type rewritten warning
shown CREATE TYPE
warning type "mood" is a domain over text, since DSQL has no enumerations: Its values compare and sort as texts, and not in the order of the type. A value that is none of them has the code 23514.

-- in
CREATE TYPE mood AS ENUM ()
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE TYPE mood AS ENUM ('a', 'a')
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE TYPE mood AS ENUM ('0123456789012345678901234567890123456789012345678901234567890123')
-- out
same
-- rules
dialect user_type flagged error

-- in
CREATE TYPE pg_temp.mood AS ENUM ('a')
-- out
same
-- rules
dialect user_type flagged error
dialect temp_table flagged error

-- in
CREATE TYPE pair AS (a int, b int)
-- out
same
-- rules
dialect user_type flagged error

-- in
ALTER TYPE mood ADD VALUE 'it''s' BEFORE 'ok'
-- out
same
-- rules
dialect user_type rewritten info

-- in
ALTER TYPE mood RENAME VALUE 'a' TO 'b'
-- out
same
-- rules
dialect user_type flagged error

-- in
DROP TYPE mood
-- out
DROP DOMAIN mood
-- rules
dialect user_type rewritten info
shown DROP TYPE

-- in
drop type IF EXISTS a, s."B" CASCADE
-- out
drop domain IF EXISTS a, s."B" CASCADE
-- rules
dialect user_type rewritten info
shown DROP TYPE

-- in
DROP /* a */ TYPE mood
-- out
DROP /* a */ DOMAIN mood
-- rules
dialect user_type rewritten info
shown DROP TYPE

-- in
BEGIN; CREATE TYPE mood AS ENUM ('b', 'a'); COMMIT
-- out
BEGIN; CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('b', 'a')); COMMIT
-- rules
dialect user_type rewritten warning
shown CREATE TYPE
warning type "mood" is a domain over text, since DSQL has no enumerations: Its values compare and sort as texts, and not in the order of the type. A value that is none of them has the code 23514.

-- in
CREATE TYPE mood AS ENUM ('a'); CREATE TABLE t (m mood); DROP TYPE other
-- out
CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('a')); CREATE TABLE t (m mood); DROP DOMAIN other
-- rules
dialect user_type rewritten warning
dialect user_type rewritten info
dialect several_ddl flagged error
dialect several_ddl flagged error
shown CREATE TYPE
warning type "mood" is a domain over text, since DSQL has no enumerations: Its values compare and sort as texts, which is the order of the type. A value that is none of them has the code 23514.
shown DROP TYPE

-- in
DO $$ BEGIN CREATE TYPE "public"."mood" AS ENUM('sad', 'ok'); EXCEPTION WHEN duplicate_object THEN null; END $$
-- out
same
-- rules
dialect procedural rewritten info
dialect user_type rewritten warning
guarded "" [42710] CREATE DOMAIN "public"."mood" AS text CHECK (VALUE IN ('sad', 'ok'))

-- in
DO 'BEGIN CREATE TYPE "public"."enum_People_now" AS ENUM(''sad'', ''ok'', ''happy''); EXCEPTION WHEN duplicate_object THEN null; END'
-- out
same
-- rules
dialect procedural rewritten info
dialect user_type rewritten warning
guarded "" [42710] CREATE DOMAIN "public"."enum_People_now" AS text CHECK (VALUE IN ('sad', 'ok', 'happy'))

-- in
DO $$ BEGIN ALTER TABLE "a" ADD CONSTRAINT "a_b_fk" FOREIGN KEY ("b") REFERENCES "public"."b"("id") ON DELETE no action ON UPDATE no action; EXCEPTION WHEN duplicate_object THEN null; END $$
-- out
same
-- rules
dialect procedural rewritten info
dialect alter_add_constraint rewritten info
guarded "" [42710] ALTER TABLE "a" ADD CONSTRAINT "a_b_fk" FOREIGN KEY ("b") REFERENCES "public"."b"("id") ON DELETE no action ON UPDATE no action

-- in
DO LANGUAGE plpgsql $do$ begin if not exists (select 1 from pg_type where typname = 'mood') then create type mood as enum ('a;b', $$c; end$$); end if; end; $do$
-- out
same
-- rules
dialect procedural rewritten info
dialect user_type rewritten warning
guarded "not exists (select 1 from pg_type where typname = 'mood')" [] CREATE DOMAIN "mood" AS text CHECK (VALUE IN ('a;b', 'c; end'))

-- in
DO $$ BEGIN CREATE TABLE t (id int); END $$
-- out
same
-- rules
dialect procedural rewritten info
guarded "" [] CREATE TABLE t (id int)

-- in
DO $$ BEGIN CREATE TABLE t (id serial); EXCEPTION WHEN duplicate_table OR unique_violation THEN NULL; WHEN invalid_schema_name THEN NULL; END; $$
-- out
same
-- rules
dialect procedural rewritten info
serial serial rewritten info
guarded "" [42P07 23505 3F000] CREATE TABLE t (id bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1 MAXVALUE 2147483647))

-- in
DO $$ BEGIN CREATE INDEX i ON t (a); EXCEPTION WHEN duplicate_table THEN NULL; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TYPE mood AS ENUM ('a'); EXCEPTION WHEN OTHERS THEN NULL; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TYPE mood AS ENUM ('a'); EXCEPTION WHEN duplicate_object THEN RAISE NOTICE 'there'; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TYPE mood AS ENUM ('a'); EXCEPTION END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TYPE mood AS ENUM ('a'); CREATE TYPE other AS ENUM ('a'); END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation THEN NULL; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN IF f() THEN CREATE TABLE t (id int); END IF; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN IF CASE WHEN true THEN true END THEN CREATE TABLE t (id int); END IF; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN IF true THEN CREATE TABLE t (id int); ELSE CREATE TABLE u (id int); END IF; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN IF true THEN CREATE TABLE t (id int); END IF; EXCEPTION WHEN undefined_table THEN NULL; END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ DECLARE x int; BEGIN CREATE TABLE t (id int); END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TABLE t (id int); -- a
END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO LANGUAGE sql $$ BEGIN CREATE TABLE t (id int); END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION f(); END $$
-- out
same
-- rules
dialect procedural flagged error

-- in
DO $$ BEGIN CREATE TABLE t (id int); END $$; SELECT 1
-- out
same
-- rules
dialect procedural flagged error

