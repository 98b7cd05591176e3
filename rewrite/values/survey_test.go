package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

func TestSurvey(t *testing.T) {
	s := schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn}, {Name: "v"}}},
		{Schema: "public", Name: "timed", Columns: []schema.Column{{Name: "at", Fill: schema.Clock}}},
		{Schema: "public", Name: "odd", Columns: []schema.Column{{Name: "x", Fill: schema.Unclear}}},
		{Schema: "public", Name: "seen", View: true},
		{Schema: "public", Name: "told", Columns: []schema.Column{{Name: "at", Kind: instantType}, {Name: "word"}, {Name: "v"}}},
	})
	p, names := newPlanner(t), s.ResolverFor([]string{"public"})
	const nothing, time, numbers, both = 0, 1, 2, 3
	for sql, want := range map[string]int{
		"": nothing, "-- x": nothing, "SELECT v FROM t WHERE id = $1": nothing, "UPDATE t SET v = v + 1": nothing, "INSERT INTO t (v) VALUES (1)": nothing,
		"SELECT lower('x'), nextval('s'), count(*) FROM t": nothing, "SET LOCAL x.y = 'z'": nothing, "DELETE FROM timed": nothing, "SELECT at FROM timed": nothing, "UPDATE t SET v = DEFAULT": both, "INSERT INTO unheard VALUES (1)": both,
		"SELECT now()": time, "SELECT CURRENT_DATE FROM t": time, "SELECT 'today'::date": time, "INSERT INTO timed DEFAULT VALUES": time, "SELECT 1 FROM seen": time, "SELECT 1 FROM unheard": time, "SELECT Now() FROM t": time,
		"SELECT \"now\"()": time, "SELECT pg_catalog.\"transaction_timestamp\"()": time, "SELECT U&\"n\\006fw\"()": time, "SELECT \"now\", \"Now\"() FROM t": both, "SELECT v AS \"now\" FROM t": nothing,
		"WITH x AS (SELECT v FROM t) SELECT v FROM x": nothing, "WITH x AS (SELECT at FROM timed), y AS (SELECT 1 FROM x) SELECT 1 FROM y, t": nothing, "WITH x AS (SELECT 1) SELECT 1 FROM unheard": time,
		"WITH x AS (SELECT now()) SELECT 1 FROM x": time, "WITH x AS (SELECT 1) SELECT 1 FROM other.x": time, "WITH x AS (INSERT INTO timed DEFAULT VALUES RETURNING 1) SELECT 1 FROM x": time,
		"WITH x AS (INSERT INTO timed DEFAULT VALUES) SELECT 1": time, "WITH x AS (INSERT INTO odd DEFAULT VALUES) SELECT 1": both, "WITH x AS (UPDATE t SET v = DEFAULT) SELECT 1": both,
		// What is computed, or read, may be the word for the time; what is constant, or a time already, is none.
		"SELECT ('no' || 'w')::timestamptz": time, "SELECT E'n\\x6fw'::timestamptz": time, "SELECT 'no'\n'w'::date": time, "SELECT U&'n\\006fw'::date": time, "SELECT word::date FROM told": time, "SELECT timestamptz(word) FROM told": time,
		"SELECT CAST(lower('NOW') AS date)": time, "SELECT (CASE WHEN v THEN word END)::timestamptz FROM told": time, "SELECT ($1 || 'w')::date": time, "SELECT coalesce(word, '2026-01-01')::time FROM told": time, "SELECT ('no' || 'w')::mine": time,
		"SELECT v FROM told WHERE at > (SELECT word FROM told)::timestamptz": time, "SELECT ARRAY[word]::date[] FROM told": time, "SELECT word::text::date FROM told": time, "INSERT INTO t (v) VALUES (('to' || 'day')::date)": time, "INSERT INTO t (v) SELECT word::date FROM told": time,
		"SELECT x.at::date FROM (SELECT word AS at FROM told) x": time, "WITH x AS (SELECT word AS at FROM told) SELECT at::date FROM x": time, "SELECT * FROM json_to_record('{\"a\": \"now\"}') AS x (a timestamptz)": time, "UPDATE t SET v = 1 WHERE v = replace('nXw', 'X', 'o')::date": time,
		"SELECT '2026-01-01'::timestamptz, date '2026-01-01', '1 day'::interval": nothing, "SELECT $1::timestamptz": nothing, "SELECT at::date, told.at::text, date(at) FROM told WHERE at > $1::text::timestamptz - '1 day'::interval": nothing, "SELECT (word || 'x')::text, word::int FROM told": nothing,
		"SELECT date_trunc('day', at)::date, (at + '1 day')::date FROM told": nothing, "SELECT word::jsonb, (word || '1')::numeric, word::interval FROM told": nothing,
		"INSERT INTO odd DEFAULT VALUES": both, "SELECT setval('s', 1)": both, "SELECT mine()": both, "SELECT mine.lower('x')": both,
		"DO $$ BEGIN END $$": both, "nonsense": both, "SELECT 1; ALTER SEQUENCE s RESTART": both,
		// A definition stores an expression for the time, but evaluates a constant.
		"TRUNCATE t": numbers, "CREATE SEQUENCE s": numbers, "ALTER SEQUENCE s RESTART": numbers, "CREATE TABLE n (a timestamptz DEFAULT now())": numbers, "CREATE TABLE n (a date DEFAULT CURRENT_DATE, CHECK (a > now()))": numbers,
		"CREATE TABLE n (a timestamptz DEFAULT 'now')": both, "CREATE TABLE n (a timestamptz DEFAULT E'n\x6fw')": both, "CREATE TABLE n PARTITION OF t FOR VALUES FROM (now()) TO (MAXVALUE)": both, "CREATE TABLE n AS SELECT 1": both,
		"CREATE VIEW n AS SELECT now()": numbers, "CREATE VIEW n AS SELECT 'today'::date": both, "CREATE INDEX ON t (v)": numbers, "DROP TABLE t": numbers, "COMMENT ON TABLE t IS 'x'": numbers,
		"ALTER TABLE t ALTER v SET DEFAULT now()": numbers, "ALTER TABLE t ALTER v SET DEFAULT 'now'": both, "ALTER TABLE t DROP COLUMN v, ADD COLUMN n int": numbers, "ALTER TABLE t ADD COLUMN n timestamptz DEFAULT now()": both,
		"ALTER TABLE t ADD COLUMN n mine": both, "ALTER TABLE t ADD CHECK (v < now())": both, "ALTER TABLE t ALTER v TYPE date USING now()": both, "CREATE TABLE n (a int); DROP TABLE n": both,
	} {
		got := EffectsOf(p, sql, names)
		if got.Time != (want&time != 0) || got.Numbers != (want&numbers != 0) {
			t.Errorf("%q: %+v", sql, got)
		}
	}
}

