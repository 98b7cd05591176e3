package rewrite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
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

// TestTablesOfScannedTexts holds that plans are kept for statements that have succeeded alone, for a
// bounded number of tables, and that those not used any more give way.
func TestTablesOfScannedTexts(t *testing.T) {
	t.Parallel()
	p := newPlanner(t)
	plan := func(form string, i int) *Plan { return p.Plan(fmt.Appendf(nil, form, i)) }
	kept := func() int { return len(*p.tables.plans.Load()) }
	for i := range 2000 {
		if got := plan("SELECT a FROM t%d WHERE b", i).Operation; got != fmt.Sprint("select_t", i) {
			t.Fatalf("%q", got)
		}
	}
	if kept() != 0 {
		t.Errorf("%d plans of statements that have not succeeded", kept())
	}
	for round := range 5 {
		for i := range 2000 {
			p.RecordSuccess(plan("SELECT a FROM t%d WHERE b", round*2000+i))
			if i%50 == 0 {
				p.RecordSuccess(plan("UPDATE used SET a = %d", i))
			}
		}
		if kept() > maxTables {
			t.Errorf("%d plans are kept", kept())
		}
	}
	if a, b := plan("UPDATE used SET a = %d", 1), plan("UPDATE used SET a = %d", 2); a != b {
		t.Error("what is used gave way")
	}
	if (*p.tables.plans.Load())["select t0"] != nil {
		t.Error("what is not used stays")
	}
}

// What the tables of refused statements name are features, and types of the parser's nodes.
func TestRefusedStatementsAreFeatures(t *testing.T) {
	t.Parallel()
	features := finding.Features()
	for name, f := range refusedStatements {
		if !slices.Contains(features, f) || parse.NodeTypes()[name] == nil {
			t.Errorf("%s: %s", name, f)
		}
	}
}
