package proxy_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/proxy"
	"github.com/sluice-proxy/sluice/retry"
)

const changing = stumbling + `
CREATE SEQUENCE changing;
CREATE FUNCTION warns() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('changing') = 1 THEN RAISE WARNING 'once'; END IF; RETURN 1; END $$;
CREATE FUNCTION conflicts() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'change conflicts (OC000)' USING ERRCODE = '40001'; END $$;`

const conflictSeen = "E S=ERROR C=40001 M=change conflicts with another transaction, please retry: (OC000) D=Replay refused: "

// A replay that its client could tell is refused: it gets the server's error and
// the reason, and stands where PostgreSQL would have left it.
//
// Feature: dsql-locking-compatibility, Property 5: Error handling: a conflict
// that is not retried is told, with its reason, and counted.
func TestRefusedReplays(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing)
	usual := startSluice(t, pg, fastReplay, maxOpen(3))
	small := startSluice(t, pg, fastReplay, maxOpen(3), func(s *setup) { s.proxy.Retry.LogBytes = 4096 })
	poor := startSluice(t, pg, fastReplay, maxOpen(3), func(s *setup) {
		s.proxy.Retry.BudgetBurst, s.proxy.Retry.BudgetPerSecond, s.proxy.Retry.BudgetPerCommit = 1, 0.1, 0
	})
	few := startSluice(t, pg, fastReplay, maxOpen(3), func(s *setup) { s.proxy.Retry.Policy.MaxRetries = 2 })
	never := startSluice(t, pg, fastReplay, maxOpen(3), configure(func(c *proxy.Config) { c.UsersWithoutReplay = []string{"postgres"} }))

	inBlock := func(statement string) string {
		return "Q BEGIN\n< Z\nQ " + statement + "\n< Z\nQ SELECT stumble(1)\n< Z\n"
	}
	long := "SELECT g, repeat('x', 1000) AS x, CASE WHEN g = 250 THEN stumble(1) END AS s FROM stumble_rows"
	for _, test := range []struct {
		name, script string
		s            *sluice
		reason       string
		detail       string
		status       string
	}{
		{"value", inBlock("SELECT nextval('changing')"), usual, "differs", "the result of statement 1 (select) differs in its values.", "E"},
		{"rows", inBlock("SELECT generate_series(1, nextval('changing'))"), usual, "differs", "the result of statement 1 (select) differs in its size.", "E"},
		{"order", inBlock("SELECT a FROM (VALUES (1), (2)) v(a), (SELECT 3 - 2 * nextval('changing') AS c) c ORDER BY a * c"), usual, "differs", "differs in its values.", "E"},
		{"tag", inBlock("INSERT INTO stumbled SELECT generate_series(1, nextval('changing'))"), usual, "differs", "statement 1 (insert) differs in its values.", "E"},
		{"an error", inBlock("SELECT 1 / (2 - nextval('changing'))"), usual, "differs", "differs in its outcome.", "E"},
		{"a notice", inBlock("SELECT warns()"), usual, "differs", "differs in its size.", "E"},
		{"null", inBlock("SELECT CASE WHEN nextval('changing') = 1 THEN '' END AS e"), usual, "differs", "differs in its values.", "E"},
		{"second statement", "Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SELECT nextval('changing')\n< Z\nQ SELECT stumble(1)\n< Z\n", usual, "differs", "the result of statement 2 (select)", "E"},
		{"extended", "Q BEGIN\n< Z\nP - | SELECT nextval('changing')\nB - | -\nE -\nS\n< Z\nP - | SELECT stumble(1)\nB - | -\nE -\nS\n< Z\n", usual, "differs", "statement 1 (select)", "E"},
		{"before the Sync", "Q BEGIN\n< Z\nP - | SELECT nextval('changing')\nB - | -\nE -\nS\n< Z\nP - | SELECT stumble(1)\nB - | -\nE -\nH\n< E\nS\n< Z\n", usual, "differs", "statement 1 (select)", "E"},
		{"at COMMIT", "Q BEGIN\n< Z\nQ SELECT nextval('changing')\n< Z\nQ INSERT INTO late VALUES (1)\n< Z\nQ COMMIT\n< Z\n", usual, "differs", "statement 1 (select)", "I"},
		{"flushed", "P - | SELECT nextval('changing')\nB - | -\nE -\nH\n< C\nP - | SELECT stumble(1)\nB - | -\nE -\nS\n< Z\n", usual, "differs", "one of the statements 1 to 2", "I"},
		{"streamed", "Q BEGIN\n< Z\nQ SELECT nextval('changing') AS n, " + long[7:] + "\n< Z\n", usual, "differs", "differs in its values", "E"},
		{"streamed, and commits", "Q " + long + "\n< Z\n", usual, "delivered", "would commit before", "I"},
		{"log full", inBlock("SELECT '" + strings.Repeat("x", 5000) + "' = '' AS e"), small, "log_full", "sent more than is kept", "E"},
		{"COPY", "Q BEGIN\n< Z\nQ COPY stumbled FROM STDIN\n< G\nd 1\\n\nc\n< Z\nQ SELECT stumble(1)\n< Z\n", usual, "copy_from", "copied data in", "E"},
		{"inner COMMIT", "Q INSERT INTO stumbled VALUES (1); COMMIT; SELECT stumble(1)\n< Z\n", usual, "inner_commit", "has ended already", "I"},
		{"inner COMMIT in a group", "Q BEGIN\n< Z\nP - | COMMIT\nB - | -\nE -\nP - | SELECT stumble(1)\nB - | -\nE -\nS\n< Z\n", usual, "inner_commit", "has ended already", "I"},
		{"pinned", "Q LISTEN changing\n< Z\nQ SELECT stumble(1)\n< Z\n", usual, "pinned", "cannot be restored", "I"},
		{"comment", "Q SELECT stumble(1) /* sluice: no-retry */\n< Z\n", usual, "opted_out", "is off for this client or statement", "I"},
		{"user", "Q SELECT stumble(1)\n< Z\n", never, "opted_out", "is off for this client or statement", "I"},
		{"budget", "Q SELECT stumble(1)\n< Z\nQ SELECT stumble(2)\n< Z\n", poor, "budget", "too many transactions", "I"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stumbles(t, pg, true)
			pg.SQL(t, "postgres", "SELECT setval('changing', 1, false)")
			before := test.s.count(t, "dsql_tx_replay_refused_total", test.reason)
			got := perform(t, test.s.addr, test.script+"Q ROLLBACK\n< Z\nQ SELECT count(*) FROM stumbled\n< Z\n")
			i := strings.Index(got, conflictSeen)
			if i < 0 || !strings.Contains(got[i:], test.detail) || !strings.Contains(got[i:], "H="+retry.Hint) {
				t.Fatalf("no refusal that says %q:\n%s", test.detail, got)
			}
			_, status, _ := strings.Cut(got[i:], "\nZ ")
			if !strings.HasPrefix(status, test.status) {
				t.Errorf("status %.1s, want %s:\n%s", status, test.status, got[i:])
			}
			if !strings.Contains(got[i:], "C ROLLBACK") || !strings.HasSuffix(got, "Z I\n") {
				t.Errorf("the session did not go on:\n%s", got[i:])
			}
			if n := test.s.count(t, "dsql_tx_replay_refused_total", test.reason) - before; n != 1 {
				t.Errorf("counted %v times as %s", n, test.reason)
			}
			waitFor(t, "backends to come back", func() bool { return test.s.backends.Stats().InUse == 0 })
		})
	}
	t.Run("exhausted", func(t *testing.T) {
		// The name of an operation is counted by itself once a statement of that name has succeeded.
		got := perform(t, few.addr, "Q SELECT 1\n< Z\nQ BEGIN\n< Z\nQ SELECT conflicts()\n< Z\nQ ROLLBACK\n< Z\n")
		if !strings.Contains(got, "Replay refused: every attempt met a conflict again") || replayed(t, few) != 2 {
			t.Errorf("%v replays:\n%s", replayed(t, few), got)
		}
		if few.count(t, "dsql_tx_exhausted_total", "select") != 1 {
			t.Error("not counted as exhausted")
		}
	})
	// A group outside a block commits at its Sync: a replay of it that is refused
	// must not come to one.
	t.Run("writes and a Flush", func(t *testing.T) {
		for name, read := range map[string]string{"differs": "SELECT nextval('changing')", "differs in size": "SELECT generate_series(1, nextval('changing'))"} {
			stumbles(t, pg, true)
			pg.SQL(t, "postgres", "SELECT setval('changing', 1, false)")
			got := perform(t, usual.addr, "P - | INSERT INTO stumbled VALUES (1)\nB - | -\nE -\nP - | "+read+"\nB - | -\nE -\nH\n< C C\n"+
				"P - | SELECT stumble(1)\nB - | -\nE -\nH\n< E\nS\n< Z\nQ SELECT count(*) FROM stumbled\n< Z\n")
			if !strings.Contains(got, conflictSeen) || !strings.Contains(got, "D \\x00\\x01\\x00\\x00\\x00\\x010\n") {
				t.Errorf("%s: what was refused has happened:\n%s", name, got)
			}
		}
	})
	// A statement that the client was told is prepared stays so, as in PostgreSQL.
	t.Run("prepared before it", func(t *testing.T) {
		once := startSluice(t, pg, fastReplay, maxOpen(3), func(s *setup) { s.proxy.Retry.Policy.MaxRetries = 1 })
		stumbles(t, pg, true)
		got := perform(t, once.addr, "P - | SELECT second(1)\nB - | -\nE -\nP s1 | SELECT 7 AS seven\nD S s1\nH\n< T\n"+
			"P s2 | SELECT conflicts()\nB - | s2\nE -\nS\n< Z\nB - | s1\nE -\nS\n< Z\nP s2 | SELECT 8 AS eight\nB - | s2\nE -\nS\n< Z\n")
		if !strings.Contains(got, "Replay refused: every attempt") || !strings.Contains(got, "\\x017") || strings.Contains(got, "C=26000") {
			t.Errorf("%v replays:\n%s", replayed(t, once), got)
		}
	})
	t.Run("startup option", func(t *testing.T) {
		host, port, _ := net.SplitHostPort(usual.addr)
		conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres sslmode=disable options='-c sluice.retry=off'", host, port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		stumbles(t, pg, true)
		if _, err := conn.Exec(t.Context(), "SELECT stumble(1)"); code(err) != "40001" {
			t.Errorf("got %v", err)
		}
	})
}