// The server's own relations call no function of a user's; a view of a user's may.
func TestSurveyOfViews(t *testing.T) {
	s := schema.New([]schema.Relation{{Schema: "pg_catalog", Name: "pg_class", View: true}, {Schema: "information_schema", Name: "tables", View: true}, {Schema: "public", Name: "seen", View: true}, {Schema: "public", Name: "pg_class", View: true}})
	p, names, shadowed := newPlanner(t), s.ResolverFor([]string{"pg_catalog", "public"}), s.ResolverFor([]string{"public", "pg_catalog"})
	for sql, want := range map[string][2]bool{
		"SELECT 1 FROM pg_class": {false, true}, "SELECT 1 FROM pg_catalog.pg_class": {}, "SELECT 1 FROM information_schema.tables": {}, "SELECT 1 FROM public.pg_class": {true, true},
		"SELECT 1 FROM seen": {true, true}, "SELECT 1 FROM pg_catalog.pg_class, seen": {true, true}, "SELECT 1 FROM seen, pg_catalog.pg_class": {true, true},
	} {
		if got := [2]bool{EffectsOf(p, sql, names).Views, EffectsOf(p, sql, shadowed).Views}; got != want {
			t.Errorf("%q: %v, want %v", sql, got, want)
		}
	}
}

func TestDraws(t *testing.T) {
	p := newPlanner(t)
	for sql, want := range map[string]schema.DefaultKind{
		"SELECT nextval('s')": schema.Drawn, "select nextval('public.s'::regclass) as id, gen_random_uuid()": schema.Drawn, "SELECT random()::text;": schema.Drawn, "SELECT nextval($1)": schema.Drawn,
		"SELECT clock_timestamp()": schema.Clock, "SELECT random(), pg_catalog.clock_timestamp()": schema.Clock,
		"SELECT now()": schema.Clock, "SELECT CURRENT_TIMESTAMP, transaction_timestamp()": schema.Clock, "SELECT CURRENT_DATE": schema.Settled, "SELECT 1": schema.Settled, "SELECT": schema.Settled, "SELECT nextval('s') FROM t": schema.Settled, "SELECT nextval(mine())": schema.Settled, "SELECT my.nextval('s')": schema.Settled,
		"SELECT nextval('s') UNION SELECT 1": schema.Settled, "SELECT nextval('s') WHERE random() > 0.5": schema.Settled, "SELECT nextval('s'), 1": schema.Settled, "SELECT DISTINCT nextval('s')": schema.Settled,
		"SELECT nextval('s'); SELECT 1": schema.Settled, "SELECT nextval('s') INTO x": schema.Settled, "SELECT random()::mine": schema.Settled, "VALUES (random())": schema.Settled,
	} {
		if got := ClassifyGenerated(p, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

func TestObserves(t *testing.T) {
	s := schema.New([]schema.Relation{{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn}, {Name: "v"}}},
		{Schema: "public", Name: "timed", Columns: []schema.Column{{Name: "id"}, {Name: "at", Fill: schema.Clock}}}})
	p, names := newPlanner(t), s.ResolverFor([]string{"public"})
	for sql, want := range map[string]bool{
		"": false, "SELECT 1": false, "SELECT nextval('s'), random(), clock_timestamp(), currval('s')": false, "SELECT lower($1) || 'x'": false, "VALUES (1), (2)": false, "SET x.y = 1": false, "SHOW x.y": false,
		"INSERT INTO t (v) VALUES ($1), (DEFAULT) RETURNING id, v": false, "INSERT INTO t DEFAULT VALUES": false, "INSERT INTO t (v) VALUES (lower('X')) RETURNING *": false, "CREATE TABLE x (a int)": false,
		"INSERT INTO timed (id) VALUES (1)": false, "INSERT INTO timed (id, at) VALUES (1, now())": false, "SELECT 1; INSERT INTO t (v) VALUES (1)": false,
		"INSERT INTO timed (id) VALUES (1) RETURNING at": true, "INSERT INTO t (v) VALUES (now()) RETURNING v": true, "SELECT CURRENT_TIMESTAMP": true, "SELECT 'now'::timestamptz": true,
		"SELECT v FROM t": true, "SELECT (SELECT 1 FROM t)": true, "SELECT mine()": true, "SELECT mine.lower('x')": true, "UPDATE t SET v = 1": true, "DELETE FROM t": true, "TABLE t": true,
		"INSERT INTO t (v) VALUES (1) ON CONFLICT DO NOTHING": true, "INSERT INTO t (v) VALUES ((SELECT 1 FROM t))": true, "INSERT INTO t (v) SELECT 1 FROM t": true, "INSERT INTO t (v) VALUES (mine())": true,
		"WITH x AS (SELECT 1 FROM t) INSERT INTO t (v) VALUES (1)": true, "INSERT INTO t (v) VALUES (1) RETURNING (SELECT count(*) FROM t)": true, "FETCH 1 FROM c": true, "nonsense": true, "SELECT 1; SELECT v FROM t": true,
	} {
		if got := DependsOnData(p, sql, names); got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}
