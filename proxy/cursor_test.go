package proxy_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/rewrite"
)

// withCursors has Sluice carry out cursors.
func withCursors(s *setup) { s.rules = rewrite.Rules{Session: true, Cursors: true} }

// cursorRoutes are servers that carry cursors out, in each way that matters.
func cursorRoutes(t *testing.T, pg postgres) map[string]string {
	routes := map[string]string{}
	for name, opts := range map[string][]option{
		"plain":      nil,
		"replay":     {withReplay},
		"savepoints": {withSavepoints},
		"session":    {sessionPairing},
		"few texts":  {withReplay, configure(func(c *proxy.Config) { c.PreparedPerBackend, c.PreparedTexts = 1, 1 })},
	} {
		routes[name] = startSluice(t, pg, append([]option{asDSQL, withCursors, maxOpen(3)}, opts...)...).addr
	}
	return routes
}

const counted = "SELECT g, 'r' || g AS r FROM generate_series(1, 5) g"

// begun begins a block, and declares a cursor of five rows in it.
const begun = "Q BEGIN\n< Z\nQ DECLARE c NO SCROLL CURSOR FOR " + counted + "\n< Z\n"

// end ends the block, and looks whether the session goes on.
const endCursors = "Q COMMIT\n< Z\nQ SELECT 1 AS one\n< Z\n"

// bindFormats is a Bind of a statement without parameters whose rows come in these formats.
func bindFormats(portal, statement string, formats ...int16) string {
	b, err := (&pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement, ResultFormatCodes: formats}).Encode(nil)
	if err != nil {
		panic(err)
	}
	return "hex " + hex.EncodeToString(b) + "\n"
}

