package proxy_test

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// ownStep is one statement of a client, which has the clientWord behind it. "%" stands for a number that no
// other step has, of a row of own_rows.
type ownStep struct {
	client int
	sql    string
	ext    bool
}

// stepsOf makes steps of lines: the number of a client, "x" for the extended protocol, and the statement.
func stepsOf(lines string) (steps []ownStep) {
	for line := range strings.Lines(lines) {
		if line = strings.TrimSpace(line); line != "" {
			who, sql, _ := strings.Cut(line, " ")
			steps = append(steps, ownStep{client: int(who[0] - '0'), sql: sql, ext: strings.HasSuffix(who, "x")})
		}
	}
	return steps
}

// ownScenario is what clients do, and what Sluice does about it.
type ownScenario struct {
	opts   []option
	steps  string
	sure   map[string]string // lies, by the beginnings of forms, that are always told
	fails  bool              // somebody gets an error for each of them
	errs   string            // a text of the statements that fail as asked; "": none
	params map[string]string // of the clients' startups
	begins func(*testing.T, *sluice)
	alters bool // the table own_steps is made again before each play
	rare   int  // a sample has so many times fewer lies than of others; 0: as many
}

// ownScenarios are what clients do for which Sluice has turns of its own.
var ownScenarios = map[string]ownScenario{
	"settings": {opts: []option{maxOpen(1)}, steps: `
		1 SET TimeZone TO 'Asia/Tokyo'
		2 SET TimeZone TO 'Asia/Kolkata'
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		2x SELECT '2020-01-01 00:00+00'::timestamptz
		1 BEGIN
		1 RESET TimeZone
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		1 ROLLBACK
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		2 INSERT INTO own_rows VALUES (%, '2020-01-01 00:00')`, sure: map[string]string{"Q SET timezone": rollsBack, "Q RESET timezone": rollsBack}},
	"functions": {opts: []option{maxOpen(2)}, steps: `
		1 SELECT own_sets('Asia/Tokyo')
		2 SELECT '2020-01-01 00:00+00'::timestamptz
		1 SELECT own_temp()
		1 SELECT count(*) FROM own_mine
		2 SELECT to_regclass('own_mine') IS NULL
		2 SELECT '2020-01-01 00:00+00'::timestamptz`},
	"blocks": {opts: []option{asDSQL, fastReplay}, steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 ROLLBACK
		1x START TRANSACTION
		1x INSERT INTO own_rows VALUES (%)
		1 SAVEPOINT a
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT`},
	"savepoints": {opts: []option{asDSQL, withSavepoints}, errs: "1/0", steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 SAVEPOINT a
		1 INSERT INTO own_rows VALUES (%)
		1 SELECT 1/0
		1 ROLLBACK TO a
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT`},
	"locks": {opts: []option{withLocks, maxOpen(3)}, steps: `
		1 SELECT pg_advisory_lock(7)
		1 INSERT INTO own_rows VALUES (%)
		1x INSERT INTO own_rows VALUES (%)
		2 SELECT pg_try_advisory_lock(7)
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 SELECT pg_advisory_unlock(7)
		2 SELECT pg_try_advisory_lock(7)
		2 SELECT pg_advisory_unlock(7)`, sure: map[string]string{"Q COMMIT": silence, "E SELECT ? FROM sluice.advisory_locks": otherTag}, fails: true},
	"cursors": {opts: []option{asDSQL, withCursors, fastReplay}, steps: `
		1 BEGIN
		1 DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g
		1 FETCH 2 FROM c
		1 MOVE 2 FROM c
		1 FETCH 2 FROM c
		1 DECLARE h CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 5) g
		1 FETCH 1 FROM h
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 FETCH ALL FROM h`},
	"truncate": {opts: []option{asDSQL, fastReplay, func(s *setup) { s.rules = rewrite.Rules{Truncate: rewrite.TruncateDelete} }}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 TRUNCATE own_other
		1 BEGIN
		1 TRUNCATE own_other
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 SELECT count(*) FROM own_other`, sure: map[string]string{"Q DELETE": rollsBack}},
	"parts": {opts: []option{asDSQL, withReplay, withParts}, steps: `
		1 BEGIN
		1 INSERT INTO own_rows VALUES (%)
		1 CREATE TABLE own_made (a int)
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT
		1 BEGIN; DROP TABLE own_made; INSERT INTO own_rows VALUES (%); COMMIT`, sure: map[string]string{"E BEGIN": twoTags}},
	"sequences": {opts: []option{maxOpen(1)}, errs: "currval", steps: `
		1 SELECT nextval('own_seq') IS NULL
		2 SELECT nextval('own_seq') IS NULL
		1 SELECT currval('own_seq') IS NULL
		1 BEGIN
		1 INSERT INTO own_rows (id) SELECT % FROM (SELECT nextval('own_seq')) AS n
		1 SELECT currval('own_seq') IS NULL
		1 COMMIT`},
	"mapped": {opts: []option{mapping, fastReplay}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 CREATE TABLE own_made (a int)
		2 INSERT INTO own_made VALUES (1)
		1 SELECT * FROM own_made
		2 DROP TABLE own_made`},
	"batches": {opts: []option{inBatches}, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 DELETE FROM many_rows WHERE a > 0
		1x DELETE FROM many_rows WHERE a > 0
		1 SELECT count(*) FROM many_rows`},
	"columns": {opts: []option{asDSQL, fastReplay, inSteps}, alters: true, rare: 4, steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 ALTER TABLE own_steps ADD COLUMN d int DEFAULT 4;
		1x ALTER TABLE own_steps ADD COLUMN e int NOT NULL DEFAULT 5;
		1 SELECT * FROM own_steps ORDER BY id
		1 ALTER TABLE own_steps ADD COLUMN f int DEFAULT 6, DROP COLUMN d;
		1 INSERT INTO own_steps (id) VALUES (4)
		1 SELECT * FROM own_steps ORDER BY id
		1 INSERT INTO own_rows VALUES (%)`},
	"constraints": {opts: []option{asDSQL, fastReplay, inSteps}, alters: true, rare: 4, errs: "own_large", steps: `
		1 ALTER TABLE own_steps ADD CONSTRAINT own_small CHECK (n < 9);
		1x ALTER TABLE own_steps ADD CONSTRAINT own_refers FOREIGN KEY (n) REFERENCES own_steps (id);
		1 ALTER TABLE own_steps ADD CONSTRAINT own_large CHECK (n > 1);
		1 ALTER TABLE own_steps ADD CONSTRAINT own_once UNIQUE (n);
		2 SELECT conname, convalidated FROM pg_constraint WHERE conrelid = 'own_steps'::regclass ORDER BY 1
		1 INSERT INTO own_rows VALUES (%)`},
	"types": {opts: []option{asDSQL, fastReplay, inSteps}, alters: true, rare: 4, steps: `
		1 CREATE INDEX own_of_p ON own_steps (p)
		1 ALTER TABLE own_steps ALTER COLUMN p TYPE bigint;
		1 INSERT INTO own_steps (id, p) VALUES (4, 5000000000)
		2 SELECT * FROM own_steps ORDER BY id
		2 SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'own_steps'::regclass ORDER BY 1`},
	"jobs": {opts: []option{asDSQL, fastReplay, inSteps}, alters: true, rare: 2, errs: "own_twice", steps: `
		1 INSERT INTO own_rows VALUES (%)
		1 CREATE INDEX own_first ON own_steps (n)
		1 CREATE INDEX IF NOT EXISTS own_first ON own_steps (n)
		1x CREATE UNIQUE INDEX own_second ON own_steps (n, id)
		1 BEGIN
		1 CREATE INDEX own_third ON own_steps (p)
		1 COMMIT
		1 CREATE UNIQUE INDEX own_twice ON own_steps (p)
		2 SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'own_steps'::regclass ORDER BY 1
		1 INSERT INTO own_rows VALUES (%)`},
	"locked in two": {opts: []option{asDSQL, fastReplay, splitting}, begins: lockedInTwo, alters: true, steps: `
		1 ` + ownJoin + `
		1x ` + ownJoin + `
		1 BEGIN
		1x ` + ownJoin + `
		1 INSERT INTO own_rows VALUES (%)
		1 ` + ownJoin + `
		1 COMMIT
		1 BEGIN
		1 ` + ownJoin + `
		1x ` + ownJoin + `
		1 INSERT INTO own_rows VALUES (%)
		1 COMMIT`, sure: map[string]string{"Q SELECT ? FROM own_steps": twoTags}, fails: true},
	"put back": {opts: []option{maxOpen(2)}, params: map[string]string{"TimeZone": "Asia/Tokyo", "work_mem": "8MB"}, steps: `
		1 SELECT own_does('RESET TimeZone')
		1 SELECT '2020-01-01 00:00+00'::timestamptz
		1 BEGIN
		1 SELECT own_does('RESET ALL')
		1 SELECT '2020-01-01 00:00+00'::timestamptz, current_setting('work_mem')
		1 INSERT INTO own_rows VALUES (%, '2020-01-01 00:00')
		1 COMMIT
		2 SELECT '2020-01-01 00:00+00'::timestamptz, current_setting('work_mem')
		1x SELECT '2020-01-01 00:00+00'::timestamptz, current_setting('work_mem')
		1 LISTEN own_channel
		1 SELECT own_does('RESET work_mem')
		1 SELECT current_setting('work_mem')`},
}

