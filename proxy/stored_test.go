package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/proxy"
)

// held declares a cursor WITH HOLD of five rows outside a block.
const held = "Q DECLARE h SCROLL CURSOR WITH HOLD FOR " + counted + "\n< Z\n"

// heldForward is one that goes forward only.
const heldForward = "Q DECLARE h NO SCROLL CURSOR WITH HOLD FOR " + counted + "\n< Z\n"

// queries makes a dialogue of simple Querys.
func queries(sql ...string) string {
	var b strings.Builder
	for _, q := range sql {
		fmt.Fprintf(&b, "Q %s\n< Z\n", q)
	}
	return b.String()
}

// clientGone closes what dialogues leave.
const clientGone = "Q CLOSE ALL\n< Z\nQ SELECT 1 AS one\n< Z\n"

// storedDialogues are about cursors WITH HOLD, answered as by PostgreSQL.
var storedDialogues = map[string]string{
	"to the end":         held + queries("FETCH 2 FROM h", "FETCH FORWARD 2 IN h", "FETCH NEXT FROM h", "FETCH h", "FETCH ALL FROM h") + clientGone,
	"at once":            held + queries("FETCH FORWARD ALL FROM h", "FETCH 1 FROM h", "FETCH BACKWARD ALL FROM h") + clientGone,
	"moves":              held + queries("MOVE 2 FROM h", "FETCH h", "MOVE BACKWARD 1 FROM h", "FETCH h", "MOVE ALL IN h", "MOVE h", "MOVE BACKWARD ALL FROM h", "MOVE 0 FROM h", "FETCH 0 FROM h", "FETCH h", "MOVE 0 FROM h", "FETCH 0 FROM h") + clientGone,
	"places":             held + queries("FETCH FIRST FROM h", "FETCH LAST FROM h", "FETCH PRIOR FROM h", "FETCH ABSOLUTE 2 FROM h", "FETCH RELATIVE 2 FROM h", "FETCH RELATIVE -3 FROM h", "FETCH RELATIVE 0 FROM h", "FETCH ABSOLUTE -2 FROM h", "FETCH ABSOLUTE 9 FROM h", "FETCH ABSOLUTE -9 FROM h", "FETCH ABSOLUTE 0 FROM h", "FETCH h", "MOVE ABSOLUTE 3 FROM h", "FETCH h", "MOVE RELATIVE -2 FROM h", "FETCH h", "MOVE LAST FROM h", "FETCH h", "FETCH h", "FETCH PRIOR FROM h") + clientGone,
	"forward only":       heldForward + queries("FETCH 2 FROM h", "FETCH RELATIVE 2 FROM h", "FETCH ABSOLUTE 5 FROM h", "FETCH h", "FETCH PRIOR FROM h", "FETCH h", "CLOSE h", "FETCH h") + clientGone,
	"forward only, back": heldForward + queries("FETCH FIRST FROM h", "FETCH FIRST FROM h", "FETCH h", "CLOSE h") + heldForward + queries("FETCH PRIOR FROM h", "CLOSE h") + heldForward + queries("FETCH ABSOLUTE 0 FROM h", "FETCH 0 FROM h", "FETCH h", "FETCH 0 FROM h") + clientGone,
	"two":                held + queries(`DECLARE "D e" CURSOR WITH HOLD FOR SELECT 'x'::text AS "x y", NULL AS n`, `FETCH 2 FROM "D e"`, "FETCH 2 FROM h", `CLOSE "D e"`, `FETCH 2 FROM "D e"`, "FETCH h") + clientGone,
	"taken":              held + queries("FETCH h", "DECLARE h CURSOR WITH HOLD FOR SELECT 2", "DECLARE h CURSOR WITH HOLD FOR SELECT nosuch", "FETCH h", "BEGIN", "DECLARE h CURSOR FOR SELECT 3", "ROLLBACK", "BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 3", "ROLLBACK", "FETCH h") + clientGone,
	"taken by Bind":      held + "P - | SELECT 2\nB h | -\nE h\nS\n< Z\n" + queries("FETCH h") + clientGone,
	"a bad query":        queries("DECLARE h CURSOR WITH HOLD FOR SELECT nosuch", "FETCH h", "/* ü */ DECLARE h /* for */ CURSOR WITH HOLD FOR SELECT * FROM nosuch WHERE a = 'ü'", "DECLARE h CURSOR WITH HOLD FOR SELECT 1/(g - 3) FROM generate_series(1, 5) g", "FETCH h") + clientGone,
	"locks":              queries("DECLARE h CURSOR WITH HOLD FOR SELECT a FROM cursored FOR UPDATE", "DECLARE h SCROLL CURSOR FOR SELECT a FROM cursored FOR SHARE", "FETCH h") + clientGone,
	"no columns":         queries("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT FROM generate_series(1,3)", "FETCH 2 FROM h", "FETCH 2 FROM h", "FETCH BACKWARD 9 FROM h") + clientGone,
	"no rows":            queries("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT 1 AS a WHERE false", "FETCH 2 FROM h", "MOVE 2 FROM h", "FETCH PRIOR FROM h", "FETCH ABSOLUTE -1 FROM h", "FETCH FIRST FROM h", "MOVE BACKWARD ALL FROM h", "FETCH 0 FROM h") + clientGone,
	"notices":            queries("DECLARE h CURSOR WITH HOLD FOR SELECT tells(g) FROM generate_series(1,4) g", "FETCH 2 FROM h") + clientGone,
	"writes":             queries("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT writes(-g) FROM generate_series(1,4) g", "FETCH 2 FROM h", "SELECT a FROM cursored WHERE a < 0 ORDER BY a", "DELETE FROM cursored WHERE a < 0", "FETCH ALL FROM h") + clientGone,
	"insensitive":        queries("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM cursored ORDER BY a", "FETCH 2 FROM h", "DELETE FROM cursored WHERE a = 3", "FETCH ALL FROM h", "INSERT INTO cursored VALUES (3, 'b')") + clientGone,
	"long rows":          queries("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT repeat('x', 200000 + g) AS x, g FROM generate_series(1,4) g", "FETCH 1 FROM h", "MOVE 1 FROM h", "FETCH ALL FROM h", "FETCH BACKWARD 2 FROM h") + clientGone,
	"many rows":          queries("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g, repeat('x', g % 300) FROM generate_series(1,3000) g", "FETCH 1000 FROM h", "MOVE 1500 FROM h", "FETCH ALL FROM h") + clientGone,
	"reset":              held + queries("DISCARD ALL", "FETCH h") + held + queries("BEGIN", "CLOSE ALL", "ROLLBACK", "FETCH h") + held + queries("CLOSE ALL", "FETCH h", "SELECT 1; CLOSE ALL; SELECT 2") + held + queries("SELECT 1; CLOSE ALL", "FETCH h"),

	"in a block":           held + queries("BEGIN", "FETCH 2 FROM h", "SELECT 1 AS one", "FETCH 1 FROM h", "ROLLBACK", "FETCH h", "BEGIN", "CLOSE h", "ROLLBACK", "FETCH h") + clientGone,
	"in a failed block":    held + queries("BEGIN", "SELECT 1/0", "FETCH h", "CLOSE h", "CLOSE ALL", "ROLLBACK", "FETCH h", "BEGIN", "SELECT nosuch", "DECLARE k CURSOR WITH HOLD FOR SELECT 1", "ROLLBACK", "FETCH k") + clientGone,
	"fails in a block":     heldForward + queries("BEGIN", "FETCH h", "FETCH PRIOR FROM h", "FETCH h", "ROLLBACK", "FETCH h") + clientGone,
	"begun, then held":     "Q BEGIN\n< Z\n" + heldForward + queries("FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h", "FETCH h", "FETCH h") + clientGone,
	"unread at COMMIT":     "Q BEGIN\n< Z\n" + heldForward + queries("COMMIT", "FETCH 2 FROM h", "FETCH ALL FROM h", "MOVE h") + clientGone,
	"at its end":           "Q BEGIN\n< Z\n" + heldForward + queries("FETCH ALL FROM h", "COMMIT", "FETCH 2 FROM h", "MOVE ALL FROM h") + clientGone,
	"just at its end":      "Q BEGIN\n< Z\n" + heldForward + queries("FETCH 5 FROM h", "COMMIT", "FETCH 2 FROM h", "MOVE ALL FROM h") + clientGone,
	"rolled back":          "Q BEGIN\n< Z\n" + heldForward + queries("FETCH 2 FROM h", "ROLLBACK", "FETCH h", "BEGIN") + heldForward + queries("SELECT 1/0", "COMMIT", "FETCH h") + clientGone,
	"back, held":           "Q BEGIN\n< Z\n" + heldForward + queries("FETCH 2 FROM h", "COMMIT", "FETCH 1 FROM h", "FETCH PRIOR FROM h", "FETCH h", "CLOSE h", "BEGIN") + heldForward + queries("FETCH PRIOR FROM h", "ROLLBACK", "FETCH h") + clientGone,
	"the next begun":       "Q BEGIN\n< Z\n" + heldForward + queries("SELECT 1/0", "COMMIT; BEGIN; SELECT 2 AS two", "COMMIT", "FETCH h", "BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 1", "FETCH h", "ROLLBACK; BEGIN; SELECT 2 AS two", "COMMIT", "FETCH h", "BEGIN", "DECLARE h CURSOR FOR SELECT 1", "COMMIT; BEGIN; SELECT 2 AS two", "DECLARE h CURSOR FOR SELECT 3", "FETCH h", "ROLLBACK") + clientGone,
	"chained":              "Q BEGIN\n< Z\n" + heldForward + queries("FETCH 2 FROM h", "COMMIT AND CHAIN", "FETCH 2 FROM h", "ROLLBACK", "FETCH h", "FETCH h") + clientGone,
	"own writes":           queries("BEGIN", "INSERT INTO cursored VALUES (-1), (-2)", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM cursored WHERE a < 0 ORDER BY a", "INSERT INTO cursored VALUES (-3)", "FETCH 1 FROM h", "DELETE FROM cursored WHERE a < 0", "COMMIT", "FETCH ALL FROM h") + clientGone,
	"fails at COMMIT":      queries("BEGIN", "INSERT INTO cursored VALUES (-7)", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 6 / (3 - g) AS q FROM generate_series(1,5) g", "FETCH 1 FROM h", "COMMIT", "FETCH h", "SELECT a FROM cursored WHERE a < 0", "COMMIT") + clientGone,
	"fails at COMMIT, ext": queries("BEGIN", "INSERT INTO cursored VALUES (-7)", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 6 / (3 - g) AS q FROM generate_series(1,5) g", "FETCH 1 FROM h") + ext("SELECT 2 AS two") + ext("COMMIT") + ext("SELECT 3") + "S\n< Z\n" + queries("FETCH h", "SELECT a FROM cursored WHERE a < 0", "COMMIT") + clientGone,
	"fails, chained":       queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 6 / (3 - g) AS q FROM generate_series(1,5) g", "COMMIT AND CHAIN", "SELECT 1 AS one", "ROLLBACK") + clientGone,
	"several":              queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT 1 AS a UNION ALL SELECT 2", "DECLARE k NO SCROLL CURSOR WITH HOLD FOR SELECT 'x'", "DECLARE c CURSOR FOR SELECT 3", "FETCH c", "FETCH h", "COMMIT", "FETCH c", "FETCH ALL FROM k", "FETCH ALL FROM h") + clientGone,
	"closed in the block":  "Q BEGIN\n< Z\n" + heldForward + queries("CLOSE h", "COMMIT", "FETCH h") + clientGone,
	"END":                  "Q BEGIN\n< Z\n" + heldForward + "Q END\n< Z\nQ FETCH h\n< Z\nQ BEGIN\n< Z\nQ END WORK\n< Z\n" + clientGone,

	"one group":            ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("FETCH 2 FROM h") + "S\n< Z\n" + ext("MOVE 1 FROM h") + ext("FETCH ALL FROM h") + ext("CLOSE h") + "S\n< Z\n" + ext("FETCH h") + "S\n< Z\n" + clientGone,
	"behind others":        ext("SELECT 5 AS five") + ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("SELECT 6 AS six") + ext("FETCH h") + ext("SELECT 7 AS seven") + "S\n< Z\n" + queries("FETCH h") + clientGone,
	"group fails":          ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("FETCH 2 FROM h") + ext("SELECT 1/0") + "S\n< Z\n" + queries("FETCH h") + held + ext("FETCH 2 FROM h") + ext("SELECT 1/0") + ext("FETCH 2 FROM h") + "S\n< Z\n" + queries("FETCH h") + ext("SELECT 1/0") + ext("FETCH 2 FROM h") + "S\n< Z\n" + queries("FETCH h") + clientGone,
	"parameters":           "P d | DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT g, $1::text AS t FROM generate_series(1, $2) g\nD S d\nB p | d | x,3\nD P p\nE p\nS\n< Z\nD P h\nS\n< Z\nP f | FETCH 2 FROM h\nD S f\nB q | f\nD P q\nE q\nE q\nS\n< Z\nQ FETCH PRIOR FROM h\n< Z\n" + clientGone,
	"described early":      "P f | FETCH 2 FROM h\nD S f\nS\n< Z\n" + held + "B - | f\nD P -\nE -\nS\n< Z\n" + clientGone,
	"by the protocol":      held + "D P h\nE h 2\nE h 2\nS\n< Z\nE h\nE h\nS\n< Z\nC P h\nS\n< Z\nQ FETCH h\n< Z\nD P h\nS\n< Z\n" + clientGone,
	"protocol, in blocks":  held + "Q BEGIN\n< Z\nD P h\nE h 2\nS\n< Z\nQ SELECT 1/0\n< Z\nD P h\nS\n< Z\nE h\nS\n< Z\nC P h\nS\n< Z\nQ ROLLBACK\n< Z\nQ FETCH h\n< Z\n" + clientGone,
	"executed again":       "P - | DECLARE h CURSOR WITH HOLD FOR SELECT 1\nB p | -\nE p\nE p\nS\n< Z\n" + held + "P - | MOVE 1 FROM h\nB p | -\nE p\nE p\nS\n< Z\n" + clientGone,
	"never executed":       "P d | DECLARE h CURSOR WITH HOLD FOR SELECT 1\nB p | d\nS\n< Z\nQ FETCH h\n< Z\nB - | d\nE -\nS\n< Z\nQ FETCH h\n< Z\n" + clientGone,
	"block in a group":     ext("BEGIN") + ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("FETCH 2 FROM h") + ext("COMMIT") + "S\n< Z\nQ FETCH h\n< Z\n" + clientGone,
	"behind COMMIT":        ext("BEGIN") + ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("COMMIT") + ext("FETCH 2 FROM h") + "S\n< Z\nQ FETCH h\n< Z\n" + clientGone,
	"error behind COMMIT":  ext("BEGIN") + ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("COMMIT") + ext("SELECT 1/0") + "S\n< Z\nQ FETCH h\n< Z\n" + clientGone,
	"begun behind":         ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("BEGIN") + ext("FETCH 2 FROM h") + "S\n< Z\n" + queries("FETCH h", "COMMIT", "FETCH h") + clientGone,
	"begun behind, undone": ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("BEGIN") + ext("FETCH 2 FROM h") + "S\n< Z\n" + queries("FETCH h", "ROLLBACK", "FETCH h") + clientGone,
	"COMMIT of a group":    ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("COMMIT") + ext("FETCH 2 FROM h") + "S\n< Z\n" + queries("FETCH h") + clientGone,
	"ROLLBACK of a group":  ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("ROLLBACK") + "S\n< Z\n" + queries("FETCH h") + clientGone,
	"scrolls, undone":      ext("DECLARE h SCROLL CURSOR WITH HOLD FOR "+counted) + ext("ROLLBACK") + "S\n< Z\n" + queries("FETCH h") + ext("DECLARE h SCROLL CURSOR WITH HOLD FOR "+counted) + ext("SELECT 1/0") + "S\n< Z\n" + queries("FETCH h") + clientGone,
	"two groups, no Sync":  ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + ext("FETCH h") + "Q SELECT 1 AS one\n< Z\n" + queries("FETCH h") + clientGone,
	"pipelined":            "Q BEGIN\nQ DECLARE h NO SCROLL CURSOR WITH HOLD FOR " + counted + "\nQ FETCH 2 FROM h\nQ COMMIT\nQ FETCH 2 FROM h\nQ CLOSE h\nQ FETCH h\n< Z Z Z Z Z Z Z\n" + clientGone,
	"odd words":            queries("\\n/* ü */declare\\nh\\nno scroll cursor--for\\nwith/**/hold for--é\\nselect 1 AS a;", "; fetch all from h ;", "fetch/**/backward/**/1/**/from/**/h;;", "close\\nh;") + "Q DECLARE \"a \"\" b\" CURSOR WITH HOLD FOR SELECT 1\n< Z\nQ FETCH \"a \"\" b\"\n< Z\nD P a \" b\nS\n< Z\n" + clientGone,
	"flushed":              ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + "H\n< C\n" + ext("FETCH 2 FROM h") + "H\n< D D C\nS\n< Z\n" + clientGone,
	"Query behind":         "P - | SELECT 3 AS three\nB - | -\nE -\nQ DECLARE h NO SCROLL CURSOR WITH HOLD FOR " + counted + "\n< Z\nP - | SELECT 4 AS four\nB - | -\nE -\nQ FETCH 2 FROM h\n< Z\n" + clientGone,
	"flushed, then Query":  ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+counted) + "H\n< C\nQ SELECT 1 AS one\n< Z\n" + queries("FETCH h") + clientGone,
	"wrong formats":        held + "P f | FETCH 2 FROM h\nS\n< Z\n" + bindFormats("", "f", 0, 0, 0) + "E -\nS\n< Z\n" + clientGone,
	"binary":               "Q DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT g, g::int2, g::int8, g > 2 AS b, 'é' || g AS t, g::text::varchar(9), CASE WHEN g <> 2 THEN g END AS n, '\\\\x0aff'::bytea AS y, md5(g::text)::uuid AS u, g::oid, '{\"a\": 1}'::json AS j, '{\"a\": 1}'::jsonb AS k, 'c'::\"char\", 'n'::name, 'p'::char(4) FROM generate_series(-3, 3) g\n< Z\nP f | FETCH 2 FROM h\nD S f\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\nQ FETCH h\n< Z\n" + bindFormats("", "f", 0) + "D P -\nE -\nS\n< Z\n" + clientGone,
	"binary in a block":    "P f | FETCH 2 FROM h\nS\n< Z\nQ BEGIN\n< Z\n" + heldForward + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\nQ COMMIT\n< Z\nD P h\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\n" + bindFormats("", "f", 1, 1) + "D P -\nE -\nS\n< Z\nQ MOVE ALL FROM h\n< Z\n" + clientGone,
	"mixed in a block":     "P f | FETCH 2 FROM h\nS\n< Z\nQ BEGIN\n< Z\n" + heldForward + bindFormats("", "f", 1, 0) + "D P -\nE -\nS\n< Z\nQ COMMIT\n< Z\n" + bindFormats("", "f", 1, 0) + "D P -\nE -\nS\n< Z\n" + clientGone,
	"mixed formats":        "Q DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT 300 AS a, 1.5 AS b\n< Z\nP f | FETCH 2 FROM h\nS\n< Z\n" + bindFormats("", "f", 1, 0) + "D P -\nE -\nS\n< Z\n" + clientGone,
}

// What Sluice keeps of cursors WITH HOLD is answered as by PostgreSQL, and keeps no backend.
func TestStoredCursors(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", cursorSchema)
	routes := cursorRoutes(t, pg)
	for title, script := range storedDialogues {
		t.Run(title, func(t *testing.T) {
			reset := func() { pg.SQL(t, "postgres", "DELETE FROM cursored WHERE a < 0") }
			reset()
			want := materialized(perform(t, pg.addr, script))
			for name, addr := range routes {
				for round := range 2 {
					reset()
					if got := materialized(perform(t, addr, script)); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", name, round, firstDifference(got, want))
						break
					}
				}
			}
		})
	}
}

// Savepoints and cursors WITH HOLD: what was declared behind a savepoint goes with the return to it.
func TestStoredCursorsAndSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+cursorSchema)
	routes := map[string]*sluice{"relaxed": startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3)), "strict": startSluice(t, pg, strictly, withCursors, maxOpen(4))}
	block := "Q BEGIN\n< Z\n" + heldForward + "Q SAVEPOINT a\n< Z\n"
	for title, script := range map[string]string{
		"before":          block + queries("ROLLBACK TO a", "FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h") + clientGone,
		"behind":          block + queries("DECLARE k NO SCROLL CURSOR WITH HOLD FOR SELECT 1 AS a", "FETCH k", "ROLLBACK TO a", "COMMIT", "FETCH k", "FETCH h") + clientGone,
		"behind, stays":   block + queries("DECLARE k NO SCROLL CURSOR WITH HOLD FOR SELECT 1 AS a", "RELEASE a", "COMMIT", "FETCH k", "FETCH h") + clientGone,
		"failed between":  block + queries("SELECT 1/0", "ROLLBACK TO a", "COMMIT", "FETCH 2 FROM h") + clientGone,
		"an open one":     held + queries("BEGIN", "SAVEPOINT a", "FETCH 2 FROM h", "SELECT 1/0", "ROLLBACK TO a", "FETCH 2 FROM h", "CLOSE h", "ROLLBACK TO a", "COMMIT", "FETCH h") + clientGone,
		"conflict behind": block + queries("INSERT INTO late VALUES (1)", "RELEASE a", "COMMIT", "FETCH 2 FROM h") + clientGone,
	} {
		t.Run(title, func(t *testing.T) {
			stumbles(t, pg, false)
			want := materialized(perform(t, pg.addr, script))
			for name, s := range routes {
				stumbles(t, pg, true)
				if got := materialized(perform(t, s.addr, script)); got != want {
					t.Errorf("%s:\n%s", name, firstDifference(got, want))
				}
			}
		})
	}
}