// cursorDialogues are answered as by PostgreSQL, frame by frame.
var cursorDialogues = map[string]string{
	"to the end":       begun + "Q FETCH 2 FROM c\n< Z\nQ FETCH FORWARD 2 IN c\n< Z\nQ FETCH NEXT FROM c\n< Z\nQ FETCH c\n< Z\nQ FETCH ALL FROM c\n< Z\n" + endCursors,
	"exactly":          begun + "Q FETCH 5 FROM c\n< Z\nQ FETCH 5 FROM c\n< Z\n" + endCursors,
	"more":             begun + "Q FETCH 9 FROM c\n< Z\nQ FETCH 9 FROM c\n< Z\n" + endCursors,
	"all":              begun + "Q FETCH FORWARD ALL FROM c\n< Z\nQ FETCH FORWARD ALL FROM c\n< Z\n" + endCursors,
	"moves":            begun + "Q MOVE 2 FROM c\n< Z\nQ FETCH FROM c\n< Z\nQ MOVE FORWARD IN c\n< Z\nQ MOVE ALL IN c\n< Z\nQ FETCH c\n< Z\nQ MOVE c\n< Z\n" + endCursors,
	"closes":           begun + "Q FETCH c\n< Z\nQ CLOSE c\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n",
	"closes unread":    begun + "Q CLOSE c\n< Z\nQ DECLARE c CURSOR FOR SELECT 7 AS seven\n< Z\nQ FETCH ALL FROM c\n< Z\n" + endCursors,
	"closes all":       begun + "Q DECLARE d CURSOR FOR SELECT 2\n< Z\nQ CLOSE ALL\n< Z\nQ CLOSE ALL\n< Z\nQ DECLARE c CURSOR FOR SELECT 3\n< Z\nQ FETCH c\n< Z\nQ FETCH d\n< Z\nQ ROLLBACK\n< Z\n",
	"two":              begun + "Q DECLARE \"C d\" INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 'x'::text AS \"x y\", NULL AS n FROM generate_series(1,3)\n< Z\nQ FETCH 2 FROM \"C d\"\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM \"C d\"\n< Z\nQ FETCH 2 FROM c\n< Z\n" + endCursors,
	"outside":          "Q DECLARE c CURSOR FOR SELECT 1\n< Z\nQ FETCH c\n< Z\nQ MOVE c\n< Z\nQ CLOSE c\n< Z\nQ CLOSE ALL\n< Z\nQ SELECT 1 AS one\n< Z\n",
	"outside, group":   ext("DECLARE c CURSOR FOR SELECT 1") + "S\n< Z\n" + ext("FETCH c") + "S\n< Z\nQ SELECT 1 AS one\n< Z\n",
	"begun, unknown":   "Q BEGIN\n< Z\nQ FETCH c\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\nQ BEGIN\n< Z\nQ CLOSE c\n< Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\n",
	"unknown":          begun + "Q MOVE nosuch\n< Z\nQ FETCH c\n< Z\nQ DECLARE d CURSOR FOR SELECT 1\n< Z\nQ CLOSE c\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"taken":            begun + "Q FETCH c\n< Z\nQ DECLARE c CURSOR FOR SELECT 2\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n" + begun + "Q FETCH c\n< Z\n" + endCursors,
	"a bad query":      "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT nosuch FROM generate_series(1,2)\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ /* ü */ DECLARE c /* for */ CURSOR FOR SELECT * FROM nosuch WHERE a = 'ü'\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"bad, and taken":   begun + "Q DECLARE c CURSOR FOR SELECT nosuch\n< Z\nQ ROLLBACK\n< Z\n",
	"fails at a row":   "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT 6 / (3 - g) AS q FROM generate_series(1,5) g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"fails at a move":  "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT 6 / (3 - g) AS q FROM generate_series(1,5) g\n< Z\nQ MOVE 9 FROM c\n< Z\nQ MOVE c\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"back":             begun + "Q FETCH 2 FROM c\n< Z\nQ FETCH BACKWARD 1 FROM c\n< Z\nQ ROLLBACK\n< Z\n" + begun + "Q FETCH PRIOR FROM c\n< Z\nQ ROLLBACK\n< Z\n" + begun + "Q MOVE -2 FROM c\n< Z\nQ ROLLBACK\n< Z\n" + begun + "Q FETCH BACKWARD ALL IN nosuch\n< Z\nQ ROLLBACK\n< Z\n",
	"back of back":     begun + "Q FETCH BACKWARD -2 FROM c\n< Z\nQ FETCH RELATIVE 1 FROM c\n< Z\n" + endCursors,
	"options":          "Q BEGIN\n< Z\nQ DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ DECLARE c INSENSITIVE ASENSITIVE CURSOR FOR SELECT 1\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ DECLARE c ASENSITIVE CURSOR FOR VALUES (1, 'x')\n< Z\nQ FETCH c\n< Z\n" + endCursors,
	"not a query":      "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR WITH x AS (INSERT INTO cursored VALUES (1) RETURNING a) SELECT a FROM x\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nQ DECLARE c INSENSITIVE CURSOR FOR SELECT a FROM cursored FOR UPDATE\n< Z\nQ ROLLBACK\n< Z\nQ SELECT count(*) FROM cursored WHERE a < 0\n< Z\n",
	"no columns":       "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT FROM generate_series(1,3)\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\n" + endCursors,
	"no rows":          "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT 1 AS a WHERE false\n< Z\nQ FETCH 2 FROM c\n< Z\nQ MOVE 2 FROM c\n< Z\n" + endCursors,
	"notices":          "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT tells(g) FROM generate_series(1,4) g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ MOVE 1 FROM c\n< Z\nQ FETCH ALL FROM c\n< Z\n" + endCursors,
	"own writes":       "Q BEGIN\n< Z\nQ INSERT INTO cursored VALUES (-1), (-2)\n< Z\nQ DECLARE c CURSOR FOR SELECT a FROM cursored WHERE a < 0 ORDER BY a\n< Z\nQ INSERT INTO cursored VALUES (-3)\n< Z\nQ FETCH 1 FROM c\n< Z\nQ DELETE FROM cursored WHERE a < 0\n< Z\nQ FETCH ALL FROM c\n< Z\nQ ROLLBACK\n< Z\n",
	"writes by FETCH":  "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT writes(-g) FROM generate_series(1,4) g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ SELECT a FROM cursored WHERE a < 0 ORDER BY a\n< Z\nQ MOVE 1 FROM c\n< Z\nQ SELECT a FROM cursored WHERE a < 0 ORDER BY a\n< Z\nQ ROLLBACK\n< Z\n",
	"writes in groups": "P st | SELECT count(*) FROM cursored WHERE a < 0\nP f | FETCH 2 FROM c\nS\n< Z\nQ BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT writes(-g) FROM generate_series(1,4) g\n< Z\nB - | f\nE -\nB - | st\nE -\nB - | f\nE -\nB - | st\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n",
	"locks":            "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT a FROM cursored WHERE a > 0 ORDER BY a FOR UPDATE\n< Z\nQ FETCH 2 FROM c\n< Z\nQ UPDATE cursored SET b = 'u' WHERE a = 1\n< Z\nQ FETCH 2 FROM c\n< Z\n" + endCursors,
	"many rows":        "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, repeat('x', g % 300) FROM generate_series(1,3000) g\n< Z\nQ FETCH 1000 FROM c\n< Z\nQ MOVE 1500 FROM c\n< Z\nQ FETCH ALL FROM c\n< Z\n" + endCursors,
	"long rows":        "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT repeat('x', 200000) FROM generate_series(1,4) g\n< Z\nQ FETCH 1 FROM c\n< Z\nQ MOVE 1 FROM c\n< Z\nQ FETCH ALL FROM c\n< Z\n" + endCursors,
	"commit ends it":   begun + "Q COMMIT\n< Z\nQ BEGIN\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n" + begun + "Q FETCH c\n< Z\n" + endCursors,
	"failure ends it":  begun + "Q SELECT 1/0\n< Z\nQ FETCH c\n< Z\nQ CLOSE c\n< Z\nQ CLOSE ALL\n< Z\nQ ROLLBACK\n< Z\n" + begun + endCursors,
	"spaces":           "Q BEGIN\n< Z\nQ \\n/* ü */declare\\nc\\ncursor--for\\nfor--é\\nselect 1 AS a;\n< Z\nQ ; fetch all from c ;\n< Z\nQ fetch/**/all/**/from/**/c;;\n< Z\nQ close\\nc;\n< Z\n" + endCursors,

	"by the protocol":    begun + "D P c\nS\n< Z\nE c 2\nS\n< Z\nQ FETCH 1 FROM c\n< Z\nE c\nS\n< Z\nC P c\nS\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n",
	"bound, and taken":   begun + "P - | SELECT 2\nB c | -\nE c\nS\n< Z\nQ ROLLBACK\n< Z\nQ BEGIN\n< Z\nP - | SELECT 2\nB c | -\nS\n< Z\nQ DECLARE c CURSOR FOR SELECT 1\n< Z\nQ ROLLBACK\n< Z\n",
	"one group":          "Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR "+counted) + ext("FETCH 2 FROM c") + ext("MOVE 1 FROM c") + ext("FETCH ALL FROM c") + ext("CLOSE c") + "S\n< Z\n" + endCursors,
	"begun in the group": ext("BEGIN") + ext("DECLARE c CURSOR FOR "+counted) + ext("FETCH 2 FROM c") + ext("COMMIT") + "S\n< Z\nQ SELECT 1 AS one\n< Z\n",
	"described":          "Q BEGIN\n< Z\nP d | DECLARE c NO SCROLL CURSOR FOR SELECT g, $1::text AS t FROM generate_series(1, $2) g\nD S d\nB p | d | x,3\nD P p\nE p\nS\n< Z\nP f | FETCH 2 FROM c\nD S f\nB q | f\nD P q\nE q\nS\n< Z\nD S f\nB q2 | f\nD P q2\nE q2\nE q2\nE q2\nS\n< Z\n" + endCursors,
	"described early":    "P f | FETCH 2 FROM c\nD S f\nP m | MOVE 2 FROM c\nD S m\nP k | CLOSE c\nD S k\nP d | DECLARE c CURSOR FOR SELECT $1::int\nD S d\nS\n< Z\nQ BEGIN\n< Z\nB - | d | 4\nE -\nS\n< Z\nB - | m\nD P -\nE -\nS\n< Z\nB - | f\nD P -\nE -\nS\n< Z\nB - | k\nD P -\nE -\nS\n< Z\n" + endCursors,
	"parameters":         "Q BEGIN\n< Z\nP - | DECLARE c CURSOR FOR SELECT $1 AS a, $2::int + 1 AS b | 25,0\nB - | - | \\N,41\nD P -\nE -\nS\n< Z\nD P c\nS\n< Z\nQ FETCH FORWARD 100 FROM c\n< Z\nQ CLOSE \"c\"\n< Z\n" + endCursors,
	"bad parameters":     "Q BEGIN\n< Z\nP - | DECLARE c CURSOR FOR SELECT $1::int\nB - | - | x\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n",
	"bad at the Parse":   "Q BEGIN\n< Z\nP - | DECLARE c CURSOR FOR SELECT nosuch\nB - | -\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"executed again":     "Q BEGIN\n< Z\nP - | DECLARE c CURSOR FOR SELECT 1\nB p | -\nE p\nS\n< Z\nE p\nS\n< Z\nQ ROLLBACK\n< Z\n" + begun + "P - | MOVE 1 FROM c\nB p | -\nE p\nS\n< Z\nE p\nS\n< Z\nQ ROLLBACK\n< Z\n" + begun + "P - | CLOSE c\nB p | -\nE p\nE p\nS\n< Z\nQ ROLLBACK\n< Z\n",
	"never executed":     "Q BEGIN\n< Z\nP d | DECLARE c CURSOR FOR SELECT 1\nB p | d\nS\n< Z\nB - | d\nE -\nS\n< Z\nQ FETCH c\n< Z\n" + endCursors,
	"again by name":      "P d | DECLARE c CURSOR FOR SELECT 1 AS a\nP f | FETCH c\nP k | CLOSE c\nS\n< Z\nQ BEGIN\n< Z\nB - | d\nE -\nB - | f\nE -\nB - | k\nE -\nB - | d\nE -\nB - | f\nE -\nB - | f\nE -\nS\n< Z\nQ COMMIT\n< Z\nQ BEGIN\n< Z\nB - | f\nE -\nS\n< Z\nQ ROLLBACK\n< Z\n" + endCursors,
	"errors in groups":   begun + ext("FETCH 1 FROM c") + ext("FETCH nosuch") + ext("FETCH 1 FROM c") + "S\n< Z\nQ ROLLBACK\n< Z\n" + begun + ext("SELECT 1/0") + ext("FETCH 1 FROM c") + "S\n< Z\nQ ROLLBACK\n< Z\n" + begun + ext("FETCH 9 FROM c") + ext("DECLARE c CURSOR FOR SELECT 1") + ext("FETCH 1 FROM c") + "S\n< Z\nQ ROLLBACK\n< Z\n",
	"failed block":       begun + "P f | FETCH c\nS\n< Z\nQ SELECT 1/0\n< Z\nB - | f\nE -\nS\n< Z\nP - | FETCH c\nS\n< Z\nP - | DECLARE d CURSOR FOR SELECT 1\nS\n< Z\nQ ROLLBACK\n< Z\n",
	"behind a group":     "Q BEGIN\n< Z\nP - | SELECT 3 AS three\nB - | -\nE -\nQ DECLARE c CURSOR FOR " + counted + "\n< Z\nP - | SELECT 4 AS four\nB - | -\nE -\nQ FETCH 2 FROM c\n< Z\n" + endCursors,
	"flushed":            "Q BEGIN\n< Z\nP - | DECLARE c CURSOR FOR " + counted + "\nB - | -\nE -\nH\n< 1 2 C\nP - | FETCH 2 FROM c\nB - | -\nH\n< 1 2\nD P -\nH\n< T\nE -\nH\n< D D C\nS\n< Z\n" + endCursors,

	"binary":           begun + "P f | FETCH 2 FROM c\nD S f\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\n" + endCursors,
	"mixed formats":    begun + "P f | FETCH 2 FROM c\nS\n< Z\n" + bindFormats("", "f", 1, 0) + "D P -\nE -\nS\n< Z\n" + endCursors,
	"wrong formats":    begun + "P f | FETCH 2 FROM c\nS\n< Z\n" + bindFormats("", "f", 0, 0) + "E -\nS\n< Z\n" + endCursors,
	"binary, prepared": "P f | FETCH 2 FROM c\nP d | DECLARE c CURSOR FOR SELECT $1::int AS n, now() IS NULL AS b\nS\n< Z\nQ BEGIN\n< Z\nB - | d | 5\nE -\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\n" + endCursors,
}

