package proxy_test

import (
	"strings"
	"testing"
)

// A savepoint that could not be returned to is refused when it is set; one that
// can no longer be returned to, when it is. To release it takes no replay.
func TestRefusedSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing+"CREATE TABLE saved (a int PRIMARY KEY); CREATE TABLE keyed (id bigint GENERATED ALWAYS AS IDENTITY, u uuid DEFAULT gen_random_uuid(), s serial, v int UNIQUE); "+
		"CREATE FUNCTION drawn() RETURNS bigint LANGUAGE sql AS $$ SELECT nextval('changing') $$")
	s := startSluice(t, pg, withSavepoints, maxOpen(3))
	small := startSluice(t, pg, withSavepoints, maxOpen(3), func(s *setup) { s.proxy.Retry.LogBytes = 4096 })
	const (
		unset    = `C=0A000 M=savepoint "a" is not possible in this transaction D=`
		noReturn = `C=0A000 M=cannot return to savepoint "a" D=`
		again    = noReturn + "The client has the result of "
		differs  = `C=40001 M=could not return to savepoint "a" due to concurrent update D=Replay refused: `
		copying  = "Q COPY stumbled FROM STDIN\n< G\nd 1\\n\nc\n< Z\n"
	)
	for _, test := range []struct {
		name, script string
		s            *sluice
		want         string // of the error that the last savepoint command gets; "" for none
		rest         string // of the transaction
	}{
		{"what came before differs", "Q SELECT nextval('changing')\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s,
			again + "statement 1 (select), which may hold", "3B001"},
		{"a user's function differs", "Q SELECT drawn()\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s,
			differs + "the result of statement 1 (select) differs in its values. H=", "3B001"},
		{"an identity", "Q SELECT 1\n< Z\nQ INSERT INTO keyed (v) VALUES (1) RETURNING id\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s,
			again + "statement 2 (insert), which may hold", "3B001"},
		{"a sequence that the transaction sets", "Q SELECT setval('keyed_s_seq', 9)\n< Z\nQ INSERT INTO keyed (v) VALUES (2) RETURNING s\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s, "", ""},
		{"a uuid, extended", "Q SELECT 1\n< Z\n" + ext("INSERT INTO keyed (v) VALUES (3) RETURNING u") + "S\n< Z\n" + ext("SAVEPOINT a") + "S\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s,
			again + "statement 2 (insert), which may hold", "3B001"},
		{"one group", ext("SELECT 1") + ext("INSERT INTO keyed (v) VALUES (4) RETURNING u") + ext("SAVEPOINT a") + ext("SELECT 1") + ext("ROLLBACK TO a") + "S\n< Z\n", s,
			again + "one of the statements 1 to 2, which may hold", "3B001"},
		{"behind it, discarded", "Q SAVEPOINT a\n< Z\nQ INSERT INTO keyed (v) VALUES (5) RETURNING id, u\n< Z\nQ ROLLBACK TO a\n< Z\n", s, "", ""},
		{"not delivered", "Q INSERT INTO keyed (v) VALUES (6)\n< Z\nQ SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s, "", ""},
		{"what was read behind it differs", "Q SAVEPOINT a\n< Z\nQ SELECT to_char(clock_timestamp(), 'US')\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s,
			again + "statement 1 (select), which may hold", "3B001"},
		{"differs in a group", "Q SAVEPOINT a\n< Z\n" + ext("SELECT clock_timestamp()") + ext("ROLLBACK TO a") + "S\n< Z\n", s, again + "statement 1 (select)", "3B001"},
		{"what was written behind it may differ", "Q SAVEPOINT a\n< Z\nQ INSERT INTO stumbled VALUES (1) RETURNING clock_timestamp()\n< Z\nQ SELECT clock_timestamp()\n< Z\nQ ROLLBACK TO a\n< Z\n", s, "", ""},
		{"COPY before", copying + "Q SAVEPOINT a\n< Z\n", s, unset + "Replay refused: the transaction copied data in.", "3B001"},
		{"COPY behind", "Q SAVEPOINT a\n< Z\n" + copying + "Q ROLLBACK TO a\n< Z\n", s, noReturn + "Replay refused: the transaction copied data in.", "0A000"},
		{"COPY behind, released", "Q SAVEPOINT a\n< Z\n" + copying + "Q RELEASE a\n< Z\n", s, "", ""},
		{"pinned", "Q LISTEN changing\n< Z\nQ SAVEPOINT a\n< Z\n", s, unset + "Replay refused: the session holds state", "3B001"},
		{"pinned behind", "Q SAVEPOINT a\n< Z\nQ CREATE TEMP TABLE saved_temp (a int)\n< Z\nQ ROLLBACK TO a\n< Z\n", s, noReturn + "Replay refused: the session holds state", "0A000"},
		{"pinned in a failed block", "Q SAVEPOINT a\n< Z\nQ SELECT 1/0\n< Z\nQ LISTEN changing\n< Z\nQ ROLLBACK TO a\n< Z\n", s, noReturn + "Replay refused: the session holds state", "0A000"},
		{"opted out", "Q SELECT 1 /* sluice: no-retry */\n< Z\nQ SAVEPOINT a\n< Z\n", s, unset + "Replay refused: replay is off", "3B001"},
		{"log full", "Q SELECT '" + strings.Repeat("x", 5000) + "' = '' AS e\n< Z\nQ SAVEPOINT a\n< Z\n", small, unset + "Replay refused: the transaction sent more", "3B001"},
		{"log full of savepoints", strings.Repeat("Q SAVEPOINT b\n< Z\n", 15) + "Q SAVEPOINT a\n< Z\n", small, unset + "Replay refused: the transaction sent more", "3B001"},
		{"with others in a string", "Q SAVEPOINT a; SELECT 1\n< Z\n", s, "C=0A000 M=savepoint commands must not share a string with other statements", "3B001"},
		{"a cursor that moved", "Q DECLARE k CURSOR FOR SELECT 1\n< Z\nQ SAVEPOINT a\n< Z\nQ FETCH 1 FROM k\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n", s, noReturn + "A cursor or portal", "0A000"},
		{"a cursor of its own", "Q SAVEPOINT a\n< Z\nQ DECLARE k CURSOR FOR SELECT 1\n< Z\nQ FETCH 1 FROM k\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\nQ DECLARE k CURSOR FOR SELECT 2\n< Z\n", s, "", ""},
		{"a portal that went on", "P - | SELECT generate_series(1, 5)\nB c1 | -\nE c1 2\nS\n< Z\nQ SAVEPOINT a\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\nE c1 2\nS\n< Z\nQ ROLLBACK TO a\n< Z\n", s, noReturn + "A cursor or portal", "0A000"},
		{"a portal of before", "P - | SELECT generate_series(1, 5)\nB c1 | -\nE c1 2\nS\n< Z\nQ SAVEPOINT a\n< Z\nE c1 2\nS\n< Z\nQ SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\nE c1 2\nS\n< Z\n", s, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			stumbles(t, pg, false)
			pg.SQL(t, "postgres", "SELECT setval('changing', 1, false)")
			got := perform(t, test.s.addr, "Q BEGIN\n< Z\n"+test.script+"Q ROLLBACK TO a\n< Z\nQ COMMIT\n< Z\nQ SELECT 1\n< Z\n")
			script, rest, _ := strings.Cut(got, "Q ROLLBACK TO a\n< Z\nE ")
			if test.want == "" {
				if strings.Contains(strings.TrimSuffix(got, "Q SELECT 1"), "C=0A000") || strings.Contains(got, "C=40001") || !strings.HasSuffix(got, "Z I\n") {
					t.Errorf("got\n%s", got)
				}
				return
			}
			if !strings.Contains(script+rest, test.want) {
				t.Errorf("no error that says %q:\n%s", test.want, got)
			}
			tail := got[strings.LastIndex(got, "Q ROLLBACK TO a"):]
			if !strings.Contains(tail, "C="+test.rest) || !strings.Contains(tail, "Z E") || !strings.Contains(tail, "C ROLLBACK") || !strings.HasSuffix(tail, "Z I\n") {
				t.Errorf("what follows is not %s and the end of the block:\n%s", test.rest, tail)
			}
			waitFor(t, "backends to come back", func() bool { return test.s.backends.Stats().InUse == 0 })
		})
	}
}

// Another client's change between the savepoint and the return is what it is for
// to be compared: the client decided on what is no longer true.
func TestReturnMeetsAnothersChange(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE saved (a int PRIMARY KEY, n int); INSERT INTO saved VALUES (1, 1), (2, 2)")
	s := startSluice(t, pg, withSavepoints, maxOpen(3))
	for read, want := range map[int]string{1: "40001", 2: "<nil>"} {
		conn := connect(t, s.addr)
		run := func(sql string, args ...any) error { _, err := conn.Exec(t.Context(), sql, args...); return err }
		for _, sql := range []string{"BEGIN", "SAVEPOINT a"} {
			if err := run(sql); err != nil {
				t.Fatal(err)
			}
		}
		if err := run("SELECT n FROM saved WHERE a = $1", read); err != nil {
			t.Fatal(err)
		}
		if err := run("INSERT INTO saved VALUES (2, 0)"); code(err) != "23505" {
			t.Fatal(err)
		}
		pg.SQL(t, "postgres", "UPDATE saved SET n = n + 1 WHERE a = 1")
		if err := run("ROLLBACK TO a"); code(err) != want {
			t.Errorf("read %d: %v", read, err)
		}
		if err := run("ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}
