package network

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/integration/harness"
)

// While the server hangs, and dials with it, the daemon is not ready and says what it waits
// for; and it is ready again when the server goes on.
func TestNotReadyWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	w := start(t, harness.Env{"DSQL_RESERVOIR_PROBE_INTERVAL": "1s"})
	w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
	w.must(w.client(), "INSERT INTO t VALUES (1, 0)")
	blocked := w.client()
	w.must(blocked, "BEGIN")
	w.must(blocked, "SELECT 1")
	w.sim.Freeze()
	defer w.sim.Thaw()
	hung := w.ask(blocked, "INSERT INTO t VALUES (2, 0)")
	began := time.Now()
	w.until("not ready", 20*time.Second, func() bool {
		err := w.sluice.CheckReady(t.Context())
		return err != nil && strings.Contains(err.Error(), "has answered since")
	})
	t.Logf("not ready after %v", time.Since(began).Round(time.Millisecond))
	w.sim.Thaw()
	w.until("ready again", 30*time.Second, func() bool { return w.sluice.CheckReady(t.Context()) == nil })
	if got := <-hung; got.code != "" {
		t.Errorf("the statement that was waited for: %q", got.code)
	}
}

// A drain ends soon after its time, whatever hangs.
func TestDrainWhileTheServerHangs(t *testing.T) {
	const timeout = 2 * time.Second
	for name, env := range map[string]harness.Env{"cancels": {"DSQL_CANCEL_FORWARD": "true"}, "no cancels": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, harness.Env{"DSQL_DRAIN_TIMEOUT": timeout.String()}.With(env))
			w.must(w.client(), "CREATE TABLE t (id int PRIMARY KEY, n int)")
			idle, block, committing, read, write := w.client(), w.client(), w.client(), w.client(), w.client()
			w.must(idle, "BEGIN")
			w.must(idle, "SELECT 1")
			w.must(block, "BEGIN")
			w.must(block, "INSERT INTO t VALUES (1, 0)")
			w.must(committing, "BEGIN")
			w.must(committing, "INSERT INTO t VALUES (2, 0)")
			w.must(read, "SELECT 1")
			w.sim.Freeze()
			defer w.sim.Thaw()
			answers := map[string]<-chan told{
				"a read": w.ask(read, "SELECT count(*) FROM t"), "a block": w.ask(block, "SELECT 1"),
				"a commit": w.ask(committing, "COMMIT"), "a write": w.ask(write, "INSERT INTO t VALUES (3, 0)"),
			}
			time.Sleep(500 * time.Millisecond)
			began := time.Now()
			w.sluice.Signal(syscall.SIGTERM)
			select {
			case <-w.sluice.Exited():
			case <-time.After(time.Minute):
				t.Fatal("no end")
			}
			over := time.Since(began) - timeout
			t.Logf("it ended %v behind drain.timeout", over.Round(time.Millisecond))
			if over > 4*time.Second { // one is promised; the machine may be slow
				t.Errorf("it ended %v behind drain.timeout", over)
			}
			for name, answer := range answers {
				if got := <-answer; got.code == "" {
					t.Errorf("%s: success from a server that hangs", name)
				}
			}
		})
	}
}

// until waits for a condition, and fails the test after so long.
func (w *world) until(what string, limit time.Duration, done func() bool) {
	w.Helper()
	for began := time.Now(); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > limit {
			w.Fatalf("waited %v for: %s\n%s", limit, what, w.sluice.Tail())
		}
	}
}
