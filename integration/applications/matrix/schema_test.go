package matrix

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What migrations leave on Sluice's cluster is compared with what they leave on PostgreSQL, by pg_dump.
// testdata/schemas has the differences of each tool in each configuration: the list is closed, and any
// other difference fails. A line begins with "-" for PostgreSQL alone, and with "+" for the cluster alone.

var schemasFlag = flag.Bool("schemas", false, "write the differences of schemas into testdata/schemas, and nothing else")

// schemaOf is the schema of a database as lines that can be compared: one for each column of a table, and
// one for each other statement of pg_dump.
func schemaOf(t *testing.T, r route) []string {
	t.Helper()
	out, err := r.upstream.Program("pg_dump", "--schema-only", "--no-owner", "--no-privileges", "--exclude-schema=sys", r.database).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return schemaLines(string(out))
}

var (
	dumpNoise  = regexp.MustCompile(`(?m)^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)$`)
	dumpTable  = regexp.MustCompile(`(?s)^CREATE TABLE (\S+) \((.*)\)$`)
	dumpSpaces = regexp.MustCompile(`\s+`)
)

// schemaLines cuts a dump into lines.
func schemaLines(dump string) (lines []string) {
	for statement := range strings.SplitSeq(dumpNoise.ReplaceAllString(dump, ""), ";\n") {
		statement = strings.TrimSpace(statement)
		if table := dumpTable.FindStringSubmatch(statement); table != nil {
			lines = append(lines, "CREATE TABLE "+table[1])
			for column := range strings.SplitSeq(table[2], ",\n") {
				lines = append(lines, table[1]+": "+dumpSpaces.ReplaceAllString(strings.TrimSpace(column), " "))
			}
		} else if statement != "" && !strings.HasPrefix(statement, "CREATE EVENT TRIGGER dsqlsim_") { // the stand-in's own
			lines = append(lines, dumpSpaces.ReplaceAllString(statement, " "))
		}
	}
	return lines
}

// schemaDifferences are the lines that only one of two schemas has, in order.
func schemaDifferences(plain, through []string) (differences []string) {
	for _, line := range plain {
		if !slices.Contains(through, line) {
			differences = append(differences, "- "+line)
		}
	}
	for _, line := range through {
		if !slices.Contains(plain, line) {
			differences = append(differences, "+ "+line)
		}
	}
	slices.SortFunc(differences, func(a, b string) int {
		return strings.Compare(a[2:]+b[:1], b[2:]+a[:1]) // by object; PostgreSQL's first
	})
	return differences
}

// compareSchemas holds the differences of a route against those that are listed, or lists them.
func (tl *tool) compareSchemas(t *testing.T, r route, plain []string) {
	t.Helper()
	differences := schemaDifferences(plain, schemaOf(t, r))
	file := filepath.Join("testdata", "schemas", strings.ReplaceAll(tl.name, "/", " ")+", "+r.configuration.name+".txt")
	if *update || *schemasFlag {
		text := strings.Join(append(differences, ""), "\n")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range differences {
		if !slices.Contains(listed, line) {
			t.Errorf("%s differs from PostgreSQL's schema, and %s does not list it: %s", r.configuration.name, file, line)
		}
	}
	for _, line := range listed {
		if line != "" && !slices.Contains(differences, line) {
			t.Errorf("%s lists a difference that is not there: %s", file, line)
		}
	}
}

// Each kind of difference shows in the lines.
func TestSchemaDifferences(t *testing.T) {
	const plain = `--
-- PostgreSQL database dump
--
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TABLE public.a (
    id integer NOT NULL,
    n numeric,
    name text DEFAULT 'x;y,'::text
);
ALTER TABLE ONLY public.a
    ADD CONSTRAINT a_pkey PRIMARY KEY (id);
CREATE INDEX a_n ON public.a USING btree (n DESC);
`
	through := strings.NewReplacer("n numeric", "n numeric(128,38)", " DESC", "", "id integer NOT NULL,\n    ", "").Replace(plain)
	through = strings.Replace(through, "'::text\n", "'::text,\n    id integer NOT NULL\n", 1) // the last column
	want := []string{
		"- CREATE INDEX a_n ON public.a USING btree (n DESC)", "+ CREATE INDEX a_n ON public.a USING btree (n)",
		"- public.a: n numeric", "+ public.a: n numeric(128,38)",
	}
	got := schemaDifferences(schemaLines(plain), schemaLines(through))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
