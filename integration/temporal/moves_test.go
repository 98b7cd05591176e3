package temporal

import (
	"flag"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var moves = flag.Int("moves", 0, "how many workflows run at least while shards move between two history processes; 0: that is not tried")

// movements take the shards from a process, in turn from the one and from the other.
// Who is frozen does not know that it has lost them, and goes on where it stood.
var movements = []struct {
	name string
	make func(s *server, t *testing.T, moved func())
}{
	{"is frozen, and goes on when its shards are taken", (*server).freeze},
	{"ends by SIGTERM, and starts anew", func(s *server, t *testing.T, moved func()) { s.restart(t, syscall.SIGTERM, moved) }},
	{"is frozen, and goes on when its shards are taken", (*server).freeze},
	{"ends by SIGKILL, and starts anew", func(s *server, t *testing.T, moved func()) { s.restart(t, syscall.SIGKILL, moved) }},
}

// TestShardsMove has two processes take each other's shards while workflows run and
// commits conflict.
func TestShardsMove(t *testing.T) {
	if *moves == 0 {
		return
	}
	d := deploy(t, setup{plugin: pgx5, faults: faults, visibility: true, histories: 2, fenced: true})
	d.client.patient = true
	executed := d.work(t)
	d.waitOwned(t)
	began := time.Now()
	ran := d.runWhile(t, executed, *moves, func() {
		for round := range 2 {
			for n, movement := range movements {
				process := (n + round) % len(d.histories)
				t.Logf("%v: history process %d %s", time.Since(began).Round(time.Second), process, movement.name)
				before := d.takeovers(t)
				movement.make(d.histories[process], t, func() { d.waitTakeover(t, before) })
			}
		}
	})
	took := time.Since(began)
	executed.verify(t)
	d.verifyVisibility(t, ran, shortForm)
	t.Logf("%d workflows in %v; callers asked again %d times", ran, took.Round(time.Second), d.client.again.Load())
	d.verifyFence(t)
	d.reportTold(t)
	report(t, d)
	d.verifyErrors(t, "40001", "57014", "23505")
	// Each process makes Temporal's own namespace when it is the first.
	for _, odd := range d.tap.unexplained() {
		if !strings.Contains(odd.message, "namespaces_pkey") {
			t.Errorf("no answer to an INSERT of that row was lost before: %v", odd)
		}
	}
}

// freeze stops the process until its shards are another's, and a little longer.
func (s *server) freeze(t *testing.T, moved func()) {
	t.Helper()
	if err := syscall.Kill(s.program.PID(), syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	moved()
	time.Sleep(time.Second)
	if err := syscall.Kill(s.program.PID(), syscall.SIGCONT); err != nil {
		t.Error(err)
	}
	time.Sleep(*settle)
}

// restart ends the process, and starts it anew when its shards are another's.
func (s *server) restart(t *testing.T, signal syscall.Signal, moved func()) {
	t.Helper()
	if !s.program.Stop(signal, 30*time.Second) {
		t.Errorf("the process did not end")
	}
	moved()
	s.start(t)
	time.Sleep(*settle)
}

func (d *deployment) takeovers(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(d.pg.SQL(t, "postgres", takeovers))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// waitOwned until each shard has an owner, and all processes run: what is taken from then on
// has moved.
func (d *deployment) waitOwned(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(startLimit); d.pg.SQL(t, "postgres", "SELECT count(DISTINCT shard_id) FROM fence.takeovers") != strconv.Itoa(shardsToMove); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a shard has no owner")
		}
	}
	for n, s := range d.histories {
		select {
		case <-s.program.Exited():
			t.Fatalf("history process %d has ended: %v", n, s.program.Err())
		default:
		}
	}
}

// waitTakeover until there was one more.
func (d *deployment) waitTakeover(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); d.takeovers(t) == before; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Error("no shard has moved")
			return
		}
	}
}
