package proxy_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/retry"
)

// The first call of fault meets what it names: a conflict, or the end of its
// backend.
const faulty = `
CREATE SEQUENCE fault MINVALUE -1000; CREATE SEQUENCE number;
CREATE FUNCTION fault(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('fault') <> 1 THEN RETURN 1; END IF;
	IF what = 'die' THEN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); END IF;
	RAISE EXCEPTION 'please retry: (%)', what USING ERRCODE = '40001'; END $$;
CREATE TABLE made (n int); CREATE TABLE account (id int PRIMARY KEY, n int); INSERT INTO account SELECT g, 0 FROM generate_series(1, 100) g;
CREATE FUNCTION late_fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM pg_sleep(0.005); PERFORM fault('OC000'); RETURN NULL; END $$;
CREATE TABLE busy (name text PRIMARY KEY, n int); INSERT INTO busy SELECT g, 0 FROM generate_series(1, 100) g;
CREATE CONSTRAINT TRIGGER late_fault AFTER UPDATE ON busy DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late_fault();`

func faultyPostgres(t *testing.T) postgres {
	pg := newPostgres(t)
	pg.SQL(t, "postgres", faulty)
	return pg
}

// armFault has the call of fault meet it that comes after so many.
func armFault(t *testing.T, pg postgres, calls int) {
	t.Helper()
	pg.SQL(t, "postgres", fmt.Sprintf("SELECT setval('fault', %d, false)", 1-calls))
}

// A transaction that lost to another takes a pass for the first statement that
// locks or changes rows that exist, with its parameters: others wait who want the
// same. One that lost its backend, or whose backend did not know the schema, takes
// none: nobody else wants its rows. So it is with rows that are new.
func TestWhoTakesAPass(t *testing.T) {
	t.Parallel()
	pg := faultyPostgres(t)
	s := startSluice(t, pg, fastReplay, maxOpen(5), func(s *setup) { s.proxy.Retry.GateHold = time.Minute })
	const (
		update   = "P - | UPDATE account SET n = n + 1 WHERE id = $1\nB - | - | 1\nE -\nS"
		noNumber = "Q SELECT nextval('number') IS NULL"
	)
	for name, test := range map[string]struct {
		script string // in a block, which meets the fault at its last request
		fault  string
		passes int
	}{
		"UPDATE":                         {"Q UPDATE account SET n = n + 1 WHERE id = 1", "OC000", 1},
		"UPDATE with a parameter":        {update, "OC000", 1},
		"a conflict without a code":      {update, "40001", 1},
		"DELETE":                         {"Q DELETE FROM account WHERE id = 1", "OC000", 1},
		"FOR UPDATE":                     {"Q SELECT n FROM account WHERE id = 1 FOR UPDATE", "OC000", 1},
		"FOR SHARE":                      {"Q SELECT n FROM account WHERE id = 1 FOR SHARE", "OC000", 1},
		"ON CONFLICT DO UPDATE":          {"Q INSERT INTO account VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = 1", "OC000", 1},
		"in WITH":                        {"Q WITH w AS (UPDATE account SET n = 1 WHERE id = 1 RETURNING n) SELECT * FROM w", "OC000", 1},
		"behind nextval":                 {noNumber + "\n" + update, "OC000", 1},
		"behind INSERT":                  {"Q INSERT INTO made VALUES (1)\n" + update, "OC000", 1},
		"INSERT":                         {"Q INSERT INTO made VALUES (1)", "OC000", 0},
		"ON CONFLICT DO NOTHING":         {"Q INSERT INTO account VALUES (1, 1) ON CONFLICT DO NOTHING", "OC000", 0},
		"nextval":                        {noNumber, "OC000", 0},
		"a read":                         {"Q SELECT 1", "OC000", 0},
		"DDL":                            {"Q CREATE TABLE made_too (a int)", "OC000", 0},
		"the schema, INSERT":             {"Q INSERT INTO made VALUES (1)", "OC001", 0},
		"the schema, UPDATE":             {update, "OC001", 0},
		"the schema, behind nextval":     {noNumber + "\n" + update, "OC001", 0},
		"a lost backend, INSERT":         {"Q INSERT INTO made VALUES (1)", "die", 0},
		"a lost backend, UPDATE":         {update, "die", 0},
		"a lost backend, behind nextval": {noNumber + "\n" + update, "die", 0},
	} {
		t.Run(name, func(t *testing.T) {
			armFault(t, pg, 0)
			before := replayed(t, s)
			a, others, same := talk(t, s.addr), talk(t, s.addr), talk(t, s.addr)
			a.play(t, "Q BEGIN\n"+test.script+"\nQ SELECT fault('"+test.fault+"')")
			if got := replayed(t, s) - before; got != 1 {
				t.Fatalf("%v replays", got)
			}
			if got := s.Stats().Gate; got != (retry.GateStats{Keys: test.passes}) {
				t.Errorf("%+v are at the gate, want %d", got, test.passes)
			}
			others.play(t, "Q BEGIN\n"+strings.NewReplacer("id = 1", "id = 2", "(1", "(2", "| 1", "| 2", "made_too", "made_three").Replace(test.script)+"\nQ ROLLBACK")
			same.ask(t, "Q BEGIN\n"+test.script) // where it does not wait here, it waits for the row
			if test.passes > 0 {
				waitFor(t, "the same statement at the gate", func() bool { return s.Stats().Gate.Waiting == 1 })
			}
			a.play(t, "Q ROLLBACK")
			same.play(t, "Q ROLLBACK")
			waitFor(t, "the gate to be idle", func() bool { return s.Stats().Gate == (retry.GateStats{}) })
		})
	}
}