// ownJoin is a query that an older cluster refuses to lock.
const ownJoin = "SELECT a.n, b.a FROM own_steps a JOIN many_rows b ON b.a = a.id WHERE a.id = 2 FOR UPDATE"

// lockedInTwo has ownJoin be sent in two parts.
func lockedInTwo(t *testing.T, s *sluice) { inTwo(t, s, []string{ownJoin + " " + clientWord}) }

// inSteps has DDL carried out in the steps that a cluster has.
func inSteps(s *setup) {
	s.rules = rewrite.Rules{AddColumn: true, Backfill: true, Constraints: true, NotNullCheck: true, Retype: true, Index: true, AwaitIndex: true, Dialect: true, InTransactions: rewrite.CommitDrops}
}

// withParts has DDL in transactions run in parts.
func withParts(s *setup) { s.rules.InTransactions = rewrite.CommitDrops }

const ownSchema = `
	CREATE TABLE own_rows (id int PRIMARY KEY, v timestamptz);
	CREATE TABLE own_other (a int);
	CREATE TABLE many_rows (a int PRIMARY KEY);
	CREATE SEQUENCE own_seq;
	CREATE FUNCTION own_sets(v text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('TimeZone', v, false) $$;
	CREATE FUNCTION own_temp() RETURNS int LANGUAGE plpgsql AS $$ BEGIN CREATE TEMPORARY TABLE IF NOT EXISTS own_mine (a int); RETURN 1; END $$;
	CREATE FUNCTION own_does(v text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE v; RETURN 1; END $$;` + ownCluster

