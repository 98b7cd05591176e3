package proxy_test

import (
	"strings"
	"testing"
)

// moved is a function that is told of a change of the schema when it is first called.
const moved = `
CREATE FUNCTION moved() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_3') = 1 THEN RAISE EXCEPTION 'schema has been updated by another transaction (OC001)' USING ERRCODE = '40001'; END IF;
	RETURN 'x'; END $$;`

// A statement for which a session keeps its backend is run again where the schema has changed,
// and keeps its backend then. It is not for another conflict, nor behind its end.
func TestReplayOfAPin(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+moved)
	s := startSluice(t, pg, fastReplay, maxOpen(2))
	const sets, made = "SELECT set_config('a.b', moved(), false)", "CREATE TEMP TABLE kept AS SELECT moved() AS x"
	for name, c := range map[string]struct {
		script string
		pins   int
		want   []string
	}{
		"alone":             {"Q " + sets + "\n< Z\nQ SELECT current_setting('a.b') AS now\n< Z\n", 1, []string{"C SELECT 1", "x"}},
		"extended":          {ext(sets) + "S\n< Z\nQ SELECT current_setting('a.b') AS now\n< Z\n", 1, []string{"C SELECT 1", "x"}},
		"a table":           {"Q " + made + "\n< Z\nQ SELECT x FROM kept\n< Z\n", 1, []string{"C SELECT 1", "x"}},
		"in a block":        {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ " + sets + "\n< Z\nQ COMMIT\n< Z\n", 1, []string{"C COMMIT"}},
		"a block, extended": {ext("BEGIN") + "S\n< Z\n" + ext(made) + "S\n< Z\n" + ext("SELECT x FROM kept") + ext("COMMIT") + "S\n< Z\n", 1, []string{"C COMMIT"}},
		"then a conflict":   {"Q BEGIN\n< Z\nQ " + sets + "\n< Z\nQ SELECT stumble(1)\n< Z\nQ ROLLBACK\n< Z\n", 1, []string{"E S=ERROR C=40001", "Replay refused"}},
		"another conflict":  {"Q SELECT set_config('a.b', stumble(1)::text, false)\n< Z\nQ SELECT 1\n< Z\n", 0, []string{"E S=ERROR C=40001", "C SELECT 1"}},
		"a lock":            {"Q SELECT pg_advisory_lock(moved()::text::int)\n< Z\n", 1, []string{"E S=ERROR C=40001"}},
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			client := dialRaw(t, s.addr)
			got := client.say(t, c.script)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if strings.Contains(c.want[0], "C ") && !strings.HasPrefix(c.want[0], "E") && strings.Contains(got, "E S=") {
				t.Errorf("an error in\n%s", got)
			}
			if n := s.Stats().Pinned; n != c.pins {
				t.Errorf("%d pins, want %d", n, c.pins)
			}
			client.say(t, "X\n")
			waitFor(t, "the pin to go", func() bool { return s.Stats().Pinned == 0 && s.Stats().Clients == 0 })
		})
	}
}

// A session that keeps its backend runs a transaction again on that one where the schema has
// changed. It keeps what it has there, also where that comes to nothing.
func TestReplayOfAPinnedSession(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", changing+moved+`
CREATE FUNCTION always() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	RAISE EXCEPTION 'schema has been updated by another transaction (OC001)' USING ERRCODE = '40001'; END $$;`)
	s := startSluice(t, pg, withSavepoints, maxOpen(2))
	const lives = "Q EXECUTE p\n< Z\nQ SELECT a FROM mine\n< Z\n"
	for name, c := range map[string]struct {
		script string
		told   string // of the error; "" for none
	}{
		"alone":                {"Q SELECT moved()\n< Z\n", ""},
		"extended":             {ext("SELECT moved()") + "S\n< Z\n", ""},
		"in a block":           {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ INSERT INTO mine VALUES (2)\n< Z\nQ SELECT moved()\n< Z\nQ COMMIT\n< Z\n", ""},
		"another pin":          {"Q CREATE TEMP TABLE kept AS SELECT moved() AS x\n< Z\nQ SELECT x FROM kept\n< Z\n", ""},
		"a prepared":           {"Q PREPARE q AS SELECT moved()\n< Z\nQ EXECUTE q\n< Z\n", ""},
		"always":               {"Q SELECT always()\n< Z\n", "OC001"},
		"always, extended":     {ext("SELECT always()") + ext("SELECT 1") + "S\n< Z\n", "OC001"},
		"always, in a block":   {"Q BEGIN\n< Z\nQ SELECT 1\n< Z\nQ SELECT always()\n< Z\nQ SELECT 1\n< Z\nQ ROLLBACK\n< Z\n", "OC001"},
		"always, flushed":      {ext("SELECT always()") + "H\n< E\nS\n< Z\n", "OC001"},
		"another conflict":     {"Q SELECT stumble(1)\n< Z\n", "OC000"},
		"behind PREPARE":       {"Q BEGIN\n< Z\nQ PREPARE q AS SELECT 1\n< Z\nQ SELECT moved()\n< Z\nQ ROLLBACK\n< Z\n", "OC001"},
		"behind FETCH":         {"Q BEGIN\n< Z\nQ FETCH 1 FROM open\n< Z\nQ SELECT moved()\n< Z\nQ ROLLBACK\n< Z\n", "OC001"},
		"a savepoint":          {"Q BEGIN\n< Z\nQ SAVEPOINT a\n< Z\nQ ROLLBACK\n< Z\n", "not possible in this transaction"},
		"what it read differs": {"Q BEGIN\n< Z\nQ SELECT nextval('changing')\n< Z\nQ SELECT moved()\n< Z\nQ ROLLBACK\n< Z\n", "OC001"},
	} {
		t.Run(name, func(t *testing.T) {
			stumbles(t, pg, true)
			client := dialRaw(t, s.addr)
			client.say(t, "Q PREPARE p AS SELECT 'lives' AS v\n< Z\nQ CREATE TEMP TABLE mine AS SELECT 17 AS a\n< Z\nQ DECLARE open CURSOR WITH HOLD FOR SELECT generate_series(1, 9)\n< Z\n")
			got := client.say(t, c.script)
			if strings.Contains(got, "E S=") != (c.told != "") || !strings.Contains(got, c.told) {
				t.Errorf("got\n%s", got)
			}
			if got := client.say(t, lives); !strings.Contains(got, "lives") || !strings.Contains(got, "17") {
				t.Errorf("what it had is gone:\n%s", got)
			}
			client.say(t, "X\n")
			waitFor(t, "the pin to go", func() bool { return s.Stats().Pinned == 0 && s.Stats().Clients == 0 })
		})
	}
}
