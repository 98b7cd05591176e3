-- What a cluster has and PostgreSQL lacks: the schema sys with its jobs, and the
-- rules of the schema that only the catalog can check. They hold in sessions of
-- dsqlsim, which have the parameter dsqlsim.limits; whoever works on this database
-- directly is left alone.

CREATE SCHEMA sys;
GRANT USAGE ON SCHEMA sys TO public;

-- recorded: sys_jobs_columns.
CREATE TABLE sys.jobs (
  job_id text PRIMARY KEY, status text NOT NULL, details text, job_type text NOT NULL,
  class_id oid, object_id oid, object_name text,
  start_time timestamptz NOT NULL DEFAULT clock_timestamp(), update_time timestamptz NOT NULL DEFAULT clock_timestamp());
GRANT SELECT ON sys.jobs TO public;

-- A transaction has one DDL statement at most, so that its number names the job:
-- 26 letters and digits, the base32 of 16 bytes.
CREATE FUNCTION sys.dsqlsim_job(kind text, class oid, object oid, name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET client_min_messages = notice AS $$
DECLARE
  bits bit(130) := ('x' || md5(concat_ws(' ', pg_current_xact_id(), clock_timestamp())))::bit(128)::bit(130);
  id text := '';
BEGIN
  FOR i IN 0..25 LOOP
    id := id || substr('abcdefghijklmnopqrstuvwxyz234567', substring(bits FROM i * 5 + 1 FOR 5)::bit(5)::int + 1, 1);
  END LOOP;
  INSERT INTO sys.jobs (job_id, status, job_type, class_id, object_id, object_name)
  VALUES (id, 'submitted', kind, class, object, name);
  RAISE NOTICE USING MESSAGE = 'dsqlsim job ' || id;
END $$;

-- Why rows are against a unique index; NULL where none are.
CREATE FUNCTION sys.dsqlsim_duplicates(i oid) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  x pg_index; keys text[]; condition text; twice boolean;
BEGIN
  SELECT * INTO x FROM pg_index WHERE indexrelid = i AND indisunique;
  IF NOT FOUND THEN RETURN NULL; END IF;
  keys := ARRAY(SELECT '(' || pg_get_indexdef(i, n, false) || ')' FROM generate_series(1, x.indnkeyatts) n);
  condition := concat_ws(' AND ', pg_get_expr(x.indpred, x.indrelid),
    CASE WHEN NOT x.indnullsnotdistinct THEN array_to_string(keys, ' IS NOT NULL AND ') || ' IS NOT NULL' END);
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s GROUP BY %s HAVING count(*) > 1)',
    x.indrelid::regclass, coalesce(nullif(condition, ''), 'true'), array_to_string(keys, ', ')) INTO twice;
  RETURN CASE WHEN twice THEN format('could not create unique index "%s"', i::regclass) END; -- presumed
END $$;

-- Completes the jobs that were submitted long enough ago, and returns them. One that fails is
-- completed too, with details (recorded for an index, presumed for a constraint, and so are
-- the details).
CREATE FUNCTION sys.dsqlsim_finish(delay interval) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog SET lock_timeout = '1s' AS $$
DECLARE
  j sys.jobs; c pg_constraint; problem text;
BEGIN
  FOR j IN SELECT * FROM sys.jobs WHERE status = 'submitted' AND start_time <= clock_timestamp() - delay FOR UPDATE SKIP LOCKED LOOP
    problem := NULL;
    BEGIN
      CASE j.job_type
      WHEN 'INDEX_BUILD' THEN
        problem := sys.dsqlsim_duplicates(j.object_id);
        UPDATE pg_index SET indisvalid = true WHERE indexrelid = j.object_id AND NOT indisvalid AND problem IS NULL;
      WHEN 'VALIDATE_CONSTRAINT' THEN
        SELECT * INTO c FROM pg_constraint WHERE oid = j.object_id;
        IF FOUND THEN
          EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', c.conrelid::regclass, c.conname);
        END IF;
      ELSE NULL;
      END CASE;
    EXCEPTION
      WHEN lock_not_available THEN CONTINUE;
      WHEN OTHERS THEN problem := SQLERRM;
    END;
    UPDATE sys.jobs SET status = 'completed', details = problem, update_time = clock_timestamp() WHERE job_id = j.job_id;
    RETURN NEXT j.job_id;
  END LOOP;
