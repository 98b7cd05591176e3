package dialogues

import (
	"regexp"
	"strconv"
	"strings"
)

// scene is a few steps that belong together: what random statements come to too
// seldom. A dialogue of the theme has it among its other steps, whole or in part.
//
// {X} and {Y} are two clients, {Z} a third, {N} and {M} new numbers; of <a~b> one is taken.
type scene struct {
	theme string
	// fault is planned in place of the dialogue's, on DSQL.
	fault  string
	where  func(route) bool
	whole  bool // no part of it is left out
	script string
}

func onPostgres(r route) bool     { return !r.dsql }
func onDSQL(r route) bool         { return r.dsql }
func onReplay(r route) bool       { return !r.dsql && r.replays }
func withSavepoints(r route) bool { return r.savepoints }
func emulated(r route) bool       { return r.dsql && r.savepoints }

const (
	cutAtN   = `[{"at":"<answered~running~statement>","action":"cut","contains":" ({N})"}]`
	cutAtM   = `[{"at":"<answered~running~statement>","action":"cut","contains":" ({M})"}]`
	conflict = `[{"at":"statement","action":"fail","error":"conflict","contains":" ({N})"}]`
)

var scenes = []scene{
	// A cursor that is prepared by its query, which a newer backend has planned again.
	{theme: "cursors of Sluice's", where: onDSQL, whole: true, script: `
		{X} [Q SELECT a FROM d1]
		x sql ALTER TABLE d1 <ADD COLUMN IF NOT EXISTS c int~DROP COLUMN IF EXISTS c>
		x replace
		{X} [Q BEGIN]
		{X} [P - | DECLARE k4 NO SCROLL CURSOR FOR SELECT a, {N} AS n FROM d1] [D S -] [B - | -] [E -] [S]
		{X} [P - | FETCH ALL FROM k4] [B - | -] [E -] [S]
		{X} [Q COMMIT]`},
	// The end of a block, and writes behind it.
	{theme: "ends", where: onDSQL, fault: cutAtM, script: `
		{X} [Q BEGIN]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [S]
		{X} [P - | <COMMIT~ROLLBACK>] [B - | -] [E -] [H]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({M})] [B - | -] [E -] [S]`},
	{theme: "ends", where: onDSQL, fault: cutAtM, script: `
		{X} [Q BEGIN]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [P - | <COMMIT~ROLLBACK>] [B - | -] [E -] [P - | INSERT INTO t_{X} (n) VALUES ({M})] [B - | -] [E -] [S]`},
	{theme: "ends", where: onDSQL, fault: cutAtM, script: `
		{X} [Q BEGIN]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [Q <COMMIT~ROLLBACK>; INSERT INTO t_{X} (n) VALUES ({M})]`},
	{theme: "ends", where: onDSQL, fault: `[{"at":"<answered~running>","action":"cut","contains":"one"}]`, script: `
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [Q SELECT 1 AS one]
		{X} [S]`},
	// Questions of Sluice's own in the middle of a group: its schema is another meanwhile.
	{theme: "ends", where: onReplay, whole: true, script: `
		{X} [P q4 | SELECT n FROM t_{X} ORDER BY n] [S]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [H]
		{Y} [Q CREATE OR REPLACE VIEW y_{Y} AS SELECT 1 AS n]
		{X} [B - | q4] [E -] [H]
		{X} [P - | SELECT 1/<0~1>] [B - | -] [E -] [S]
		{X} [C S q4] [S]`},
	// A backend is lost behind the answers of a group that no Sync has ended, and a Query comes.
	{theme: "ends", script: `
		{X} [P - | <INSERT INTO t_{X} (n) VALUES ({N})~SELECT 1 AS one>] [B - | -] [E -]
		x replace
		{X} [Q <SELECT 2 AS two~INSERT INTO t_{X} (n) VALUES ({M})>]`},
	// A transaction that is not to be run again gets its conflict.
	{theme: "opt-out", where: onDSQL, fault: conflict, script: `
		{X} [Q BEGIN /* sluice: no-retry */]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [Q COMMIT]`},
	{theme: "opt-out", where: onDSQL, fault: conflict, script: `
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N}) /* sluice: no-retry */]`},
	{theme: "opt-out", where: onDSQL, fault: conflict, script: `
		{X} [P - | BEGIN /* sluice: no-retry */] [B - | -] [E -] [S]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [S]
		{X} [Q COMMIT]`},
	// What Sluice keeps for a session, in a string that is run again, and at savepoints.
	{theme: "local", where: onDSQL, fault: conflict, script: `
		{X} [Q SHOW application_name; SET application_name = 'again'; INSERT INTO t_{X} (n) VALUES ({N}); SHOW application_name]`},
	{theme: "local", where: onDSQL, fault: conflict, script: `
		{X} [Q SELECT 1 AS one; SHOW statement_timeout; SET statement_timeout = '70s'; INSERT INTO t_{X} (n) VALUES ({N})]`},
	{theme: "savepoints", where: withSavepoints, script: `
		{X} [Q BEGIN]
		{X} [Q SAVEPOINT a]
		{X} [Q SET <application_name = 'inside'~TimeZone TO 'Asia/Tokyo'~search_path TO s1>]
		{X} [Q <ROLLBACK TO a~SELECT 1/0>]
		{X} [Q ROLLBACK TO a]
		{X} [Q SHOW <application_name~TimeZone>]
		{X} [Q COMMIT]
		{X} [Q SHOW application_name]`},
	{theme: "savepoints", where: onPostgres, script: `
		{X} [Q BEGIN; SET <application_name = 'inside'~TimeZone TO 'Asia/Tokyo'~enable_seqscan TO off~search_path TO s1>; SAVEPOINT a]
		{X} [Q SET <application_name = 'more'~TimeZone TO 'Europe/Berlin'~extra_float_digits TO 0>]
		{X} [Q <ROLLBACK TO a; RELEASE a~ROLLBACK TO a>]
		{X} [Q <COMMIT~COMMIT~ROLLBACK>]
		{X} [Q SHOW application_name]
		{Y} [Q {look}]
		{X} [Q {look}]`},
	{theme: "savepoints", where: onPostgres, script: `
		{X} [Q BEGIN]
		{X} [Q SAVEPOINT a]
		{X} [Q SET TimeZone TO 'Asia/Tokyo']
		{X} [P - | ROLLBACK TO a] [B - | -] [E -] [P - | SELECT 1] [B - | -] [E -] [S]
		{X} [Q COMMIT]
		{X} [Q SHOW TimeZone]`},
	{theme: "savepoints", where: emulated, script: `
		{X} [Q BEGIN]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N}) RETURNING id]
		{X} [Q SAVEPOINT a]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({M})]
		{X} [Q ROLLBACK TO a]
		{X} [Q COMMIT]`},
	{theme: "settings", where: onPostgres, script: `
		{X} [Q BEGIN]
		{X} [Q SET <TimeZone TO 'Asia/Tokyo'~enable_seqscan TO off~extra_float_digits TO 0~DateStyle TO 'SQL, DMY'>]
		{X} [Q <COMMIT~ROLLBACK> AND CHAIN]
		{X} [Q SET <TimeZone TO 'Europe/Berlin'~search_path TO s2>]
		{X} [Q <ROLLBACK~COMMIT>]
		{Y} [Q {look}]
		{X} [Q {look}]`},
	{theme: "settings", script: `
		{X} connect TimeZone=America/New_York
		{X} [Q BEGIN]
		{X} [Q SET TimeZone TO 'Asia/Tokyo']
		{X} [Q <RESET ALL~RESET TimeZone~SET TimeZone TO DEFAULT>]
		{X} [Q SELECT timestamp '2026-03-04 00:00'::timestamptz]
		{X} [Q COMMIT]`},
	{theme: "settings", where: onDSQL, fault: cutAtN, script: `
		{X} [Q BEGIN]
		{X} [Q SET <TimeZone = 'Asia/Tokyo'~IntervalStyle = 'iso_8601'~DateStyle = 'SQL, DMY'>]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({M}) RETURNING id]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [Q ROLLBACK]`},
	{theme: "sequences", script: `
		{X} [Q SELECT nextval('s_{X}')]
		{Y} [Q <SELECT nextval('s_{Y}')~INSERT INTO u_{Y} (n) VALUES ({N})~INSERT INTO t_{Y} (n) VALUES ({N})>]
		{X} [Q <SELECT currval('s_{X}')~SELECT lastval()>]
		{Y} [Q SELECT lastval()]`},
	{theme: "sequences", script: `
		{Y} [Q SELECT nextval('s_{Y}')]
		{X} [Q BEGIN]
		{X} [Q SELECT nextval('s_{X}')]
		{X} [Q <SELECT currval('s_{X}')~SELECT lastval()>]
		{X} [Q COMMIT]`},
	{theme: "reads that write", where: onDSQL, fault: `[{"at":"answered","action":"cut","contains":"wk"}]`, script: `
		{X} [Q SELECT <wk~k_{X}.wk~max(wk)> FROM k_{X}]`},
	{theme: "reads that write", where: onDSQL, fault: `[{"at":"answered","action":"cut","contains":"wk"}]`, script: `
		{X} [P - | SELECT wk FROM k_{X}] [B - | -] [E -] [S]`},
	{theme: "reads that write", where: withSavepoints, whole: true, script: `
		{X} [Q BEGIN]
		{X} [Q SAVEPOINT a]
		{X} [<Q SELECT wk FROM k_{X}~Q SELECT f_{X}()>]
		{X} [Q ROLLBACK TO a]
		{X} [Q SELECT n FROM t_{X} ORDER BY n]
		{X} [Q COMMIT]`},
	// The schema changes.
	{theme: "behind the back", script: `
		{X} [P q1 | SELECT * FROM d1] [D S q1] [S]
		x sql ALTER TABLE d1 ADD COLUMN c int
		x replace
		{Y} [P q1 | SELECT * FROM d1] [B - | q1] [E -] [S]
		{X} [B - | q1] [E -] [S]`},
	{theme: "behind the back", script: `
		{X} [P - | SELECT * FROM d1] [B - | -] [D P -] [E -] [S]
		x sql ALTER TABLE d1 ALTER COLUMN <a~b> TYPE text
		x replace
		{Y} [P - | SELECT * FROM d1] [B - | -] [E -] [S]
		{X} [B - | -] [E -] [S]`},
	{theme: "behind the back", script: `
		{X} [P <q1~-> | SELECT * FROM d2] [B - | <q1~->] [E -] [S]
		{Y} [P - | SELECT * FROM d2] [B - | -] [E -] [S]
		x sql ALTER TABLE d2 ADD COLUMN c int
		{X} [P - | SELECT * FROM d2] [B - | -] [D P -] [E -] [S]
		{Y} [P q1 | SELECT * FROM d2] [B - | q1] [D P -] [E -] [S]
		{Y} [B - | q1] [D P -] [E -] [S]`},
	{theme: "forgotten", whole: true, script: `
		{X} [P q1 | SELECT 'kept' AS kept] [D S q1] [B - | q1] [E -] [S]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [S]
		{Y} [Q SELECT z_{Y}() AS z]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [B - | q1] [E -] [S]
		{Y} [P q1 | SELECT 'kept' AS kept] [B - | q1] [E -] [S]`},
	{theme: "ddl", where: onPostgres, script: `
		{X} [Q CREATE TABLE x_{X} AS SELECT 1 AS n]
		{X} [Q BEGIN]
		{X} [Q ALTER TABLE x_{X} <ADD COLUMN m int DEFAULT 7~ALTER COLUMN n TYPE text>]
		{X} [P q1 | SELECT * FROM x_{X}] [D S q1] [B - | q1] [E -] [S]
		{X} [Q ROLLBACK]
		{X} connect
		{X} [P q1 | SELECT * FROM x_{X}] [D S q1] [S]
		{X} [B - | q1] [E -] [S]
		{X} [P q2 | SELECT * FROM x_{X}] [D S q2] [B - | q2] [E -] [S]
		{X} [Q DROP TABLE x_{X}]`},
	{theme: "ddl", where: onPostgres, whole: true, script: `
		{X} [Q CREATE TABLE x_{X} AS SELECT 1 AS n]
		{X} [Q BEGIN]
		{X} [Q SELECT h_{X}() AS h]
		{X} [P <q1~-> | SELECT * FROM x_{X}] [B - | <q1~->] [D P -] [E -] [S]
		{X} [Q ROLLBACK]
		{X} [P - | SELECT * FROM x_{X}] [B - | -] [D P -] [E -] [S]
		{X} [P - | SELECT * FROM x_{X}] [D S -] [B - | -] [E -] [S]
		{X} [Q DROP TABLE x_{X}]`},
	{theme: "ddl", where: onPostgres, whole: true, script: `
		{X} [Q CREATE TABLE x_{X} AS SELECT 1 AS n]
		{X} [P q1 | SELECT * FROM x_{X}] [S]
		{X} [Q BEGIN]
		{X} [Q SAVEPOINT a]
		{X} [Q ALTER TABLE x_{X} ADD COLUMN m int]
		{X} [P q2 | SELECT * FROM x_{X}] [B - | q2] [E -] [S]
		{X} [Q ROLLBACK TO a]
		{X} [B - | q1] [E -] [S]
		{X} [Q COMMIT]
		{X} [B - | q1] [E -] [S]
		{X} [Q DROP TABLE x_{X}]`},
	// What a suspended portal has written is seen by what comes behind it.
	{theme: "memory", script: `
		{X} [P q3 | SELECT count(*) FROM t_{X}] [B - | q3] [E -] [S]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N}), ({M}) RETURNING n] [B c1 | -] [E c1 1] [P - | SELECT count(*) FROM t_{X}] [B - | -] [E -] [S]`},
	{theme: "memory", script: `
		{X} [P - | SELECT count(*) FROM t_{X}] [B - | -] [E -] [S]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N}) RETURNING n] [B - | -] [E - 1] [P - | SELECT count(*) FROM t_{X}] [B - | -] [E -] [S]`},
	// Names of other clients' statements.
	{theme: "local", script: `
		{Y} [P q1 | SELECT 7 AS seven] [B - | q1] [E -] [P q2 | SELECT {N} AS n] [B - | q2] [E -] [S]
		{X} [Q DEALLOCATE sluice_<1~2~3~4~5~6>; SELECT 1 AS one]
		{Y} [B - | q1] [E -] [B - | q2] [E -] [S]`},
	{theme: "local", where: onPostgres, script: `
		{Y} [P q1 | SELECT 7 AS seven] [B - | q1] [E -] [P q2 | SELECT {N} AS n] [B - | q2] [E -] [S]
		{X} [Q EXECUTE sluice_<1~2~3~4~5~6>]`},
	{theme: "local", where: onDSQL, script: `
		{X} [Q SET statement_timeout = <'1.5s'~60000~5000~'12345ms'>]
		{X} [Q <SHOW statement_timeout~SELECT current_setting('statement_timeout')>]
		{X} [Q SET application_name = 'named']
		{X} [P - | SELECT current_setting('application_name')] [B - | -] [E -] [S]`},
	{theme: "local", script: `
		{X} [P st1 | SELECT 7 AS seven] [S]
		{X} [Q DEALLOCATE st1; SELECT 1 AS one]
		{X} [B - | st1] [E -] [S]`},
	// Settings that functions make, and what is prepared beside them.
	{theme: "set_config", where: onPostgres, script: `
		{X} [P q1 | SELECT timestamptz '2024-01-0<1~2~3> 00:00' AT TIME ZONE 'UTC'] [S]
		{X} [Q BEGIN]
		{X} [<Q SELECT set_config('TimeZone', 'Asia/Tokyo', true)~Q SELECT l_{X}('TimeZone', 'Asia/Tokyo')~Q SELECT 1; SELECT l_{X}('TimeZone', 'Asia/Tokyo')>]
		{X} [P - | SELECT timestamptz '2024-01-01 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [S]
		{X} [P - | SELECT timestamptz '2024-01-02 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [P - | SELECT timestamptz '2024-01-03 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [S]
		{X} [Q <COMMIT~ROLLBACK>]
		{X} [B - | q1] [E -] [S]
		{Y} [P - | SELECT timestamptz '2024-01-01 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [P - | SELECT timestamptz '2024-01-03 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [S]
		{X} [P - | SELECT timestamptz '2024-01-02 00:00' AT TIME ZONE 'UTC'] [B - | -] [E -] [S]`},
	{theme: "set_config", where: onPostgres, whole: true, script: `
		{X} [Q SELECT g_{X}('<extra_float_digits', '3~enable_seqscan', 'off~search_path', 's1>')]
		{X} connect
		{Y} [Q {look}]`},
	{theme: "set_config", where: onPostgres, script: `
		{X} [Q SELECT g_{X}('<TimeZone', 'Asia/Tokyo~DateStyle', 'SQL, DMY~IntervalStyle', 'iso_8601>')]
		{Y} [Q {look}]
		{X} [Q {look}]`},
	// Texts that are something else in another encoding.
	{theme: "encodings", where: onPostgres, script: `
		{X} [Q SET client_encoding TO <'SJIS'~SHIFT_JIS_2004>]
		{X} [Q SELECT E'\xc3\x95\x5c'; SET <TimeZone TO $$Asia/Tokyo$$~enable_seqscan TO off~extra_float_digits TO 0> --']
		{X} connect
		{Y} [Q {look}]`},
	{theme: "encodings", where: onPostgres, script: `
		{X} [Q SET client_encoding TO <GBK~GB18030>]
		{X} [Q SELECT E'\xe3\x81\x95\x5c'; SET <TimeZone TO $$Asia/Tokyo$$~enable_seqscan TO off~extra_float_digits TO 0> --']
		{X} connect
		{Y} [Q {look}]`},
	{theme: "encodings", where: onPostgres, script: `
		{X} [Q BEGIN]
		{X} [Q <SET~SET LOCAL> standard_conforming_strings = off]
		{X} [Q SELECT '\', '; SET <TimeZone TO $$Asia/Tokyo$$~enable_seqscan TO off~extra_float_digits TO 0> --']
		{X} [Q COMMIT]
		{X} connect
		{Y} [Q {look}]`},
	// A session with state on its backend ends with it.
	{theme: "pinned", where: onPostgres, script: `
		{X} [Q LISTEN l_{X}]
		{X} [Q BEGIN]
		{X} [Q SELECT 1 AS one]
		x replace
		{X} [Q SELECT 1 AS one]`},
	{theme: "pinned", where: onPostgres, script: `
		{X} [Q <LISTEN l_{X}~CREATE TEMP TABLE tmp (n int)~PREPARE p1 AS SELECT 5 AS five>]
		{X} [Q <BEGIN; SELECT 1 AS one~SELECT 1 AS one>]
		{X} [Q SELECT pg_terminate_backend(pg_backend_pid())]
		{X} [Q SELECT 2 AS two]`},
	// A BEGIN takes a SET into its block.
	{theme: "local", script: `
		{X} [P - | SET <application_name = 'taken'~LOCAL application_name = 'taken'>] [B - | -] [E -] [Q BEGIN]
		{X} [S]
		{X} [B - | nosuch] [E -] [S]
		{X} [Q ROLLBACK]
		{X} [Q SHOW application_name]`},
	// CLOSE ALL closes the portals of the protocol too.
	{theme: "local", where: onDSQL, script: `
		{X} [Q BEGIN]
		{X} [P - | SELECT generate_series(1, 3) AS g] [B c1 | -] [E c1 1] [<S~H~C P nosuch>]
		{X} [Q <SELECT 1 AS one; CLOSE ALL~CLOSE ALL~CLOSE ALL; UNLISTEN *>]
		{X} [E c1] [S]
		{X} [Q ROLLBACK]`},
	// What a session has left at a backend that it keeps is gone behind DISCARD ALL, also in the
	// middle of frames that no Sync has ended.
	{theme: "local", script: `
		{X} [Q SET TIME ZONE <INTERVAL '-03:30' HOUR TO MINUTE~-3>]
		{X} [P st1 | SELECT 7 AS seven] [S]
		{X} <[Q DISCARD ALL]~[P - | DISCARD ALL] [B - | -] [E -] [S]~[P - | SELECT 1 AS one] [B - | -] [P - | DISCARD ALL] [B - | -] [E -] [S]~[P - | SELECT 1 AS one] [B - | -] [H] [Q DISCARD ALL]>
		{X} [B - | st1] [E -] [S]
		{X} [Q {look}]
		{Y} [Q {look}]`},
	// DISCARD ALL runs neither behind others of its pipeline nor of its string.
	{theme: "local", script: `
		{X} [P - | <SET lock_timeout = '1h'~SHOW TimeZone~UNLISTEN *~SET TimeZone = 'UTC'~BEGIN~~SELECT 1 AS one>] [B - | -] <[E -]~[H]> [Q <DISCARD ALL~SELECT 2 AS two; DISCARD ALL~DISCARD ALL; UNLISTEN *>] [S]
		{X} [Q ROLLBACK]
		{X} [Q {look}]`},
	// A session that keeps its backend is reset as any other is.
	{theme: "local", script: `
		{X} [Q SET TIME ZONE <INTERVAL '-03:30' HOUR TO MINUTE~-3>]
		{X} [P - | SELECT 1 AS one] [B - | -] [S]
		{X} [Q <SET SESSION AUTHORIZATION DEFAULT~SELECT 2 AS two; RESET SESSION AUTHORIZATION~CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *>]
		{X} [Q {look}]`},
	// A group's transaction has begun at its first frame: a reset in it changes the next one.
	{theme: "settings", where: onPostgres, script: `
		{X} [Q SET <default_transaction_read_only = on~default_transaction_deferrable = on~default_transaction_isolation = 'serializable'>]
		{X} [P - | RESET <ALL~default_transaction_read_only>] [B - | -] [E -] [Q SELECT current_setting('transaction_read_only'), current_setting('transaction_deferrable'), current_setting('transaction_isolation')] [S]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]`},
	// What a RESET inside a string returns to is this client's, not the next one's.
	{theme: "settings", script: `
		{X} connect <TimeZone=America/New_York~DateStyle=SQL, DMY~IntervalStyle=iso_8601>
		{X} [Q SELECT 1 AS one; RESET <TimeZone~DateStyle~IntervalStyle>; <SELECT 2 AS two~SET LOCAL TimeZone TO 'UTC'~SHOW TimeZone>]
		{Y} [Q {look}]
		{X} [Q {look}]`},
	// A value that says a half is added to the client's own, also behind a reset in its string.
	{theme: "settings", script: `
		{X} connect <DateStyle=DMY~DateStyle=SQL~DateStyle=SQL, DMY>
		{X} [Q <SET DateStyle TO 'YMD'; SET DateStyle TO DEFAULT~SELECT 1 AS one; RESET DateStyle~RESET ALL>; SET DateStyle = <'ISO'~'German'~'MDY'>]
		{X} [Q {look}]`},
	// A block that begins behind a reset in its string knows the client's values.
	{theme: "settings", script: `
		{X} connect <TimeZone=Asia/Tokyo~IntervalStyle=iso_8601~DateStyle=SQL, DMY>
		{X} [Q SELECT 1 AS one; RESET ALL; <COMMIT; BEGIN READ ONLY~ROLLBACK; BEGIN~BEGIN>]
		{X} [Q SELECT interval '1 day 2 hours'::text, timestamptz '2024-03-04 05:06Z'::text]
		{X} [Q ROLLBACK]`},
	{theme: "settings", where: onPostgres, script: `
		{X} connect <TimeZone=Asia/Tokyo~IntervalStyle=iso_8601~DateStyle=SQL, DMY>
		{X} [Q BEGIN]
		{X} [Q SELECT 1 AS one; RESET ALL; <COMMIT~ROLLBACK> AND CHAIN]
		{X} [Q SELECT interval '1 day 2 hours'::text, timestamptz '2024-03-04 05:06Z'::text]
		{X} [Q ROLLBACK]`},
	// A path that is set to what it was has no constants read anew.
	{theme: "settings", script: `
		{X} [Q BEGIN; SET search_path TO <"$user", public~public, nosuch~public>]
		{X} [P q1 | SELECT timestamptz '2024-01-02 00:00' AT TIME ZONE 'UTC'] [S]
		{X} [Q COMMIT]
		{X} [Q SET TimeZone TO 'Asia/Tokyo']
		{X} [B - | q1] [E -] [S]`},
	// The server reports what it makes of a value once.
	{theme: "settings", script: `
		{X} [Q SET <TimeZone TO -3~TIME ZONE -3>]
		{X} [Q SET <TimeZone TO -3~TIME ZONE -3>]
		{X} [Q RESET search_path]
		{X} [Q SHOW TimeZone]`},
	// What looks like a read may have written when its portal is suspended.
	{theme: "reads that write", script: `
		{X} [P q1 | SELECT count(*) FROM t_{X}] [B - | q1] [E -] [S]
		{X} [Q <BEGIN~SELECT 1 AS one>]
		{X} [P - | SELECT k_{X}.wk FROM k_{X}] [B - | -] [E - 1] [P - | SELECT count(*) FROM t_{X}] [B - | -] [E -] [S]
		{X} [Q ROLLBACK]`},
	// A backend is lost behind the answers of a group in a block that answers otherwise when it
	// is run again, and a Query comes.
	{theme: "ends", script: `
		{X} [Q BEGIN]
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N}) RETURNING id]
		{X} [P - | SELECT 1 AS one] [B - | -]
		x replace
		{X} [Q SELECT 2 AS two]
		{X} [S]
		{X} [Q SELECT 3 AS three]`},
	// A cancel stops what runs, and nothing of the group behind the answer.
	{theme: "cancels", script: `
		{X} <[Q BEGIN]~[Q SELECT 0 AS zero]>
		{X} [P - | SELECT 1 AS one] [B - | -] [E -] [H] cancel <0~5>
		{Y} [Q SELECT pg_sleep(0.05)]
		{X} [P - | SELECT 2 AS two] [B - | -] [E -] [S]
		{X} [Q ROLLBACK]`},
	// A text that nobody can read leaves nothing.
	{theme: "errors", script: `
		{X} [Q <SELEC 1; SET application_name = 'x'~SET application_name; SELECT 1>]
		{Y} [Q BEGIN; SELECT 1 AS one]
		{Z} connect
		{Z} [Q BEGIN; SELECT 1 AS one]
		{Z} [Q COMMIT]
		{Y} [Q COMMIT]`},
	// Clients that leave.
	{theme: "leaving", where: onDSQL, fault: conflict, script: `
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N}) RETURNING n] half
		{X} connect`},
	{theme: "leaving", script: `
		{X} [Q BEGIN]
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [<H~S>]
		{X} <vanish~quit>
		{X} connect`},
	{theme: "leaving", script: `
		{X} [P - | INSERT INTO t_{X} (n) VALUES ({N})] [B - | -] [E -] [H]
		{X} <vanish~quit>
		{X} connect
		{X} [Q SELECT count(*) FROM t_{X}]`},
	// The data of COPY.
	{theme: "copy", where: onPostgres, script: `
		{X} [Q <COPY t_{X} (n) FROM STDIN~BEGIN; COPY t_{X} (n) FROM STDIN~COPY t_{X} (n) FROM STDIN; SELECT 1 AS one>] [d {N}\x0a] [d <{M}~x>\x0a] [<c~c~f enough>]
		{X} [Q SELECT n FROM t_{X} ORDER BY n]`},
	{theme: "copy", where: onPostgres, script: `
		{X} [Q INSERT INTO t_{X} (n) VALUES ({N})]
		{X} [Q <COPY (SELECT n FROM t_{X} ORDER BY n) TO STDOUT~COPY s2.v TO STDOUT~SELECT 1 AS one; COPY (SELECT generate_series(1, 3)) TO STDOUT~COPY t_{X} (nosuch) TO STDOUT>]`},
	// Without a timeout: how far a long pipeline gets until it strikes differs from run to run.
	{theme: "pipelines", script: `
		{X} [Q SET statement_timeout = 0]
		{X} [P q1 | SELECT 1/(g - $1::int) AS x FROM generate_series(1, 1) AS g] [S]
		{X} x5500 [B - | q1 | 4] [D P -] [E -] [B - | q1 | <1~4>] [E -] [<S~H>]
		{X} [S]
		{X} [Q SELECT 1 AS one]`},
}

