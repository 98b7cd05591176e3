ALTER TABLE of several commands, and such statements in strings, where transactions are committed in parts.

-- in
ALTER TABLE t DROP CONSTRAINT t_a_not_null, ALTER COLUMN a SET NOT NULL
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_set_not_null rewritten warning
command ALTER TABLE t DROP CONSTRAINT t_a_not_null
command ALTER TABLE t ALTER COLUMN a SET NOT NULL

-- in
ALTER TABLE "T" ALTER COLUMN a TYPE varchar(9), ALTER b SET DATA TYPE bigint USING b::bigint, ALTER COLUMN a DROP DEFAULT, ALTER COLUMN a SET DEFAULT 'x, y'
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_column_type rewritten warning
dialect alter_column_type rewritten warning
command ALTER TABLE "T" ALTER COLUMN a DROP DEFAULT
command ALTER TABLE "T" ALTER COLUMN a TYPE varchar(9)
command ALTER TABLE "T" ALTER b SET DATA TYPE bigint USING b::bigint
command ALTER TABLE "T" ALTER COLUMN a SET DEFAULT 'x, y'

-- in
alter table only s.t add constraint f foreign key (a, b) references p (a, b), add column c int default 4, add d int unique, alter c set default 5, alter a set default 6, add check (a > 0)
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_add_column rewritten warning
dialect alter_add_constraint rewritten info
command alter table only s.t add column c int default 4
command alter table only s.t alter a set default 6
command alter table only s.t add constraint f foreign key (a, b) references p (a, b), add d int unique, add check (a > 0)
command alter table only s.t alter c set default 5

-- in
ALTER TABLE t ADD COLUMN a serial, ADD COLUMN b int NOT NULL
-- out
same
-- rules
dialect several_ddl rewritten warning
serial add_serial rewritten warning
dialect alter_set_not_null rewritten warning
command ALTER TABLE t ADD COLUMN a serial
command ALTER TABLE t ADD COLUMN b int NOT NULL

-- in
ALTER TABLE t ALTER COLUMN a TYPE text, ALTER COLUMN a TYPE varchar(9)
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_column_type flagged error

-- in
ALTER TABLE t DROP COLUMN a, ADD COLUMN a int NOT NULL
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t DROP COLUMN a, ALTER COLUMN b SET NOT NULL, ADD CHECK (b > t.a)
-- out
same
-- rules
dialect alter_set_not_null flagged error
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t DROP COLUMN a, ALTER COLUMN b SET NOT NULL
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_set_not_null rewritten warning
command ALTER TABLE t ALTER COLUMN b SET NOT NULL
command ALTER TABLE t DROP COLUMN a

-- in
ALTER TABLE t DROP COLUMN a, DROP COLUMN b, ALTER COLUMN c SET NOT NULL
-- out
same
-- rules
dialect alter_set_not_null flagged error

-- in
ALTER TABLE t DROP COLUMN a, DROP COLUMN b
-- out
same
-- rules


-- in
ALTER TABLE IF EXISTS t ALTER COLUMN a TYPE text, ALTER COLUMN b SET NOT NULL
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_set_not_null flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text, ADD PRIMARY KEY (b)
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_add_primary_key flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text, ALTER COLUMN b SET STATISTICS 9
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a /* , */ TYPE text, ALTER COLUMN b SET NOT NULL
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_set_not_null flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text USING lower(a), ALTER COLUMN b SET NOT NULL
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_set_not_null flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE numeric(9, 2), ALTER COLUMN b DROP NOT NULL
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_column_type rewritten warning
dialect alter_set_not_null rewritten info
command ALTER TABLE t ALTER COLUMN b DROP NOT NULL
command ALTER TABLE t ALTER COLUMN a TYPE numeric(9, 2)

-- in
ALTER TABLE t ADD COLUMN c int DEFAULT 4 CHECK (c > d), ADD COLUMN d int
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD UNIQUE (a), ADD CONSTRAINT b UNIQUE (b)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "t_a_key" ON t ("a")
step ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key"
step CREATE UNIQUE INDEX ASYNC "b" ON t ("b")
step ALTER TABLE t ADD CONSTRAINT "b" UNIQUE USING INDEX "b"

-- in
CREATE TABLE a (id int); ALTER TABLE t DROP CONSTRAINT c, ALTER COLUMN a SET NOT NULL; INSERT INTO a VALUES (1)
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_set_not_null rewritten warning
dialect several_ddl rewritten warning
dialect ddl_and_dml rewritten warning

-- in
CREATE TABLE a (id int); ALTER TABLE t ALTER COLUMN a TYPE text
-- out
same
-- rules
dialect alter_column_type rewritten warning
dialect several_ddl rewritten warning

-- in
ALTER TABLE t DROP COLUMN old, ADD x int NOT NULL, ALTER x SET DEFAULT 4
-- out
same
-- rules
dialect several_ddl rewritten warning
dialect alter_set_not_null rewritten warning
command ALTER TABLE t ADD x int NOT NULL
command ALTER TABLE t ALTER x SET DEFAULT 4
command ALTER TABLE t DROP COLUMN old

-- in
ALTER TABLE t ADD CONSTRAINT c UNIQUE (b), DROP COLUMN a, ADD d int NOT NULL DEFAULT 5
-- out
same
-- rules
dialect alter_add_constraint flagged error
dialect alter_add_column flagged error

