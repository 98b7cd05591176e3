package parse

import (
	"slices"
	"testing"
)

// The words are those of the statements that a server splits a text into, and of no others.
func TestFirstWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                               nil,
		" ; -- ;\n;/* ; */":              nil,
		"SET a TO 'x; y'; RESET b; ":     {"set", "reset"},
		"SELECT \";\"; ; select $a$;$a$": {"select", "select"},
		"WITH a AS (SELECT 1) SELECT 2":  {"with"},
		"(SELECT 1); VALUES (1)":         {"select", "values"},
		"ROLLBACK TO a; Rollback":        {"rollback to", "rollback"},
		"ROLLBACK WORK TO a":             {"rollback"},
		"CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)": {"create"},
	} {
		if got, sure := FirstWords([]byte(text)); !sure || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, sure, want)
		}
	}
	for _, text := range []string{`SET a TO 'x\'; y'`, "SELECT 'x", "1; SELECT 2", "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "SELECT /*"} {
		if got, sure := FirstWords([]byte(text)); sure {
			t.Errorf("%q: %q", text, got)
		}
	}
}
