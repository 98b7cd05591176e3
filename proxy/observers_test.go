package proxy

import (
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// TestOrderOfObservers holds the order in which each point calls the features. Another order is another behaviour:
// settings end with a COMMIT whose job an index awaits, for one.
func TestOrderOfObservers(t *testing.T) {
	t.Parallel()
	got := map[string][]string{}
	for i := range observers {
		o := &observers[i]
		for point, has := range map[string]bool{
			"admitting": o.onAdmitting != nil, "admitted": o.onAdmitted != nil, "sending": o.onSending != nil, "dials": o.dials != nil, "attached": o.onAttached != nil, "detaching": o.onDetaching != nil, "ran": o.onRan != nil, "ended": o.onEnded != nil,
			"committing": o.onCommitting != nil, "group ending": o.onGroupEnding != nil, "own work": o.onOwnWork != nil, "syncing": o.onSyncing != nil, "replaying": o.onReplaying != nil, "loss": o.loss != nil, "portal work": o.portalWork != nil,
			"returned": o.onReturned != nil, "turn end": o.onTurnEnd != nil, "ran, writes": o.ranWrites && o.onRan != nil,
			"settled": o.onSettled != nil, "discarded": o.onDiscarded != nil, "closed": o.onClosed != nil,
		} {
			if has {
				got[point] = append(got[point], o.name)
			}
		}
	}
	for point, want := range map[string]string{
		"admitting":   "advisory locks",
		"admitted":    "sequences",
		"sending":     "advisory locks",
		"dials":       "sequences",
		"attached":    "sequences",
		"detaching":   "advisory locks",
		"ran":         "sequences, index jobs, unparsed texts, settings, options, statements, schema",
		"ran, writes": "sequences, index jobs", "committing": "stored cursors", "portal work": "stored cursors", "group ending": "stored cursors",
		"own work": "advisory locks", "syncing": "advisory locks", "replaying": "advisory locks", "loss": "advisory locks", "returned": "advisory locks", "turn end": "advisory locks",
		"ended":     "index jobs, parts, schema, stored cursors",
		"settled":   "stored cursors, mapping",
		"discarded": "advisory locks, sequences, statements, portals, stored cursors",
		"closed":    "advisory locks, stored cursors",
	} {
		if names := strings.Join(got[point], ", "); names != want {
			t.Errorf("%s: %s, want %s", point, names, want)
		}
	}
}

// TestPlainStatementsAreNotObserved holds that most statements meet no call of a table.
func TestPlainStatementsAreNotObserved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind       rewrite.StatementKind
		statements int
		want       bool
	}{
		{rewrite.Empty, 0, false}, {rewrite.Read, 1, false}, {rewrite.Read, 3, false}, {rewrite.Write, 1, false},
		{rewrite.Write, 0, true}, {rewrite.Write, 2, true}, {rewrite.Setting, 1, true}, {rewrite.Control, 1, true},
		{rewrite.DDL, 1, true}, {rewrite.Unknown, 0, true},
	} {
		plan := &rewrite.Plan{Kind: test.kind, Statements: make([]rewrite.Statement, test.statements)}
		if needsRunObservers(plan) != test.want {
			t.Errorf("kind %d, %d statements: observed %v", test.kind, test.statements, !test.want)
		}
	}
}
