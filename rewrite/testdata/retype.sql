ALTER TABLE ... ALTER COLUMN ... TYPE: the column that takes the other's place.

-- in
ALTER TABLE t ALTER COLUMN a TYPE varchar(150)
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "a__new_1" varchar(150)
step UPDATE t SET "a__new_1" = "a" WHERE ("id") IN (SELECT "id" FROM t WHERE "a__new_1" IS NULL AND "a" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "a__new_1" = NULL WHERE "a__new_1" IS NOT NULL AND (CAST("a__new_1" AS text) IS DISTINCT FROM CAST(CAST("a__was_1" AS varchar(150)) AS text) OR "a__new_1" <> CAST("a__was_1" AS varchar(150)))

-- in
ALTER TABLE "T" ALTER "a b" SET DATA TYPE character varying ( 150 ) USING "a b"::varchar(150);
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE "T" ADD COLUMN "a b__new_1" character varying ( 150 )
step UPDATE "T" SET "a b__new_1" = CAST("a b" AS character varying ( 150 )) WHERE ("id") IN (SELECT "id" FROM "T" WHERE "a b__new_1" IS NULL AND "a b" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE "T" SET "a b__new_1" = NULL WHERE "a b__new_1" IS NOT NULL AND (CAST("a b__new_1" AS text) IS DISTINCT FROM CAST(CAST("a b__was_1" AS character varying ( 150 )) AS text) OR "a b__new_1" <> CAST("a b__was_1" AS character varying ( 150 )))

-- in
alter table only public.t alter a type numeric(10, 2) using (a)
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE public.t ADD COLUMN "a__new_1" numeric(10, 2)
step UPDATE public.t SET "a__new_1" = "a" WHERE ("id") IN (SELECT "id" FROM public.t WHERE "a__new_1" IS NULL AND "a" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE public.t SET "a__new_1" = NULL WHERE "a__new_1" IS NOT NULL AND (CAST("a__new_1" AS text) IS DISTINCT FROM CAST(CAST("a__was_1" AS numeric(10, 2)) AS text) OR "a__new_1" <> CAST("a__was_1" AS numeric(10, 2)))

-- in
ALTER TABLE t ALTER COLUMN type TYPE double precision
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "type__new_1" double precision
step UPDATE t SET "type__new_1" = "type" WHERE ("id") IN (SELECT "id" FROM t WHERE "type__new_1" IS NULL AND "type" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "type__new_1" = NULL WHERE "type__new_1" IS NOT NULL AND (CAST("type__new_1" AS text) IS DISTINCT FROM CAST(CAST("type__was_1" AS double precision) AS text) OR "type__new_1" <> CAST("type__was_1" AS double precision))

-- in
ALTER TABLE t ALTER COLUMN a TYPE "my type"(3) USING CAST(a AS "my type"(3))
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "a__new_1" "my type"(3)
step UPDATE t SET "a__new_1" = CAST("a" AS "my type"(3)) WHERE ("id") IN (SELECT "id" FROM t WHERE "a__new_1" IS NULL AND "a" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "a__new_1" = NULL WHERE "a__new_1" IS NOT NULL AND (CAST("a__new_1" AS text) IS DISTINCT FROM CAST(CAST("a__was_1" AS "my type"(3)) AS text) OR "a__new_1" <> CAST("a__was_1" AS "my type"(3)))

-- in
ALTER TABLE t ALTER COLUMN a TYPE text USING a::varchar(3)
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text USING b
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text USING t.a
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text USING lower(a)
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text COLLATE "C"
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text, ALTER b TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error
dialect alter_column_type flagged error

-- in
ALTER TABLE IF EXISTS t ALTER COLUMN a TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text /* a */
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE text; SELECT 1
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE t ALTER COLUMN a TYPE setof text
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "a__new_1" setof text
step UPDATE t SET "a__new_1" = "a" WHERE ("id") IN (SELECT "id" FROM t WHERE "a__new_1" IS NULL AND "a" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "a__new_1" = NULL WHERE "a__new_1" IS NOT NULL AND (CAST("a__new_1" AS text) IS DISTINCT FROM CAST(CAST("a__was_1" AS setof text) AS text) OR "a__new_1" <> CAST("a__was_1" AS setof text))

-- in
ALTER TABLE t ALTER COLUMN nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn TYPE text
-- out
same
-- rules
dialect alter_column_type rewritten warning
step ALTER TABLE t ADD COLUMN "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" text
step UPDATE t SET "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" WHERE ("id") IN (SELECT "id" FROM t WHERE "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" IS NULL AND "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn" IS NOT NULL ORDER BY "id" LIMIT 9)
step UPDATE t SET "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" = NULL WHERE "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" IS NOT NULL AND (CAST("nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" AS text) IS DISTINCT FROM CAST(CAST("nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__was_1" AS text) AS text) OR "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__new_1" <> CAST("nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn__was_1" AS text))

-- in
ALTER TABLE t ALTER COLUMN nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER TABLE postgres.public.t ALTER COLUMN a TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error

-- in
ALTER FOREIGN TABLE t ALTER COLUMN a TYPE text
-- out
same
-- rules
dialect alter_column_type flagged error

