package values

import (
	"fmt"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// With gives the statement back with the values of its answer, and leaves what the server does
// not make.
func TestInsertionWith(t *testing.T) {
	s := schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn, Always: true}, {Name: "v"}, {Name: "u", Fill: schema.Drawn}, {Name: "at", Fill: schema.Clock},
			{Name: "x", Fill: schema.Unclear}, {Name: "twice", Computed: true, Fill: schema.Settled}}},
		{Schema: "public", Name: "Odd", Columns: []schema.Column{{Name: "Id", Fill: schema.Drawn}, {Name: "select"}}},
	})
	names := s.ResolverFor([]string{"public"})
	p := newPlanner(t)
	for sql, want := range map[string]string{
		"INSERT INTO t (v) VALUES (1) RETURNING id":                                         `INSERT INTO t (v, "id") OVERRIDING SYSTEM VALUE VALUES (1, 0.0) RETURNING id`,
		"INSERT INTO t (v) VALUES (1), ((2)) RETURNING u":                                   `INSERT INTO t (v, "u") VALUES (1, 0.0), ((2), 1.0) RETURNING u`,
		"insert into public.t as a (v) values ($1) returning a.v, a.id;":                    `insert into public.t as a (v, "id") OVERRIDING SYSTEM VALUE values ($1, 0.1) returning a.v, a.id;`,
		"INSERT INTO public.t (v) VALUES (1) RETURNING public.t.id, \"public\".\"t\".\"u\"": `INSERT INTO public.t (v, "id", "u") OVERRIDING SYSTEM VALUE VALUES (1, 0.0, 0.1) RETURNING public.t.id, "public"."t"."u"`,
		"INSERT INTO t (v) VALUES (1) RETURNING public.t.*":                                 `INSERT INTO t (v, "id", "u") OVERRIDING SYSTEM VALUE VALUES (1, 0.0, 0.2) RETURNING public.t.*`,
		"INSERT INTO t (v) VALUES (1) RETURNING other.t.id":                                 "",
		"INSERT INTO t DEFAULT VALUES RETURNING *":                                          `INSERT INTO t ("id", "u") OVERRIDING SYSTEM VALUE VALUES (0.0, 0.2) RETURNING *`,
		"INSERT INTO t VALUES (DEFAULT, 3) RETURNING t.*":                                   `INSERT INTO t ("id", "v", "u") OVERRIDING SYSTEM VALUE VALUES (0.0, 3, 0.2) RETURNING t.*`,
		"INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (5) RETURNING u":                      `INSERT INTO t ("id", "u") OVERRIDING SYSTEM VALUE VALUES (5, 0.0) RETURNING u`,
		"INSERT INTO t (id, v) VALUES (DEFAULT, 1), (DEFAULT, 2) RETURNING id, v":           `INSERT INTO t (id, v) OVERRIDING SYSTEM VALUE VALUES (0.0, 1), (1.0, 2) RETURNING id, v`,
		"INSERT INTO t (u, v) VALUES (gen_random_uuid(), f(1, 2)) RETURNING u":              `INSERT INTO t (u, v) VALUES (0.0, f(1, 2)) RETURNING u`,
		"INSERT INTO t (v) VALUES (nextval('s')::int) RETURNING v":                          `INSERT INTO t (v) VALUES (0.0) RETURNING v`,
		"INSERT INTO t (v) VALUES (1) ON CONFLICT DO NOTHING RETURNING u":                   `INSERT INTO t (v, "u") VALUES (1, 0.0) ON CONFLICT DO NOTHING RETURNING u`,
		`INSERT INTO "Odd" ("select") VALUES ('a)') RETURNING "Id"`:                         `INSERT INTO "Odd" ("select", "Id") VALUES ('a)', 0.0) RETURNING "Id"`,
		"INSERT INTO t (v) VALUES (1) RETURNING v + 1, id, now()":                           `INSERT INTO t (v, "id") OVERRIDING SYSTEM VALUE VALUES (1, 0.1) RETURNING v + 1, id, now()`,
		"INSERT INTO t (v) VALUES (1) RETURNING (t).id, ctid, old.u, u AS x, f(v)":          `INSERT INTO t (v, "u") VALUES (1, 0.3) RETURNING (t).id, ctid, old.u, u AS x, f(v)`,
		"INSERT INTO t (v) VALUES (1) RETURNING v || 'x', *":                                `INSERT INTO t (v, "id", "u") OVERRIDING SYSTEM VALUE VALUES (1, 0.1, 0.3) RETURNING v || 'x', *`,
		"INSERT INTO t (v) VALUES (1) RETURNING id + 1":                                     "",
		"INSERT INTO t (v) VALUES (1) RETURNING v":                                          "",
		"INSERT INTO t (v) VALUES (1) RETURNING at, x, twice":                               "",
		"INSERT INTO t (id, u) OVERRIDING SYSTEM VALUE VALUES (1, 2) RETURNING id, u":       "",
	} {
		in := ParseInsertion(p, sql, names)
		if in == nil {
			t.Errorf("%s: no insertion", sql)
			continue
		}
		got := in.WithFirstRun(FirstRunValues{Value: func(c AnswerCell) string { return fmt.Sprintf("%d.%d", c.Row, c.Column) }})
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", sql, got, want)
		}
		if len(p.StatementTrees(got)) != 1 && got != "" {
			t.Errorf("%s: no statement", got)
		}
	}
	for _, sql := range []string{
		"INSERT INTO t (v) SELECT 1 RETURNING id", "INSERT INTO t (v) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 2 RETURNING id",
		"WITH w AS (SELECT 1) INSERT INTO t (v) VALUES (1) RETURNING id", "INSERT INTO t (v) OVERRIDING USER VALUE VALUES (1) RETURNING id",
		"INSERT INTO t (v) VALUES (1) RETURNING id, (t).*", "INSERT INTO t (v) VALUES (1) RETURNING old.*, id", "INSERT INTO nowhere (v) VALUES (1) RETURNING id",
		"INSERT INTO t (v) VALUES (1) RETURNING id; SELECT 1", "UPDATE t SET v = 1 RETURNING id", "INSERT INTO t (v) VALUES (1) LIMIT 1 RETURNING id",
		"INSERT INTO t (v[1]) VALUES (1) RETURNING id", "SELECT 1", "",
	} {
		if in := ParseInsertion(p, sql, names); in != nil {
			t.Errorf("%s is taken for an insertion", sql)
		}
	}
}

