package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy"
)

const heldRows = "Q DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g FROM stumble_rows ORDER BY g\n< Z\n"

// replayedStored are transactions with cursors WITH HOLD that meet conflicts and losses.
var replayedStored = map[string]string{
	"at the DECLARE":         queries("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT g, stumble(1) AS s FROM stumble_rows WHERE g < 5 ORDER BY g", "FETCH 2 FROM h", "FETCH PRIOR FROM h") + clientGone,
	"at a late row":          queries("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT g, repeat('x', 2000) AS x, CASE WHEN g = 290 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g", "FETCH ALL FROM h") + clientGone,
	"twice":                  queries("DECLARE h CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) WHEN g = 5 THEN stumble(2) END AS s FROM stumble_rows ORDER BY g", "FETCH 7 FROM h") + clientGone,
	"lost at the DECLARE":    queries("DECLARE h CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN die(1) END AS s FROM stumble_rows ORDER BY g", "FETCH 4 FROM h") + clientGone,
	"extended":               ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g") + "D P h\nS\n< Z\n" + ext("FETCH 4 FROM h") + "S\n< Z\n" + clientGone,
	"extended, scrolls":      ext("DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g") + "S\n< Z\n" + ext("FETCH 4 FROM h") + "S\n< Z\n" + clientGone,
	"read in its group":      ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g") + ext("FETCH 2 FROM h") + ext("SELECT 1 AS one") + "S\n< Z\n" + queries("FETCH 3 FROM h") + clientGone,
	"beside a write":         ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g FROM stumble_rows ORDER BY g") + ext("INSERT INTO late VALUES (1)") + "S\n< Z\n" + queries("FETCH 3 FROM h") + clientGone,
	"at COMMIT":              queries("BEGIN", "INSERT INTO late VALUES (1)") + heldRows + queries("FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h") + clientGone,
	"at COMMIT, unread":      queries("BEGIN") + heldRows + queries("INSERT INTO late VALUES (1)", "COMMIT", "FETCH 2 FROM h") + clientGone,
	"at COMMIT, extended":    queries("BEGIN") + heldRows + queries("FETCH 2 FROM h", "INSERT INTO late VALUES (1)") + ext("COMMIT") + "S\n< Z\n" + queries("FETCH 2 FROM h") + clientGone,
	"in front of COMMIT":     queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN stumble(1) END AS s FROM stumble_rows ORDER BY g", "FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h") + clientGone,
	"lost in front":          queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN die(1) END AS s FROM stumble_rows ORDER BY g", "FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h") + clientGone,
	"an open one":            heldRows + queries("FETCH 2 FROM h", "BEGIN", "FETCH 2 FROM h", "INSERT INTO late VALUES (1)", "FETCH 2 FROM h", "COMMIT", "FETCH 2 FROM h", "BEGIN", "SELECT stumble(2)", "FETCH 2 FROM h", "ROLLBACK", "FETCH 2 FROM h") + clientGone,
	"an open one, pipelined": heldRows + "Q BEGIN\n< Z\n" + ext("INSERT INTO stumbled VALUES (1)") + ext("FETCH 2 FROM h") + ext("SELECT stumble(1)") + ext("FETCH 2 FROM h") + "S\n< Z\nQ COMMIT\n< Z\n" + queries("FETCH 2 FROM h") + clientGone,
	"two":                    queries("BEGIN") + heldRows + queries("DECLARE k NO SCROLL CURSOR WITH HOLD FOR SELECT a FROM stumbled", "INSERT INTO stumbled VALUES (1)", "INSERT INTO late VALUES (1)", "COMMIT", "FETCH ALL FROM k", "FETCH h") + clientGone,
}

// A client with such a cursor cannot tell that its transaction met a conflict, or lost its backend.
func TestStoredCursorsAreReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	routes := map[string]*sluice{
		"fast":       startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3)),
		"slow":       startSluice(t, pg, slowReplay, asDSQL, withCursors, maxOpen(3)),
		"savepoints": startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3)),
		"few texts":  startSluice(t, pg, fastReplay, asDSQL, withCursors, configure(func(c *proxy.Config) { c.PreparedPerBackend, c.PreparedTexts = 1, 1 })),
	}
	for name, script := range replayedStored {
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

// Rows that nobody has seen may be others when the transaction is run again.
func TestStoredRowsMayDiffer(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	s := startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3))
	const draws = "CURSOR WITH HOLD FOR SELECT g, clock_timestamp() AS c FROM stumble_rows ORDER BY g"
	for name, script := range map[string]string{
		"in a block": queries("BEGIN", "INSERT INTO late VALUES (1)", "DECLARE h NO SCROLL "+draws, "COMMIT"),
		"in a group": ext("DECLARE h NO SCROLL "+draws) + ext("INSERT INTO late VALUES (1)") + "S\n< Z\n",
		"scrolls":    ext("DECLARE h SCROLL "+draws) + ext("INSERT INTO late VALUES (1)") + "S\n< Z\n",
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			before := replayed(t, s)
			got := perform(t, s.addr, script+queries("MOVE ALL FROM h"))
			if strings.Contains(got, "E S=") || !strings.Contains(got, "C MOVE 300\\x00") || replayed(t, s) == before {
				t.Error(got)
			}
		})
	}
}