// Who waits for a replay no longer ends it at once.
func TestReplayEndsWithItsClient(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing)
	patient := func(s *setup) {
		fastReplay(s)
		s.proxy.Retry.Policy.FirstDelay = time.Minute
		s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay, s.proxy.Retry.Policy.MaxElapsed = time.Minute, time.Minute, 5*time.Minute
	}
	s := startSluice(t, pg, patient)
	refused := func(reason string) func() bool {
		return func() bool { return s.count(t, "dsql_tx_replay_refused_total", reason) == 1 }
	}
	waiting := func(n float64) {
		waitFor(t, "a replay to wait", func() bool { return replayed(t, s) == n })
		time.Sleep(20 * time.Millisecond)
	}
	conn := connect(t, s.addr)
	result := make(chan error, 1)
	run := func() { _, err := conn.Exec(context.Background(), "SELECT conflicts()"); result <- err }
	go run()
	waiting(1)
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; code(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
	waitFor(t, "the refusal", refused("cancelled"))

	c := dialRaw(t, s.addr)
	c.queue(encodeLine(t, "Q", "SELECT conflicts()"))
	c.flush()
	waiting(2)
	c.conn.Close()
	waitFor(t, "the client to be missed", refused("client_gone"))

	go run()
	waiting(3)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	if err := <-result; code(err) != "40001" {
		t.Errorf("draining: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// A client that commits while its transaction is being run again, in the same pipeline: the
// commit waits for the answers that the client has been given. Where they differ, nothing is
// committed.
func TestCommitWaitsForTheReplay(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing+"CREATE TABLE waits (a int)")
	for route, opts := range map[string][]option{"replay": nil, "dsql": {asDSQL}} {
		s := startSluice(t, pg, append(opts, fastReplay, maxOpen(3))...)
		for name, end := range map[string]string{"block": "P - | COMMIT\nB - | -\nE -\nS\n< Z\n", "a query behind it": "Q COMMIT\n< Z\n",
			"group": "S\n< Z\n", "its last statement": "P - | INSERT INTO waits VALUES (1)\nB - | -\nE -\nS\n< Z\n"} {
			for _, answer := range []string{"1", "nextval('changing')"} {
				pg.SQL(t, "postgres", "DELETE FROM waits; SELECT setval('stumble_1', 1, false)")
				c := dialRaw(t, s.addr)
				begin := ""
				if strings.Contains(end, "COMMIT") {
					begin = "P - | BEGIN\nB - | -\nE -\n"
				}
				c.say(t, begin+"P - | INSERT INTO waits VALUES (1)\nB - | -\nE -\nP - | SELECT "+answer+", pg_sleep(0.1)\nB - | -\nE -\nH\n< C C\n"+strings.Repeat("< C\n", min(1, len(begin))))
				c.say(t, "P - | SELECT stumble(1)\nB - | -\nE -\n")
				c.flush()
				time.Sleep(50 * time.Millisecond) // the conflict is there, and what the client sends next finds the replay
				if answer != "1" {                // a Query behind an error is skipped, as the rest up to a Sync
					end = strings.Replace(end, "Q COMMIT\n", "Q COMMIT\n< E\nS\n", 1)
				}
				got := c.say(t, end)
				told := strings.Contains(got, "E S=")
				if told != (answer != "1") || told && !strings.Contains(got, conflictSeen) {
					t.Errorf("%s, %s, %s: %s", route, name, answer, got)
				}
				if n := pg.SQL(t, "postgres", "SELECT count(*) FROM waits"); told != (n == "0") {
					t.Errorf("%s, %s, %s: %s rows, and the client was told\n%s", route, name, answer, n, got)
				}
				c.conn.Close()
			}
		}
	}
}

// Reads that are run again with their Sync, behind an answer that the client has been given:
// their ReadyForQuery ends the turn, once.
func TestReadsAreRunAgainToTheirSync(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t) // without functions that a read might call
	for route, opts := range map[string][]option{"replay": nil, "dsql": {asDSQL}} {
		var cut cutter
		s := startSluice(t, pg, append(opts, fastReplay, cut.option, maxOpen(3))...)
		for n := range 5 {
			c := dialRaw(t, s.addr)
			c.say(t, "P - | SELECT 1\nB - | -\nE -\nH\n< C\n")
			cut.arm("doomed", true)
			got := c.say(t, fmt.Sprintf("P d | SELECT 2 /* doomed %d */\nB - | d\nE -\nS\n< Z\n", n)) + c.say(t, "Q SELECT 3\n< Z\n")
			if strings.Contains(got, "E S=") || strings.Count(got, "C SELECT 1") != 2 || strings.Count(got, "Z I") != 2 {
				t.Errorf("%s: %s", route, got)
			}
			c.conn.Close()
		}
		if n := cut.cuts.Load(); n != 5 {
			t.Errorf("%s: %d cuts of 5", route, n)
		}
	}
}
