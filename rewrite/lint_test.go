package rewrite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/finding"
	"github.com/sluice-proxy/sluice/rewrite/parse"
)

func TestLinter(t *testing.T) {
	t.Parallel()
	const script = `
CREATE TABLE t (a int);
CREATE TABLE u (a int);
BEGIN;
CREATE TABLE v (a int);
CREATE INDEX i ON v (a);
INSERT INTO v VALUES (1);
COMMIT;
INSERT INTO v VALUES (1);
BEGIN;
UPDATE v SET a = 1;
SELECT a FROM v FOR SHARE;
DROP TABLE v;
ROLLBACK;
DROP TABLE v;
SELECT a FROM v TABLESAMPLE system (1);
SELECT FROM WHERE;
`
	want := []string{"5 several_ddl", "5 create_index", "6 ddl_and_dml", "11 for_share", "12 ddl_and_dml", "15 tablesample", "16 syntax"}
	var got []string
	linter := newPlanner(t).NewLinter()
	for s := range parse.SplitScript(script) {
		for _, f := range linter.LintStatements(s.SQL) {
			got = append(got, fmt.Sprintf("%d %s", s.Line-1, f.Feature))
			if f.Reason == "" || f.Action == "" || f.Severity == finding.Error && f.Remedy == "" {
				t.Errorf("%+v says too little", f)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLinterKeepsTheGuard(t *testing.T) {
	t.Parallel()
	config := Defaults()
	config.MaxBytes, config.MaxNesting = 1000, 50
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT " + strings.Repeat("1 + ", 500) + "1", "SELECT " + strings.Repeat("(", 60) + "1", "SELECT '\xff'", "SELECT 'open"} {
		if got := p.NewLinter().LintStatements(sql); len(got) != 1 || got[0].Feature != finding.Unread {
			t.Errorf("%.40q: %+v", sql, got)
		}
	}
	got := p.NewLinter().LintStatements("SELECT é, FROM t")
	if len(got) != 1 || got[0].Feature != finding.Syntax || got[0].At != strings.Index("SELECT é, FROM t", "FROM") || !strings.Contains(got[0].Reason, "FROM") {
		t.Errorf("%+v", got)
	}
}

// The most specific finding is the one that is told.
func TestOneFindingSaysIt(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		"CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY)", "CREATE TABLE t (id smallint GENERATED ALWAYS AS IDENTITY (START 5))",
		"CREATE TEMP TABLE t AS SELECT 1", "CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE plpgsql AS ''",
	} {
		if got := newPlanner(t).NewLinter().LintStatements(sql); len(got) != 1 || got[0].Severity < finding.Warning {
			t.Errorf("%q: %+v", sql, got)
		}
	}
	for _, sql := range []string{"CREATE FUNCTION pg_temp.f() RETURNS void LANGUAGE plpgsql AS ''", "CREATE FUNCTION pg_temp.f() RETURNS int RETURN 1", "DROP FUNCTION pg_temp.f"} {
		plan := newPlanner(t).Plan([]byte(sql))
		if hint := plan.Statements[0].Hint; hint == "" || strings.Contains(hint, "session key") {
			t.Errorf("%q: hint %q", sql, hint)
		}
	}
}