END $$;

-- recorded: sys_call_wait_for_job*. The session of dsqlsim does the waiting.
CREATE PROCEDURE sys.wait_for_job(id text)
LANGUAGE plpgsql SET search_path = pg_catalog SET client_min_messages = notice AS $$
BEGIN
  IF id !~ '^[a-z2-7]{26}$' THEN
    RAISE EXCEPTION USING ERRCODE = '22P02', MESSAGE = 'Unable to convert text to UUID';
  END IF;
  PERFORM FROM sys.jobs WHERE job_id = id;
  IF NOT FOUND THEN -- presumed
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('job "%s" does not exist', id);
  END IF;
  RAISE NOTICE USING MESSAGE = 'dsqlsim wait ' || id;
END $$;

-- What PostgreSQL 16 has (see package dialect): JSON_ARRAY without nulls, IS JSON,
-- any_value.
CREATE FUNCTION sys.dsqlsim_present(a json) RETURNS json
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS
$$ SELECT coalesce(json_agg(e ORDER BY n) FILTER (WHERE json_typeof(e) <> 'null'), '[]') FROM json_array_elements(a) WITH ORDINALITY x (e, n) $$;

CREATE FUNCTION sys.dsqlsim_is_json(v text, kind text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog AS $$
DECLARE t text;
BEGIN
  t := json_typeof(v::json);
  RETURN CASE kind WHEN 'OBJECT' THEN t = 'object' WHEN 'ARRAY' THEN t = 'array' WHEN 'SCALAR' THEN t NOT IN ('object', 'array') ELSE true END;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
  RETURN false;
END $$;

CREATE FUNCTION sys.dsqlsim_first(a anyelement, b anyelement) RETURNS anyelement
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT a $$;
CREATE AGGREGATE sys.any_value(anyelement) (SFUNC = sys.dsqlsim_first, STYPE = anyelement);

CREATE FUNCTION sys.dsqlsim_base(t oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$
DECLARE base oid;
BEGIN
  LOOP
    SELECT typbasetype INTO base FROM pg_type WHERE oid = t AND typtype = 'd';
    IF NOT FOUND THEN RETURN t; END IF;
    t := base;
  END LOOP;
END $$;

CREATE FUNCTION sys.dsqlsim_refuse(code text, message text) RETURNS void
LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message; END $$;

-- The limits, in this order: columns, key columns, indexes, tables, views,
-- sequences, schemas, declared key, value, row, key, and whether bytea may be in one.
CREATE FUNCTION sys.dsqlsim_limits() RETURNS int[]
LANGUAGE sql STABLE SET search_path = pg_catalog AS
$$ SELECT string_to_array(nullif(current_setting('dsqlsim.limits', true), ''), ' ')::int[] $$;

-- Checks the indexes of a table (measured and documented: keys).
CREATE FUNCTION sys.dsqlsim_keys(t oid, l int[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  i record; a record; size int;
BEGIN
  IF (SELECT count(*) FROM pg_index WHERE indrelid = t) > l[3] THEN
    PERFORM sys.dsqlsim_refuse('54000', format('more than %s indexes per table are not allowed', l[3]));
  END IF;
  FOR i IN SELECT indexrelid, indnkeyatts FROM pg_index WHERE indrelid = t LOOP
    IF i.indnkeyatts > l[2] THEN
      PERFORM sys.dsqlsim_refuse('54011', format('more than %s column keys in an index are not supported', l[2]));
    END IF;
    size := 0;
    FOR a IN SELECT sys.dsqlsim_base(atttypid) AS typ, atttypmod, attlen FROM pg_attribute
      WHERE attrelid = i.indexrelid AND attnum <= i.indnkeyatts LOOP
      IF a.typ = 'jsonb'::regtype OR a.typ = 'bytea'::regtype AND l[12] = 0 THEN
        PERFORM sys.dsqlsim_refuse('0A000', format('datatype %s is not supported in a key', a.typ::regtype));
      END IF;
      size := size + CASE
        WHEN a.attlen > 0 THEN a.attlen
        WHEN a.typ IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 4 THEN a.atttypmod - 4
        ELSE 0 END;
    END LOOP;
    IF size > l[8] THEN
      PERFORM sys.dsqlsim_refuse('54000', format('key size greater than %s bytes not supported', l[8]));
    END IF;
  END LOOP;
END $$;

-- One statement of a guard, or nothing.
CREATE FUNCTION sys.dsqlsim_check(size text, bound int, message text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  SELECT format('IF %s > %s THEN PERFORM sys.dsqlsim_refuse(%L, %L); END IF; ', size, bound, '54000', message) WHERE size IS NOT NULL
$$;

-- The columns whose values have no declared length, and those of them in keys.
CREATE FUNCTION sys.dsqlsim_open(t oid) RETURNS TABLE (name name, typ regtype)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  SELECT attname, base FROM pg_attribute, sys.dsqlsim_base(atttypid) base
  WHERE attrelid = t AND attnum > 0 AND NOT attisdropped AND atttypmod = -1
  AND base IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype, 'bytea'::regtype, 'json'::regtype, 'jsonb'::regtype)
$$;

-- For each key of the table, an expression for its bytes.
CREATE FUNCTION sys.dsqlsim_key_sizes(t oid) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  SELECT string_agg(format('coalesce(octet_length(NEW.%I), 0)', attname), ' + ')
  FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey[0:indnkeyatts - 1])
  JOIN sys.dsqlsim_open(t) o ON o.name = attname AND o.typ NOT IN ('json'::regtype, 'jsonb'::regtype)
  WHERE indrelid = t GROUP BY indexrelid
$$;

-- Makes a trigger that looks at the few rows which may be too large, as they are
-- stored. The trigger is internal, so that no tool shows it, and does not keep a
-- column from being dropped. Its function is the table's own, because a row that is
-- handed on is decompressed.
CREATE FUNCTION sys.dsqlsim_guard(t oid, l int[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  condition text; total text; checks text; guard oid;
BEGIN
  UPDATE pg_trigger SET tgisinternal = false WHERE tgrelid = t AND tgname = 'dsqlsim_guard';
  IF FOUND THEN
    EXECUTE format('DROP TRIGGER dsqlsim_guard ON %s', t::regclass);
    EXECUTE format('DROP FUNCTION sys.dsqlsim_row_%s', t);
  END IF;
  SELECT string_agg(format('pg_column_size(NEW.%I) > %s', name, l[9]), ' OR '),
    string_agg(format('coalesce(pg_column_size(NEW.%I), 0)', name), ' + '),
    string_agg(sys.dsqlsim_check(format('pg_column_size(NEW.%I)', name), l[9],
      format('datatype limit greater than %s bytes not supported for %s', l[9], typ)), '')
  INTO condition, total, checks FROM sys.dsqlsim_open(t);
  SELECT concat_ws(' OR ', condition, total || ' > ' || l[10], string_agg(format('%s > %s', s, l[11]), ' OR ')),
    concat(checks, sys.dsqlsim_check(total, l[10], 'maximum row size exceeded'),
      string_agg(sys.dsqlsim_check(s, l[11], 'key size too large'), ''))
  INTO condition, checks FROM sys.dsqlsim_key_sizes(t) s;
  IF condition = '' THEN RETURN; END IF;
  EXECUTE format('CREATE FUNCTION sys.dsqlsim_row_%s() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS %L', t,
    'BEGIN IF sys.dsqlsim_limits() IS NULL THEN RETURN NULL; END IF; ' || checks || 'RETURN NULL; END');
  EXECUTE format('CREATE TRIGGER dsqlsim_guard AFTER INSERT OR UPDATE ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION sys.dsqlsim_row_%s()',
    t::regclass, condition, t);
  UPDATE pg_trigger SET tgisinternal = true WHERE tgrelid = t AND tgname = 'dsqlsim_guard' RETURNING oid INTO guard;
  DELETE FROM pg_depend WHERE classid = 'pg_trigger'::regclass AND objid = guard AND refobjid = t AND refobjsubid > 0;
END $$;

CREATE FUNCTION sys.dsqlsim_table(t oid, l int[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE typ oid;
BEGIN
  IF (SELECT count(*) FROM pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped) > l[1] THEN
    PERFORM sys.dsqlsim_refuse('54011', format('tables can have at most %s columns', l[1]));
  END IF;
  SELECT atttypid INTO typ FROM pg_attribute WHERE attrelid = t AND attidentity <> '' AND atttypid <> 'bigint'::regtype;
  IF FOUND THEN
    PERFORM sys.dsqlsim_refuse('0A000', format('datatype %s not supported, identity column type must be bigint', format_type(typ, NULL)));
  END IF;
  PERFORM sys.dsqlsim_keys(t, l);
  PERFORM sys.dsqlsim_guard(t, l);
END $$;

CREATE FUNCTION sys.dsqlsim_count(tag text, l int[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
  ours oid[] := ARRAY(SELECT oid FROM pg_namespace WHERE nspname NOT IN ('sys', 'information_schema') AND nspname !~ '^pg_');
  n int;
BEGIN
  IF tag = 'CREATE SCHEMA' THEN
    IF cardinality(ours) > l[7] THEN
      PERFORM sys.dsqlsim_refuse('54000', format('more than %s schemas not allowed', l[7]));
    END IF;
    RETURN;
  END IF;
  SELECT count(*) INTO n FROM pg_class WHERE relnamespace = ANY (ours)
  AND relkind = CASE tag WHEN 'CREATE TABLE' THEN 'r' WHEN 'CREATE VIEW' THEN 'v' WHEN 'CREATE SEQUENCE' THEN 'S' END;
  CASE tag
  WHEN 'CREATE TABLE' THEN
    IF n > l[4] THEN PERFORM sys.dsqlsim_refuse('54000', format('creating more than %s tables not allowed', l[4])); END IF;
  WHEN 'CREATE VIEW' THEN
    IF n > l[5] THEN PERFORM sys.dsqlsim_refuse('54000', format('creating more than %s views not allowed', l[5])); END IF;
  WHEN 'CREATE SEQUENCE' THEN
    IF n > l[6] THEN PERFORM sys.dsqlsim_refuse('54000', format('creating more than %s sequences is not allowed', l[6])); END IF;
  ELSE NULL;
  END CASE;
END $$;

-- The constraint that this statement leaves to a job to validate; NULL for none.
CREATE FUNCTION sys.dsqlsim_validates() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog AS
$$ SELECT (regexp_match(current_query(), '/\*dsqlsim validates (.*?)\*/'))[1] $$;

-- What ALTER TABLE may not drop, and may validate, is known before it only. A constraint that a
-- job is to validate is called valid as long as the statement runs, which then looks at no row.
CREATE FUNCTION sys.dsqlsim_before() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
  IF sys.dsqlsim_limits() IS NULL THEN RETURN; END IF;
  PERFORM set_config('dsqlsim.primary', (SELECT coalesce(string_agg(oid::text, ','), '') FROM pg_constraint WHERE contype = 'p'), true);
  PERFORM set_config('dsqlsim.doubtful', (SELECT coalesce(string_agg(oid::text, ','), '') FROM pg_constraint WHERE NOT convalidated), true);
  UPDATE pg_constraint SET convalidated = true WHERE NOT convalidated AND conname = sys.dsqlsim_validates();
END $$;

-- recorded: alter_drop_pk_column. That the constraint cannot be dropped either is
-- documented; its text is presumed.
CREATE FUNCTION sys.dsqlsim_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  keys oid[] := string_to_array(current_setting('dsqlsim.primary', true), ',')::oid[];
  d record;
BEGIN
  IF sys.dsqlsim_limits() IS NULL THEN RETURN; END IF;
  PERFORM FROM pg_event_trigger_dropped_objects() WHERE objid = ANY (keys) AND object_type = 'table constraint';
  IF NOT FOUND THEN RETURN; END IF;
  SELECT * INTO d FROM pg_event_trigger_dropped_objects() WHERE original AND object_type IN ('table column', 'table constraint') LIMIT 1;
  IF d.object_type = 'table column' THEN
    PERFORM sys.dsqlsim_refuse('0A000', 'cannot drop primary key column ' || d.address_names[3]);
  ELSIF FOUND THEN
    PERFORM sys.dsqlsim_refuse('0A000', 'cannot drop primary key constraint ' || d.address_names[3]);
  END IF;
END $$;

CREATE FUNCTION sys.dsqlsim_after() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
  l int[] := sys.dsqlsim_limits();
  c record; t oid; v record;
BEGIN
  IF l IS NULL THEN RETURN; END IF;
  FOR c IN SELECT DISTINCT objid, object_type, object_identity FROM pg_event_trigger_ddl_commands() WHERE classid = 'pg_class'::regclass LOOP
    CASE c.object_type
    WHEN 'table', 'table column' THEN
      PERFORM sys.dsqlsim_table(c.objid, l);
      FOR v IN SELECT oid, conname FROM pg_constraint WHERE conrelid = c.objid AND convalidated AND tg_tag = 'ALTER TABLE'
        AND oid = ANY (string_to_array(current_setting('dsqlsim.doubtful', true), ',')::oid[]) LOOP
        PERFORM sys.dsqlsim_job('VALIDATE_CONSTRAINT', 'pg_constraint'::regclass, v.oid, v.conname);
      END LOOP;
      UPDATE pg_constraint SET convalidated = false WHERE conname = sys.dsqlsim_validates() AND tg_tag = 'ALTER TABLE'
        AND oid = ANY (string_to_array(current_setting('dsqlsim.doubtful', true), ',')::oid[]);
    WHEN 'index' THEN
      CONTINUE WHEN tg_tag <> 'CREATE INDEX';
      SELECT indrelid INTO t FROM pg_index WHERE indexrelid = c.objid;
      PERFORM sys.dsqlsim_keys(t, l), sys.dsqlsim_guard(t, l);
      UPDATE pg_index SET indisvalid = false, indisunique = indisunique OR current_query() LIKE '%/*dsqlsim unique*/%' WHERE indexrelid = c.objid;
      PERFORM sys.dsqlsim_job('INDEX_BUILD', 'pg_class'::regclass, c.objid, c.object_identity);
    ELSE NULL;
    END CASE;
  END LOOP;
  PERFORM sys.dsqlsim_count(tg_tag, l);
END $$;

CREATE EVENT TRIGGER dsqlsim_before ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION sys.dsqlsim_before();
CREATE EVENT TRIGGER dsqlsim_drop ON sql_drop WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION sys.dsqlsim_drop();
CREATE EVENT TRIGGER dsqlsim_after ON ddl_command_end
  WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE INDEX', 'CREATE VIEW', 'CREATE SEQUENCE', 'CREATE SCHEMA')
  EXECUTE FUNCTION sys.dsqlsim_after();
