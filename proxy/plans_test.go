package proxy_test

import (
	"fmt"
	"strings"
	"testing"
)

// crowd plays a dialogue of several clients: each line begins with a client's name.
// "kill" in its place replaces every backend, "db" runs a statement that does not
// come through Sluice. Each group ends in S or Q.
func crowd(t *testing.T, pg postgres, addr, script string, kill func()) string {
	t.Helper()
	var out strings.Builder
	clients := map[string]*rawClient{}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		who, rest, _ := strings.Cut(line, " ")
		switch {
		case who == "":
			continue
		case who == "kill":
			kill()
			continue
		case who == "db":
			pg.SQL(t, "postgres", rest)
			continue
		case clients[who] == nil:
			clients[who] = dialRaw(t, addr)
		}
		frames := []string{rest}
		if rest[0] != 'Q' {
			frames = strings.Split(rest, "; ")
		}
		for _, f := range frames {
			verb, rest, _ := strings.Cut(f, " ")
			clients[who].queue(encodeLine(t, verb, rest))
		}
		fmt.Fprintf(&out, "%s\n%s", line, clients[who].readThrough("Z"))
	}
	for _, c := range clients {
		c.conn.Close()
	}
	return out.String()
}

// Changes of the schema that come through Sluice, by whomever and however, and backends
// replaced in between, are to a client with prepared statements what they are on a
// connection of its own.
func TestPlansChangeAsWithPostgres(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, script := range map[string]string{
		"described, another client executes": `
			B P s | SELECT * FROM p; D S s; S
			X Q ALTER TABLE p ADD c int
			kill
			C P s | SELECT * FROM p; B - | s; E -; S
			B B - | s; E -; S
			B C S s; P s | SELECT * FROM p; D S s; B - | s; E -; S`,
		"described, unnamed": `
			B P - | SELECT * FROM p; D S -; S
			X Q ALTER TABLE p ADD c int
			kill
			C P - | SELECT * FROM p; B - | -; E -; S
			B B - | -; E -; S
			B P - | SELECT * FROM p; D S -; B - | -; D P -; E -; S`,
		"prepared anew each time": `
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			X Q ALTER TABLE p ADD c int
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			X Q ALTER TABLE p DROP c
			B P - | SELECT * FROM p; D S -; S
			B B - | -; E -; S`,
		"another name": `
			B P s1 | SELECT * FROM p; D S s1; S
			X Q ALTER TABLE p ADD c int
			B P s2 | SELECT * FROM p; D S s2; B - | s2; E -; S
			B B - | s1; E -; S
			B B - | s2; E -; S
			B D S s1; S
			X Q ALTER TABLE p DROP c
			B B - | s1; E -; S
			B B - | s2; E -; S`,
		"never described": `
			B P s | SELECT * FROM p; S
			X Q ALTER TABLE p ALTER a TYPE text
			B B - | s; D P -; E -; S
			B D S s; S`,
		"described as a portal": `
			B P s | SELECT * FROM p; B - | s; D P -; E -; S
			X Q ALTER TABLE p ALTER a TYPE text
			kill
			C P s | SELECT * FROM p; B - | s; E -; S
			B B - | s; E -; S
			B P t | SELECT * FROM p; B - | t; D P -; E -; S`,
		"not committed": `
			B P s | SELECT * FROM p; D S s; S
			X Q BEGIN
			X Q ALTER TABLE q ADD c int
			X P s | SELECT * FROM q; D S s; B - | s; E -; S
			X Q ROLLBACK
			C P s | SELECT * FROM q; D S s; S
			C B - | s; E -; S
			X B - | s; E -; S
			X P t | SELECT * FROM q; D S t; S`,
		"committed": `
			B P s | SELECT * FROM q; D S s; S
			X Q BEGIN
			X P s | SELECT * FROM q; D S s; S
			X Q ALTER TABLE q ADD c int
			X P t | SELECT * FROM q; D S t; B - | t; E -; S
			X B - | t; E -; S
			X Q COMMIT
			B B - | s; E -; S
			X B - | t; E -; S
			C P t | SELECT * FROM q; D S t; S
			C B - | t; E -; S
			B P t | SELECT * FROM q; D S t; S
			B B - | t; E -; S`,
		"its own, in the block": `
			B P s | SELECT * FROM q; D S s; S
			B Q BEGIN
			B B - | s; E -; S
			B Q ALTER TABLE q ADD c int
			B B - | s; E -; S
			B Q ROLLBACK
			B B - | s; E -; S
			B Q BEGIN
			B Q ALTER TABLE q ALTER a TYPE text
			B P u | SELECT * FROM q; B - | u; D P -; E -; S
			B Q ROLLBACK
			B B - | u; E -; S
			B B - | s; E -; S`,
		"behind a savepoint": `
			B P s | SELECT * FROM q; D S s; S
			B Q BEGIN
			B Q SAVEPOINT a
			B Q ALTER TABLE q ADD c int
			B P t | SELECT * FROM q; D S t; B - | t; E -; S
			B Q ROLLBACK TO a
			B B - | s; E -; S
			B P u | SELECT * FROM q; D S u; B - | u; E -; S
			B Q COMMIT
			B B - | s; E -; S
			B B - | u; E -; S
			C P t | SELECT * FROM q; D S t; S
			C B - | t; E -; S`,
		"a savepoint, undescribed": `
			B P s | SELECT * FROM q; S
			B Q BEGIN
			B Q SAVEPOINT a
			B Q ALTER TABLE q ADD c int
			B P t | SELECT * FROM q; B - | t; E -; S
			B Q ROLLBACK TO a
			B B - | s; E -; S
			B Q COMMIT
			C P t | SELECT * FROM q; B - | t; E -; S
			B B - | s; E -; S`,
		"in a string": `
			B P s | SELECT * FROM p; D S s; S
			X Q BEGIN
			X Q SELECT 1
			X Q ALTER TABLE p ADD c int; COMMIT AND CHAIN
			C P s | SELECT * FROM p; D S s; S
			B B - | s; E -; S
			C B - | s; E -; S
			X Q ROLLBACK
			C P t | SELECT * FROM p; D S t; S`,
		"in a group": `
			B P s | SELECT * FROM p; D S s; S
			X P - | ALTER TABLE p ADD c int; B - | -; E -; P t | SELECT * FROM p; D S t; S
			C P t | SELECT * FROM p; D S t; S
			B B - | s; E -; S
			X B - | t; E -; S
			C B - | t; E -; S`,
		"a group that fails": `
			X P - | ALTER TABLE q ADD c int; B - | -; E -; P t | SELECT * FROM q; D S t; P - | SELECT 1/0; B - | -; E -; S
			C P t | SELECT * FROM q; D S t; S
			C B - | t; E -; S
			X B - | t; E -; S
			X P u | SELECT * FROM q; D S u; S`,
		"by a function": `
			B P s | SELECT * FROM q; D S s; S
			X Q BEGIN
			X P - | SELECT alter_q(); B - | -; E -; S
			X P t | SELECT * FROM q WHERE true; D S t; B - | t; E -; S
			X Q ROLLBACK
			C P t | SELECT * FROM q WHERE true; D S t; S
			C B - | t; E -; S
			B B - | s; E -; S`,
		"by a function, unnamed": `
			X Q BEGIN
			X P - | SELECT alter_q(); B - | -; E -; S
			X P - | SELECT * FROM q; B - | -; D P -; E -; S
			X Q ROLLBACK
			X P - | SELECT * FROM q; B - | -; D P -; E -; S`,
		"by a function, committed": `
			X Q BEGIN
			X P - | SELECT alter_q(); B - | -; E -; S
			X P t | SELECT * FROM q WHERE true; D S t; B - | t; E -; S
			X Q COMMIT
			C P t | SELECT * FROM q WHERE true; D S t; S
			C B - | t; E -; S`,
		"a view, a function, a name": `
			B P v | SELECT * FROM v; D S v; S
			B P f | SELECT * FROM f(1); D S f; S
			B P n | SELECT a FROM p; D S n; S
			X Q DROP VIEW v; CREATE VIEW v AS SELECT 1 AS one, 'two' AS two
			X Q DROP FUNCTION f; CREATE FUNCTION f(int) RETURNS TABLE (x text) LANGUAGE sql AS $$ SELECT 'x'::text $$
			X Q ALTER TABLE p RENAME a TO z
			kill
			B B - | v; E -; S
			B B - | f; E -; S
			B B - | n; E -; S
			B P v2 | SELECT * FROM v; D S v2; B - | v2; E -; S`,
		"the same again": `
			B P s | SELECT * FROM p; D S s; S
			X Q ALTER TABLE p ADD c int
			X Q ALTER TABLE p DROP c
			kill
			B B - | s; E -; S
			X Q DROP TABLE p CASCADE; CREATE TABLE p (a int, b int)
			B B - | s; E -; S
			X Q ALTER TABLE p ALTER a TYPE varchar(5)
			X Q ALTER TABLE p ALTER a TYPE int USING 1
			B B - | s; E -; S`,
		"a modifier": `
			B P s | SELECT v FROM m; D S s; S
			X Q ALTER TABLE m ALTER v TYPE varchar(20)
			kill
			B B - | s; E -; S
			B P t | SELECT v FROM m; D S t; B - | t; E -; S`,
		"parameters": `
			B P s | SELECT b FROM p WHERE a = $1; D S s; S
			X Q ALTER TABLE p ALTER a TYPE text
			C P s | SELECT b FROM p WHERE a = $1; D S s; B - | s | x; E -; S
			B B - | s | 1; E -; S
			B P t | SELECT b FROM p WHERE a = $1; D S t; B - | t | 1; E -; S`,
		"no rows any more": `
			B P s | SELECT * FROM p; D S s; S
			B P i | INSERT INTO p VALUES (1, 2) RETURNING *; D S i; S
			X Q ALTER TABLE p ADD c int
			kill
			B B - | i; E -; S
			B B - | s; E -; S
			X Q SELECT count(*) FROM p`,
		"pinned": `
			B Q LISTEN x
			B P s | SELECT * FROM p; D S s; S
			X Q ALTER TABLE p ADD c int
			C P s | SELECT * FROM p; D S s; B - | s; E -; S
			B B - | s; E -; S
			B P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"temporary": `
			B P s | SELECT * FROM p; D S s; S
			B Q CREATE TEMP TABLE p (z text)
			B P t | SELECT * FROM p; D S t; B - | t; E -; S
			B B - | s; E -; S
			C P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"flushed": `
			B P s | SELECT * FROM p; D S s; H; B - | s; E -; S
			X Q ALTER TABLE p ADD c int
			B P - | SELECT 1; B - | -; E -; H; B - | s; E -; S
			B P - | SELECT * FROM p; D S -; H; B - | -; E -; S`,
	} {
		t.Run(name, func(t *testing.T) {
			play := func(addr string, kill func()) string {
				pg.SQL(t, "postgres", `DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE p (a int, b int); CREATE TABLE q (a int, b int); CREATE TABLE m (v varchar(10));
					CREATE VIEW v AS SELECT 1 AS one; CREATE FUNCTION f(int) RETURNS TABLE (x int) LANGUAGE sql AS $$ SELECT 1 $$;
					CREATE FUNCTION alter_q() RETURNS int LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE q ADD hidden int; RETURN 1; END $$;
					INSERT INTO p VALUES (1, 2); INSERT INTO q VALUES (3, 4); INSERT INTO m VALUES ('x')`)
				return crowd(t, pg, addr, script, kill)
			}
			want := play(pg.addr, func() {})
			for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}, "one backend": {maxOpen(2)}} {
				s := startSluice(t, pg, append([]option{maxOpen(5)}, opts...)...)
				kill := func() { pg.SQL(t, "postgres", killBackends) }
				if got := play(s.addr, kill); got != want {
					t.Errorf("through Sluice (%s): %s", route, firstDifference(got, want))
				}
			}
		})
	}
}

