package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

// A client is told what a statement returns now, whoever has changed the schema, and
// also when nobody here has seen it.
func TestDescribesWhatIsThere(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	for name, script := range map[string]string{
		"unnamed": `
			B P - | SELECT * FROM p; D S -; S
			db ALTER TABLE p ADD c int
			B P - | SELECT * FROM p; D S -; S
			B B - | -; E -; S
			C P - | SELECT * FROM p; D S -; B - | -; D P -; E -; S
			db ALTER TABLE p ALTER c TYPE text
			C P - | SELECT * FROM p; D S -; D S -; B - | -; E -; P - | SELECT * FROM p; D S -; S
			B P - | SELECT * FROM p; D S -; B - | -; D P -; E -; S`,
		"named": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			B P t | SELECT * FROM p; D S t; S
			B B - | t; E -; S
			C P s | SELECT * FROM p; D S s; B - | s; E -; S
			B B - | t; D P -; E -; S`,
		"prepared before": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			B D S s; S
			B B - | s; E -; S
			B P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"prepared from memory before": `
			B P s | SELECT * FROM p; D S s; S
			C P s | SELECT * FROM p; S
			db ALTER TABLE p ADD c int
			C D S s; S
			C B - | s; E -; S
			C P t | SELECT * FROM p; D S t; B - | t; E -; S`,
		"heard of by a Flush": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			B P t | SELECT * FROM p; H; S
			B P u | SELECT * FROM p; D S u; H; B - | u; E -; S`,
		"the parameters": `
			B P s | SELECT b FROM p WHERE a = $1; D S s; S
			db ALTER TABLE p ALTER a TYPE text
			B P - | SELECT b FROM p WHERE a = $1; D S -; S
			B B - | - | 1; E -; S
			B P t | SELECT b FROM p WHERE a = $1; D S t; B - | t | 1; E -; S`,
		"in a block": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			B Q BEGIN
			B P - | SELECT * FROM p; D S -; S
			B B - | -; E -; S
			B Q INSERT INTO p VALUES (5, 6, 7)
			B P - | SELECT * FROM p; D S -; B - | -; D P -; E -; S
			B Q COMMIT`,
		"behind others in a group": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			B P - | INSERT INTO p VALUES (5, 6); B - | -; E -; P - | SELECT * FROM p; D S -; B k | -; P t | SELECT * FROM p; D S t; E k; B - | t; E -; S`,
		"the text is wrong now": `
			B P s | SELECT b FROM p; D S s; S
			db ALTER TABLE p RENAME b TO z
			B P t | SELECT z FROM p; D S t; S
			B P u | SELECT a FROM p; D S u; S`,
		"backends replaced": `
			B P s | SELECT * FROM p; D S s; S
			db ALTER TABLE p ADD c int
			kill
			B P - | SELECT * FROM p; D S -; S
			B B - | -; D P -; E -; S
			B D S s; S`,
	} {
		t.Run(name, func(t *testing.T) {
			play := func(addr string, kill func()) string {
				pg.SQL(t, "postgres", `DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, 2)`)
				return crowd(t, pg, addr, script, kill)
			}
			want := play(pg.addr, func() {})
			for route, opts := range map[string][]option{"": nil, "replay": {fastReplay}, "one backend": {maxOpen(1)}, "replay, one backend": {fastReplay, maxOpen(1)}} {
				s := startSluice(t, pg, append([]option{maxOpen(5)}, opts...)...)
				if got := play(s.addr, func() { pg.SQL(t, "postgres", killBackends) }); got != want {
					t.Errorf("through Sluice (%s): %s", route, firstDifference(got, want))
				}
			}
		})
	}
}

// Where Describe is answered from memory, it is for as long as the server has shown
// lately that the answer holds; a change that nobody here has seen is refused once, and
// then everybody is told the new columns.
func TestDescribesFromMemory(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	const describe, run = "P - | SELECT * FROM p\nD S -\nS", "B - | -\nE -\nS"
	for name, memory := range map[string]time.Duration{"long": time.Hour, "over": 1, "off": 0} {
		t.Run(name, func(t *testing.T) {
			pg.SQL(t, "postgres", "DROP TABLE IF EXISTS p; CREATE TABLE p (a int, b int); INSERT INTO p VALUES (1, 2)")
			s := startSluice(t, pg, maxOpen(2), configure(func(c *proxy.Config) { c.DescribeMemory = memory }))
			fromMemory := func() float64 { return s.count(t, "dsql_local_answers_total", "describe") }
			a, b := talk(t, s.addr), talk(t, s.addr)
			a.play(t, describe)
			a.play(t, run)
			before := fromMemory()
			a.play(t, describe)
			a.play(t, run)
			b.play(t, describe)
			if remembered := fromMemory() != before; remembered != (name == "long") {
				t.Fatalf("answered from memory: %v", remembered)
			}
			pg.SQL(t, "postgres", "ALTER TABLE p ADD c int DEFAULT 3")
			told := func(c *talker, script string) string {
				c.ask(t, script)
				c.due = 0
				return c.readThrough("Z")
			}
			if name != "long" {
				if got := told(b, describe) + told(b, run); strings.Contains(got, "C=0A000") || strings.Count(got, "c:") == 0 {
					t.Errorf("after the change:\n%s", got)
				}
				return
			}
			if got := told(b, describe) + told(b, run); !strings.Contains(got, "C=0A000") || strings.Contains(got, "\nD ") {
				t.Errorf("right behind the change:\n%s", got)
			}
			for _, c := range []*talker{a, b} {
				if got := told(c, describe) + told(c, run); strings.Contains(got, "C=0A000") || !strings.Contains(got, "3") {
					t.Errorf("then:\n%s", got)
				}
			}
		})
	}
}

// In a failed block PostgreSQL describes what returns no rows, and no more. So it does where no backend holds the
// statement.
func TestDescribeInFailedBlock(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", "CREATE TABLE infailed (a int, b text)")
	addr := startSluice(t, pg).addr
	for _, statement := range []string{"INSERT INTO infailed VALUES (1, 'a')", "INSERT INTO infailed VALUES ($1, $2) | 23,25", "DELETE FROM infailed", "UPDATE infailed SET a = $1 | 23",
		"CREATE TABLE other (a int)", "DELETE FROM infailed RETURNING a", "SELECT 1", "BEGIN", "SET application_name = 'x' | 23"} {
		script := "P s | " + statement + "\nS\n< Z\nQ BEGIN\n< Z\nB - | nosuch\nS\n< Z\nD S s\nS\n< Z\nQ ROLLBACK\n< Z\n"
		if want, got := perform(t, pg.addr, script), perform(t, addr, script); got != want {
			t.Errorf("%s\n got %s\nwant %s", statement, got, want)
		}
	}
}
