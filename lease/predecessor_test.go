package lease

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// witness is a table that looks into the file when a record is made.
type witness struct {
	*flaky
	t    *testing.T
	path string
}

func (w *witness) Change(ctx context.Context, c ShardChange) (Shard, bool, error) {
	if text, err := os.ReadFile(w.path); c.Old == "" && (err != nil || !bytes.Contains(text, []byte(" "+c.Owner+"\n"))) {
		w.t.Errorf("the record %s is made before the file names it: %q, %v", c.Owner, text, err)
	}
	return w.flaky.Change(ctx, c)
}

// process is a Lease with a file, which lives until it is ended in one way or another.
type process struct {
	*Lease
	file  *LockFile
	away  *atomic.Bool // nothing of it reaches the table
	log   *bubbleLog
	stop  context.CancelFunc
	ended chan struct{}
}

func startProcess(t *testing.T, table *memory, path string) *process {
	t.Helper()
	began, log := time.Now(), new(bubbleLog)
	way := &flaky{memory: table}
	l, err := New(worldConfig(), &witness{way, t, path}, func() time.Duration { return time.Since(began) }, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &process{l, NewLockFile(path), &way.away, log, stop, make(chan struct{})}
	l.UseLockFile(p.file)
	go func() {
		_ = l.Run(ctx)
		close(p.ended)
	}()
	t.Cleanup(stop)
	return p
}

// take gets permits.
func (p *process) take(t *testing.T, n int) (permits []*Permit) {
	t.Helper()
	for range n {
		permit, err := p.Admit(t.Context(), n-len(permits))
		if err != nil {
			t.Fatal(err)
		}
		permits = append(permits, permit)
	}
	return permits
}

// end is the end of a process that had time for it.
func (p *process) end() {
	p.stop()
	<-p.ended
	p.file.Close()
}

// kill is the end of one that had none: nothing of it reaches the table any more, and
// the kernel lets go.
func (p *process) kill() {
	p.away.Store(true)
	p.file.Close()
}

// A record is named in the file before it is made. Who comes after a clean end finds
// nothing to do, and says nothing; after a kill it gives back what it finds, and nothing
// else; with the lock taken it says so and does without.
func TestProcessesOnOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		path := filepath.Join(t.TempDir(), "lease")
		table := newMemory(cfg.tableSettings(), time.Now)

		first := startProcess(t, table, path)
		for _, permit := range first.take(t, 20) {
			permit.Release()
		}
		first.end()
		second := startProcess(t, table, path)
		second.take(t, 20)
		if strings.Contains(second.log.String(), "predecessor") || second.Gauges().PredecessorsRemoved != 0 || !second.Gauges().PlacesWritten {
			t.Errorf("after a clean end: %+v\n%s", second.Gauges(), second.log)
		}

		second.kill()
		before := table.recorded()
		third := startProcess(t, table, path)
		time.Sleep(predecessorPause / 2)
		if table.recorded() != before {
			t.Error("it gave back the slots of a process whose sockets may be closing still")
		}
		time.Sleep(predecessorPause)
		if g := third.Gauges(); table.recorded() != 0 || g.PredecessorsRemoved == 0 || !strings.Contains(third.log.String(), "a predecessor of this process is gone") {
			t.Errorf("after a kill %d slots are held: %+v\n%s", table.recorded(), g, third.log)
		}
		third.take(t, 5)

		fourth := startProcess(t, table, path) // and the third is suspended, for all that is known
		time.Sleep(2 * predecessorPause)
		if g := fourth.Gauges(); g.PredecessorsRemoved != 0 || g.PlacesWritten || third.Gauges().ReapedSelf != 0 || !strings.Contains(fourth.log.String(), "another process has its lock") {
			t.Errorf("on a file that is locked: %+v\n%s", g, fourth.log)
		}
		fourth.end()
		third.end()
		second.stop()
		<-second.ended
	})
}

// Who is killed before it could give back what its predecessor held leaves that, too.
func TestProcessesKilledOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lease")
		table := newMemory(worldConfig().tableSettings(), time.Now)
		var killed []*process
		for range 3 {
			p := startProcess(t, table, path)
			p.take(t, block)
			if p.Gauges().PredecessorsRemoved != 0 {
				t.Fatal("it had time for what its predecessor held")
			}
			p.kill()
			killed = append(killed, p)
		}
		last := startProcess(t, table, path)
		time.Sleep(2 * predecessorPause)
		if n := table.recorded(); n != 0 {
			t.Errorf("%d slots of the dead are held: %+v", n, last.Gauges())
		}
		last.end()
		for _, p := range killed {
			p.stop()
			<-p.ended
		}
	})
}
