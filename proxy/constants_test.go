package proxy_test

import (
	"strings"
	"testing"
)

// constants are statements whose constants the server reads by the settings in force
// when it parses them.
const constants = `
	B P d | SELECT '02/03/2026'::date; D S d; S
	B P t | SELECT timestamptz '2026-01-01 00:00' AT TIME ZONE 'UTC'; S
	B P i | SELECT extract(hour FROM interval '-1 2:00'); B - | i; D P -; E -; S`

const runConstants = `
	B B - | d; E -; B - | t; E -; B - | i; E -; S`

// What the server has read at Parse means the same behind every way to change settings.
func TestConstantsAreReadAtParse(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE TABLE p (d date); INSERT INTO p VALUES ('2026-02-03');
		CREATE FUNCTION dmy() RETURNS int LANGUAGE plpgsql AS $$ BEGIN SET DateStyle TO DMY; SET TimeZone TO 'Asia/Tokyo'; RETURN 1; END $$`)
	const set = "SET DateStyle TO DMY; SET TimeZone TO 'Asia/Tokyo'; SET IntervalStyle TO sql_standard"
	for name, script := range map[string]string{
		"SET":                   constants + "\nB Q " + set + runConstants + runConstants,
		"SET LOCAL":             constants + "\nB Q BEGIN; " + strings.ReplaceAll(set, "SET", "SET LOCAL") + runConstants + "\nB Q COMMIT" + runConstants,
		"a block":               constants + "\nB Q BEGIN" + runConstants + "\nB Q " + set + runConstants + "\nB Q ROLLBACK" + runConstants,
		"committed":             constants + "\nB Q BEGIN\nB Q " + set + runConstants + "\nB Q COMMIT" + runConstants,
		"RESET":                 "B Q " + set + constants + "\nB Q RESET DateStyle; RESET TimeZone\nB Q RESET IntervalStyle" + runConstants,
		"RESET ALL":             "B Q " + set + constants + "\nB Q RESET ALL" + runConstants,
		"RESET ALL in a block":  "B Q " + set + constants + "\nB Q BEGIN\nB Q RESET ALL" + runConstants + "\nB Q ROLLBACK" + runConstants,
		"set_config":            constants + "\nB Q SELECT set_config('DateStyle', 'DMY', false), set_config('TimeZone', 'Asia/Tokyo', false)" + runConstants,
		"a function":            constants + "\nB Q SELECT dmy()" + runConstants,
		"a function in a block": constants + "\nB Q BEGIN\nB Q SELECT dmy()" + runConstants + "\nB Q ROLLBACK" + runConstants,
		"in a pipeline": constants + `
			B P - | SET DateStyle TO DMY; B - | -; E -; B - | d; E -; B - | i; E -; S` + runConstants,
		"parsed behind the SET": constants + `
			B Q BEGIN
			B Q SET LOCAL DateStyle TO DMY
			B P x | SELECT '02/03/2026'::date; B - | x; E -; S
			B Q COMMIT
			B B - | x; E -; S` + runConstants,
		"and back": constants + "\nB Q " + set + runConstants + "\nB Q RESET DateStyle; RESET TimeZone; RESET IntervalStyle" + runConstants,
		"unnamed": `
			B P - | SELECT '02/03/2026'::date; S
			B P s | SET DateStyle TO DMY; B k | s; E k; S
			B B - | -; E -; S
			B P - | SELECT '02/03/2026'::date; B - | -; E -; S`,
		"another client": constants + `
			C P d | SELECT '02/03/2026'::date; B - | d; E -; S
			B Q SET DateStyle TO DMY` + runConstants + `
			C B - | d; E -; S
			D P d | SELECT '02/03/2026'::date; B - | d; E -; S
			C Q SET DateStyle TO DMY
			C P e | SELECT '02/03/2026'::date; B - | e; E -; B - | d; E -; S
			B P e | SELECT '02/03/2026'::date; B - | e; E -; S
			D B - | d; E -; S` + runConstants,
		"parsed anew for the one only": `
			B P s | SELECT * FROM p WHERE d = '02/03/2026'; B - | s; E -; S
			C P s | SELECT * FROM p WHERE d = '02/03/2026'; B - | s; E -; S
			B Q SET DateStyle TO DMY
			B B - | s; E -; S
			db ALTER TABLE p ADD c int; ALTER TABLE p DROP c
			B B - | s; E -; S
			C B - | s; E -; S
			B P u | SELECT * FROM p WHERE d = '02/03/2026'; B - | u; E -; S`,
		"search_path": constants + `
			B Q SET DateStyle TO DMY; SET search_path TO pg_catalog` + runConstants,
		"parameters": `
			B P s | SELECT $1::date, 'a'::text; D S s; B - | s | 02/03/2026; E -; S
			B Q SET DateStyle TO DMY
			kill
			B B - | s | 02/03/2026; E -; S
			B D S s; S`,
		"the path it was": constants + `
			B Q BEGIN; SET search_path TO "$user", public; SET SESSION AUTHORIZATION DEFAULT
			B P x | SELECT timestamptz '2026-01-01 00:00' AT TIME ZONE 'UTC'; B - | x; E -; S
			B Q COMMIT
			B Q SET TimeZone TO 'Asia/Tokyo'
			B B - | x; E -; S` + runConstants + `
			B Q SET search_path TO public, nosuch` + runConstants,
		"other settings": constants + `
			kill
			B Q BEGIN; SET LOCAL statement_timeout TO '60s'; SET extra_float_digits TO 0` + runConstants + `
			B Q COMMIT
			kill` + runConstants,
		"an encoding": `
			B P s | SELECT '` + "\u00e9" + `' AS e, length('` + "\u00e9" + `'); D S s; S
			B Q SET client_encoding TO LATIN1
			B B - | s; E -; S`,
	} {
		t.Run(name, func(t *testing.T) {
			kill := func() { pg.SQL(t, "postgres", killBackends) }
			want := crowd(t, pg, pg.addr, script, func() {})
			for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
				s := startSluice(t, pg, append([]option{maxOpen(1)}, opts...)...)
				if got := crowd(t, pg, s.addr, script, kill); got != want {
					t.Errorf("through Sluice (%s): %s", route, firstDifference(got, want))
				}
			}
		})
	}
}

// A transaction whose statement no other backend has as it was parsed is not run again.
func TestConstantsAreNotReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", `CREATE TABLE p (d date); CREATE SEQUENCE s; CREATE FUNCTION once() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('s') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN 1; END $$`)
	s := startSluice(t, pg, maxOpen(2), fastReplay)
	got := crowd(t, pg, s.addr, `
		B P i | INSERT INTO p VALUES ('02/03/2026'); S
		B Q BEGIN; SET LOCAL DateStyle TO DMY
		B B - | i; E -; S
		B Q SELECT once()
		B Q COMMIT
		B Q SELECT count(*) FROM p`, func() {})
	if !strings.Contains(got, "C=08006") || !strings.HasSuffix(got, "D \\x00\\x01\\x00\\x00\\x00\\x010\nC SELECT 1\\x00\nZ I\n") {
		t.Error(got)
	}
}

// On a backend that has not parsed the statement before the change of settings it is
// refused, as PostgreSQL refuses a plan that has changed, and works once prepared again:
// so also where a replay would parse it anew. Nobody is told of another day.
func TestConstantsAreNotReadAnew(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE p (n int)")
	const refused, lost, right, wrong = "C=0A000 M=cached plan must not change result type", "C=0800", "2026-02-03", "2026-03-02"
	kill := func() { pg.SQL(t, "postgres", killBackends) }
	for name, c := range map[string]struct{ script, want string }{
		"on another backend": {`
			B P d | SELECT '02/03/2026'::date; D S d; B - | d; E -; S
			B Q SET DateStyle TO DMY
			kill
			B B - | d; E -; S`, refused},
		"described": {`
			B P d | SELECT '02/03/2026'::date; S
			B Q SET DateStyle TO DMY
			kill
			B D S d; S`, refused},
		"in a block": {`
			B P d | SELECT '02/03/2026'::date; B - | d; D P -; E -; S
			kill
			B Q BEGIN; SET LOCAL DateStyle TO DMY
			B B - | d; E -; S`, refused},
		"parsed from memory": {`
			C P d | SELECT '02/03/2026'::date; B - | d; E -; S
			kill
			B P d | SELECT '02/03/2026'::date; B - | d; S
			kill
			B P d2 | SELECT '02/03/2026'::date; P - | SET DateStyle TO DMY; B - | -; E -; B - | d2; E -; S`, refused},
		"behind DDL": {`
			B P d | SELECT '02/03/2026'::date; B - | d; E -; S
			B Q SET DateStyle TO DMY
			B Q ALTER TABLE p ADD c int
			B B - | d; E -; S`, refused},
		"lost in the group": {`
			B P d | SELECT '02/03/2026'::date; P x | SELECT pg_terminate_backend(pg_backend_pid()); B - | d; E -; S
			B Q SET DateStyle TO DMY
			B B - | d; E -; B - | x; E -; S`, lost},
		"lost in a block": {`
			B P d | SELECT '02/03/2026'::date; P x | SELECT pg_terminate_backend(pg_backend_pid()); B - | d; E -; S
			B Q BEGIN
			B Q SET DateStyle TO DMY
			B B - | d; E -; H; B - | x; E -; S`, lost},
	} {
		t.Run(name, func(t *testing.T) {
			for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}} {
				s := startSluice(t, pg, append([]option{maxOpen(1)}, opts...)...)
				again := "\nB Q ROLLBACK\nB P e | SELECT '02/03/2026'::date; B - | e; E -; P f | SELECT $1::date; B - | f | 02/03/2026; E -; S"
				got, behind, _ := strings.Cut(crowd(t, pg, s.addr, c.script+again, kill), "B Q ROLLBACK")
				if !strings.Contains(got, c.want) || strings.Contains(got, wrong) {
					t.Errorf("%s: want %s, and never %s:\n%s", route, c.want, wrong, got)
				}
				if strings.Count(behind, wrong)+strings.Count(behind, right) != 2 || strings.Contains(behind, "C=0A000") {
					t.Errorf("%s: prepared again:\n%s", route, behind)
				}
			}
		})
	}
}

// Nobody reads out of a text what set_config sets: where it may have been something that
// constants are read by, they are not read by other settings than PostgreSQL's.
func TestConstantsBehindSetConfig(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, maxOpen(1))
	got := perform(t, s.addr, `Q SELECT set_config('DateStyle', 'DMY', true); BEGIN
P d | SELECT '02/03/2026'::date
S
Q ROLLBACK
B - | d
E -
S
< Z Z Z Z`)
	if !strings.Contains(got, "2026-03-02") && !strings.Contains(got, "C=0A000") {
		t.Errorf("neither PostgreSQL's date, 2026-03-02, nor a refusal:\n%s", got)
	}
}
