ALTER TABLE that adds constraints: the steps are those of names that are not taken.

-- in
ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "c" ON t ("a")
step ALTER TABLE t ADD CONSTRAINT "c" UNIQUE USING INDEX "c"

-- in
ALTER TABLE ONLY public.t ADD UNIQUE (a, "B c") INCLUDE (d) DEFERRABLE INITIALLY DEFERRED
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "t_a_B c_d_key" ON public.t ("a", "B c") INCLUDE ("d")
step ALTER TABLE public.t ADD CONSTRAINT "t_a_B c_d_key" UNIQUE USING INDEX "t_a_B c_d_key" DEFERRABLE INITIALLY DEFERRED

-- in
ALTER TABLE t ADD UNIQUE NULLS NOT DISTINCT (a)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "t_a_key" ON t ("a") NULLS NOT DISTINCT
step ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key"

-- in
ALTER TABLE IF EXISTS "T x" ADD CONSTRAINT "c""d" CHECK (a > 0 AND b <> ';') NO INHERIT;
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE "T x" ADD CONSTRAINT "c""d" CHECK (a > 0 AND b <> ';') NO INHERIT NOT VALID
step ALTER TABLE ASYNC "T x" VALIDATE CONSTRAINT "c""d"

-- in
ALTER TABLE t ADD CHECK (a IN (1, 2)) -- the end
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "t_a_check" CHECK (a IN (1, 2)) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_check"

-- in
ALTER TABLE t /* one */ ADD /* two */ CONSTRAINT /* three */ c -- four
 CHECK (a -- five
 > 0) /* six */
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "c" CHECK (a -- five
 > 0) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "c"

-- in
ALTER TABLE t * ADD FOREIGN KEY (a, b) REFERENCES s.u (c, d) MATCH FULL ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "t_a_b_fkey" FOREIGN KEY (a, b) REFERENCES s.u (c, d) MATCH FULL ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_b_fkey"

-- in
ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "t_a_fkey" FOREIGN KEY (a) REFERENCES t NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_fkey"

-- in
ALTER TABLE t ADD CHECK (a > 0), ADD CONSTRAINT u UNIQUE (b), ADD FOREIGN KEY (b) REFERENCES t (b)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "u" ON t ("b")
step ALTER TABLE t ADD CONSTRAINT "u" UNIQUE USING INDEX "u"
step ALTER TABLE t ADD CONSTRAINT "t_a_check" CHECK (a > 0) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_check"
step ALTER TABLE t ADD CONSTRAINT "t_b_fkey" FOREIGN KEY (b) REFERENCES t (b) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_b_fkey"

-- in
ALTER TABLE t ADD COLUMN a int NULL REFERENCES u DEFERRABLE INITIALLY DEFERRED CHECK (a > 0) UNIQUE DEFERRABLE, ADD b text
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD COLUMN a int
step ALTER TABLE t ADD COLUMN b text
step CREATE UNIQUE INDEX ASYNC "t_a_key" ON t ("a")
step ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key" DEFERRABLE
step ALTER TABLE t ADD CONSTRAINT "t_a_check" CHECK (a > 0) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_check"
step ALTER TABLE t ADD CONSTRAINT "t_a_fkey" FOREIGN KEY ("a") REFERENCES u DEFERRABLE INITIALLY DEFERRED NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_fkey"

-- in
ALTER TABLE t ADD COLUMN "a b" varchar(3) CONSTRAINT x CHECK ("a b" <> '') CONSTRAINT y UNIQUE CONSTRAINT z REFERENCES u (k) ON DELETE SET NULL NOT DEFERRABLE
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD COLUMN "a b" varchar(3)
step CREATE UNIQUE INDEX ASYNC "y" ON t ("a b")
step ALTER TABLE t ADD CONSTRAINT "y" UNIQUE USING INDEX "y"
step ALTER TABLE t ADD CONSTRAINT "x" CHECK ("a b" <> '') NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "x"
step ALTER TABLE t ADD CONSTRAINT "z" FOREIGN KEY ("a b") REFERENCES u (k) ON DELETE SET NULL NOT DEFERRABLE NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "z"

