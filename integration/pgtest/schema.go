package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Schema returns the schema of a database as comparable lines. Each column of a table has one line, and so has each
// other statement of pg_dump.
func (s *Server) Schema(t testing.TB, database string) []string {
	t.Helper()
	out, err := s.Program("pg_dump", "--schema-only", "--no-owner", "--no-privileges", "--exclude-schema=sys", database).Output()
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

// schemaLines splits a dump into comparable lines.
func schemaLines(dump string) (lines []string) {
	for statement := range strings.SplitSeq(dumpNoise.ReplaceAllString(dump, ""), ";\n") {
		statement = strings.TrimSpace(statement)
		if table := dumpTable.FindStringSubmatch(statement); table != nil {
			lines = append(lines, "CREATE TABLE "+table[1])
			for column := range strings.SplitSeq(table[2], ",\n") {
				lines = append(lines, table[1]+": "+dumpSpaces.ReplaceAllString(strings.TrimSpace(column), " "))
			}
		} else if statement != "" && !strings.HasPrefix(statement, "CREATE EVENT TRIGGER dsqlsim_") { // dsqlsim's own
			lines = append(lines, dumpSpaces.ReplaceAllString(statement, " "))
		}
	}
	return lines
}

// SchemaDifferences returns the lines that only one of two schemas (see Server.Schema) has, in order. A line that
// only the plain PostgreSQL has begins with "-", and one that only the schema made through Sluice has with "+".
func SchemaDifferences(plain, through []string) (differences []string) {
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

// HoldSchema compares the differences of two schemas with those that a file lists. A new difference fails the test,
// and so does a listed one that no longer exists. If write is true, HoldSchema writes the differences to the file
// instead.
func HoldSchema(t testing.TB, differences []string, file string, write bool) {
	t.Helper()
	if write {
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
			t.Errorf("the schema differs from PostgreSQL's, and %s does not list it: %s", file, line)
		}
	}
	for _, line := range listed {
		if line != "" && !slices.Contains(differences, line) {
			t.Errorf("%s lists a difference that is not there: %s", file, line)
		}
	}
}