// materialized is a transcript as it would be if rows were sent when a statement has ended
// well, as PostgreSQL does for FETCH: Sluice sends them as they come, as PostgreSQL does for a
// SELECT. So notices come first, and in front of an error there are neither rows nor their
// description.
func materialized(transcript string) string {
	var out, notices, rows []string
	for line := range strings.Lines(transcript) {
		switch line[:2] {
		case "N ":
			notices = append(notices, line)
			continue
		case "T ", "D ":
			if line[1] == ' ' && !strings.HasPrefix(line, "D S") && !strings.HasPrefix(line, "D P") {
				rows = append(rows, line)
				continue
			}
		case "E ":
			if strings.HasPrefix(line, "E S=") {
				rows = nil
			}
		}
		out = append(append(append(out, notices...), rows...), line)
		notices, rows = nil, nil
	}
	return strings.Join(append(append(out, notices...), rows...), "")
}

// cursorSchema is what the dialogues read and write.
const cursorSchema = `CREATE TABLE cursored (a int PRIMARY KEY, b text); INSERT INTO cursored SELECT g, 'b' FROM generate_series(1, 5) g;
CREATE FUNCTION tells(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'row %', n; RETURN n; END $$;
CREATE FUNCTION writes(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN INSERT INTO cursored VALUES (n); RETURN n; END $$;`

