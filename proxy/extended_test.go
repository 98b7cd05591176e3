package proxy_test

import (
	"strings"
	"testing"
)

// A Parse of the unnamed statement that Sluice itself refuses leaves none, as one that a
// server refuses: what was prepared before is not run in its place.
func TestRefusedParseLeavesNoUnnamedStatement(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	short := func(s *setup) { s.rules.Databases, s.proxy.MaxStatementBytes = true, 64<<10 }
	for route, s := range map[string]*sluice{"dsql": startSluice(t, pg, asDSQL, short), "mapped": startSluice(t, pg, asDSQL, short, fastReplay, mapping)} {
		for name, text := range map[string]string{
			"a rule":      "CREATE DATABASE postgres",
			"its length":  "SELECT '" + strings.Repeat("x", 80<<10) + "'",
			"the server":  "SELECT nosuch",
			"no relation": "SELECT * FROM nosuch",
			"the grammar": "SELEC 1",
		} {
			t.Run(route+", "+name, func(t *testing.T) {
				got := perform(t, s.addr, "P - | SELECT 'before' AS b\nS\n< Z\nP - | "+text+"\nS\n< Z\nB - | -\nE -\nS\n< Z\n")
				if !strings.HasSuffix(got, "C=26000 M=unnamed prepared statement does not exist\nZ I\n") {
					t.Errorf("got:\n%s", got)
				}
			})
		}
	}
}

// Behind an error the server skips a Parse, and the statement before it stays: also where
// Sluice has refused the Parse before the error came.
func TestSkippedParseThatIsRefused(t *testing.T) {
	t.Parallel()
	pg := sharedPostgres(t)
	s := startSluice(t, pg, func(s *setup) { s.rules.Databases, s.proxy.MaxStatementBytes = true, 64<<10 })
	for name, text := range map[string]string{
		"a rule":     "CREATE DATABASE postgres",
		"its length": "SELECT '" + strings.Repeat("x", 80<<10) + "'",
	} {
		t.Run(name, func(t *testing.T) {
			script := "P - | SELECT 'before' AS b\nS\n< Z\nP x | SELECT 1/0\nB - | x\nE -\nP - | " + text + "\nS\n< Z\nB - | -\nE -\nS\n< Z\n"
			if got, want := perform(t, s.addr, script), perform(t, pg.addr, script); got != want {
				t.Error(firstDifference(got, want))
			}
		})
	}
}
