package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// The time is named by its words, by constants that say now, and by defaults that are filled; not by what DDL notes,
// nor by names that are spelt like it.
func TestNamesTime(t *testing.T) {
	p := newPlanner(t)
	names := schema.New([]schema.Relation{{Schema: "public", Name: "log", Columns: []schema.Column{{Name: "n"}, {Name: "at", Fill: schema.Clock, Time: ExactTxTimeKind, Kind: "1184/-1"}, {Name: "seen", Fill: schema.Clock}}}, {Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "n"}}}}).ResolverFor([]string{"public"})
	for sql, want := range map[string]bool{
		"SELECT now()": true, "SELECT 1 FROM plain WHERE n < (SELECT extract(epoch FROM current_timestamp))": true, "SELECT age(n) FROM plain": true, "SELECT age(n, n) FROM plain": false,
		"SELECT 'now'::timestamptz": true, "SELECT 'not now'": false, "SELECT now FROM plain": false, "SELECT age FROM plain": false, "SELECT clock_timestamp()": false, "SELECT f()": false,
		"INSERT INTO public.log (n) SELECT 1 UNION SELECT 2": true, "INSERT INTO public.log SELECT n FROM public.plain": true, "INSERT INTO public.log SELECT n, n FROM public.plain": false,
		"INSERT INTO public.log SELECT * FROM public.plain": true, "INSERT INTO public.log (n, at) SELECT 1, NULL": false, "INSERT INTO public.plain SELECT 1": false,
		"UPDATE public.log SET at = DEFAULT": true, "UPDATE public.log SET n = 1": false, "UPDATE public.plain SET n = DEFAULT": false,
		"INSERT INTO public.log (n, at) SELECT 1, NULL ON CONFLICT (n) DO UPDATE SET at = DEFAULT":      true,
		"MERGE INTO public.log USING public.plain ON false WHEN NOT MATCHED THEN INSERT (n) VALUES (1)": true,
		"EXECUTE q": true, "EXPLAIN ANALYZE EXECUTE q (1)": true, "CREATE TABLE c AS EXECUTE q": true, "PREPARE q AS SELECT now()": false, "DEALLOCATE q": false,
		"COPY (SELECT now()) TO STDOUT": true, "COPY public.log TO STDOUT": false, "COPY (INSERT INTO public.log (n) SELECT 1 RETURNING n) TO STDOUT": true, "COPY public.plain FROM STDIN (NULL 'now')": false,
		"CREATE TABLE c (at timestamptz DEFAULT now())": false, "DECLARE c CURSOR FOR SELECT now()": true, "WITH w AS (INSERT INTO public.log (n) SELECT 1 RETURNING n) SELECT n FROM w": true,
	} {
		if got := PlainlyReadsTxTime(p, sql, names, nil); got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
	for sql, want := range map[string]bool{
		"INSERT INTO public.log (n) VALUES (1)": false, "INSERT INTO public.log (n) SELECT 1": false, "INSERT INTO public.log (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET at = DEFAULT": true,
		"WITH w AS (INSERT INTO public.log (n) VALUES (1) RETURNING n) INSERT INTO public.log (n) SELECT 1 UNION SELECT n FROM w": true,
	} {
		if got := PlainlyReadsTxTime(p, sql, names, ParseTimed(p, sql, names)); got != want {
			t.Errorf("%s, its defaults given: %v", sql, got)
		}
	}
}