// A transaction that loses its pass's row while another waits for that stands back for base_delay: the second of its
// replays is not quick.
func TestWhoIsWaitedForStandsBack(t *testing.T) {
	t.Parallel()
	pg := faultyPostgres(t)
	const base, jitter = 500 * time.Millisecond, 0.25
	s := startSluice(t, pg, fastReplay, maxOpen(5), func(s *setup) {
		s.proxy.Retry.GateHold = time.Minute
		p := &s.proxy.Retry.Policy
		p.FirstDelay, p.BaseDelay, p.MaxDelay, p.JitterFactor = time.Millisecond, base, base, jitter
	})
	const update, fault = "Q BEGIN\nQ UPDATE account SET n = n + 1 WHERE id = 1", "Q SELECT fault('OC000')"
	armFault(t, pg, 0)
	a, waits := talk(t, s.addr), talk(t, s.addr)
	a.play(t, update+"\n"+fault)
	waits.ask(t, update)
	waitFor(t, "the other at the gate", func() bool { return s.Stats().Gate.Waiting == 1 })
	armFault(t, pg, 0)
	began := time.Now()
	a.play(t, fault)
	if paused := time.Since(began); float64(paused) < float64(base)*(1-jitter) {
		t.Errorf("it was run again after %v, want %v and more", paused, base)
	}
	if got := replayed(t, s); got != 2 {
		t.Errorf("%v replays", got)
	}
	a.play(t, "Q ROLLBACK")
	waits.play(t, "Q ROLLBACK")
}

// talker is a client that knows how many ReadyForQuery it is owed.
type talker struct {
	*rawClient
	due int
}

func talk(t *testing.T, addr string) *talker {
	c := &talker{rawClient: dialRaw(t, addr)}
	t.Cleanup(func() { c.conn.Close() })
	return c
}

// ask sends a script's requests.
func (c *talker) ask(t *testing.T, script string) {
	t.Helper()
	for line := range strings.SplitSeq(script, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		c.queue(encodeLine(t, verb, rest))
		if verb == "Q" || verb == "S" {
			c.due++
		}
	}
	c.flush()
}

// play sends a script's requests, and waits for the answers to all so far.
func (c *talker) play(t *testing.T, script string) {
	t.Helper()
	c.ask(t, script)
	if got := c.readThrough(strings.Repeat("Z", c.due)); strings.Contains(got, "\nE ") {
		t.Fatalf("%s:\n%s", script, got)
	}
	c.due = 0
}

// While clients that have their statement in common, but not their rows, go on and on,
// one conflict makes them wait at the gate for a while at most. That they wait at all
// is for TestGateEndsTheFight.
func TestGateClosesUnderLoad(t *testing.T) {
	pg := faultyPostgres(t)
	const clients = 8
	s := startSluice(t, pg, fastReplay, maxOpen(clients))
	armFault(t, pg, 100)
	same := strings.Repeat("x", 2000) // the rest of the parameters is not looked at
	var commits atomic.Int64
	var load sync.WaitGroup
	defer load.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range clients {
		load.Go(func() {
			conn, err := pgx.Connect(context.Background(), fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.addr))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			for ctx.Err() == nil {
				if _, err := conn.Exec(context.Background(), "UPDATE busy SET n = n + length($1) WHERE name = $2", same, strconv.Itoa(i+1)); err != nil {
					t.Error(err)
					return
				}
				commits.Add(1)
			}
		})
	}
	waitFor(t, "the conflict", func() bool { return replayed(t, s) == 1 })
	before := commits.Load()
	waitFor(t, "a gate that is closed while the load goes on", func() bool {
		return commits.Load() > before+500 && s.Stats().Gate == (retry.GateStats{})
	})
}
