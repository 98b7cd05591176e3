package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

const half = "Q BEGIN\n< Z\nQ DECLARE c NO SCROLL CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 2 FROM c\n< Z\n"

// replayedCursors are transactions that meet conflicts and losses with a cursor that is read in
// part.
var replayedCursors = map[string]string{
	"at a statement":     half + "Q SELECT stumble(1)\n< Z\nQ FETCH 2 FROM c\n< Z\nQ CLOSE c\n< Z\nQ COMMIT\n< Z\n",
	"at COMMIT":          half + "Q INSERT INTO late VALUES (1)\n< Z\nQ CLOSE c\n< Z\nQ COMMIT\n< Z\n",
	"at a DECLARE":       half + "Q DECLARE d CURSOR FOR SELECT g FROM stumble_rows WHERE g < stumble(1) + 5\n< Z\nQ FETCH ALL FROM d\n< Z\nQ FETCH 2 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"at a FETCH":         "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) WHEN g = 7 THEN stumble(2) END AS s FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"at a MOVE":          half + "Q DECLARE d CURSOR FOR SELECT stumble(1), g FROM stumble_rows ORDER BY g\n< Z\nQ MOVE 2 FROM d\n< Z\nQ FETCH 1 FROM d\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\n",
	"behind a MOVE":      half + "Q MOVE 100 FROM c\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH 1 FROM c\n< Z\nQ MOVE ALL FROM c\n< Z\nQ SELECT stumble(2)\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\n",
	"closed":             half + "Q CLOSE c\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\n",
	"closed all, again":  half + "Q CLOSE ALL\n< Z\nQ DECLARE c CURSOR FOR SELECT 1 AS a\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\n",
	"lost":               half + "Q SELECT die(1)\n< Z\nQ FETCH 2 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"lost at a FETCH":    "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, CASE WHEN g = 3 THEN die(1) END AS s FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 2 FROM c\n< Z\nQ FETCH 2 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"twice":              half + "Q SELECT second(1)\n< Z\nQ FETCH 1 FROM c\n< Z\nQ SELECT stumble(4)\n< Z\nQ FETCH 1 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"streamed":           "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, repeat('x', 1000) AS x FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 200 FROM c\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH 200 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"streamed, at a row": "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, repeat('x', 1000) AS x, CASE WHEN g = 150 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 200 FROM c\n< Z\nQ FETCH 200 FROM c\n< Z\nQ COMMIT\n< Z\n",
	"own writes":         "Q BEGIN\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\nQ DECLARE c CURSOR FOR SELECT a FROM stumbled ORDER BY a\n< Z\nQ INSERT INTO stumbled VALUES (2)\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH ALL FROM c\n< Z\nQ COMMIT\n< Z\n",

	"extended":   "Q BEGIN\n< Z\nP d | DECLARE c CURSOR FOR SELECT g, $1::text AS t FROM stumble_rows ORDER BY g\nD S d\nB - | d | x\nE -\nS\n< Z\nP f | FETCH 2 FROM c\nD S f\nB - | f\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\nB - | f\nD P -\nE -\nS\n< Z\nQ INSERT INTO late VALUES (2)\n< Z\nP k | CLOSE c\nB - | k\nE -\nS\n< Z\nQ COMMIT\n< Z\n",
	"one group":  "Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g") + ext("FETCH 2 FROM c") + ext("SELECT stumble(1)") + ext("MOVE 1 FROM c") + ext("FETCH 2 FROM c") + ext("SELECT stumble(2)") + "S\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\n",
	"flushed":    "Q BEGIN\n< Z\n" + ext("DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g") + "H\n< C\n" + ext("FETCH 2 FROM c") + "H\n< C\n" + ext("SELECT stumble(1)") + "H\n< C\n" + ext("FETCH 2 FROM c") + "H\n< C\nS\n< Z\nQ COMMIT\n< Z\n",
	"named":      half + "P s1 | SELECT 1 AS one\nP f | FETCH 1 FROM c\nB - | f\nE -\nP s2 | SELECT stumble(1)\nB - | s2\nE -\nS\n< Z\nB - | s1\nE -\nB - | f\nE -\nS\n< Z\nQ COMMIT\n< Z\n",
	"binary":     "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\nP f | FETCH 2 FROM c\nS\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\nQ SELECT stumble(1)\n< Z\n" + bindFormats("", "f", 1) + "D P -\nE -\nS\n< Z\nQ COMMIT\n< Z\n",
	"pipelined":  "Q BEGIN\nQ DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\nQ FETCH 2 FROM c\nQ SELECT stumble(1)\nQ FETCH 2 FROM c\n< Z Z Z Z Z\nQ COMMIT\n< Z\n",
	"savepoints": half + "Q INSERT INTO stumbled VALUES (1)\n< Z\nQ DECLARE d CURSOR FOR SELECT a FROM stumbled\n< Z\nQ SELECT stumble(1)\n< Z\nQ FETCH d\n< Z\nQ FETCH c\n< Z\nQ COMMIT\n< Z\n",
}

