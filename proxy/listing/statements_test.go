package listing

import (
	"fmt"
	"strings"
	"testing"
)

// A statement is shown without its string constants, and never at length.
func TestStatements(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"CREATE  TABLE\n\ta (n int)":                       "CREATE TABLE a (n int)",
		"CREATE ROLE a PASSWORD 'secret' LOGIN":            "CREATE ROLE a PASSWORD ...",
		"INSERT INTO a VALUES ($$secret$$)":                "INSERT INTO a VALUES (...",
		"CREATE TABLE b (" + strings.Repeat("n int, ", 40): "CREATE TABLE b (n int, n int, n int, n int, n int, n int, n int, n int, n int, n...",
		strings.Repeat("x", 1000):                          "...",
		"CREATE TABLE \xe4 (n int)":                        "CREATE TABLE \xe4 (n int)", // LATIN1
		"DROP TABLE a;\n":                                  "DROP TABLE a",
		"":                                                 "",
	} {
		if got := shortenStatement(sql); got != want || len(got) > mostBytes+len("...") {
			t.Errorf("%q: %q, want %q", sql, got, want)
		}
	}
	var some, all Statements
	for n := range 8 {
		some.Add(fmt.Sprint("S", n))
	}
	all.AppendAll(some)
	all.AppendAll(some)
	all.Add("T")
	if got := all.String(); len(all.named) != MaxNamed || all.more != 7 || !strings.HasSuffix(got, "S1; and 7 more") {
		t.Errorf("%d named, %d more: %s", len(all.named), all.more, got)
	}
	if len(some.named) != 8 || some.named[7].text != "S7" {
		t.Errorf("what was joined has changed: %v", some.named)
	}
}

// Reads take no place of other statements, and can be taken out again.
func TestReads(t *testing.T) {
	t.Parallel()
	var l Statements
	for n := range 3 * MaxNamed {
		l.AddRead(fmt.Sprint("R", n))
	}
	before := l.Snapshot()
	for n := range MaxNamed + 1 {
		l.Add(fmt.Sprint("W", n))
	}
	if got := l.String(); !strings.HasPrefix(got, "R0; R1; R2; R3; W0; ") || !strings.HasSuffix(got, "W9; and 1 more") {
		t.Error(got)
	}
	without := l.WithoutReads()
	if got := without.String(); !strings.HasPrefix(got, "W0; ") || !strings.HasSuffix(got, "W9; and 1 more") {
		t.Error(got)
	}
	if got := before.String(); got != "R0; R1; R2; R3" || before.IsEmpty() {
		t.Error(got)
	}
	if reads := before.WithoutReads(); !reads.IsEmpty() {
		t.Error(reads.String())
	}
}