// ownAltered makes the table that scenes alter.
const ownAltered = `DROP TABLE IF EXISTS own_steps; DELETE FROM own_jobs;
	CREATE TABLE own_steps (id int PRIMARY KEY, n int, p int); INSERT INTO own_steps VALUES (1, 1, 7), (2, 2, 7), (3, 3, 7)`

// ownLeft are the names at own_steps that Sluice gives for a time only.
const ownLeft = `SELECT name FROM (SELECT attname::text FROM pg_attribute WHERE attrelid = 'own_steps'::regclass AND NOT attisdropped
	UNION ALL SELECT conname FROM pg_constraint WHERE conrelid = 'own_steps'::regclass UNION ALL SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'own_steps'::regclass) AS names (name)
	WHERE name ~ '__(adding|new|was)_[0-9a-f]+$|_sluice_(check|fkey|key)$'`

// ownCluster is what of a cluster the scenes need: ALTER TABLE that it refuses, and jobs. A liar has own_job run what
// is ASYNC. A job has ended when it is looked at for the second time.
const ownCluster = `
	CREATE FUNCTION own_refuses() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_query() ~ '^ALTER TABLE' AND current_query() ~ 'ADD COLUMN.*(DEFAULT|NULL)|ADD CONSTRAINT|TYPE|,' AND current_query() !~ 'USING INDEX|NOT VALID|VALIDATE' THEN
			RAISE EXCEPTION 'unsupported ALTER TABLE' USING ERRCODE = '0A000';
		END IF; END $$;
	CREATE EVENT TRIGGER own_refuses ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION own_refuses();
	CREATE SCHEMA sys;
	CREATE TABLE own_jobs (id bigserial, looks int DEFAULT 0, details text, object_id oid, uniq bool);
	CREATE FUNCTION own_job(t text) RETURNS SETOF text LANGUAGE plpgsql SET client_min_messages TO error AS $$
		DECLARE problem text; newest oid; before oid := (SELECT max(oid::bigint) FROM pg_class); uniq bool := t ~ '^CREATE UNIQUE';
		BEGIN
			BEGIN
				EXECUTE replace(t, 'CREATE UNIQUE', 'CREATE');
			EXCEPTION WHEN check_violation OR foreign_key_violation THEN problem := SQLERRM;
			END;
			SELECT max(indexrelid::bigint) INTO newest FROM pg_index WHERE indexrelid > before;
			IF newest IS NULL AND t ~ '^CREATE' THEN RETURN; END IF;
			UPDATE pg_index SET indisvalid = false, indisunique = uniq WHERE indexrelid = newest;
			RETURN QUERY INSERT INTO own_jobs (details, object_id, uniq) VALUES (problem, newest, uniq) RETURNING id::text;
		END $$;
	CREATE FUNCTION own_look(job bigint, OUT status text, OUT why text) LANGUAGE plpgsql AS $$
		DECLARE j own_jobs; x pg_index; keys text; twice bool := false;
		BEGIN
			UPDATE own_jobs SET looks = looks + 1 WHERE id = job RETURNING * INTO j;
			status := CASE WHEN j.looks < 2 THEN 'processing' ELSE 'completed' END;
			IF j.looks < 2 THEN RETURN; END IF;
			why := j.details;
			SELECT * INTO x FROM pg_index WHERE indexrelid = j.object_id;
			IF FOUND AND NOT x.indisvalid THEN
				SELECT string_agg(pg_get_indexdef(x.indexrelid, k, false), ', ') INTO keys FROM generate_series(1, x.indnkeyatts) k;
				IF j.uniq THEN EXECUTE format('SELECT EXISTS (SELECT FROM %s GROUP BY %s HAVING count(*) > 1)', x.indrelid::regclass, keys) INTO twice; END IF;
				IF twice THEN why := 'could not create unique index';
				ELSE UPDATE pg_index SET indisvalid = true WHERE indexrelid = x.indexrelid;
				END IF;
			END IF;
		END $$;
	CREATE VIEW sys.jobs AS SELECT id::text AS job_id, look.status, look.why AS details, object_id FROM own_jobs, LATERAL own_look(id) AS look`