// randomStored makes a dialogue about cursors that outlive their transactions: h, which is
// declared outside of blocks and goes anywhere; k, which goes forward only; and c, which ends
// with its transaction. chains: a block may end where the next begins, in one Query, which is not replayed.
func randomStored(r *rand.Rand, chains bool) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	query := func() string {
		return pick(counted, "SELECT a, b FROM cursored WHERE a > 0 ORDER BY a", "VALUES (1), (2)", "SELECT nosuch", "SELECT 4 / (3 - g) FROM generate_series(1, 5) g", "SELECT 1 WHERE false",
			"SELECT g, repeat('x', g * 10) FROM generate_series(1, 60) g")
	}
	inBlock := false
	fetch := func() string {
		how := pick("", "", "NEXT ", "FORWARD ", "ALL ", "FORWARD ALL ", "1 ", "2 ", "FORWARD 3 ", "5 ", "6 ", "BACKWARD 1 ", "PRIOR ", "BACKWARD 2 ", "BACKWARD ALL ")
		verb, of := pick("FETCH ", "FETCH ", "MOVE "), r.IntN(3)
		if of > 0 && verb == "MOVE " && how == "BACKWARD ALL " { // of a portal that was not read, PostgreSQL takes it
			verb = "FETCH "
		}
		switch of {
		case 0:
			n := r.IntN(12) - 5
			how = pick(how, how, fmt.Sprintf("ABSOLUTE %d ", n), fmt.Sprintf("RELATIVE %d ", n), "FIRST ", "LAST ", "0 ", fmt.Sprintf("%d ", n))
			return verb + how + "FROM h"
		case 1:
			return verb + how + "IN k"
		default:
			return verb + how + "FROM c"
		}
	}
	statement := func(simple bool) string {
		switch n := r.IntN(14); {
		case n < 2 && !inBlock && simple:
			return "DECLARE h " + pick("SCROLL", "SCROLL", "NO SCROLL") + " CURSOR WITH HOLD FOR " + query()
		case n < 4:
			return "DECLARE k NO SCROLL CURSOR WITH HOLD FOR " + query()
		case n == 4:
			return "DECLARE c NO SCROLL CURSOR FOR " + query()
		case n == 5:
			return "CLOSE " + pick("h", "k", "c")
		case n == 6:
			return pick("SELECT 1 AS one", "SELECT count(*) FROM cursored", "SELECT 1/0", "SELECT 1 AS one")
		}
		return fetch()
	}
	var b strings.Builder
	for range 2 + r.IntN(4) {
		if inBlock {
			b.WriteString("Q ROLLBACK; BEGIN; SELECT 2 AS two\n< Z\n")
		} else if inBlock = r.IntN(2) == 0; inBlock {
			b.WriteString("Q BEGIN\n< Z\n")
		}
		for range 1 + r.IntN(6) {
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "Q %s\n< Z\n", statement(true))
				continue
			}
			for range 1 + r.IntN(3) {
				fmt.Fprintf(&b, "P - | %s\n%sB - | -\n%sE -\n", statement(false), pick("", "", "D S -\n"), pick("", "D P -\n"))
			}
			b.WriteString("S\n< Z\n")
		}
		switch {
		case !inBlock, chains && r.IntN(4) == 0: // the next round ends the block, and begins another, in one Query
			continue
		case r.IntN(3) == 0:
			b.WriteString(ext(pick("COMMIT", "ROLLBACK")) + "S\n< Z\n")
		default:
			fmt.Fprintf(&b, "Q %s\n< Z\n", pick("COMMIT", "COMMIT", "ROLLBACK"))
		}
		inBlock = false
	}
	return b.String() + queries("ROLLBACK") + clientGone
}

// storedRounds is how many random dialogues are played.
var storedRounds = 900 / proxy.OneIn

func TestRandomStoredCursors(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", cursorSchema)
	routes := cursorRoutes(t, pg)
	for seed := range uint64(storedRounds) {
		script := randomStored(rand.New(rand.NewPCG(seed, 21)), true)
		want := materialized(perform(t, pg.addr, script))
		for name, addr := range routes {
			if got := materialized(perform(t, addr, script)); got != want {
				t.Errorf("seed %d, %s:\n%s", seed, name, firstDifference(got, want))
			}
		}
	}
}
