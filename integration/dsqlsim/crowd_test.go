package dsqlsim_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-proxy/sluice/integration/dsqlsim"
)

// increment reads the counter and writes what it read plus one; it tells whether
// that was committed, and fails the test on anything but a conflict at COMMIT.
func increment(t *testing.T, conn *pgconn.PgConn, lock string) bool {
	exec := func(sql string) ([]*pgconn.Result, error) { return conn.Exec(deadline(t), sql).ReadAll() }
	read, err := exec("BEGIN; SELECT v FROM counter WHERE id = 1" + lock)
	if err != nil {
		t.Errorf("read: %v", err)
		return false
	}
	v, _ := strconv.Atoi(string(read[1].Rows[0][0]))
	written, err := exec(fmt.Sprintf("UPDATE counter SET v = %d WHERE id = 1", v+1))
	if err != nil || written[0].CommandTag.String() != "UPDATE 1" {
		t.Errorf("UPDATE: %v %v", written, err)
		return false
	}
	if _, err = exec("COMMIT"); err == nil {
		return true
	}
	if got := told(t, err); got != conflict {
		t.Errorf("COMMIT: %s", got)
	}
	return false
}

// Sixteen clients count together: with a retry no update is lost, without one
// the conflicts show.
func TestCounter(t *testing.T) {
	t.Parallel()
	const clients = 16
	for name, test := range map[string]struct {
		lock  string
		retry bool
	}{
		"with FOR UPDATE and retry": {" FOR UPDATE", true},
		"with neither":              {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			c.direct(t, "CREATE TABLE counter (id int PRIMARY KEY, v int NOT NULL); INSERT INTO counter VALUES (1, 0)")
			var commits, conflicts atomic.Int64
			var working sync.WaitGroup
			began := time.Now()
			for range clients {
				conn := c.connect(t)
				working.Go(func() {
					for range countRounds {
						for pause := 8 * time.Millisecond; !t.Failed(); pause = min(2*pause, 128*time.Millisecond) {
							if increment(t, conn, test.lock) {
								commits.Add(1)
								break
							}
							conflicts.Add(1)
							if !test.retry {
								break
							}
							time.Sleep(rand.N(pause))
						}
					}
				})
			}
			working.Wait()
			value := c.direct(t, "SELECT v FROM counter")
			t.Logf("%d commits, %d conflicts, counted to %s in %v", commits.Load(), conflicts.Load(), value, time.Since(began).Round(time.Millisecond))
			if value != strconv.FormatInt(commits.Load(), 10) {
				t.Errorf("counted to %s in %d commits", value, commits.Load())
			}
			if test.retry && commits.Load() != int64(clients*countRounds) {
				t.Errorf("%d commits", commits.Load())
			}
			if conflicts.Load() == 0 {
				t.Error("no conflict")
			}
		})
	}
}

// Fifty clients write one row, in blocks and alone, while one that has written it
// idles; no PostgreSQL process waits
// for another longer than it may.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	const clients = 50
	c := start(t, nil)
	c.direct(t, "CREATE TABLE hot (id int PRIMARY KEY, v int NOT NULL); INSERT INTO hot VALUES (1, 0)")
	stop := make(chan struct{})
	var longest atomic.Int64
	var watching, working sync.WaitGroup
	watcher := c.connect(t)
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			rows, err := watcher.Exec(deadline(t), `SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart) * 1000), 0)
				FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = current_database()`).ReadAll()
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			ms, _ := strconv.ParseFloat(string(rows[0].Rows[0][0]), 64)
			longest.Store(max(longest.Load(), int64(ms*1000)))
		}
	})
	idle := &player{t, c.connect(t), true}
	idle.do("BEGIN")
	idle.do("UPDATE hot SET v = v + 1")
	var commits, conflicts atomic.Int64
	for i := range clients {
		p := &player{t, c.connect(t), i%4 < 2}
		working.Go(func() {
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				outcome := ""
				if i%2 == 0 {
					outcome = p.do("UPDATE hot SET v = v + 1")
				} else {
					p.do("BEGIN")
					if got := p.do("UPDATE hot SET v = v + 1"); got != "UPDATE 1" {
						t.Errorf("in a block: %s", got)
					}
					outcome = p.do("COMMIT")
				}
				switch {
				case outcome == conflict:
					conflicts.Add(1)
				case strings.HasPrefix(outcome, "4"), strings.HasPrefix(outcome, "5"):
					t.Errorf("got %s", outcome)
				default:
					commits.Add(1)
				}
			}
		})
	}
	working.Wait()
	close(stop)
	watching.Wait()
	if v := c.direct(t, "SELECT v FROM hot"); v != strconv.FormatInt(commits.Load(), 10) {
		t.Errorf("counted to %s in %d commits", v, commits.Load())
	}
	wait := time.Duration(longest.Load()) * time.Microsecond
	t.Logf("%d commits, %d conflicts; the longest wait that was seen: %v", commits.Load(), conflicts.Load(), wait)
	if wait > time.Second { // a busy machine is late to wake up
		t.Errorf("a process waited for %v, the limit is %v", wait, dsqlsim.DefaultLockTimeout)
	}
	if got := idle.do("COMMIT"); got != conflict {
		t.Errorf("who idled meanwhile: %s", got)
	}
	if commits.Load() == 0 {
		t.Error("nobody got through")
	}
}
