package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A text that tells the time in a form of which it cannot be taken is found, by a quick look too.
func TestHidesTime(t *testing.T) {
	p := newPlanner(t)
	names := schema.New([]schema.Relation{
		{ID: "1", Schema: "public", Name: "timed", Columns: []schema.Column{{Name: "v"}, {Name: "at", Kind: instantType, Fill: schema.Clock, Time: ExactTxTimeKind}, {Name: "made", Kind: "1114/-1", Fill: schema.Clock, Time: "1114/-1 now()"}}},
		{ID: "2", Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "v"}, {Name: "at", Kind: instantType}}},
	}).ResolverFor([]string{"public"})
	for sql, want := range map[string]bool{
		"SELECT now()::date": true, "SELECT date_trunc('day', NOW())": true, "SELECT CURRENT_DATE": true, "SELECT extract(epoch FROM current_timestamp)": true, "SELECT age(x) FROM plain": true,
		"SELECT v FROM plain WHERE at < now()": true, "SELECT now() FROM plain": true, "SELECT now() LIMIT 0": true, "SELECT now() UNION SELECT at FROM plain": true, "SELECT 1; SELECT now()": true,
		"WITH x AS (SELECT now() AS n) SELECT n FROM x": true, "UPDATE plain SET v = v RETURNING now()": true, "DELETE FROM plain WHERE at < now() RETURNING v": true,
		"INSERT INTO timed (v) VALUES ('x') RETURNING made": true, "INSERT INTO timed (v) VALUES ('x') ON CONFLICT DO NOTHING RETURNING at": true, "INSERT INTO timed (v) SELECT 'x' RETURNING v": true,
		"WITH x AS (INSERT INTO timed (v) VALUES ('x') RETURNING *) SELECT 1": true, "INSERT INTO plain VALUES ('x', CURRENT_DATE) RETURNING at": true,
		"INSERT INTO timed (v) VALUES ('x') RETURNING v, at::date": true, "INSERT INTO timed (v) VALUES ('x') RETURNING v || 'x'": true, "INSERT INTO plain (v) VALUES ('x') RETURNING now()::date": true,
		"INSERT INTO timed (v) VALUES ('x') RETURNING v || 'x', at": false, "INSERT INTO plain (v) VALUES ('x') RETURNING v || 'x'": false,
		// It is told none, or itself.
		"SELECT now()": false, "SELECT 1, now() AS a": false, "INSERT INTO timed (v) VALUES ('x') RETURNING v, at": false, "INSERT INTO plain VALUES ('x', now()) RETURNING *": false, "INSERT INTO timed (v) VALUES ('x') RETURNING v": false,
		"INSERT INTO timed (v) VALUES ('x')": false, "INSERT INTO plain VALUES ('x', now()) RETURNING v": false, "UPDATE plain SET at = now()": false, "INSERT INTO plain (v) VALUES ('x') RETURNING *": false,
		"SELECT now FROM plain AS t(now)": true, // by its words
		"SELECT 1":                        false, "SELECT * FROM timed": false, "SET x = now": false, "": false, "SELECT 'now()'": false, "WITH x AS (INSERT INTO plain (v) VALUES ('x') RETURNING *) SELECT 1": false, "WITH x AS (INSERT INTO timed (v) VALUES ('x')) SELECT 1": false, "SELECT (": false,
	} {
		if got := MayHideTxTime(p, sql, names); got != want {
			t.Errorf("%s: hides the time is %t", sql, got)
		} else if got && !MayUseTxTime([]byte(sql)) {
			t.Errorf("%s is not seen by the quick look", sql)
		}
	}
}
