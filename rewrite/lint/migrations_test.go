package lint

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
	"github.com/sluice-proxy/sluice/rewrite/finding"
)

// lintedAs lints a file and shows its findings, with the beginnings of their remedies where a
// tool is in them.
func lintedAs(t *testing.T, source SourceFile) []string {
	t.Helper()
	var got []string
	for _, f := range fixTwice(t, planner(t, rewrite.Defaults()), source).Findings {
		if f.Feature == finding.SeveralDDL || f.Feature == finding.DDLAndDML {
			remedy := strings.TrimPrefix(f.Remedy, ofItsOwn)
			words := strings.Fields(remedy)
			got = append(got, fmt.Sprintf("%s: %s", f.Feature, strings.Join(words[:min(4, len(words))], " ")))
			continue
		}
		got = append(got, string(f.Feature))
	}
	return got
}

// beside is a folder of files.
func beside(files map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { text, ok := files[name]; return text, ok }
}

func TestToolsTransactions(t *testing.T) {
	t.Parallel()
	const two, one = "CREATE TABLE a (x int);\nCREATE TABLE b (x int);\nCREATE TABLE c (x int);\n", "CREATE TABLE a (x int);\n"
	gooseSays, dbmateSays := "put -- +goose NO", "write -- migrate:up transaction:false,"
	for _, test := range []struct {
		name   string
		source SourceFile
		want   []string
	}{
		{"no tool", SourceFile{Path: "a/schema.sql", Text: two}, nil},
		{"no tool, own block", SourceFile{Path: "a/schema.sql", Text: "BEGIN;" + one + "DROP TABLE a; INSERT INTO a VALUES (1); COMMIT;" + two}, []string{
			"several_ddl: run each statement of", "ddl_and_dml: run each statement of"}},
		{"goose, its own row", SourceFile{Text: "-- +goose Up\n" + one + "-- +goose Down\nDROP TABLE a;"}, []string{"ddl_and_dml: " + gooseSays, "ddl_and_dml: " + gooseSays}},
		{"goose", SourceFile{Text: "-- +goose Up\n" + two + "-- +goose Down\nSELECT 1;"}, []string{"ddl_and_dml: " + gooseSays, "several_ddl: " + gooseSays}},
		{"goose without", SourceFile{Text: "-- +goose NO TRANSACTION\n-- +goose Up\n" + two + "-- +goose Down\n" + two}, nil},
		{"goose without, below", SourceFile{Text: "-- +goose Up\n" + two + "-- +goose NO TRANSACTION\n"}, nil},
		{"goose without, a string", SourceFile{Text: "-- +goose NO TRANSACTION\n-- +goose Up\n-- +goose StatementBegin\n" + two + "-- +goose StatementEnd\n" + two}, []string{"several_ddl: " + gooseSays}},
		{"goose, only data", SourceFile{Text: "-- +goose Up\nINSERT INTO a VALUES (1);"}, nil},
		{"goose, CRLF", SourceFile{Text: strings.ReplaceAll("-- +goose NO TRANSACTION\n-- +goose Up\n"+two, "\n", "\r\n")}, nil},
		{"goose, a statement without semicolon", SourceFile{Text: "-- +goose Up\n-- +goose StatementBegin\nTRUNCATE a\n-- +goose StatementEnd\nTRUNCATE b;"}, []string{"truncate", "truncate"}},
		{"goose's marks are whole lines", SourceFile{Text: "-- +goose Up of it\n  -- +goose Down\n" + two}, nil},
		{"no mark in a string", SourceFile{Text: "SELECT '-- +goose Up'; " + two}, nil},
		{"no mark on a string's line", SourceFile{Text: "INSERT INTO d VALUES ('\n-- +goose Up\nTRUNCATE a;\n');"}, nil},
		{"no mark in a body", SourceFile{Text: "SELECT $x$\n-- migrate:up\nTRUNCATE a;\n$x$;"}, nil},
		{"no mark in a name", SourceFile{Text: "SELECT 1 AS \"\n--> statement-breakpoint\nTRUNCATE a\";"}, nil},
		{"a mark behind an open string", SourceFile{Text: "SELECT 'x;\n-- +goose Up\nTRUNCATE a;\n"}, []string{"unread"}},
		{"a mark at the end", SourceFile{Text: "-- +goose Up\nTRUNCATE a;\n-- +goose Down"}, []string{"truncate"}},
		{"dbmate", SourceFile{Text: "-- migrate:up\n" + one + "-- migrate:down\nSELECT 1;"}, []string{"ddl_and_dml: " + dbmateSays}},
		{"dbmate without", SourceFile{Text: "-- migrate:up transaction:false\n" + one + "-- migrate:down transaction:false\nDROP TABLE a;"}, nil},
		{"dbmate without, two", SourceFile{Text: "-- migrate:up transaction:false\r\n" + two + "-- migrate:down transaction:false\n" + one}, []string{"several_ddl: " + dbmateSays}},
		{"dbmate, down", SourceFile{Text: "-- migrate:up transaction:false\n" + one + "-- migrate:down\nDROP TABLE a;"}, []string{"ddl_and_dml: write -- migrate:down transaction:false,"}},
		{"Drizzle", SourceFile{Text: "CREATE TABLE a (x int)\n--> statement-breakpoint\nTRUNCATE a--> statement-breakpoint TRUNCATE b"}, []string{
			"ddl_and_dml: Drizzle's migrator has no", "truncate", "truncate"}},
		{"Drizzle, by its journal", SourceFile{Path: "drizzle/0001_a.sql", Text: one, ReadSibling: beside(map[string]string{"meta/_journal.json": "{}"})}, []string{"ddl_and_dml: Drizzle's migrator has no"}},
		{"golang-migrate", SourceFile{Path: "/m/1_a.up.sql", Text: one}, nil},
		{"golang-migrate, a string", SourceFile{Path: "1_a.down.sql", Text: two + "INSERT INTO a VALUES (1);"}, []string{"several_ddl: add x-multi-statement=true to the", "ddl_and_dml: add x-multi-statement=true to the"}},
		{"golang-migrate, own block", SourceFile{Path: "1_a.up.sql", Text: "BEGIN;" + two + "COMMIT;" + one + one}, []string{"several_ddl: add x-multi-statement=true to the", "several_ddl: add x-multi-statement=true to the"}},
		{"Prisma", SourceFile{Path: "migrations/20240301120000_init/migration.sql", Text: two}, []string{"several_ddl: Prisma sends the file"}},
		{"Prisma, by its lock", SourceFile{Path: "migrations/0_init/migration.sql", Text: two, ReadSibling: beside(map[string]string{"../migration_lock.toml": ""})}, []string{"several_ddl: Prisma sends the file"}},
		{"Prisma's one", SourceFile{Path: "20240301120000_init/migration.sql", Text: one}, nil},
		{"Flyway", SourceFile{Path: "V1_2__a.sql", Text: two}, []string{"several_ddl: put executeInTransaction=false into a"}},
		{"Flyway's one", SourceFile{Path: "V1__a.sql", Text: one}, nil},
		{"Flyway, COMMIT", SourceFile{Path: "V1__a.sql", Text: one + "COMMIT;" + two}, nil},
		{"Flyway without", SourceFile{Path: "db/R__a.sql", Text: two, ReadSibling: beside(map[string]string{"R__a.sql.conf": "x=y\r\nExecuteInTransaction = false\r\n"})}, nil},
		{"Flyway's undo", SourceFile{Path: "U1__a.sql", Text: "DROP TABLE a; DROP TABLE b;"}, []string{"several_ddl: put executeInTransaction=false into a"}},
	} {
		if got := lintedAs(t, test.source); !slices.Equal(got, test.want) {
			t.Errorf("%s\n got  %q\n want %q", test.name, got, test.want)
		}
	}
}

