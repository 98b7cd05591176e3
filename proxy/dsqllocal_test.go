package proxy_test

import (
	"strings"
	"testing"
)

// A server like DSQL answers as PostgreSQL does where it knows less: a time limit that
// it has for itself is not the session's, and DISCARD ALL cannot run in a block.
func TestAsPostgreSQLWhereTheServerIsNot(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	scripts := map[string]string{
		"limits": `
			B Q SHOW lock_timeout
			B Q SHOW client_connection_check_interval
			B Q SELECT current_setting('lock_timeout')
			B Q SELECT 1 AS one; SHOW lock_timeout; SELECT current_setting('lock_timeout') AS l
			B P s | SHOW lock_timeout; D S s; B - | s; D P -; E -; S
			B Q BEGIN
			B Q SHOW lock_timeout
			B Q SELECT 1 AS one
			B Q SHOW lock_timeout
			B B - | s; E -; S
			B Q SET LOCAL lock_timeout = '3s'
			B Q SHOW lock_timeout
			B Q COMMIT
			B Q SHOW lock_timeout
			B Q SET lock_timeout = '3s'
			B Q SHOW lock_timeout
			B Q RESET lock_timeout
			B Q SHOW lock_timeout
			B Q SET lock_timeout = 7; COMMIT; SHOW lock_timeout
			B Q SET lock_timeout TO DEFAULT; SHOW lock_timeout`,
		"DISCARD ALL begun": `
			B Q BEGIN
			B Q DISCARD ALL
			B Q SELECT 1 AS one
			B Q ROLLBACK
			B Q DISCARD ALL`,
		"DISCARD ALL in a block": `
			B Q BEGIN
			B Q INSERT INTO p VALUES (1)
			B Q DISCARD ALL
			B Q COMMIT
			B Q SELECT count(*) FROM p`,
		"DISCARD ALL in a failed block": `
			B Q BEGIN
			B Q SELECT 1/0
			B Q DISCARD ALL
			B Q COMMIT`,
		"DISCARD ALL prepared": `
			B P s | DISCARD ALL; D S s; S
			B Q BEGIN
			B B - | s; D P -; E -; S
			B Q ROLLBACK
			B Q BEGIN
			B Q INSERT INTO p VALUES (2)
			B P - | DISCARD ALL; D S -; B - | -; E -; S
			B Q COMMIT
			B P i | INSERT INTO p VALUES (3); B - | i; E -; B - | s; E -; S
			B B - | i; E -; P - | BEGIN; B - | -; E -; B - | s; E -; S
			B Q ROLLBACK
			B B - | s; E -; S
			B B - | s; E -; S
			B Q SELECT count(*) FROM p`,
		"DISCARD ALL behind frames": `
			B P i | INSERT INTO p VALUES (4); B - | i; E -; Q DISCARD ALL
			B P - | SHOW statement_timeout; B - | -; E - 1; P - | DISCARD ALL; B - | -; E -; S
			B P b | BEGIN; B - | b; E -; Q DISCARD ALL
			B Q ROLLBACK
			B P - | SELECT 1/0; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | COMMIT; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | INSERT INTO p VALUES (6); B - | -; E -; P - | ROLLBACK; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | SET work_mem = '1MB'; B - | -; E -; P - | COMMIT; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B Q BEGIN
			B Q SELECT 1/0
			B P - | ROLLBACK; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | BEGIN; B - | -; E -; P - | COMMIT; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | DISCARD ALL; B - | -; E -; P - | DISCARD ALL; B - | -; E -; P - | SELECT 1 AS one; B - | -; E -; S
			B P - | SET work_mem = '1MB'; B - | -; E -; P - | COMMIT; B - | -; E -; P - | DISCARD ALL; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B P - | COMMIT; B - | -; E -; P - | SELECT 1 AS one; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
			B Q SELECT count(*) FROM p`,
		"DISCARD ALL in strings": `
			B Q BEGIN; DISCARD ALL
			B Q ROLLBACK
			B Q INSERT INTO p VALUES (5); DISCARD ALL
			B Q COMMIT; DISCARD ALL
			B Q SELECT count(*) FROM p`,
	}
	play := func(addr, script string) string {
		pg.SQL(t, "postgres", "DROP TABLE IF EXISTS p; CREATE TABLE p (a int)")
		return crowd(t, pg, addr, script, func() {})
	}
	want := map[string]string{}
	for name, script := range scripts {
		if want[name] = play(pg.addr, script); strings.Contains(want[name], "TIMEOUT") {
			t.Fatal(want[name])
		}
	}
	pg.SQL(t, "postgres", "ALTER DATABASE postgres SET lock_timeout = '20ms'; ALTER DATABASE postgres SET client_connection_check_interval = '30ms'")
	for route, opts := range map[string][]option{"": nil, "replay": {withReplay}, "session": {sessionPairing}} {
		s := startSluice(t, pg, append(opts, asDSQL, answering, allIgnored, maxOpen(3))...)
		for name, script := range scripts {
			if got := play(s.addr, script); got != want[name] {
				t.Errorf("%s, route %q: %s", name, route, firstDifference(got, want[name]))
			}
		}
	}
}

