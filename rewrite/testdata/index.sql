CREATE INDEX.

-- in
CREATE INDEX i ON t (a)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
create unique index i on t (a, b desc)
-- out
create unique index async i on t (a, b desc)
-- rules
index index_order flagged error
job awaited

-- in
create unique index i on s.t (a, b)
-- out
create unique index async i on s.t (a, b)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX ON t (a)
-- out
CREATE INDEX ASYNC ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX IF NOT EXISTS i ON t (a)
-- out
CREATE INDEX ASYNC IF NOT EXISTS i ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX CONCURRENTLY i ON t (a)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t USING btree (a ASC, b ASC NULLS LAST, (lower(c)) asc) INCLUDE (d) NULLS NOT DISTINCT WHERE e IS NOT NULL
-- out
CREATE UNIQUE INDEX ASYNC IF NOT EXISTS i ON t (a, b NULLS LAST, (lower(c))) INCLUDE (d) NULLS NOT DISTINCT WHERE e IS NOT NULL
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t USING btree(a)
-- out
CREATE INDEX ASYNC i ON t(a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t USING "btree" (a)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t -- why
  USING /* b */ btree -- because
  (a ASC -- up
  )
-- out
CREATE INDEX ASYNC i ON t -- why
 /* b */ -- because
  (a -- up
  )
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t ((CASE WHEN a THEN b END) ASC)
-- out
CREATE INDEX ASYNC i ON t ((CASE WHEN a THEN b END))
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t USING gin (a)
-- out
CREATE INDEX ASYNC i ON t USING gin (a)
-- rules
index index_method flagged error
job awaited

-- in
CREATE INDEX i ON t USING hash (a)
-- out
CREATE INDEX ASYNC i ON t USING hash (a)
-- rules
index index_method flagged error
job awaited

-- in
CREATE INDEX i ON t (a DESC)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index index_order rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a text_pattern_ops)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t USING gin (a jsonb_path_ops DESC)
-- out
CREATE INDEX ASYNC i ON t USING gin (a jsonb_path_ops DESC)
-- rules
index index_method flagged error
index index_order flagged error
job awaited

-- in
CREATE INDEX ASYNC i ON t (a)
-- out
same
-- rules


-- in
CREATE INDEX ASYNC ON t (a)
-- out
same
-- rules


-- in
create unique index /* c */ async if not exists i on s.t (a)
-- out
same
-- rules


-- in
CREATE INDEX "async" ON t (a)
-- out
CREATE INDEX ASYNC "async" ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX index ON t (a)
-- out
CREATE INDEX ASYNC index ON t (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON "using" (a)
-- out
CREATE INDEX ASYNC i ON "using" (a)
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a); CREATE INDEX j ON t (b)
-- out
CREATE INDEX ASYNC i ON t (a); CREATE INDEX ASYNC j ON t (b)
-- rules
index create_index rewritten info
index create_index rewritten info
dialect several_ddl flagged error
job awaited
job awaited

-- in
BEGIN; CREATE INDEX i ON t (a); COMMIT
-- out
BEGIN; CREATE INDEX ASYNC i ON t (a); COMMIT
-- rules
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a COLLATE "C")
-- out
CREATE INDEX ASYNC i ON t (a COLLATE "C")
-- rules
index create_index rewritten info
job awaited

-- in
REINDEX INDEX i
-- out
same
-- rules
dialect reindex flagged error

-- in
DROP INDEX CONCURRENTLY i
-- out
DROP INDEX i
-- rules
index drop_index_concurrently rewritten info

-- in
CREATE INDEX i ON t (a DESC NULLS LAST)
-- out
CREATE INDEX ASYNC i ON t (a NULLS FIRST)
-- rules
index index_order rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a DESC NULLS FIRST)
-- out
CREATE INDEX ASYNC i ON t (a)
-- rules
index index_order rewritten info
index create_index rewritten info
job awaited