// A client that reads a cursor cannot tell that its transaction met a conflict, or lost its
// backend: what it is answered is what PostgreSQL answers when there is none.
func TestCursorsAreReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	routes := map[string]*sluice{
		"fast":       startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3)),
		"slow":       startSluice(t, pg, slowReplay, asDSQL, withCursors, maxOpen(3)),
		"savepoints": startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3)),
		"few texts":  startSluice(t, pg, fastReplay, asDSQL, withCursors, configure(func(c *proxy.Config) { c.PreparedPerBackend, c.PreparedTexts = 1, 1 })),
	}
	for name, script := range replayedCursors {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false)
			want := materialized(perform(t, pg.addr, script))
			for route, s := range routes {
				for round := range 2 {
					stumbles(t, pg, true)
					before := replayed(t, s)
					if got := materialized(perform(t, s.addr, script)); got != want {
						t.Errorf("through Sluice (%s, round %d):\n%s", route, round, firstDifference(got, want))
					}
					if replayed(t, s) == before {
						t.Errorf("%s: nothing was replayed", route)
					}
				}
				waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
			}
		})
	}
}

// Random dialogues about cursors, in which conflicts come at random, are answered as without.
func TestRandomCursorsAreReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+cursorSchema)
	routes := []*sluice{startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3)), startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3))}
	reset := func(yes bool) {
		stumbles(t, pg, yes)
		pg.SQL(t, "postgres", "DELETE FROM cursored WHERE a > 5")
	}
	before := replayed(t, routes[0]) + replayed(t, routes[1])
	for seed := range uint64(cursorRounds) {
		r := rand.New(rand.NewPCG(seed, 9))
		lines := strings.SplitAfter(randomCursors(r), "\n")
		block := false // where nothing is committed the loss of a backend is mended
		for n, i := 1, 0; n <= 2 && i < len(lines); i++ {
			switch {
			case lines[i] == "Q BEGIN\n":
				block = true
			case lines[i] == "Q COMMIT\n", lines[i] == "Q ROLLBACK\n":
				block = false
			case lines[i] == "< Z\n" && r.IntN(4) == 0:
				fails := []string{fmt.Sprintf("Q SELECT stumble(%d)\n< Z\n", n), ext(fmt.Sprintf("SELECT die(%d)", n)) + "S\n< Z\n"}
				if n++; block {
					lines[i] += fails[r.IntN(2)]
				} else {
					lines[i] += fails[0]
				}
			}
		}
		script := strings.Join(lines, "")
		reset(false)
		want := materialized(perform(t, pg.addr, script))
		for i, s := range routes {
			reset(true)
			if got := materialized(perform(t, s.addr, script)); got != want {
				t.Errorf("seed %d, route %d:\n%s", seed, i, firstDifference(got, want))
			}
		}
	}
	if replayed(t, routes[0])+replayed(t, routes[1]) == before {
		t.Error("nothing was replayed")
	}
}