// A client that was told what a statement returns never gets other rows, also when
// the schema was changed where Sluice could not see it.
func TestRowsAreAsDescribed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, script := range map[string]string{
		"another client executes": `
			B P s | SELECT * FROM p; D S s; S
			C P s | SELECT * FROM p; B - | s; E -; S
			db ALTER TABLE p ADD c int
			kill
			D P s | SELECT * FROM p; B - | s; E -; S
			B B - | s; E -; S
			B P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"unnamed": `
			B P - | SELECT * FROM p; D S -; S
			db ALTER TABLE p ADD c int
			kill
			D P - | SELECT * FROM p; B - | -; E -; S
			B B - | -; E -; S
			B P - | SELECT * FROM p; D S -; B - | -; E -; S`,
		"on the same backend": `
			B P s | SELECT * FROM p; D S s; B - | s; E -; S
			db ALTER TABLE p ADD c int
			B B - | s; E -; S
			B D S s; S
			B P t | SELECT * FROM p; D S t; B - | t; E -; S
			D P t | SELECT * FROM p; D S t; B - | t; E -; S
			B B - | s; E -; S`,
		"in blocks": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			kill
			D Q BEGIN
			D P s | SELECT * FROM p; B - | s; E -; S
			B Q BEGIN
			B B - | s; E -; S
			B Q ROLLBACK
			D B - | s; E -; S
			D Q COMMIT
			B P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"told as an unnamed portal": `
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			db ALTER TABLE p ADD c int
			kill
			D P - | SELECT * FROM p; B - | -; E -; S
			B B - | -; E -; S
			B B - | -; D P -; E -; S
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			B B - | -; D P -; E -; S`,
		"told as a named portal of an unnamed statement": `
			B P - | SELECT * FROM p; B k | -; D P k; E k; S
			db ALTER TABLE p ADD c int
			kill
			D P - | SELECT * FROM p; B - | -; E -; S
			B B k | -; E k; S`,
		"told of a portal whose statement is gone": `
			B Q BEGIN
			B P - | SELECT 'x' AS other; B - | -; B k | -; E -; S
			B P - | SELECT * FROM p; D P -; D P k; S
			B B - | -; E -; S
			B D P k; S
			B B - | -; D P -; E -; S
			B Q COMMIT`,
		"told as a portal": `
			B P s | SELECT * FROM p; B - | s; D P -; E -; S
			db ALTER TABLE p ADD c int
			kill
			D P s | SELECT * FROM p; B - | s; E -; S
			B B - | s; E -; S`,
		"and back": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			kill
			D P s | SELECT * FROM p; B - | s; E -; S
			db ALTER TABLE p DROP c
			B B - | s; E -; S`,
	} {
		t.Run(name, func(t *testing.T) {
			play := func(addr string, kill func()) string {
				pg.SQL(t, "postgres", `DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, 2)`)
				return crowd(t, pg, addr, script, kill)
			}
			want := play(pg.addr, func() {})
			for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}, "one backend": {maxOpen(1)}} {
				if route == "one backend" && name == "in blocks" {
					continue // it needs two
				}
				s := startSluice(t, pg, append([]option{maxOpen(5)}, opts...)...)
				if got := play(s.addr, func() { pg.SQL(t, "postgres", killBackends) }); got != want {
					t.Errorf("through Sluice (%s): %s", route, firstDifference(got, want))
				}
			}
		})
	}
}

// killBackends ends every session but this one, and returns when they are gone; there may
// be new ones by then.
const killBackends = `DO $$ DECLARE
	pids int[] := ARRAY(SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid());
BEGIN
	PERFORM pg_terminate_backend(pid) FROM unnest(pids) pid;
	WHILE EXISTS (SELECT FROM pg_stat_activity WHERE pid = ANY (pids)) LOOP
		PERFORM pg_stat_clear_snapshot(); PERFORM pg_sleep(0.01); END LOOP; END $$`