// The time goes back where it is asked for, and what else is filled with it is told.
func TestInsertionAndTheTime(t *testing.T) {
	s := schema.New([]schema.Relation{{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn}, {Name: "at", Fill: schema.Clock}, {Name: "changed", Fill: schema.Clock}}}})
	p := newPlanner(t)
	given := FirstRunValues{Clock: true, Value: func(AnswerCell) string { return "$1" }}
	for sql, want := range map[string]struct {
		hides bool
		with  string
	}{
		"INSERT INTO t DEFAULT VALUES RETURNING id":                     {true, `INSERT INTO t ("id") VALUES ($1) RETURNING id`},
		"INSERT INTO t DEFAULT VALUES RETURNING at":                     {true, `INSERT INTO t ("at") VALUES ($1) RETURNING at`},
		"INSERT INTO t DEFAULT VALUES RETURNING at, changed":            {false, `INSERT INTO t ("at", "changed") VALUES ($1, $1) RETURNING at, changed`},
		"INSERT INTO t (at, changed) VALUES ('x', 'y') RETURNING at":    {false, ""},
		"INSERT INTO t (at, changed) VALUES (DEFAULT, 'y') RETURNING *": {false, `INSERT INTO t (at, changed, "id") VALUES ($1, 'y', $1) RETURNING *`},
	} {
		in := ParseInsertion(p, sql, s.ResolverFor([]string{"public"}))
		if in == nil {
			t.Fatalf("%s: no insertion", sql)
		}
		got := in.WithFirstRun(given)
		if in.EffectsWith(given).Time != want.hides || got != want.with {
			t.Errorf("%s: hides %v, %s", sql, in.EffectsWith(given).Time, got)
		}
	}
}

