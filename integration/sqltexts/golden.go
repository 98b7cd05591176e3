package sqltexts

import (
	"os"
	"strings"
	"testing"
)

// GoldenCase is one statement of a golden file. In is the input, Out the expected output ("same" for an unchanged
// one), and Rules are the expected findings.
type GoldenCase struct {
	Line           int
	In, Out, Rules string
}

// ReadGolden reads the cases of a golden file. A case has the form
//
//	-- in
//	SELECT 1 FOR SHARE
//	-- out
//	SELECT 1 FOR UPDATE
//	-- rules
//	locking for_share rewritten info
func ReadGolden(t testing.TB, name string) []GoldenCase {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var cases []GoldenCase
	var section *string
	for i, line := range strings.SplitAfter(string(text), "\n") {
		switch strings.TrimSuffix(line, "\n") {
		case "-- in":
			cases = append(cases, GoldenCase{Line: i + 1})
			section = &cases[len(cases)-1].In
		case "-- out":
			section = &cases[len(cases)-1].Out
		case "-- rules":
			section = &cases[len(cases)-1].Rules
		default:
			if section == nil {
				continue // what the file says of itself
			}
			*section += line
		}
	}
	for i := range cases {
		c := &cases[i]
		for _, s := range []*string{&c.In, &c.Out, &c.Rules} {
			*s = strings.TrimRight(*s, "\n")
		}
	}
	return cases
}

func ReadFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ReadCorpus reads statements of PostgreSQL's grammar, one a line, with the escapes \n, \r, \t and \\.
func ReadCorpus(t testing.TB, name string) []string {
	t.Helper()
	text := ReadFile(t, name)
	unescape := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`)
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, unescape.Replace(strings.TrimSuffix(line, "\n")))
	}
	return all
}
