package asked_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/integration/dsqlsim/asked"
)

// The names are those of the product's table, all of them.
func TestNames(t *testing.T) {
	text, err := os.ReadFile("../../../proxy/question/question.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`Question\{Name: "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	got := asked.QuestionNames()
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// sent is a part of each question's text where the product makes it, by the file: who changes it there
// changes it here.
var sent = []struct{ question, file, part, text string }{
	{"groups", "proxy/serverfacts/pipeline.go", `"SELECT now()"`, "SELECT now()"},
	{"purity", "proxy/serverfacts/purity.go", "`WITH users AS (SELECT p.* FROM pg_catalog.pg_proc p ", "WITH users AS (SELECT p.* FROM pg_catalog.pg_proc p JOIN a"},
	{"functions that leave something", "proxy/remains/remains.go", "; WITH RECURSIVE every AS MATERIALIZED (SELECT p.oid, p.proname", "SELECT 1; WITH RECURSIVE every AS MATERIALIZED (SELECT p.oid, p.proname, a"},
	{"what functions have left", "proxy/remains/ask.go", `roleQuery + "; " + with.Reset`, "SELECT pg_catalog.current_setting('role'); RESET ALL; SELECT 1"},
	{"schema", "proxy/catalog/catalog.go", "`SELECT n.nspname, c.relname, a.attname, a.attnum, ", "SELECT n.nspname, c.relname, a.attname, a.attnum, 'checked'"},
	{"schema of a database", "proxy/schemaname.go", `" FROM pg_catalog.pg_namespace n WHERE n.nspname = "`, "SELECT 1 FROM pg_catalog.pg_namespace n WHERE n.nspname = 'a'"},
	{"rows of locks", "proxy/advisory/sql.go", `Table = "sluice.advisory_locks"`, "UPDATE sluice.advisory_locks SET seq = 1"},
	{"sequences discarded", "proxy/sequences.go", `"DISCARD SEQUENCES"`, "DISCARD SEQUENCES"},
	{"numbers of the session's own", "rewrite/numbers.go", `" WHERE p.proname IN ('nextval', `, "SELECT NOT EXISTS (SELECT 1 FROM pg_catalog.pg_proc p JOIN n WHERE p.proname IN ('nextval', 'a'))"},
	{"settings", "proxy/settings/values.go", `b.WriteString(" TO ")`, "RESET search_path; SET timezone TO 'UTC'; "},
	{"job of an index", "proxy/constraint/indexjob.go", "`SELECT j.status, j.details, i.indexrelid, i.indisvalid FROM sys.jobs j", "SELECT j.status FROM sys.jobs j"},
	{"index of a job", "proxy/constraint/standing.go", "`SELECT indisvalid FROM pg_catalog.pg_index", "SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = 1"},
}

// Each question is known by the text that the product makes of it, with and without what goes in
// front on PostgreSQL, and no client's text is one.
func TestBy(t *testing.T) {
	var found []string
	for _, s := range sent {
		source, err := os.ReadFile(filepath.Join("../../..", s.file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), s.part) {
			t.Errorf("%s: %s has no %s", s.question, s.file, s.part)
		}
		const front = "SET LOCAL statement_timeout TO 0; SET LOCAL lock_timeout TO 0; SET LOCAL ROLE NONE; "
		for _, sql := range []string{s.text, front + s.text} {
			if got := asked.QuestionOf(sql); got != s.question {
				t.Errorf("%q is %q, want %q", sql, got, s.question)
			}
		}
		found = append(found, s.question)
	}
	for _, name := range asked.QuestionNames() {
		if !slices.Contains(found, name) {
			t.Errorf("%s is not tried", name)
		}
	}
	for _, sql := range []string{"", "SELECT 1", "SELECT now(), 1", "SET TimeZone TO 'UTC'", "SET LOCAL search_path TO a", "RESET ALL", "BEGIN; SET timezone TO 'UTC'", "SELECT * FROM pg_index"} {
		if got := asked.QuestionOf(sql); got != "" {
			t.Errorf("%q is %q", sql, got)
		}
	}
}