// A plain server does not know of the statements of a pipeline that were answered for it: a DISCARD ALL
// behind them is refused as PostgreSQL would have refused it.
func TestDiscardAllBehindLocalAnswers(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const script = `
		B P - | RESET application_name; B - | -; E -; Q DISCARD ALL
		B P - | SHOW application_name; B - | -; E -; Q DISCARD ALL
		B P - | RESET application_name; B - | -; E -; P - | DISCARD ALL; B - | -; D P -; E -; S
		B P s | SELECT 1 AS one; S
		B P - | DEALLOCATE s; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
		B P - | RESET application_name; B - | -; E -; P - | COMMIT; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
		B P - | RESET application_name; B - | -; E -; S
		B Q DISCARD ALL
		B P - | RESET application_name; B - | -; E -; P - | SELECT 1/0; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
		B Q BEGIN
		B P - | SHOW application_name; B - | -; E -; P - | DISCARD ALL; B - | -; E -; S
		B P - | DISCARD ALL; B - | -; E -; S
		B Q ROLLBACK
		B P - | DISCARD ALL; B - | -; E -; S`
	play := func(addr string) string { return crowd(t, pg, addr, script, func() {}) }
	want := play(pg.addr)
	for route, opts := range map[string][]option{"": nil, "replay": {withReplay}, "session": {sessionPairing}} {
		if got := play(startSluice(t, pg, append(opts, maxOpen(3))...).addr); got != want {
			t.Errorf("route %q: %s", route, firstDifference(got, want))
		}
	}
}

// DISCARD ALL gives up the backend that a session keeps, where the server knows no such
// statement: nothing of the session is left.
func TestDiscardAllOfAKeptBackend(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for route, opts := range map[string][]option{"pinned": nil, "replay": {withReplay}, "session": {sessionPairing}} {
		s := startSluice(t, pg, append(opts, asDSQL, answering, allIgnored, maxOpen(3))...)
		perform(t, s.addr, "Q SELECT 1\n< Z\n") // from now on what the server reports is known
		for _, before := range []string{"PREPARE p AS SELECT 1", "SET TIME ZONE INTERVAL '-03:30' HOUR TO MINUTE", "SET TimeZone = 'Asia/Tokyo'"} {
			for _, discard := range []string{"Q DISCARD ALL", "P d | DISCARD ALL\nB - | d\nE -\nS", "P - | DISCARD ALL\nD S -\nB - | -\nE -\nP - | SELECT 1 AS one\nB - | -\nE -\nS"} {
				script := "P s | SELECT 2 AS two\nS\n< Z\nQ " + before + "\n< Z\n" + discard + "\n< Z\n"
				const look = "Q SHOW TimeZone\n< Z\nB - | s\nS\n< Z\nQ EXECUTE p\n< Z\nQ DISCARD ALL\n< Z\n"
				direct, _ := dialWith(t, pg.addr, nil)
				through, _ := dialWith(t, s.addr, nil)
				want, got := direct.play(t, script), through.play(t, script)
				if in := s.backends.Stats().InUse; in != 0 && !strings.Contains(discard, "one") {
					t.Errorf("%s, %s: %d backends are kept", route, before, in)
				}
				want, got = want+direct.play(t, look), got+through.play(t, look)
				direct.conn.Close()
				through.conn.Close()
				if got != want {
					t.Errorf("%s, %s: %s", route, before, firstDifference(got, want))
				}
			}
		}
	}
}

// A query of several statements is a transaction, also where Sluice commits its DDL in parts or sets its own options: a
// statement that PostgreSQL runs in no transaction is refused, and one that it runs only in a transaction succeeds.
func TestTransactionInGroups(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, allFeatures, mayChoose)
	for _, sql := range []string{
		"DISCARD ALL; CREATE TABLE grouped_a (a int); CREATE TABLE grouped_b (a int)",
		"DISCARD ALL; BEGIN; CREATE TABLE grouped_a (a int); CREATE TABLE grouped_b (a int); COMMIT",
		"CREATE DATABASE app_grouped; CREATE TABLE grouped_a (a int); CREATE TABLE grouped_b (a int)",
		"BEGIN; DISCARD ALL; CREATE TABLE grouped_a (a int); CREATE TABLE grouped_b (a int); COMMIT",
	} {
		script := "Q " + sql + "\n< Z\nQ ROLLBACK\n< Z\nQ SELECT count(*) FROM pg_class WHERE relname LIKE 'grouped%'\n< Z\nQ DISCARD ALL\n< Z\n"
		want := perform(t, pg.addr, script)
		if got := perform(t, s.addr, script); got != want {
			t.Errorf("%s: %s", sql, firstDifference(got, want))
		}
	}
	for _, sql := range []string{"LOCK TABLE grouped_c IN ACCESS SHARE MODE; CREATE TABLE grouped_a (a int); CREATE TABLE grouped_b (a int)",
		"CREATE TABLE grouped_a (a int); LOCK TABLE grouped_c IN ACCESS SHARE MODE; CREATE TABLE grouped_b (a int)"} {
		got := perform(t, s.addr, "Q DROP TABLE IF EXISTS grouped_a, grouped_b\n< Z\nQ CREATE TABLE IF NOT EXISTS grouped_c (a int)\n< Z\nQ "+sql+"\n< Z\n")
		if !strings.Contains(got, "C LOCK TABLE") || strings.Count(got, "C CREATE TABLE") != 3 {
			t.Errorf("%s: %s", sql, got)
		}
	}
	for _, sql := range []string{"SET sluice.ddl.in_transactions = 'refuse'; DISCARD ALL", "CREATE TABLE grouped_a (a int); DISCARD ALL; CREATE TABLE grouped_b (a int)"} {
		got := perform(t, s.addr, "Q DROP TABLE IF EXISTS grouped_a\n< Z\nQ "+sql+"\n< Z\n")
		if !strings.Contains(got, "C=25001 M=DISCARD ALL cannot run inside a transaction block") || strings.Contains(got, "C DISCARD ALL") {
			t.Errorf("%s: %s", sql, got)
		}
	}
}