// scene draws a scene of the dialogue's themes, with the fault that it wants.
func (g *drawer) scene(clients []string) (steps []step, fault string) {
	var all []scene
	for _, s := range scenes {
		if g.themed(s.theme) && (s.where == nil || s.where(g.route)) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, ""
	}
	scene := pick(g, all...)
	g.count("scene of " + scene.theme)
	x := g.who
	y := clients[(strings.Index("abc", x)+1)%len(clients)]
	z := strings.Trim("abc", x+y)[:1]
	n := g.marker + 1
	g.marker += 2
	fill := func(text string) string {
		text = alternatives.ReplaceAllStringFunc(text, func(all string) string { return pick(g, strings.Split(all[1:len(all)-1], "~")...) })
		return strings.NewReplacer("{X}", x, "{Y}", y, "{Z}", z, "{N}", strconv.Itoa(n), "{M}", strconv.Itoa(n+1)).Replace(text)
	}
	script := fill(scene.script)
	if g.one(2) {
		script = x + " [S]\n" + x + " [Q ROLLBACK]\n" + y + " [S]\n" + y + " [Q ROLLBACK]\n" + script
	}
	d, err := parseDialogue(script)
	if err != nil {
		panic(err)
	}
	for _, s := range d.steps {
		switch n := g.IntN(20); {
		case scene.whole:
		case n == 0:
			continue
		case n == 1:
			steps = append(steps, g.step())
		}
		steps = append(steps, s)
	}
	g.state[x].block = false
	return steps, fill(scene.fault)
}

var alternatives = regexp.MustCompile(`<[^<>]*~[^<>]*>`)