-- in
ALTER TABLE t ADD a text DEFAULT NULL UNIQUE
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD COLUMN a text
step CREATE UNIQUE INDEX ASYNC "t_a_key" ON t ("a")
step ALTER TABLE t ADD CONSTRAINT "t_a_key" UNIQUE USING INDEX "t_a_key"

-- in
ALTER TABLE t ALTER COLUMN a SET NOT NULL
-- out
same
-- rules
dialect alter_set_not_null rewritten warning
step ALTER TABLE t ADD CONSTRAINT "t_a_sluice_not_null" CHECK ("a" IS NOT NULL) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_a_sluice_not_null"

-- in
ALTER TABLE t ALTER "A b" SET NOT NULL, ADD c int NOT NULL
-- out
same
-- rules
dialect alter_set_not_null rewritten warning
step ALTER TABLE t ADD COLUMN c int
step ALTER TABLE t ADD CONSTRAINT "t_c_sluice_not_null" CHECK ("c" IS NOT NULL) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_c_sluice_not_null"
step ALTER TABLE t ADD CONSTRAINT "t_A b_sluice_not_null" CHECK ("A b" IS NOT NULL) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "t_A b_sluice_not_null"

-- in
ALTER TABLE averyveryverylongnameofatablethatgoesonandon ADD UNIQUE (averyverylongnameofacolumn, another)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step CREATE UNIQUE INDEX ASYNC "averyveryverylongnameofatable_averyverylongnameofacolumn_an_key" ON averyveryverylongnameofatablethatgoesonandon ("averyverylongnameofacolumn", "another")
step ALTER TABLE averyveryverylongnameofatablethatgoesonandon ADD CONSTRAINT "averyveryverylongnameofatable_averyverylongnameofacolumn_an_key" UNIQUE USING INDEX "averyveryverylongnameofatable_averyverylongnameofacolumn_an_key"

-- in
ALTER TABLE t ADD CONSTRAINT U&"d\0061" CHECK (a > 0)
-- out
same
-- rules
dialect alter_add_constraint rewritten info
step ALTER TABLE t ADD CONSTRAINT "da" CHECK (a > 0) NOT VALID
step ALTER TABLE ASYNC t VALIDATE CONSTRAINT "da"

-- in
ALTER TABLE t ADD PRIMARY KEY (a)
-- out
same
-- rules
dialect alter_add_primary_key flagged error

-- in
ALTER TABLE t ADD CONSTRAINT p PRIMARY KEY USING INDEX i
-- out
same
-- rules
dialect alter_add_primary_key flagged error

-- in
ALTER TABLE t ADD EXCLUDE USING gist (a WITH =)
-- out
same
-- rules
dialect exclude flagged error

-- in
ALTER TABLE t ADD UNIQUE (a, a)
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD UNIQUE (a) WITH (fillfactor = 70)
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD UNIQUE (a) USING INDEX TABLESPACE x
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD UNIQUE (a), DROP COLUMN b
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t ADD COLUMN IF NOT EXISTS a int UNIQUE
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a int DEFAULT 1 UNIQUE
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a serial UNIQUE
-- out
same
-- rules
serial add_serial flagged error

-- in
ALTER TABLE t ADD COLUMN a int[] UNIQUE
-- out
same
-- rules
dialect column_type flagged error

-- in
ALTER TABLE t ADD COLUMN a text COLLATE "C" UNIQUE
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a int PRIMARY KEY
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD COLUMN a int GENERATED ALWAYS AS (b) STORED UNIQUE
-- out
same
-- rules
dialect alter_add_column flagged error

-- in
ALTER TABLE t ADD CHECK (a > 0) NOT VALID, ADD CHECK (b > 0)
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE other.db.t ADD UNIQUE (a)
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER VIEW v ALTER COLUMN a SET DEFAULT 1
-- out
same
-- rules


-- in
ALTER TABLE t ADD UNIQUE (a); SELECT 1
-- out
same
-- rules
dialect alter_add_constraint flagged error

-- in
ALTER TABLE t VALIDATE CONSTRAINT c
-- out
same
-- rules
dialect alter_validate_constraint flagged error

-- in
ALTER TABLE ASYNC t VALIDATE CONSTRAINT c
-- out
same
-- rules


