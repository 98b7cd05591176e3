package fleet

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// discards are how many backends each daemon closed so far, by reason.
func discards(t *testing.T, fleet []*harness.Sluice) map[string]float64 {
	t.Helper()
	const name = `dsql_reservoir_discards_total{reason="`
	sum := make(map[string]float64)
	for _, s := range fleet {
		text := scrape(t, s)
		for line := range strings.SplitSeq(text, "\n") {
			if rest, ok := strings.CutPrefix(line, name); ok {
				reason, _, _ := strings.Cut(rest, `"`)
				sum[reason] += metric(t, text, name+reason+`"}`)
			}
		}
	}
	return sum
}

// DynamoDB is away for half of the reap time, under load. No backend closes, not
// even those whose time has come, no client sees an error, and afterwards the
// daemons grow as before.
func TestOutageOfTheTableClosesNothing(t *testing.T) {
	t.Parallel()
	const limit, each, busy = 20, 10, 3
	w := newWorld(t, limit, each)
	way := newGateway(t)
	w.env["AWS_ENDPOINT_URL_DYNAMODB"] = way.url
	w.env["DSQL_RESERVOIR_TARGET_READY"] = "4"
	w.env["DSQL_RESERVOIR_BASE_LIFETIME"] = "30s" // it ends during the outage
	fleet := []*harness.Sluice{w.start(t, nil), w.start(t, nil)}
	var loads []*clients
	for _, s := range fleet {
		eventually(t, "the target is reached", time.Minute, func() bool { return ready(t, s) >= 4 })
		loads = append(loads, startClients(t, s, busy))
	}

	before, away := discards(t, fleet), time.Now()
	way.away.Store(true)
	for _, s := range fleet {
		eventually(t, "it is noticed", 10*heartbeat, func() bool { return inPhase(t, s, "degraded") })
	}
	noticed, closed := discards(t, fleet), w.closed(t)
	var slots []int
	for _, s := range fleet {
		slots = append(slots, held(t, s))
	}
	for time.Since(away) < reapAfter/2 {
		for i, s := range fleet {
			if got := held(t, s); got != slots[i] || !inPhase(t, s, "degraded") {
				t.Fatalf("after %v a daemon has %d slots, had %d; degraded: %v", time.Since(away), got, slots[i], inPhase(t, s, "degraded"))
			}
		}
		time.Sleep(heartbeat / 2)
	}
	after := discards(t, fleet)
	if n := w.closed(t) - closed; n != 0 || !maps.Equal(after, noticed) {
		t.Errorf("backends closed during the outage: discards %v, before %v; the cluster saw %d end", after, noticed, n)
	}
	way.away.Store(false)
	for _, s := range fleet {
		eventually(t, "the lease is renewed again", 10*heartbeat, func() bool { return inPhase(t, s, "ok") })
	}

	// Each daemon is asked for more backends than it had slots.
	for _, s := range fleet {
		for range each - busy {
			conn, err := pgx.Connect(t.Context(), s.DSN("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close(context.Background()) })
			begin(t, conn)
		}
	}
	for i, s := range fleet {
		if got := held(t, s); got <= slots[i] {
			t.Errorf("%d slots after the outage, %d before", got, slots[i])
		}
	}
	end := discards(t, fleet)
	var queries, failed int64
	for _, load := range loads {
		load.end()
		queries += load.queries.Load()
		failed += load.errors.Load() + load.ended.Load()
		if err := load.last.Load(); err != nil {
			t.Errorf("a client was told: %v", *err)
		}
	}
	t.Logf("%d queries, %d errors; discards %v before, %v in all", queries, failed, before, end)
	for reason, n := range end {
		if n != before[reason] && reason != "aged" {
			t.Errorf("%v backends were closed as %s", n-before[reason], reason)
		}
	}
	refusedNobody(t, w.sim)
}
