package rewrite

import "testing"

func TestSurvey(t *testing.T) {
	s := NewSchema([]Relation{
		{Schema: "public", Name: "t", Columns: []Column{{Name: "id", Fill: Drawn}, {Name: "v"}}},
		{Schema: "public", Name: "timed", Columns: []Column{{Name: "at", Fill: Clock}}},
		{Schema: "public", Name: "odd", Columns: []Column{{Name: "x", Fill: Unclear}}},
		{Schema: "public", Name: "seen", View: true},
	})
	p, names := newPlanner(t), s.In([]string{"public"})
	const nothing, time, both = 0, 1, 3
	for sql, want := range map[string]int{
		"": nothing, "-- x": nothing, "SELECT v FROM t WHERE id = $1": nothing, "UPDATE t SET v = v + 1": nothing, "INSERT INTO t (v) VALUES (1)": nothing,
		"SELECT lower('x'), nextval('s'), count(*) FROM t": nothing, "SET LOCAL x.y = 'z'": nothing, "DELETE FROM timed": nothing, "SELECT at FROM timed": nothing, "UPDATE t SET v = DEFAULT": both, "INSERT INTO unheard VALUES (1)": both,
		"SELECT now()": time, "SELECT CURRENT_DATE FROM t": time, "SELECT 'today'::date": time, "INSERT INTO timed DEFAULT VALUES": time, "SELECT 1 FROM seen": time, "SELECT 1 FROM unheard": time, "SELECT Now() FROM t": time,
		"INSERT INTO odd DEFAULT VALUES": both, "SELECT setval('s', 1)": both, "SELECT mine()": both, "SELECT mine.lower('x')": both,
		"TRUNCATE t": both, "CREATE SEQUENCE s": both, "DO $$ BEGIN END $$": both, "nonsense": both, "SELECT 1; ALTER SEQUENCE s RESTART": both,
	} {
		got := p.Survey(sql, names)
		if got.Time != (want&time != 0) || got.Numbers != (want == both) {
			t.Errorf("%q: %+v", sql, got)
		}
	}
}

func TestDraws(t *testing.T) {
	p := newPlanner(t)
	for sql, want := range map[string]Fill{
		"SELECT nextval('s')": Drawn, "select nextval('public.s'::regclass) as id, gen_random_uuid()": Drawn, "SELECT random()::text;": Drawn, "SELECT nextval($1)": Drawn,
		"SELECT clock_timestamp()": Clock, "SELECT random(), pg_catalog.clock_timestamp()": Clock,
		"SELECT now()": Settled, "SELECT 1": Settled, "SELECT": Settled, "SELECT nextval('s') FROM t": Settled, "SELECT nextval(mine())": Settled, "SELECT my.nextval('s')": Settled,
		"SELECT nextval('s') UNION SELECT 1": Settled, "SELECT nextval('s') WHERE random() > 0.5": Settled, "SELECT nextval('s'), 1": Settled,
		"SELECT nextval('s'); SELECT 1": Settled, "SELECT nextval('s') INTO x": Settled, "SELECT random()::mine": Settled, "VALUES (random())": Settled,
	} {
		if got := p.Draws(sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}