// What a cursor has given its client must come once more: where another transaction has
// changed that, the replay is refused. What was passed by, or not read yet, may be another.
func TestReplayOfACursorThatDiffers(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+"CREATE TABLE seen (a int, b int)")
	s := startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3))
	const declare = "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT a, b FROM seen ORDER BY a\n< Z\n"
	for name, test := range map[string]struct{ read, change, rest, want string }{
		"read":           {"Q FETCH 2 FROM c\n< Z\n", "UPDATE seen SET b = 7 WHERE a = 1", "", "C=40001"},
		"read, extended": {ext("FETCH 2 FROM c") + "S\n< Z\n", "UPDATE seen SET b = 7 WHERE a = 2", "", "C=40001"},
		"not read yet":   {"Q FETCH 2 FROM c\n< Z\n", "UPDATE seen SET b = 7 WHERE a = 3", "Q FETCH 1 FROM c\n< Z\n", `D \x00\x02\x00\x00\x00\x013\x00\x00\x00\x017`},
		"passed by":      {"Q MOVE 2 FROM c\n< Z\n", "UPDATE seen SET b = 7 WHERE a = 1", "Q FETCH 1 FROM c\n< Z\n", `D \x00\x02\x00\x00\x00\x013\x00\x00\x00\x013`},
		"fewer rows":     {"Q MOVE 9 FROM c\n< Z\n", "DELETE FROM seen WHERE a = 4", "", "C=40001"},
		"more rows":      {"Q FETCH ALL FROM c\n< Z\n", "INSERT INTO seen VALUES (5, 5)", "", "C=40001"},
		"the end":        {"Q FETCH 4 FROM c\n< Z\n", "INSERT INTO seen VALUES (5, 5)", "Q FETCH ALL FROM c\n< Z\n", `D \x00\x02\x00\x00\x00\x015\x00\x00\x00\x015`},
		"undone":         {"Q FETCH 2 FROM c\n< Z\n", "UPDATE seen SET b = b", "Q FETCH ALL FROM c\n< Z\n", "C FETCH 2"},
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false, "seen")
			pg.SQL(t, "postgres", "INSERT INTO seen SELECT g, g FROM generate_series(1, 4) g; CREATE OR REPLACE FUNCTION changes() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RETURN 0; END $$")
			c := dialRaw(t, s.addr)
			defer c.conn.Close()
			got := c.play(t, declare+test.read)
			pg.SQL(t, "postgres", test.change)
			pg.SQL(t, "postgres", "SELECT setval('stumble_1', 1, false)")
			got += c.play(t, "Q SELECT stumble(1)\n< Z\n"+test.rest+"Q ROLLBACK\n< Z\nQ SELECT 1 AS one\n< Z\n")
			if !strings.Contains(got, test.want) || strings.Contains(got, "C=40001") != (test.want == "C=40001") {
				t.Errorf("want %s:\n%s", test.want, got)
			}
		})
	}
}

// A return to a savepoint does not move a cursor back: across one that has moved, or that was
// closed, it is refused; else cursors are as PostgreSQL has them.
func TestSavepointsAndCursors(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	s := startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3))
	const own = "Q SAVEPOINT a\n< Z\nQ DECLARE d CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\nQ FETCH 2 FROM d\n< Z\n"
	const back = "Q SELECT 1/0\n< Z\nQ ROLLBACK TO a\n< Z\n"
	const wrote = "Q SAVEPOINT a\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\n"
	const rest = "Q FETCH 1 FROM c\n< Z\nQ COMMIT\n< Z\nQ SELECT 1 AS one\n< Z\n"
	for name, script := range map[string]string{
		"its own":            half + own + back + "Q DECLARE d CURSOR FOR SELECT 5 AS five\n< Z\nQ FETCH d\n< Z\n" + rest,
		"its own, gone":      half + own + back + "Q SAVEPOINT b\n< Z\nQ FETCH d\n< Z\nQ ROLLBACK TO b\n< Z\n" + rest,
		"not moved":          half + "Q SAVEPOINT a\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\n" + back + rest,
		"unread":             "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\nQ SAVEPOINT a\n< Z\n" + back + rest,
		"taken":              half + "Q SAVEPOINT a\n< Z\nQ DECLARE c CURSOR FOR SELECT 1\n< Z\nQ ROLLBACK TO a\n< Z\n" + rest,
		"released and moved": half + "Q SAVEPOINT a\n< Z\nQ FETCH c\n< Z\nQ RELEASE a\n< Z\n" + rest,
		"read only":          half + "Q SAVEPOINT a\n< Z\nQ FETCH c\n< Z\nQ MOVE c\n< Z\n" + back + rest,
		"read only, closed":  half + "Q SAVEPOINT a\n< Z\nQ CLOSE c\n< Z\n" + back + "Q DECLARE c CURSOR FOR SELECT 3\n< Z\n" + rest,
		"read only, by turn": half + "Q SAVEPOINT a\n< Z\n" + ext("FETCH c") + "S\n< Z\n" + back + rest,
		"read only, a group": half + ext("SAVEPOINT a") + ext("FETCH c") + ext("ROLLBACK TO a") + ext("FETCH c") + "S\n< Z\n" + rest,
		"binary":             "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\nQ SAVEPOINT a\n< Z\nP f | FETCH c\n" + bindFormats("", "f", 1) + "E -\nS\n< Z\n" + back + bindFormats("", "f", 1) + "E -\nS\n< Z\nQ COMMIT\n< Z\n",
		"in a group":         half + ext("SAVEPOINT a") + ext("DECLARE d CURSOR FOR SELECT 1") + ext("FETCH d") + ext("ROLLBACK TO a") + "S\n< Z\n" + rest,
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false)
			want := materialized(perform(t, pg.addr, script))
			if got := materialized(perform(t, s.addr, script)); got != want {
				t.Error(firstDifference(got, want))
			}
		})
	}
	for name, script := range map[string]string{
		"fetched":                half + wrote + "Q FETCH c\n< Z\n" + back,
		"fetched, then written":  half + "Q SAVEPOINT a\n< Z\nQ FETCH c\n< Z\nQ INSERT INTO stumbled VALUES (1)\n< Z\nQ FETCH c\n< Z\n" + back,
		"moved":                  half + wrote + "Q MOVE c\n< Z\n" + back,
		"closed":                 half + wrote + "Q CLOSE c\n< Z\n" + back,
		"closed all":             half + wrote + "Q CLOSE ALL\n< Z\n" + back,
		"closed by the protocol": half + wrote + "C P c\nS\n< Z\n" + back,
		"fetched, extended":      half + wrote + ext("FETCH c") + "S\n< Z\n" + back,
		"in one turn":            half + "Q SAVEPOINT a\n< Z\n" + ext("FETCH c") + ext("INSERT INTO stumbled VALUES (1)") + "S\n< Z\n" + back,
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, false)
			got := perform(t, s.addr, script+"Q ROLLBACK\n< Z\nQ SELECT 1 AS one\n< Z\n")
			if !strings.Contains(got, "M=cannot return to savepoint \"a\"") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Error(got)
			}
		})
	}
}

