package proxy_test

import (
	"strings"
	"testing"
)

// A client that prepares anew after a change of the schema has a new statement, also
// when nobody here saw the change and the backend has one of before; and a backend that
// lost its statements says so to nobody. Both need the log of a transaction.
func TestStaleStatementsAreMadeAnew(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, script := range map[string]string{
		"unnamed": `
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			db ALTER TABLE p ADD c int
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			B P - | SELECT * FROM p; B - | -; D P -; E -; S`,
		"named": `
			B P s | SELECT * FROM p; B - | s; E -; S
			C P s | SELECT * FROM p; S
			C C S s; S
			db ALTER TABLE p ADD c int
			C P s | SELECT * FROM p; B - | s; D P -; E -; S
			C B - | s; D P -; E -; S`,
		"in a block": `
			B P - | SELECT * FROM p; B - | -; E -; S
			db ALTER TABLE p ADD c int
			B Q BEGIN
			B P - | INSERT INTO p VALUES (5, 6); B - | -; E -; S
			B P - | SELECT * FROM p; B - | -; D P -; E -; S
			B Q COMMIT
			B Q TABLE p`,
		"behind a write in the group": `
			B P - | SELECT * FROM p; B - | -; E -; S
			db ALTER TABLE p ADD c int
			B P - | INSERT INTO p VALUES (5, 6); B - | -; E -; P - | SELECT * FROM p; B - | -; D P -; E -; S
			B Q TABLE p`,
		"deallocated": `
			B P s | SELECT * FROM p; D S s; B - | s; E -; S
			B P i | INSERT INTO p VALUES (5, 6); S
			B B - | i; E -; S
			B Q SELECT forget()
			B B - | s; E -; S
			B Q SELECT forget()
			B B - | i; E -; B - | s; E -; S
			B Q SELECT forget()
			B P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"deallocated, in a block": `
			B P s | SELECT * FROM p; D S s; B - | s; E -; S
			B Q SELECT forget()
			B Q BEGIN
			B P - | INSERT INTO p VALUES (5, 6); B - | -; E -; S
			B B - | s; E -; S
			B Q COMMIT
			B B - | s; E -; S`,
	} {
		t.Run(name, func(t *testing.T) {
			play := func(addr, forget string) string {
				pg.SQL(t, "postgres", `DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, 2);
					CREATE FUNCTION forget() RETURNS void LANGUAGE plpgsql AS $$ BEGIN `+forget+` END $$`)
				return crowd(t, pg, addr, script, func() {})
			}
			want := play(pg.addr, "")
			if strings.Contains(want, "TIMEOUT") {
				t.Fatal(want)
			}
			s := startSluice(t, pg, fastReplay, maxOpen(1))
			if got := play(s.addr, "EXECUTE 'DEALLOCATE ALL';"); got != want {
				t.Error(firstDifference(got, want))
			}
		})
	}
}