// Passages cover a file but for the marks, and lines count on across them.
func TestPassages(t *testing.T) {
	t.Parallel()
	const text = "-- head\n\n-- +goose Up\nTRUNCATE a;\n-- +goose StatementBegin\nTRUNCATE b\n-- +goose StatementEnd\n\n-- +goose Down\nTRUNCATE c;\n"
	var lines []int
	for _, f := range LintFile(planner(t, rewrite.Defaults()).NewLinter(), SourceFile{Text: text}).Findings {
		lines = append(lines, f.Line)
	}
	if want := []int{4, 6, 10}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
	// Tables of a file are known in the next, and in the half that undoes it.
	config := rewrite.Defaults()
	config.Rules.Bytea = rewrite.ByteaHex
	p := planner(t, config)
	linter := p.NewLinter()
	LintFile(linter, SourceFile{Path: "1_a.up.sql", Text: "CREATE TABLE t (k bytea PRIMARY KEY)"})
	for _, name := range []string{"1_a.down.sql", "2_a.up.sql"} {
		if got := LintFile(linter, SourceFile{Path: name, Text: "DELETE FROM t WHERE k = '\\x00'"}); len(got.Findings) != 1 || got.Findings[0].Feature != finding.ByteaKey {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCompareMigrations(t *testing.T) {
	t.Parallel()
	for _, want := range [][]string{
		{"db/V1__a.sql", "db/V1.1__a.sql", "db/V1_2__a.sql", "db/V2__a.sql", "db/U2__a.sql", "db/V10__a.sql", "db/R__a.sql", "db/R__b.sql"},
		{"1_a.up.sql", "1_a.down.sql", "2_b.up.sql", "2_b.down.sql", "000010_c.up.sql", "99999999999999999999999_c.up.sql"},
		{"m/20240101000000_b/migration.sql", "m/20240102000000_a/migration.sql"},
		{"db/structure.sql", "db/migrate/2_a.sql", "db/migrate/10_a.sql", "db/migrate/seed.sql"},
		{"0000_z.sql", "0001_a.sql", "a2.sql", "a10.sql"},
	} {
		got := slices.Clone(want)
		for range 20 {
			rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
			slices.SortFunc(got, CompareMigrations)
			if !slices.Equal(got, want) {
				t.Fatalf("got  %q\nwant %q", got, want)
			}
		}
	}
}