// Random dialogues about cursors and savepoints are answered as by PostgreSQL, but where the
// return across a cursor that has moved is refused.
func TestRandomCursorsAndSavepoints(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+cursorSchema)
	routes := map[string]*sluice{"relaxed": startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3)), "strict": startSluice(t, pg, strictly, withCursors, maxOpen(4))}
	played, refused := 0, 0
	for seed := range uint64(cursorRounds) {
		script := randomCursors(rand.New(rand.NewPCG(seed, 10)), "SAVEPOINT a", "SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "ROLLBACK TO a", "ROLLBACK TO b", "RELEASE a",
			"INSERT INTO stumbled VALUES (2)", "SELECT stumble(1)", "SELECT stumble(2)")
		reset := func(yes bool) {
			stumbles(t, pg, yes)
			pg.SQL(t, "postgres", "DELETE FROM cursored WHERE a > 5")
		}
		// Without a key: of two connections that write one, PostgreSQL has the second wait.
		script = strings.ReplaceAll(script, "INSERT INTO cursored", "INSERT INTO stumbled")
		reset(false)
		want := materialized(perform(t, pg.addr, script))
		for name, s := range routes {
			reset(true)
			got := materialized(perform(t, s.addr, script))
			if played++; strings.Contains(got, "C=0A000 M=cannot return to savepoint") {
				refused++
			} else if strings.Contains(got, "D=Replay refused: a statement of the transaction had failed") {
				continue // a conflict in front of what is refused in the same group
			} else if got != want {
				t.Errorf("seed %d, %s:\n%s", seed, name, firstDifference(got, want))
			}
		}
	}
	if played > 400 && refused == 0 || refused*2 > played {
		t.Errorf("%d of %d are refused", refused, played)
	}
}

// A cancel and a timeout end a FETCH as any statement: the block has failed, and the session
// goes on.
func TestFetchIsCancelled(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(2), configure(func(c *proxy.Config) { c.ForwardCancel = true }))
	c, cancel := dialKeyed(t, s.addr, nil)
	defer c.conn.Close()
	for _, read := range []string{"Q FETCH 2 FROM c\n", "Q MOVE 2 FROM c\n", ext("FETCH 2 FROM c") + "S\n"} {
		c.play(t, "Q BEGIN\n< Z\nQ DECLARE c CURSOR FOR SELECT g, CASE WHEN g = 3 THEN pg_sleep(60) END FROM generate_series(1, 5) g\n< Z\nQ FETCH 2 FROM c\n< Z\n")
		timer := time.AfterFunc(200*time.Millisecond, cancel)
		got := c.play(t, read+"< Z\nQ FETCH c\n< Z\nQ ROLLBACK\n< Z\nQ SELECT 1 AS one\n< Z\n")
		timer.Stop()
		if !strings.Contains(got, "C=57014") || !strings.Contains(got, "C=25P02") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
			t.Errorf("%s\n%s", read, got)
		}
	}
}
