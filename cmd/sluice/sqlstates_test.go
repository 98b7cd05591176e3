package main

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readStates are SQLSTATEs that the source names to know them when the server says them, and
// never says itself.
var readStates = map[string]bool{
	"00000": true, // of notices
	"22012": true, // a statement that is made to fail
	"3F000": true, "42883": true, "42P01": true, "42P06": true, "42P16": true, "53400": true,
	"OC000": true, "OC001": true, // of a cluster's messages
}

// Temporal swaps its pool of connections behind some SQLSTATEs, and takes others for the
// outcome of what it asked: Sluice says none of them. That rows are against a constraint which an
// ALTER TABLE adds is no outcome of a write, and Temporal's server sends none. Nor does it set
// default_transaction_read_only, without which nobody is told 25006.
var neverSaid = []string{"23505", "25006", "57P03"}

// ofAlterTable is the package whose errors are those of ALTER TABLE.
const ofAlterTable = "proxy/constraint"

// ofReadOnly is the package whose errors are those of default_transaction_read_only.
const ofReadOnly = "proxy/access"

// ofBlocks is the file that names what a DO block may ignore, and says none of it.
const ofBlocks = "rewrite/parse/doblock.go"

// The table in docs/temporal.md has every SQLSTATE that Sluice says itself, and no other: for
// each somebody has looked up what Temporal does then.
func TestTableOfSQLStates(t *testing.T) {
	t.Parallel()
	said, ofRows := map[string]bool{}, map[string]bool{}
	for _, file := range sourceFiles(t) {
		if !file.test && (file.dir == "proxy" || strings.HasPrefix(file.dir, "proxy/") || file.dir == "rewrite" || strings.HasPrefix(file.dir, "rewrite/") || file.dir == "retry") {
			maps.Copy(said, statesIn(file.syntax))
			if file.dir != ofAlterTable && file.dir != ofReadOnly && file.name != ofBlocks {
				maps.Copy(ofRows, statesIn(file.syntax))
			}
		}
	}
	maps.DeleteFunc(said, func(state string, _ bool) bool { return readStates[state] })
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "temporal.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for row := range strings.Lines(string(page)) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(row, "| "), " |"); ok && strings.HasPrefix(row, "| ") {
			for _, state := range regexp.MustCompile("`([0-9A-Z]{5})`").FindAllStringSubmatch(first, -1) {
				listed[state[1]] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(said)); !slices.Equal(got, want) {
		t.Errorf("docs/temporal.md lists\n%v\nand Sluice says\n%v", got, want)
	}
	counted, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, labels, _ := strings.Cut(string(counted), "| `dsql_errors_sent_total` |")
	labels, _, _ = strings.Cut(labels, "\n")
	for state := range said {
		if state != "01000" && !strings.Contains(labels, state+", ") { // that is a notice's
			t.Errorf("dsql_errors_sent_total counts %s as other", state)
		}
	}
	for _, state := range neverSaid {
		if ofRows[state] {
			t.Errorf("Sluice says %s, which Temporal takes for more than a failure", state)
		}
	}
	if len(said) < 25 {
		t.Errorf("only %d SQLSTATEs found: the search is broken", len(said))
	}
}

// statesIn are the string constants of a file that have the form of a SQLSTATE.
func statesIn(file *ast.File) map[string]bool {
	found := map[string]bool{}
	state := regexp.MustCompile("^([0-9][0-9A-Z]{4}|[A-Z]{2}[0-9]{3})$")
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil && state.MatchString(text) {
				found[text] = true
			}
		}
		return true
	})
	return found
}