// Random dialogues about such cursors, in which conflicts come at random, are answered as without.
func TestRandomStoredCursorsAreReplayed(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+cursorSchema)
	routes := []*sluice{startSluice(t, pg, fastReplay, asDSQL, withCursors, maxOpen(3)), startSluice(t, pg, withSavepoints, asDSQL, withCursors, maxOpen(3))}
	before := replayed(t, routes[0]) + replayed(t, routes[1])
	for seed := range uint64(storedRounds) {
		r := rand.New(rand.NewPCG(seed, 22))
		lines := strings.SplitAfter(randomStored(r, false), "\n")
		block := false // where nothing is committed the loss of a backend is mended
		for n, i := 1, 0; n <= 2 && i < len(lines); i++ {
			switch line := lines[i]; {
			case line == "Q BEGIN\n":
				block = true
			case strings.Contains(line, "COMMIT"), strings.Contains(line, "ROLLBACK"):
				block = false
			case line == "< Z\n" && r.IntN(4) == 0:
				fails := []string{fmt.Sprintf("Q SELECT stumble(%d)\n< Z\n", n), ext(fmt.Sprintf("SELECT die(%d)", n)) + "S\n< Z\n", fmt.Sprintf("Q INSERT INTO late VALUES (%d)\n< Z\n", n)}
				if n++; block {
					lines[i] += fails[r.IntN(3)]
				} else {
					lines[i] += fails[2*r.IntN(2)]
				}
			}
		}
		script := strings.Join(lines, "")
		stumbles(t, pg, false)
		want := materialized(perform(t, pg.addr, script))
		for i, s := range routes {
			stumbles(t, pg, true)
			if got := materialized(perform(t, s.addr, script)); got != want {
				t.Errorf("seed %d, route %d:\n%s", seed, i, firstDifference(got, want))
			}
		}
	}
	if storedRounds > 20 && replayed(t, routes[0])+replayed(t, routes[1]) == before {
		t.Error("nothing was replayed")
	}
}

// What stored cursors may have of memory is bounded, for a session and for all, and is given back.
func TestStoredCursorsAreBounded(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(2), configure(func(c *proxy.Config) { c.StoredBytes, c.StoredTotalBytes = 1<<20, 1<<20 }))
	const large = "SELECT repeat('x', 1000) FROM generate_series(1, 100000) g"
	const fits = "SELECT repeat('x', 1000) FROM generate_series(1, 500) g"
	full := func(t *testing.T, script string, last string) {
		t.Helper()
		got := perform(t, s.addr, script+"Q SELECT 1 AS one\n< Z\n")
		if !strings.Contains(got, "E S=ERROR C=54000 M=the rows of this cursor WITH HOLD are more than may be kept") || !strings.Contains(got, " H=") || !strings.Contains(got, last) ||
			!strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
			t.Error(got)
		}
	}
	for range 3 {
		full(t, queries("DECLARE h CURSOR WITH HOLD FOR "+large, "FETCH h"), "C=34000")
		full(t, queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+large, "FETCH h", "COMMIT", "FETCH h"), "C=34000")
		full(t, ext("DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+large)+ext("FETCH h")+"S\n< Z\n"+queries("FETCH h"), "C=34000")
		full(t, ext("DECLARE h SCROLL CURSOR WITH HOLD FOR "+large)+"S\n< Z\n"+queries("FETCH h"), "C=34000")
		full(t, queries("BEGIN", "DECLARE h NO SCROLL CURSOR WITH HOLD FOR "+large)+ext("COMMIT")+"S\n< Z\n"+queries("FETCH h"), "C=34000")
		full(t, queries("DECLARE h CURSOR WITH HOLD FOR "+fits, "DECLARE k CURSOR WITH HOLD FOR "+fits, "FETCH h"), "C FETCH 1")
		// As many as there may be, again and again: what is closed is given back, and what a client leaves too.
		got := perform(t, s.addr, strings.Repeat(queries("DECLARE h CURSOR WITH HOLD FOR "+fits, "CLOSE h"), 3)+queries("DECLARE h CURSOR WITH HOLD FOR "+fits))
		if strings.Contains(got, "E S=") {
			t.Error(got)
		}
		waitFor(t, "the client to be gone", func() bool { return s.Stats().Clients == 0 })
	}
	first := dialRaw(t, s.addr)
	first.play(t, queries("DECLARE h CURSOR WITH HOLD FOR "+fits))
	full(t, queries("DECLARE h CURSOR WITH HOLD FOR "+fits, "FETCH h"), "C=34000")
	if n := s.backends.Stats().InUse; n != 0 {
		t.Errorf("%d backends are kept", n)
	}
	if n := s.sum(t, "dsql_pins_total"); n != 0 {
		t.Errorf("%v pins", n)
	}
	first.conn.Close()
	waitFor(t, "the bytes of a client that left", func() bool {
		return !strings.Contains(perform(t, s.addr, queries("DECLARE h CURSOR WITH HOLD FOR "+fits)), "E S=")
	})
}

