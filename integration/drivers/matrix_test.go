package drivers

import (
	"context"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// playLimit is how long a client may take for all its scenarios on one route.
// They take a few seconds; a client that hangs is told from a slow machine.
const playLimit = 90 * time.Second

// client plays all its scenarios on a route and returns what came of each.
type client struct {
	name string
	play func(ctx context.Context, t *testing.T, r route) []played
}

// played is one scenario's transcript.
type played struct {
	name       string
	needs      []Feature
	transcript string
}

// everywhere are the clients that play on all routes. Each other one plays on the direct route
// and, by turns, on the default or on the stand-in; with CASES=all on all.
var everywhere = []string{"psql", "pgx exec", "psycopg", "python streams"}

// TestMatrix plays every scenario with every client.
func TestMatrix(t *testing.T) {
	routes := openRoutes(t)
	scenarios := loadScenarios(t)
	clients := []client{psql()}
	clients = append(clients, goClients(scenarios)...)
	clients = append(clients, programs()...)
	for _, name := range everywhere {
		if !slices.ContainsFunc(clients, func(c client) bool { return c.name == name }) {
			t.Errorf("%s is no client", name)
		}
	}
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.compare(t, c.on(routes, []string{"transaction", "stand-in"}[i%2]))
		})
	}
	for _, r := range routes {
		t.Run("pgbench/"+r.name, func(t *testing.T) {
			t.Parallel()
			runPgbench(t, r)
		})
	}
}

// on are the routes that a client plays on: all, or the direct one and another.
func (c client) on(routes []route, other string) []route {
	if slices.Contains(everywhere, c.name) || os.Getenv("CASES") == "all" {
		return routes
	}
	return slices.DeleteFunc(slices.Clone(routes), func(r route) bool { return r.name != "direct" && r.name != other })
}

// compare plays on all routes at once and holds the answers against the first's.
func (c client) compare(t *testing.T, routes []route) {
	answers := make([][]played, len(routes))
	var wg sync.WaitGroup
	for i, r := range routes {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), playLimit)
			defer cancel()
			answers[i] = c.play(ctx, t, r)
		})
	}
	wg.Wait()
	direct := answers[0]
	for _, p := range direct {
		if len(p.transcript) == 0 {
			t.Errorf("%s: nothing was played", p.name)
		}
	}
	for i, r := range routes[1:] {
		got := answers[i+1]
		if len(got) != len(direct) {
			t.Errorf("%s: %d scenarios played, directly %d", r.name, len(got), len(direct))
			continue
		}
		for k, p := range got {
			if problem := r.judge(p, direct[k].transcript); problem != "" {
				t.Errorf("%s, %s: %s", r.name, p.name, problem)
			}
		}
	}
}

// judge says what is wrong with a scenario's transcript, given the direct one.
func (r route) judge(p played, want string) string {
	if !r.lacks {
		return difference(p.transcript, want)
	}
	got := p.transcript
	for _, f := range p.needs {
		if refused, ok := refusals[f]; ok {
			return refusedAt(got, want, refused)
		}
		if painless[f] {
			return errorIn(got)
		}
		if supplied[f] { // in Sluice's own errors there is nothing of where the server was
			got, want = withoutFields(got), withoutFields(want)
		}
	}
	return difference(got, want)
}

func TestEveryFeatureIsKnown(t *testing.T) {
	t.Parallel()
	for _, sc := range loadScenarios(t) {
		for _, f := range sc.needs {
			if _, ok := refusals[f]; !ok && !supplied[f] && !painless[f] {
				t.Errorf("%s needs %s, which no table has", sc.name, f)
			}
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
