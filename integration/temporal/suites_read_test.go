package temporal

import (
	"strings"
	"testing"
)

// What counts of Temporal's tests: those at the end of the tree, and those above that fail
// by themselves; and one that never ended is none that passed.
func TestReadOutcomes(t *testing.T) {
	const log = `{"Action":"run","Test":"TestPQ"}
{"Action":"run","Test":"TestPQ/A"}
{"Action":"run","Test":"TestPQ/A/Suite"}
{"Action":"run","Test":"TestPQ/A/Suite/One"}
{"Action":"output","Test":"TestPQ/A/Suite/One","Output":"why\n"}
{"Action":"fail","Test":"TestPQ/A/Suite/One"}
{"Action":"fail","Test":"TestPQ/A/Suite"}
{"Action":"fail","Test":"TestPQ/A"}
{"Action":"run","Test":"TestPQ/B"}
{"Action":"run","Test":"TestPQ/B/Suite"}
{"Action":"pass","Test":"TestPQ/B/Suite"}
{"Action":"fail","Test":"TestPQ/B"}
{"Action":"run","Test":"TestPQ/C"}
{"Action":"run","Test":"TestPQ/C/Suite"}
{"Action":"skip","Test":"TestPQ/C/Suite"}
{"Action":"pass","Test":"TestPQ/C"}
{"Action":"run","Test":"TestPQ/D"}
{"Action":"output","Test":"TestPQ/D","Output":"panic"}
{"Action":"run","Test":"TestPGX/E"}
{"Action":"fail","Test":"TestPQ"}`
	all, err := readOutcomes(strings.NewReader(log), "TestPQ")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"A/Suite/One": "fail", "B/Suite": "pass", "B": "fail", "C/Suite": "skip", "D": "run"}
	for test, o := range all {
		if o.action != want[test] {
			t.Errorf("%s: %q, want %q", test, o.action, want[test])
		}
	}
	if len(all) != len(want) || all["A/Suite/One"].output != "why\n" {
		t.Errorf("%v", all)
	}
}
