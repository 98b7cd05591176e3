package proxy_test

import (
	"strings"
	"testing"
)

// A statement for which a session keeps its backend is run again where the schema has changed,
// and keeps its backend then. It is not for another conflict, nor behind its end.
func TestReplayOfAPin(t *testing.T) {
	t.Parallel()
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling+`
CREATE FUNCTION moved() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('stumble_3') = 1 THEN RAISE EXCEPTION 'schema has been updated by another transaction (OC001)' USING ERRCODE = '40001'; END IF;
	RETURN 'x'; END $$;`)
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