-- in
CREATE UNIQUE INDEX i ON t (a DESC, (lower(b)) DESC NULLS LAST, c desc nulls first) INCLUDE (d)
-- out
CREATE UNIQUE INDEX ASYNC i ON t (a, (lower(b)) NULLS FIRST, c) INCLUDE (d)
-- rules
index index_order rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a DESC, b)
-- out
CREATE INDEX ASYNC i ON t (a DESC, b)
-- rules
index index_order flagged error
job awaited

-- in
CREATE INDEX i ON t (a DESC, b ASC)
-- out
CREATE INDEX ASYNC i ON t (a DESC, b ASC)
-- rules
index index_order flagged error
job awaited

-- in
CREATE INDEX CONCURRENTLY i ON t USING btree (a varchar_pattern_ops DESC /* x */ NULLS LAST -- y
)
-- out
CREATE INDEX ASYNC i ON t (a /* x */ NULLS FIRST -- y
)
-- rules
index index_order rewritten info
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
create index i on t (a text_pattern_ops, b bpchar_pattern_ops, c pg_catalog.text_ops asc nulls first, lower(d) varchar_ops)
-- out
create index async i on t (a, b, c nulls first, lower(d))
-- rules
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE UNIQUE INDEX i ON t (a text_pattern_ops)
-- out
CREATE UNIQUE INDEX ASYNC i ON t (a)
-- rules
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE UNIQUE INDEX i ON t (a bpchar_pattern_ops)
-- out
CREATE UNIQUE INDEX ASYNC i ON t (a bpchar_pattern_ops)
-- rules
index index_opclass flagged error
job awaited

-- in
CREATE INDEX i ON t (a uuid_ops, b int4_ops, c timestamptz_ops)
-- out
CREATE INDEX ASYNC i ON t (a, b, c)
-- rules
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a text_pattern_ops (x = 1))
-- out
CREATE INDEX ASYNC i ON t (a text_pattern_ops (x = 1))
-- rules
index index_opclass flagged error
job awaited

-- in
CREATE INDEX i ON t (a s.text_pattern_ops)
-- out
CREATE INDEX ASYNC i ON t (a s.text_pattern_ops)
-- rules
index index_opclass flagged error
job awaited

-- in
CREATE INDEX i ON t (a COLLATE "C" text_pattern_ops)
-- out
CREATE INDEX ASYNC i ON t (a COLLATE "C")
-- rules
index index_opclass rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX i ON t (a inet_ops DESC)
-- out
CREATE INDEX ASYNC i ON t (a inet_ops DESC)
-- rules
index index_opclass flagged error
job awaited

-- in
CREATE INDEX i ON t USING hash (a text_pattern_ops)
-- out
CREATE INDEX ASYNC i ON t USING hash (a text_pattern_ops)
-- rules
index index_method flagged error
job awaited

-- in
CREATE INDEX i ON t ("desc", nulls, last DESC)
-- out
CREATE INDEX ASYNC i ON t ("desc", nulls, last DESC)
-- rules
index index_order flagged error
job awaited

-- in
CREATE INDEX i ON t ((a || ', b DESC') DESC)
-- out
CREATE INDEX ASYNC i ON t ((a || ', b DESC'))
-- rules
index index_order rewritten info
index create_index rewritten info
job awaited

-- in
CREATE INDEX ASYNC i ON t (a DESC)
-- out
same
-- rules


-- in
DROP INDEX CONCURRENTLY IF EXISTS s.i
-- out
DROP INDEX IF EXISTS s.i
-- rules
index drop_index_concurrently rewritten info

-- in
drop index /* a */ concurrently /* b */ i, j cascade
-- out
drop index /* a */ /* b */ i, j cascade
-- rules
index drop_index_concurrently rewritten info

-- in
DROP INDEX concurrently
-- out
same
-- rules


-- in
DROP INDEX i; DROP INDEX CONCURRENTLY j
-- out
DROP INDEX i; DROP INDEX j
-- rules
index drop_index_concurrently rewritten info
dialect several_ddl flagged error

-- in
DROP TABLE concurrently
-- out
same
-- rules


