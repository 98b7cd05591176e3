package fleet

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// A daemon that uses its part of the limit is killed. The next one on its file gives
// back what it held, before time would have. A suspended one keeps its slots: who comes
// then on the same file is told so, joins with what is free, and leaves its records
// alone, until it is gone as well.
func TestKilledDaemonsSlotsAreFreeAtOnce(t *testing.T) {
	t.Parallel()
	const limit, each = 15, 5 // a block each, which is there at once
	w := newWorld(t, limit, each)
	file := harness.Env{"DSQL_DISTRIBUTED_CONN_LEASE_FILE": filepath.Join(t.TempDir(), "lease")}
	full := func(s *harness.Sluice, records, locked float64) {
		t.Helper()
		eventually(t, "it has its slots", reapAfter/2, func() bool {
			return held(t, s) == each && ready(t, s) == each && metric(t, scrape(t, s), "dsql_lease_predecessor_records_total") >= records
		})
		text := scrape(t, s)
		for name, want := range map[string]float64{
			"dsql_lease_predecessor_records_total": records, "dsql_lease_file": locked, "dsql_lease_reaped_records_total": 0, "dsql_lease_reaped_self_total": 0,
		} {
			if got := metric(t, text, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}
	kill := func(s *harness.Sluice) {
		t.Helper()
		s.Signal(syscall.SIGKILL)
		<-s.Exited()
	}

	w.start(t, nil)
	first := w.start(t, file)
	full(first, 0, 1)
	kill(first)
	second := w.start(t, file)
	full(second, 1, 1)

	second.Signal(syscall.SIGSTOP)
	third := w.start(t, file)
	full(third, 0, 0)
	if !strings.Contains(third.Log(), "another process has its lock") {
		t.Errorf("it does not say that the file is locked:\n%s", third.Tail())
	}
	kill(third)
	kill(second)
	full(w.start(t, file), 1, 1)
	w.keptTo(t, limit)
}
