ALTER TABLE ... ADD COLUMN ... NULL.

-- in
ALTER TABLE t ADD COLUMN a timestamp NULL
-- out
ALTER TABLE t ADD COLUMN a timestamp
-- rules
alter alter_add_null rewritten info

-- in
ALTER TABLE t ADD COLUMN a bytea NULL, ADD b varchar(16) null, ADD c int
-- out
ALTER TABLE t ADD COLUMN a bytea, ADD b varchar(16), ADD c int
-- rules
alter alter_add_null rewritten info
alter alter_add_null rewritten info

-- in
ALTER TABLE t ADD COLUMN a int CONSTRAINT x NULL NULL -- nothing
, DROP COLUMN b
-- out
ALTER TABLE t ADD COLUMN a int -- nothing
, DROP COLUMN b
-- rules
alter alter_add_null rewritten info

-- in
ALTER TABLE t ADD COLUMN a int NULL NOT NULL
-- out
same
-- rules
dialect alter_set_not_null rewritten warning
step ALTER TABLE t ADD COLUMN a int
step ALTER TABLE t ADD CONSTRAINT "t_a_sluice_not_null" CHECK ("a" IS NOT NULL) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_sluice_not_null"

-- in
ALTER TABLE t ADD COLUMN a int NULL DEFAULT 3
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a serial NULL
-- out
ALTER TABLE t ADD COLUMN a serial
-- rules
alter alter_add_null rewritten info
serial add_serial flagged error

-- in
ALTER TABLE t ALTER COLUMN a DROP NOT NULL
-- out
same
-- rules
dialect alter_set_not_null rewritten info

-- in
ALTER TABLE t ADD COLUMN a varchar(10) DEFAULT NULL NULL, ADD b text NULL DEFAULT NULL
-- out
ALTER TABLE t ADD COLUMN a varchar(10), ADD b text
-- rules
alter alter_add_null rewritten info
alter alter_add_null rewritten info

-- in
ALTER TABLE t ADD COLUMN a mydomain DEFAULT NULL
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a int DEFAULT NULL::int
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a int DEFAULT length('x')
-- out
same
-- rules
dialect alter_add_column flagged error

