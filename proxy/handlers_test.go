package proxy

import (
	"slices"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite"
)

// TestHandlers holds that each value of rewrite.LocalWork is either the server's, or has what it takes to be done
// here.
func TestHandlers(t *testing.T) {
	t.Parallel()
	for does := range rewrite.LocalWorkCount {
		h := &handlers[does]
		if ours := h.runsLocally != nil || h.query != nil || h.execute != nil; ours == h.server {
			t.Errorf("value %d: the server's %v, done here %v", does, h.server, ours)
		}
		for _, must := range []struct {
			ok   bool
			what string
		}{
			{h.planInScript != nil, "no place in a multi-statement query"},
			{(h.parsesLocally != nil) == (h.runsLocally != nil), "parsed here without being done here, or the reverse"},
			{(h.run != nil) == (h.tag != nil), "an answer without a tag, or the reverse"},
			{h.runsLocally == nil || h.run != nil || h.execute != nil || h.framed != nil, "done here by nothing"},
			{h.columns == nil || h.run != nil && h.againTag != nil, "columns of no answer, or no tag behind the row"},
			{!h.changesNothing || h.columns != nil, "reads nothing"},
			{h.params == nil || h.runsLocally != nil, "parameters of the server's"},
		} {
			if !must.ok {
				t.Errorf("value %d: %s", does, must.what)
			}
		}
	}
}

// LeaveOut takes rows from the tables of handlers and observers, before Serve.
func (srv *Server) LeaveOut(does []rewrite.LocalWork, observers []string) {
	table := *srv.handlers
	for _, does := range does {
		table[does] = statementHandler{}
	}
	srv.handlers = &table
	srv.observers = newObserverTable(slices.DeleteFunc(slices.Clone(srv.observers.rows), func(o observer) bool { return slices.Contains(observers, o.name) }))
}

// TestObserverNames holds that each observer has a name of its own, by which it is left out.
func TestObserverNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range observers {
		if o.name == "" || seen[o.name] {
			t.Errorf("the name %q", o.name)
		}
		seen[o.name] = true
	}
}