// What Sluice carries out of cursors is answered as by PostgreSQL, byte for byte.
func TestCursors(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", cursorSchema)
	routes := cursorRoutes(t, pg)
	for title, script := range cursorDialogues {
		t.Run(title, func(t *testing.T) {
			want := materialized(perform(t, pg.addr, script))
			for name, addr := range routes {
				for round := range 2 { // the second finds everything prepared
					if got := materialized(perform(t, addr, script)); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", name, round, firstDifference(got, want))
						break
					}
				}
			}
		})
	}
}

// randomCursors makes a dialogue about three cursors; others are statements that stand among
// those about them.
func randomCursors(r *rand.Rand, others ...string) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	name := func() string { return pick("c", "c", `"D e"`, "f") }
	statement := func() string {
		switch n := r.IntN(12); {
		case len(others) > 0 && r.IntN(3) == 0:
			return pick(others...)
		case n < 3:
			query := pick(counted, "SELECT a, b FROM cursored WHERE a > 0 ORDER BY a", "VALUES (1), (2)", "SELECT nosuch", "SELECT 4 / (3 - g) FROM generate_series(1, 5) g", "SELECT 1 WHERE false")
			return "DECLARE " + name() + pick(" ", " INSENSITIVE ") + "NO SCROLL CURSOR " + pick("", "WITHOUT HOLD ") + "FOR " + query
		case n == 3:
			return "CLOSE " + pick(name(), name(), name(), "ALL")
		case n == 4:
			return pick("SELECT 1 AS one", "SELECT count(*) FROM cursored", "INSERT INTO cursored VALUES (100 + (random() * 1e9)::int)", "SELECT 1/0")
		}
		return pick("FETCH ", "FETCH ", "MOVE ") + pick("", "", "NEXT ", "FORWARD ", "ALL ", "FORWARD ALL ", "1 ", "2 ", "FORWARD 3 ", "5 ", "6 ", "BACKWARD 1 ", "PRIOR ") + pick("FROM ", "IN ") + name()
	}
	var b strings.Builder
	for range 1 + r.IntN(3) {
		if r.IntN(8) > 0 {
			b.WriteString("Q BEGIN\n< Z\n")
			if len(others) > 0 {
				fmt.Fprintf(&b, "Q DECLARE c NO SCROLL CURSOR FOR %s\n< Z\nQ SAVEPOINT a\n< Z\n", counted)
				if r.IntN(3) == 0 { // it moves, and may be gone back across
					b.WriteString("Q FETCH c\n< Z\nQ INSERT INTO cursored VALUES (6)\n< Z\n")
				}
			}
		}
		for range 2 + r.IntN(8) {
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "Q %s\n< Z\n", statement())
				continue
			}
			for range 1 + r.IntN(3) {
				sql := statement()
				if strings.HasPrefix(sql, "CLOSE ALL") { // of portals of the protocol too: refused
					sql = "CLOSE c"
				}
				fmt.Fprintf(&b, "P - | %s\n%sB - | -\n%sE -\n", sql, pick("", "", "D S -\n"), pick("", "D P -\n"))
			}
			b.WriteString("S\n< Z\n")
		}
		fmt.Fprintf(&b, "Q %s\n< Z\n", pick("COMMIT", "ROLLBACK"))
	}
	return b.String() + "Q SELECT 1 AS one\n< Z\n"
}

