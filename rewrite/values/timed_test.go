package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The time of a transaction goes into whatever inserts rows that are filled with it, and what else reads the
// clock is told.
func TestTimed(t *testing.T) {
	s := schema.New([]schema.Relation{
		{Schema: "public", Name: "t", Columns: []schema.Column{{Name: "id", Fill: schema.Drawn, Always: true}, {Name: "v"}, {Name: "at", Fill: schema.Clock, Time: "known"}}},
		{Schema: "public", Name: "odd", Columns: []schema.Column{{Name: "v"}, {Name: "at", Fill: schema.Clock, Time: "unknown"}}},
		{Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "v"}, {Name: "free", Kind: "1184/-1"}}},
	})
	p, names := newPlanner(t), s.ResolverFor([]string{"public"})
	given := FirstRunValues{Knows: func(kind string) bool { return kind == "known" || kind == "1184/-1 now()" }, Time: func(string) string { return "'T'" },
		Value: func(AnswerCell) string { return "told" }}
	type want struct {
		reads bool
		with  string
	}
	for sql, want := range map[string]want{
		"WITH x AS (INSERT INTO t (v) VALUES (1)) SELECT 1":                                                        {false, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T')) SELECT 1`},
		"WITH x(a, b) AS NOT MATERIALIZED (SELECT 1, 2), y AS (INSERT INTO t (v) VALUES (1))SELECT 1":              {false, `WITH x(a, b) AS NOT MATERIALIZED (SELECT 1, 2), y AS (INSERT INTO t (v, "at") VALUES (1, 'T'))SELECT 1`},
		"WITH x AS (INSERT INTO t (v) VALUES (1) RETURNING *) SELECT at FROM x":                                    {false, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T') RETURNING *) SELECT at FROM x`},
		"WITH x AS (INSERT INTO t DEFAULT VALUES) UPDATE plain SET v = 1":                                          {false, `WITH x AS (INSERT INTO t ("at") VALUES ('T')) UPDATE plain SET v = 1`},
		"WITH x AS (INSERT INTO plain VALUES (1, now())) DELETE FROM plain":                                        {false, `WITH x AS (INSERT INTO plain ("v", "free") VALUES (1, 'T')) DELETE FROM plain`},
		"WITH x AS (SELECT 1 AS n) INSERT INTO t (v) VALUES ((SELECT n FROM x)) RETURNING at":                      {false, `WITH x AS (SELECT 1 AS n) INSERT INTO t (v, "at") VALUES ((SELECT n FROM x), 'T') RETURNING at`},
		"WITH x AS (INSERT INTO t (v) VALUES (1)) INSERT INTO t (v) VALUES (2)":                                    {false, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T')) INSERT INTO t (v, "at") VALUES (2, 'T')`},
		"WITH x AS (INSERT INTO t (v) VALUES (1)) INSERT INTO odd (v) VALUES (2)":                                  {true, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T')) INSERT INTO odd (v) VALUES (2)`},
		"WITH x AS (INSERT INTO odd (v) VALUES (1)) SELECT 1":                                                      {true, ""},
		"WITH x AS (INSERT INTO t (v) VALUES (1)) SELECT now()":                                                    {true, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T')) SELECT now()`},
		"WITH x AS (INSERT INTO t (v) VALUES (1)), y AS (INSERT INTO t (v) SELECT DISTINCT v FROM plain) SELECT 1": {true, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T')), y AS (INSERT INTO t (v) SELECT DISTINCT v FROM plain) SELECT 1`},
		"WITH x AS (INSERT INTO t (v) SELECT v FROM plain) SELECT 1":                                               {false, `WITH x AS (INSERT INTO t ("at", v) SELECT 'T', v FROM plain) SELECT 1`},

		"INSERT INTO t (v) SELECT v FROM plain WHERE v > 1 LIMIT 3":                                            {false, `INSERT INTO t ("at", v) SELECT 'T', v FROM plain WHERE v > 1 LIMIT 3`},
		"INSERT INTO t (v) SELECT ALL v AS from FROM plain":                                                    {false, `INSERT INTO t ("at", v) SELECT ALL 'T', v AS from FROM plain`},
		"INSERT INTO t AS u (v, at) SELECT v, free FROM plain":                                                 {false, ""},
		"INSERT INTO t (v) SELECT 1 ON CONFLICT DO NOTHING":                                                    {false, `INSERT INTO t ("at", v) SELECT 'T', 1 ON CONFLICT DO NOTHING`},
		"INSERT INTO t (v) SELECT v FROM plain ON CONFLICT (v) DO UPDATE SET at = DEFAULT":                     {true, `INSERT INTO t ("at", v) SELECT 'T', v FROM plain ON CONFLICT (v) DO UPDATE SET at = DEFAULT`},
		"WITH x AS (INSERT INTO t (v) SELECT 1 ON CONFLICT (v) DO UPDATE SET (v, at) = (2, DEFAULT)) SELECT 1": {true, `WITH x AS (INSERT INTO t ("at", v) SELECT 'T', 1 ON CONFLICT (v) DO UPDATE SET (v, at) = (2, DEFAULT)) SELECT 1`},
		"INSERT INTO odd (v) SELECT v FROM plain":                                                              {true, ""},
		"INSERT INTO t (v) SELECT v FROM plain WHERE free < now()":                                             {true, `INSERT INTO t ("at", v) SELECT 'T', v FROM plain WHERE free < now()`},
		"INSERT INTO t (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET v = 2":                                     {false, `INSERT INTO t (v, "at") VALUES (1, 'T') ON CONFLICT (v) DO UPDATE SET v = 2`},
		"INSERT INTO t (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET at = EXCLUDED.at RETURNING id":             {false, `INSERT INTO t (v, "at") VALUES (1, 'T') ON CONFLICT (v) DO UPDATE SET at = EXCLUDED.at RETURNING id`},
		"INSERT INTO t (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET at = DEFAULT":                              {true, `INSERT INTO t (v, "at") VALUES (1, 'T') ON CONFLICT (v) DO UPDATE SET at = DEFAULT`},
		"WITH x AS (INSERT INTO t (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET v = 2) SELECT 1":                {false, `WITH x AS (INSERT INTO t (v, "at") VALUES (1, 'T') ON CONFLICT (v) DO UPDATE SET v = 2) SELECT 1`},
		"INSERT INTO t (v) VALUES (1) RETURNING v":                                                             {false, `INSERT INTO t (v, "at") VALUES (1, 'T') RETURNING v`},
	} {
		in := ParseTimed(p, sql, names)
		if in == nil {
			t.Errorf("%s: cannot be given the time", sql)
			continue
		}
		got := in.WithFirstRun(given)
		if in.EffectsWith(given).Time != want.reads || got != want.with || in.TakesTxTime(given) != (want.with != "") || !in.ResolvesSame(names) {
			t.Errorf("%s: reads %v, gives %v, %s", sql, in.EffectsWith(given).Time, in.TakesTxTime(given), got)
		}
		if got != "" && len(p.StatementTrees(got)) != 1 {
			t.Errorf("%s: no statement", got)
		}
	}
	for _, sql := range []string{
		"SELECT now()", "WITH x AS (SELECT 1) SELECT 1", "INSERT INTO t SELECT v FROM plain", "INSERT INTO t (v) SELECT v FROM plain GROUP BY 1", "INSERT INTO t (v) SELECT v FROM plain ORDER BY 1",
		"INSERT INTO t (v) SELECT 1 UNION SELECT 2", "INSERT INTO t (v) SELECT DISTINCT v FROM plain", "INSERT INTO t (v) (SELECT 1)", "INSERT INTO t (v) TABLE plain", "INSERT INTO nowhere (v) SELECT 1", "WITH x AS (INSERT INTO nowhere VALUES (1)) SELECT 1",
		"INSERT INTO t (v) VALUES (1); SELECT 1", "", "nonsense", "EXPLAIN WITH x AS (INSERT INTO t (v) VALUES (1)) SELECT 1",
	} {
		if in := ParseTimed(p, sql, names); in != nil {
			t.Errorf("%s is given the time: %s", sql, in.WithFirstRun(given))
		}
	}
}
