package alter

import (
	"strings"
	"testing"
)

// An index that the catalog shows becomes one over the new column, wherever it reads the old one, and is made late
// where a row without a value could be refused or fail.
func TestLikenesses(t *testing.T) {
	const head = " ON public.t USING btree "
	for _, test := range []struct{ shown, want string }{
		{"CREATE INDEX i" + head + "(c)", `CREATE INDEX ASYNC n ON public.t (NEW)`},
		{"CREATE UNIQUE INDEX i" + head + "(c, id) INCLUDE (c, b)", `CREATE UNIQUE INDEX ASYNC n ON public.t (NEW, id) INCLUDE (NEW, b)`},
		{"CREATE INDEX i" + head + "(id) WHERE ((c)::text = 'c'::text)", `CREATE INDEX ASYNC n ON public.t (id) WHERE NEW::text = 'c'::text`},
		{"CREATE INDEX i" + head + "(lower((c)::text), f(id, c)) WHERE (id > 1)", `late CREATE INDEX ASYNC n ON public.t (lower(NEW::text), f(id, NEW)) WHERE id > 1`},
		{"CREATE INDEX i" + head + `(((c)::text || "Odd ""c".c))`, "none"},
		{"CREATE INDEX i" + head + `((c || "C"))`, `CREATE INDEX ASYNC n ON public.t ((NEW || "C"))`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE (c IS NULL)", `late CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW IS NULL`},
		{"CREATE INDEX i" + head + "(id) WHERE (c IS NULL)", `CREATE INDEX ASYNC n ON public.t (id) WHERE NEW IS NULL`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE (c IS NOT NULL)", `CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW IS NOT NULL`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE ((c = 1) AND (b IS NULL))", `CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW = 1 AND b IS NULL`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE ((c = 1) AND (f(c) IS NULL))", `late CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW = 1 AND f(NEW) IS NULL`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE ((c = 1) OR (b IS NULL))", `late CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW = 1 OR b IS NULL`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE ((c = 1) OR (c = ANY (ARRAY[2, 3])))", `CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NEW = 1 OR NEW = ANY(ARRAY[2, 3])`},
		{"CREATE UNIQUE INDEX i" + head + "(id) WHERE (NOT (c = 1))", `late CREATE UNIQUE INDEX ASYNC n ON public.t (id) WHERE NOT NEW = 1`},
		{"CREATE UNIQUE INDEX i" + head + "(id, COALESCE(c, 1))", `late CREATE UNIQUE INDEX ASYNC n ON public.t (id, COALESCE(NEW, 1))`},
		{"CREATE INDEX i" + head + "(COALESCE(c, 1))", `late CREATE INDEX ASYNC n ON public.t (COALESCE(NEW, 1))`},
		{"CREATE UNIQUE INDEX i" + head + "(id) INCLUDE (c)", `CREATE UNIQUE INDEX ASYNC n ON public.t (id) INCLUDE (NEW)`},
		{"CREATE UNIQUE INDEX i" + head + "(c) NULLS NOT DISTINCT", `late CREATE UNIQUE INDEX ASYNC n ON public.t (NEW) NULLS NOT DISTINCT`},
		{"CREATE UNIQUE INDEX i" + head + "(c) NULLS NOT DISTINCT WHERE (c > 1)", `CREATE UNIQUE INDEX ASYNC n ON public.t (NEW) NULLS NOT DISTINCT WHERE NEW > 1`},
		{"CREATE UNIQUE INDEX i" + head + "(((c)::mood))", `late CREATE UNIQUE INDEX ASYNC n ON public.t ((NEW::mood))`},
		{"CREATE INDEX i" + head + "(c DESC)", "none"},
		{"CREATE INDEX i" + head + "(c NULLS FIRST)", "none"},
		{"CREATE INDEX i" + head + `(c COLLATE "C")`, "none"},
		{"CREATE INDEX i" + head + "(c text_pattern_ops)", "none"},
		{"CREATE INDEX i" + head + "(c) WITH (fillfactor='70')", "none"},
		{"CREATE INDEX i ON public.t USING hash (c)", "none"},
		{"CREATE INDEX i" + head + "(id) WHERE " + strings.Repeat("(", 9000) + "c" + strings.Repeat(")", 9000), "none"},
		{"DROP TABLE t", "none"},
	} {
		r := plannedColumn(t, "ALTER TABLE t ALTER COLUMN c TYPE bigint", Rules{Dialect: true, Retype: true}).StartTypeChange("00000000")
		got := "none"
		if l := r.CopyIndex(test.shown, "c", "n"); l != nil {
			if got = strings.ReplaceAll(l.Text, r.NewColumn, "NEW"); l.Late {
				got = "late " + got
			}
		}
		if got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.shown, got, test.want)
		}
	}
}

// What is asked of an index: whether it has a meaning, what its keys are, and which rows have the same.
func TestLikenessAsks(t *testing.T) {
	r := plannedColumn(t, `ALTER TABLE s.t ALTER COLUMN "C d" TYPE bigint`, Rules{Dialect: true, Retype: true}).StartTypeChange("00000000")
	like := r.CopyIndex(`CREATE UNIQUE INDEX i ON s.t USING btree (b, ("C d" + a)) WHERE ("C d" > b)`, "C d", "n")
	plain := r.CopyIndex(`CREATE INDEX i ON s.t USING btree (b, "C d")`, "C d", "n")
	if like == nil || plain == nil || plain.TrialQuery("C d") != "" {
		t.Fatal(like, plain)
	}
	for got, want := range map[string]string{
		like.TrialQuery("W"):    `SELECT "b", ("NEW" + a) FROM (SELECT CAST("W" AS bigint) AS "NEW", "b", "a" FROM s.t) t WHERE ("NEW" > b) LIMIT 0`,
		like.ComputeKeysQuery(): `SELECT count("b"), count(("NEW" + a)) FROM s.t WHERE ("NEW" > b)`,
		like.DuplicateQuery():   `SELECT "b", ("NEW" + a), "b" IS NULL, ("NEW" + a) IS NULL FROM s.t WHERE ("NEW" > b) AND "b" IS NOT NULL AND ("NEW" + a) IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1, 2 LIMIT 1`,
		plain.DuplicateQuery():  `SELECT "b", "NEW", "b" IS NULL, "NEW" IS NULL FROM s.t WHERE true AND "b" IS NOT NULL AND "NEW" IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1, 2 LIMIT 1`,
	} {
		if got = strings.ReplaceAll(got, r.NewColumn, "NEW"); got != want {
			t.Errorf(" got %s\nwant %s", got, want)
		}
	}
}
