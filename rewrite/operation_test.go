package rewrite

import (
	"fmt"
	"testing"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	p := goldenPlanner(t)
	for sql, want := range map[string]string{
		"SELECT range_id FROM shards WHERE shard_id = $1":                     "select_shards",
		"SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE":           "select_shards",
		"select extract(year from b), (select 1 from x) from public.Shards s": "select_shards",
		"SELECT a FROM \"Odd Name\" WHERE b":                                  "select_odd_name",
		"SELECT 1":                                                            "select",
		"SELECT a FROM (SELECT 1) s":                                          "select",
		"VALUES (1)":                                                          "values",
		"UPDATE executions SET a = 1":                                         "update_executions",
		"UPDATE ONLY s.executions SET a = 1":                                  "update_executions",
		"INSERT INTO tasks (a) VALUES (1)":                                    "insert_tasks",
		"INSERT INTO db.s.\"tasks\" VALUES (1)":                               "insert_tasks",
		"DELETE FROM tasks WHERE a = 1":                                       "delete_tasks",
		"DELETE FROM tasks WHERE a IN (SELECT a FROM tasks FOR UPDATE)":       "delete_tasks",
		"WITH c AS (SELECT 1) SELECT * FROM c, t":                             "select_t",
		"BEGIN":                          "begin",
		"ROLLBACK TO s":                  "rollback_to",
		"SET a = 1":                      "set",
		"SET TRANSACTION READ WRITE":     "set",
		"CREATE TABLE t (a int)":         "create_table_t",
		"CREATE INDEX i ON s.t (a)":      "create_index_t",
		"CREATE DATABASE d":              "create_database",
		"ALTER SYSTEM SET a = 1":         "alter_system",
		"SELECT a FROM keyed FOR SHARE":  "lock_keyed",
		"SELECT a FROM keyed FOR UPDATE": "select_keyed",
		"":                               "",
		"SELEC":                          "",
		"SELECT a FROM b; INSERT INTO c VALUES (1); UPDATE d SET e = 1":               "insert_c",
		"SELECT a FROM t" + fmt.Sprintf("%0100d", 1) + " WHERE b":                     "select",
		"INSERT INTO t" + fmt.Sprintf("%070d", 1) + " VALUES (nextval('s'))":          "insert_t" + fmt.Sprintf("%055d", 0),
		"SELECT a IS DISTINCT FROM b FROM c WHERE nextval('s') > 1":                   "select_c",
		"SELECT pg_catalog.count(*), t.a FROM s.t WHERE a = ANY ($1) GROUP BY (1, 2)": "select_t",
	} {
		if got := p.Plan([]byte(sql)).Operation; got != want {
			t.Errorf("%q: %q, want %q", sql, got, want)
		}
	}
}

// TestOperationsAreBounded holds that clients cannot make names without end.
func TestOperationsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	names := map[string]bool{}
	for i := range 2000 {
		for _, form := range []string{"SELECT a FROM t%d WHERE b", "UPDATE u%d SET a = 1", "SELECT a FROM v%d FOR UPDATE", "DROP TABLE t%d"} {
			names[p.Plan(fmt.Appendf(nil, form, i)).Operation] = true
		}
	}
	if len(names) < maxOperations/2 || len(names) > maxOperations+6 || !names[otherOperation] || !names["select"] {
		t.Errorf("%d names", len(names))
	}
	plan := p.Plan([]byte("SELECT a FROM t1999 FOR UPDATE"))
	if plan.Operation != otherOperation || plan.Statements[0].Operation != otherOperation {
		t.Errorf("%q", plan.Operation)
	}
	if plan := p.Plan([]byte("SELECT a FROM t0 WHERE c")); plan.Operation != "select_t0" {
		t.Errorf("%q: an old name is lost", plan.Operation)
	}
}

func TestFeaturesAreWhole(t *testing.T) {
	t.Parallel()
	for _, f := range Features() {
		fact := catalogue[f]
		if fact.reason == "" || string(f) != operationName(string(f)) {
			t.Errorf("%s: %+v", f, fact)
		}
		if fact.remedy == "" && f != Discard {
			t.Errorf("%s has no remedy", f)
		}
	}
	for name, f := range refused {
		if _, ok := catalogue[f]; !ok || shapes()[name] == nil {
			t.Errorf("%s: %s", name, f)
		}
	}
	for _, f := range refusedAlters {
		if _, ok := catalogue[f]; !ok {
			t.Errorf("%s is not in the catalogue", f)
		}
	}
}
