// Package fleet tests several built daemons that share one cluster and one
// lease table.
package fleet

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// Eight daemons want twice what the table allows. The cluster never counts more
// than that; each daemon gets its part. Two are killed: nobody uses their slots
// before the reap time, the others do after it. In the end all is given back.
func TestFleetKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	const daemons, limit, each = 8, 32, 8
	w := newWorld(t, limit, each)
	fleet := make([]*harness.Sluice, daemons)
	for i := range fleet {
		fleet[i] = w.start(t, nil)
	}
	shares := func(of []*harness.Sluice) (least, most, sum int) {
		least = limit
		for _, s := range of {
			n := held(t, s)
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		return least, most, sum
	}
	eventually(t, "the limit is used and shared within 2x", 30*heartbeat, func() bool {
		least, most, _ := shares(fleet)
		return w.open(t) == limit && most <= 2*least
	})
	for _, s := range fleet {
		query(t, s)
	}

	dead, alive := fleet[:2], fleet[2:]
	_, _, lost := shares(dead)
	killed := time.Now()
	for _, s := range dead {
		s.Signal(syscall.SIGKILL)
	}
	for _, s := range dead {
		<-s.Exited()
	}
	for time.Since(killed) < reapAfter-2*heartbeat {
		if _, _, got := shares(alive); got > limit-lost {
			t.Fatalf("%v after the kill the others hold %d of %d, the dead had %d", time.Since(killed), got, limit, lost)
		}
		for _, s := range alive {
			query(t, s)
		}
		time.Sleep(heartbeat / 2)
	}
	eventually(t, "the slots of the dead are used, and shared within 2x", reapAfter, func() bool {
		least, most, sum := shares(alive)
		return sum == limit && w.open(t) == limit && most <= 2*least
	})
	t.Logf("%d slots of the dead in use %v after the kill, reap time %v", lost, time.Since(killed).Round(time.Second/10), reapAfter)

	for _, s := range alive {
		s.Signal(syscall.SIGTERM)
	}
	for _, s := range alive {
		select {
		case <-s.Exited():
		case <-time.After(30 * time.Second):
			t.Fatal("a daemon does not end")
		}
		if s.ExitCode() != 0 {
			t.Errorf("ended with %d\n%s", s.ExitCode(), s.Tail())
		}
	}
	// The cluster may be about to notice that a dial was given up.
	eventually(t, "no connection is left", 10*time.Second, func() bool { return w.open(t) == 0 })
	if status := w.lease(t, "status"); !strings.Contains(status, fmt.Sprintf("%d of %[1]d slots free", limit)) {
		t.Errorf("after the end:\n%s", status)
	}
	w.keptTo(t, limit)
}

// A daemon that is configured otherwise than the table goes by the table, and says so.
func TestTablesLimitsHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 9, 6)
	s := w.start(t, harness.Env{"DSQL_DISTRIBUTED_CONN_LIMIT": "8"})
	eventually(t, "it says so", 10*time.Second, func() bool {
		return strings.Contains(s.Tail(), "distributed.conn_limit less distributed.conn_margin") && strings.Contains(s.Tail(), "the table's holds")
	})
}