// The time of the transaction goes into the columns whose value is known, whether the client was told
// the answer or not; what else reads the clock is told.
func TestInsertionAtATime(t *testing.T) {
	s := schema.New([]schema.Relation{{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn, Always: true}, {Name: "v"},
		{Name: "at", Fill: schema.Clock, Time: "known"}, {Name: "changed", Fill: schema.Clock, Time: "unknown"},
		{Name: "free", Kind: "1184/-1"}, {Name: "day", Kind: "1082/-1"}, {Name: "twice", Kind: "1184/-1", Computed: true}}}})
	p := newPlanner(t)
	given := FirstRunValues{Knows: func(kind string) bool {
		return kind == "known" || kind == "1184/-1 now()" || kind == "1184/-1 CURRENT_TIMESTAMP"
	}, Time: func(string) string { return "'T'" }}
	for sql, want := range map[string]struct {
		reads bool
		with  string
	}{
		"INSERT INTO t (v) VALUES (1), (2)":                                                          {true, `INSERT INTO t (v, "at") VALUES (1, 'T'), (2, 'T')`},
		"INSERT INTO t (v, changed) VALUES (1, $1) RETURNING *":                                      {false, `INSERT INTO t (v, changed, "at") VALUES (1, $1, 'T') RETURNING *`},
		"INSERT INTO t DEFAULT VALUES":                                                               {true, `INSERT INTO t ("at") VALUES ('T')`},
		"INSERT INTO t (at, changed) VALUES (DEFAULT, 'x'), ('y', 'z')":                              {false, `INSERT INTO t (at, changed) VALUES ('T', 'x'), ('y', 'z')`},
		"INSERT INTO t VALUES (nextval('s'), 1, DEFAULT, 'x')":                                       {false, `INSERT INTO t ("id", "v", "at", "changed") VALUES (nextval('s'), 1, 'T', 'x')`},
		"INSERT INTO t (at, changed) VALUES ('x', DEFAULT)":                                          {true, ""},
		"INSERT INTO t (at, changed) VALUES ('x', 'y')":                                              {false, ""},
		"INSERT INTO t (at, changed) VALUES ('x', now())":                                            {true, ""},
		"INSERT INTO t (at, changed, free) VALUES ('x', 'y', Now( )), ('x', 'y', current_timestamp)": {false, "INSERT INTO t (at, changed, free) VALUES ('x', 'y', 'T'), ('x', 'y', 'T')"},
		"INSERT INTO t (at, changed, free) VALUES ('x', 'y', CURRENT_TIMESTAMP(3))":                  {true, ""},
		"INSERT INTO t (at, changed, free) VALUES ('x', 'y', (now()))":                               {true, ""},
		"INSERT INTO t (at, changed, free) VALUES ('x', 'y', pg_catalog.now())":                      {true, ""},
		"INSERT INTO t (at, changed, free) VALUES ('x', 'y', now()), ('x', now()::text, NULL)":       {true, "INSERT INTO t (at, changed, free) VALUES ('x', 'y', 'T'), ('x', now()::text, NULL)"},
		"INSERT INTO t (at, changed, day) VALUES ('x', 'y', CURRENT_DATE)":                           {true, ""},
		"INSERT INTO t (at, changed, twice) VALUES ('x', 'y', now())":                                {true, ""},
		"INSERT INTO t (v, changed) VALUES (1, 'x') ON CONFLICT DO NOTHING":                          {false, `INSERT INTO t (v, changed, "at") VALUES (1, 'x', 'T') ON CONFLICT DO NOTHING`},
		"INSERT INTO t (at, changed) VALUES ('today', 'x') RETURNING at AS now":                      {true, ""},
	} {
		in := ParseInsertion(p, sql, s.ResolverFor([]string{"public"}))
		if in == nil {
			t.Fatalf("%s: no insertion", sql)
		}
		if got := in.WithFirstRun(given); in.EffectsWith(given).Time != want.reads || got != want.with {
			t.Errorf("%s: reads %v, %s", sql, in.EffectsWith(given).Time, got)
		}
	}
}

// A default of the time, at an instant.
func TestAtTime(t *testing.T) {
	for expression, want := range map[string]string{
		"now()":                                   "(($1)::timestamptz)::timestamptz",
		"CURRENT_TIMESTAMP":                       "(($1)::timestamptz)::timestamptz",
		"CURRENT_TIMESTAMP(3)":                    "(($1)::timestamptz)::timestamptz(3)",
		"LOCALTIMESTAMP":                          "(($1)::timestamptz)::timestamp",
		"(now())::date":                           "((($1)::timestamptz)::timestamptz)::date",
		"timezone('now'::text, now()) + 'x'":      "timezone('now'::text, (($1)::timestamptz)::timestamptz) + 'x'",
		"(CURRENT_DATE + LOCALTIME(0))":           "((($1)::timestamptz)::date + (($1)::timestamptz)::time(0))",
		"(now() - '1 day'::interval) + (now()-x)": "((($1)::timestamptz)::timestamptz - '1 day'::interval) + ((($1)::timestamptz)::timestamptz-x)",
	} {
		if got := DefaultAtInstant("1114/-1 "+expression, "$1"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expression, got, want)
		}
	}
	for time, want := range map[string]bool{"1184/-1 now()": true, "1184/-1 CURRENT_TIMESTAMP": true, "1184/3 now()": false, "1114/-1 now()": false, "1184/-1 (now() + '1 day'::interval)": false, "": false} {
		if IsExactTxTime(time) != want {
			t.Errorf("%q is an instant: %v", time, !want)
		}
	}
}
