package proxy_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// A replay that gave its backend away gets the next one that comes back, before
// transactions that have not begun.
func TestReplaysGoAhead(t *testing.T) {
	pg := newPostgres(t)
	pg.SQL(t, "postgres", stumbling)
	stumbles(t, pg, true)
	s := startSluice(t, pg, slowReplay, maxOpen(1), func(s *setup) {
		s.backends.CheckoutWait = 30 * time.Second
		s.proxy.Retry.Policy.FirstDelay = time.Second
		s.proxy.Retry.Policy.BaseDelay, s.proxy.Retry.Policy.MaxDelay = time.Second, time.Second
	})
	var mu sync.Mutex
	var order []string
	var clients sync.WaitGroup
	run := func(name, sql string) {
		conn := connect(t, s.addr)
		clients.Go(func() {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
		})
	}
	run("the replay", "SELECT stumble(1)")
	waitFor(t, "the conflict", func() bool { return replayed(t, s) == 1 })
	holder := connect(t, s.addr)
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT 1"); err != nil { // while the replay pauses
		t.Fatal(err)
	}
	for i, name := range []string{"first", "second"} {
		run(name, "SELECT pg_sleep(0.05)")
		waitFor(t, "the line", func() bool { return s.backends.Stats().Waiting >= i+1 })
	}
	waitFor(t, "the replay, behind them", func() bool { return s.backends.Stats().Waiting == 3 })
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	if !slices.Equal(order, []string{"the replay", "first", "second"}) {
		t.Errorf("served in order %v", order)
	}
}