// What cannot be stored as it was asked is refused, with what to do instead.
func TestRefusedStoredCursors(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(2))
	const floats = "Q SET extra_float_digits = 0\n< Z\nQ DECLARE h CURSOR WITH HOLD FOR SELECT 1.5::float8 AS f FROM generate_series(1, 3)\n< Z\nP f | FETCH h\nS\n< Z\n"
	for name, test := range map[string]struct{ script, want string }{
		"scrolls in a block":   {queries("BEGIN", "DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT 1"), "M=a cursor WITH HOLD that scrolls cannot be declared inside a transaction"},
		"COMMIT in a string":   {"Q BEGIN\n< Z\n" + heldForward + queries("SELECT 1; COMMIT", "FETCH h"), "M=the COMMIT of a transaction with a cursor WITH HOLD must not share a string"},
		"COMMIT; BEGIN":        {"Q BEGIN\n< Z\n" + heldForward + queries("COMMIT; BEGIN"), "M=the COMMIT of a transaction with a cursor WITH HOLD must not share a string"},
		"in a string":          {queries("SELECT 1; DECLARE h CURSOR WITH HOLD FOR SELECT 1"), "M=statements about cursors must not share a string"},
		"binary":               {queries("DECLARE h BINARY CURSOR WITH HOLD FOR SELECT 1"), "M=BINARY is not supported for cursors"},
		"binary floats":        {floats + bindFormats("", "f", 1) + "E -\nS\n< Z\n", "M=rows of this cursor cannot be had in the binary format"},
		"text, then binary":    {"P f | FETCH h\nS\n< Z\nQ BEGIN\n< Z\n" + heldForward + bindFormats("", "f", 1) + "E -\nS\n< Z\n" + queries("COMMIT", "FETCH h"), "M=this cursor can no longer be read in another format"},
		"a place, half read":   {"Q BEGIN\n< Z\n" + heldForward + queries("FETCH h", "COMMIT", "FETCH ABSOLUTE 3 FROM h"), "M=cursors go forward only"},
		"a limited FETCH":      {heldForward + "P - | FETCH 3 FROM h\nB - | -\nE - 2\nS\n< Z\n", "M=FETCH cannot be executed with a limit on rows"},
		"numbers of sequences": {queries("DECLARE h CURSOR WITH HOLD FOR SELECT lastval()"), "M=currval and lastval are not supported in the query of a cursor"},
	} {
		t.Run(name, func(t *testing.T) {
			got := perform(t, s.addr, test.script+"Q ROLLBACK\n< Z\nQ SELECT 1 AS one\n< Z\n")
			refusal := got[max(0, strings.Index(got, test.want)):]
			refusal, _, _ = strings.Cut(refusal, "\n")
			if !strings.Contains(got, "C=0A000 "+test.want) || !strings.Contains(refusal, " H=") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Errorf("want %s, with a hint:\n%s", test.want, got)
			}
			waitFor(t, "backends to come back", func() bool { return s.backends.Stats().InUse == 0 })
		})
	}
	// A refusal of rows in a format does not move the cursor.
	got := perform(t, s.addr, floats+bindFormats("", "f", 1)+"E -\nS\n< Z\nQ FETCH ALL FROM h\n< Z\n")
	if !strings.Contains(got, "C FETCH 3\\x00") {
		t.Error(got)
	}
}

// A cancel and a timeout end the storing of a cursor as any statement, and leave none.
func TestStoringIsCancelled(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, asDSQL, withCursors, withReplay, maxOpen(2), configure(func(c *proxy.Config) { c.ForwardCancel = true }))
	c, cancel := dialKeyed(t, s.addr, nil)
	defer c.conn.Close()
	const slow = "NO SCROLL CURSOR WITH HOLD FOR SELECT g, CASE WHEN g = 3 THEN pg_sleep(60) END FROM generate_series(1, 5) g"
	for _, play := range []string{
		"Q DECLARE h " + slow + "\n< Z\n",
		ext("DECLARE h "+slow) + "S\n< Z\n",
		queries("BEGIN", "DECLARE h "+slow, "FETCH h", "COMMIT"),
		queries("BEGIN", "DECLARE h "+slow, "FETCH h") + ext("COMMIT") + "S\n< Z\n",
	} {
		for _, by := range []string{"", "Q SET statement_timeout = 200\n< Z\n"} {
			c.play(t, by)
			timer := time.AfterFunc(time.Hour, cancel)
			if by == "" {
				timer.Reset(200 * time.Millisecond)
			}
			got := c.play(t, play)
			timer.Stop()
			got += c.play(t, "Q RESET statement_timeout\n< Z\nQ FETCH h\n< Z\nQ SELECT 1 AS one\n< Z\n")
			if !strings.Contains(got, "C=57014") || !strings.Contains(got, "C=34000") || !strings.HasSuffix(got, "C SELECT 1\\x00\nZ I\n") {
				t.Errorf("%s%s\n%s", by, play, got)
			}
		}
	}
}