// cursorRounds is how many random dialogues are played.
var cursorRounds = 600 / proxy.OneIn

func TestRandomCursors(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	pg.SQL(t, "postgres", strings.NewReplacer("tells", "tells2", "writes", "writes2", "cursored", "random_cursored").Replace(cursorSchema))
	routes := cursorRoutes(t, pg)
	for seed := range uint64(cursorRounds) {
		script := strings.ReplaceAll(randomCursors(rand.New(rand.NewPCG(seed, 8))), "cursored", "random_cursored")
		pg.SQL(t, "postgres", "DELETE FROM random_cursored WHERE a > 5")
		want := materialized(perform(t, pg.addr, script))
		for name, addr := range routes {
			pg.SQL(t, "postgres", "DELETE FROM random_cursored WHERE a > 5")
			if got := materialized(perform(t, addr, script)); got != want {
				t.Errorf("seed %d, %s:\n%s", seed, name, firstDifference(got, want))
			}
		}
	}
}

// A transaction that opens and closes cursors, beside one that stays open, prepares no more statements on its backend
// than it may. The statement of the cursor that stays open is not closed, since that may close the cursor.
func TestStatementsBesideACursor(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, maxOpen(1), configure(func(c *proxy.Config) { c.PreparedPerBackend = 8 }))
	var declared, bound strings.Builder
	for i := range 60 {
		fmt.Fprintf(&declared, "Q DECLARE c%d CURSOR FOR SELECT %d\n< Z\nQ FETCH ALL FROM c%d\n< Z\nQ CLOSE c%d\n< Z\n", i, i, i, i)
		fmt.Fprintf(&bound, "P - | SELECT %d\nB p%d | -\nE p%d\nC P p%d\nS\n< Z\n", i, i, i, i)
	}
	open := "Q BEGIN\n< Z\nQ DECLARE stays CURSOR FOR SELECT generate_series(1, 3)\n< Z\nQ FETCH 1 FROM stays\n< Z\n"
	for name, script := range map[string]string{"cursors": open + declared.String(), "portals": open + bound.String()} {
		c := dialRaw(t, s.addr)
		c.play(t, script)
		got := c.play(t, "Q SELECT 'so many: ' || count(*) / 11 FROM pg_prepared_statements\n< Z\n"+
			"Q SELECT 'those of stays: ' || count(*) FROM pg_prepared_statements WHERE statement LIKE '%generate_series%'\n< Z\nQ FETCH ALL FROM stays\n< Z\nQ COMMIT\n< Z\n")
		if !strings.Contains(got, "so many: 0") || !strings.Contains(got, "those of stays: 1") || !strings.Contains(got, "C FETCH 2") {
			t.Errorf("%s: %s", name, got)
		}
		c.conn.Close()
	}
}
