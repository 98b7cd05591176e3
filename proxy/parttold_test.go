package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// A statement is shown without its string constants, and never at length.
func TestLabels(t *testing.T) {
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
		if got := labelOf(sql); got != want || len(got) > mostLabel+len("...") {
			t.Errorf("%q: %q, want %q", sql, got, want)
		}
	}
	var some, all labels
	for n := range 8 {
		some.add(fmt.Sprint("S", n))
	}
	all.join(some)
	all.join(some)
	all.add("T")
	if got := all.String(); len(all.named) != mostListed || all.more != 7 || !strings.HasSuffix(got, "S1; and 7 more") {
		t.Errorf("%d named, %d more: %s", len(all.named), all.more, got)
	}
	if len(some.named) != 8 || some.named[7].text != "S7" {
		t.Errorf("what was joined has changed: %v", some.named)
	}
}

// Of many savepoints in parts that are committed the last are known, and what a return to a
// savepoint brings back is not changed by what comes then.
func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	var p parts
	for n := range 3 * mostNames {
		p.keepNames([]string{fmt.Sprint("a", n), fmt.Sprint("b", n)})
	}
	if n := len(p.savepoints); n != mostNames || p.savepoints[n-1] != fmt.Sprint("b", 3*mostNames-1) {
		t.Errorf("%d names, the last is %s", n, p.savepoints[n-1])
	}
	p.takes(rewrite.Demand{DDL: true}, "one", false)
	mark := p.mark()
	p.takes(rewrite.Demand{Rows: true}, "two", false)
	p.returnTo(mark)
	p.takes(rewrite.Demand{}, "nothing", false)
	p.takes(rewrite.Demand{Sets: true}, "three", false)
	if got := p.lists.String(); got != "one; three" || p.open != (rewrite.Demand{DDL: true, Sets: true}) || mark.lists.String() != "one" {
		t.Errorf("%s, %+v, %s", got, p.open, mark.lists.String())
	}
}
