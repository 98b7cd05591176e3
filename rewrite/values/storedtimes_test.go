package values

import (
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// A text that may read rows in which the time of the transaction was stored tells that time.
func TestStoredTimes(t *testing.T) {
	p := newPlanner(t)
	names := schema.New([]schema.Relation{
		{ID: "1", Schema: "public", Name: "timed", Columns: []schema.Column{{Name: "v"}, {Name: "at", Kind: instantType, Fill: schema.Clock, Time: ExactTxTimeKind}, {Name: "twice", Computed: true}}},
		{ID: "2", Schema: "public", Name: "plain", Columns: []schema.Column{{Name: "v"}, {Name: "at", Kind: instantType}}},
		{ID: "3", Schema: "public", Name: "seen", View: true},
		{Schema: "pg_catalog", Name: "pg_prepared_statements", View: true},
	}).ResolverFor([]string{"pg_catalog", "public"})
	for _, of := range []struct {
		stores, reads string
		want          bool
	}{
		{"INSERT INTO timed (v) VALUES (1)", "SELECT at FROM timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT v FROM plain", false},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT count(*), max(timed.v) FROM timed WHERE v > 1", false},
		{"INSERT INTO timed (v) VALUES (1)", "UPDATE timed SET v = 2 WHERE v = 1", false},
		{"INSERT INTO timed (v) VALUES (1)", "UPDATE timed SET v = 2 RETURNING *", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT t.* FROM timed t", true},
		{"INSERT INTO timed (v) VALUES (1)", "TABLE timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT t FROM timed AS t", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT timed FROM timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT t.v FROM timed AS t", false},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT b FROM timed AS t(a, b)", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT 1 FROM plain JOIN timed USING (at)", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT 1 FROM plain JOIN timed USING (v)", false},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT 1 FROM plain NATURAL JOIN timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT v FROM timed ORDER BY at LIMIT 1", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT (t).at FROM timed t", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT length(twice::text) FROM timed", true},
		{"INSERT INTO plain (v, at) VALUES (1, now())", "SELECT v FROM plain", true},
		{"INSERT INTO timed (v) VALUES (1)", "INSERT INTO timed (v) VALUES (1) RETURNING v", false},
		{"INSERT INTO timed (v) VALUES (1)", "INSERT INTO timed (v) VALUES (1) ON CONFLICT (v) DO UPDATE SET v = 2 RETURNING at", true},
		{"INSERT INTO timed (v) VALUES (1)", "INSERT INTO plain SELECT * FROM timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "DELETE FROM timed WHERE at > '2000-01-01'", true},
		{"INSERT INTO timed (v) VALUES (1)", "WITH x AS (SELECT at FROM timed) SELECT 1 FROM x", true},
		{"INSERT INTO timed (v) VALUES (1)", "WITH x AS (SELECT at FROM plain) SELECT * FROM x", false},
		{"INSERT INTO timed (v) VALUES (1)", "COPY timed TO STDOUT", true},
		{"INSERT INTO timed (v) VALUES (1)", "COPY timed (v) TO STDOUT", false},
		{"INSERT INTO timed (v) VALUES (1)", "COPY (SELECT at FROM timed) TO STDOUT", true},
		{"INSERT INTO timed (v) VALUES (1)", "DECLARE c CURSOR FOR SELECT at FROM timed", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT j FROM (timed t JOIN plain USING (v)) AS j", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT * FROM seen", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT tells(1)", true},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT count(*), max(v) FROM plain", false},
		{"INSERT INTO timed (v) VALUES (1)", "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%x'", false},
		{"INSERT INTO plain (v) VALUES (1)", "SELECT at FROM plain", false},
		{"INSERT INTO plain (v, at) VALUES (1, now())", "SELECT at FROM public.plain", true},
		{"UPDATE plain SET at = current_timestamp", "SELECT at FROM plain", true},
		{"UPDATE timed SET v = 2", "SELECT at FROM timed", false},
		{"DELETE FROM timed WHERE at < now()", "SELECT at FROM timed", false},
		{"WITH x AS (INSERT INTO timed (v) VALUES (1)) SELECT 1", "SELECT at FROM timed", true},
		{"INSERT INTO nowhere VALUES (1)", "SELECT 1 FROM plain", true},
		{"INSERT INTO nowhere VALUES (1)", "SELECT 1", false},
		{"SELECT now()", "SELECT at FROM timed", false},
	} {
		var stored StoredTxTimes
		if stored.RecordText(p, of.stores, names); stored.MayReturnStored(p, of.reads, names) != of.want {
			t.Errorf("%s, then %s: is not %v", of.stores, of.reads, of.want)
		}
		stored = StoredTxTimes{}
		stored.HidesTime(p, of.stores, names)
		if got, want := stored.HidesTime(p, of.reads, names), of.want || MayHideTxTime(p, of.reads, names); got != want {
			t.Errorf("%s, then %s: hides the time: %v", of.stores, of.reads, got)
		}
	}
}
