package lease

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Sidecars of both versions and operators of both, on a table that is migrated: every
// schedule keeps the limit, and each shard's numbers right, after every step.
func TestMigrationInRandomSchedules(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	run := func(seed uint64, traced bool) (*mixed, error) {
		m := newMixed(t, seed, cfg)
		m.traced = traced
		return m, m.play(300)
	}
	const workers = 4
	var mu sync.Mutex
	counts := map[string]int{}
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed + worker; seed < *firstSeed+uint64(max(1, *schedules/mixedPart)); seed += workers {
				m, err := run(seed, false)
				if err != nil {
					m, again := run(seed, true)
					t.Fatalf("seed %d: %v (go test ./lease -run TestMigrationInRandomSchedules -seed %[1]d -schedules 1); again: %[3]v\n%[4]s",
						seed, err, again, strings.Join(m.trace, "\n"))
				}
				mu.Lock()
				for what, n := range m.counts {
					counts[what] += n
				}
				mu.Unlock()
			}
		})
	}
	t.Cleanup(func() {
		t.Log(counts)
		for _, what := range []string{"refused", "closed", "closed with slots held", "put aside", "the version before lost its slots", "this version has slots"} {
			if counts[what] == 0 && *schedules >= 100*mixedPart && !t.Failed() {
				t.Errorf("no schedule met %q: the test says little", what)
			}
		}
	})
}

// mixedPart of the schedules (1/mixedPart) are played with a migration.
const mixedPart = 100

// fleet is some sidecars of this version that use the whole limit of a table of format
// 1, without any fault, until they have shared it: up to then slots are closed for others, migration or not.
func fleet(t *testing.T, seed uint64) *mixed {
	cfg := worldConfig()
	cfg.CallTimeout = 2 * time.Second // some steps long
	m := newMixed(t, seed, cfg)
	m.faulty, m.cuts = false, false
	for range 6 {
		m.join(20, false)
	}
	m.settled(t, 40)
	return m
}

// settled lets some heartbeats pass, and returns how many backends are open then.
func (m *mixed) settled(t *testing.T, beats time.Duration) (open int) {
	t.Helper()
	for end := m.now + beats*m.cfg.Heartbeat; m.now < end; {
		if err := errors.Join(m.step(), m.covered()); err != nil {
			t.Fatal(err)
		}
		m.advance()
	}
	for _, p := range m.procs {
		open += p.open
	}
	return open
}

// unharmed fails if somebody has lost slots, or the table is wrong.
func (m *mixed) unharmed(t *testing.T, format int) {
	t.Helper()
	for _, p := range m.procs {
		if s := p.core.ledger.stats; s.ReapedSelf+s.Lapsed+s.Drifts > 0 || !strings.Contains(p.core.ledger.parts[0].owner, follower) {
			t.Errorf("%s: %+v", p.name, s)
		}
	}
	s, err := m.newTable(m.items).Status(t.Context())
	half := err == nil && s.Settings.Format == formatOneKey && s.moved > 0
	if problems := s.Problems(); err != nil || s.Settings.Format != format || len(problems) > 0 != half {
		t.Errorf("%+v, %q, %v", s.Settings, problems, err)
	}
}

// Without any fault a migration, whatever comes between its calls and theirs, closes no
// backend and takes no slot from anybody of this version, also if there are two.
func TestMigrationClosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := fleet(t, seed)
			before := m.settled(t, 1)
			m.cuts = true
			for range 1 + m.rng.IntN(2) {
				m.migrate(true)
			}
			least := before
			for range 12 {
				least = min(least, m.settled(t, 1))
			}
			if before < 45 || least < before-5 {
				t.Errorf("%d backends were open before, at least %d during the migration", before, least)
			}
			m.unharmed(t, Format)
		})
	}
}

// The migrator is killed before each of its calls, and nobody comes back: sidecars go on
// for as long as one likes, grow and give back. Then another one finishes.
func TestMigratorIsKilledAnywhere(t *testing.T) {
	t.Parallel()
	for calls := 0; ; calls++ {
		m := fleet(t, uint64(calls))
		before := m.settled(t, 1)
		m.migrate(true)
		migrator := m.runs[len(m.runs)-1]
		more := true
		for range calls + 1 {
			if _, more = migrator.next(); !more {
				break
			}
		}
		migrator.stop()
		m.procs[0].want = 5
		if open := m.settled(t, 3*m.cfg.ReapAfter/m.cfg.Heartbeat); open < before-5 {
			t.Errorf("killed after %d calls: %d backends are open, before %d", calls, open, before)
		}
		settings, _, err := m.newTable(m.items).Settings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.unharmed(t, settings.Format)
		if _, err := m.newTable(m.items).migrate(t.Context(), true); err != nil {
			t.Error(err)
		}
		m.settled(t, 3)
		m.unharmed(t, Format)
		if t.Failed() {
			t.Fatalf("killed after %d calls", calls)
		}
		if !more {
			if calls < 20 {
				t.Errorf("a migration has only %d calls: the test says little", calls)
			}
			return
		}
	}
}

// A migration leaves one shard at a time for its sidecars to bring under its own key, and none
// behind itself.
func TestOneShardIsUnderWayAtATime(t *testing.T) {
	t.Parallel()
	m := fleet(t, 1)
	table, most := m.newTable(m.items), 0
	underWay := func() (n int) {
		for shard := range m.cfg.Shards {
			old, _, err := table.readItem(t.Context(), table.slots, table.sharedKeyAddress(shard), true)
			own, _, ownErr := table.readItem(t.Context(), table.slots, table.ownKeyAddress(shard), true)
			if err := errors.Join(err, ownErr); err != nil {
				t.Fatal(err)
			}
			if old.isClosed() && !own.isComplete() {
				n++
			}
		}
		return n
	}
	m.migrate(true)
	migrator := m.runs[len(m.runs)-1]
	for more := true; more; {
		_, more = migrator.next()
		most = max(most, underWay())
	}
	if left := underWay(); most != 1 || left != 0 || m.cfg.Shards < 2 {
		t.Errorf("of %d shards %d were under way at once, and %d are", m.cfg.Shards, most, left)
	}
}

// counter counts the calls of a Store.
type counter struct {
	versionBefore
	calls atomic.Int64
}

func (c *counter) Settings(ctx context.Context) (Settings, TableTime, error) {
	c.calls.Add(1)
	return c.versionBefore.Settings(ctx)
}

func (c *counter) Look(ctx context.Context, shard int) (Shard, error) {
	c.calls.Add(1)
	return c.versionBefore.Look(ctx, shard)
}

func (c *counter) Change(ctx context.Context, change ShardChange) (Shard, bool, error) {
	c.calls.Add(1)
	return c.versionBefore.Change(ctx, change)
}

// A sidecar of the version before whose table is migrated under it, which the migration
// refuses, stops: within two heartbeats it closes all it has, gets nothing any more, and
// does not call the table without pause. One that starts refuses to.
func TestVersionBeforeStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := worldConfig()
		m := newMixed(t, 1, cfg)
		store := &counter{versionBefore: versionBefore{m.newTable(m.items)}}
		r := newRigOn(t, cfg, store)
		newRigOn(t, cfg, versionBefore{m.newTable(m.items)}) // wants nothing, and looks for dead records
		permits := r.admit(t, 20)
		if _, err := m.newTable(m.items).migrate(t.Context(), true); !strings.Contains(fmt.Sprint(err), "run an older version") {
			t.Errorf("it is not refused: %v", err)
		}
		if s := r.State(); s.Held < 20 || s.Revoked != 0 {
			t.Errorf("a migration that was refused has harmed it: %+v", s)
		}
		table := m.newTable(m.items)
		idle := ShardChange{Shard: 1, Owner: "idle.1~", New: Record{Seq: 1, ReapAfter: cfg.ReapAfter}.String(), Limit: 20}
		if _, done, err := table.Change(t.Context(), idle); !done || err != nil {
			t.Fatal(done, err)
		}
		if _, err := table.migrate(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		was := raw(t, table, table.sharedKeyAddress(1))
		time.Sleep(2 * cfg.Heartbeat)
		if s := r.State(); s.Held != 0 || s.Revoked != 20 {
			t.Errorf("it goes on: %+v", s)
		}
		for _, p := range permits {
			p.Release()
		}
		before := store.calls.Load()
		r.refusedFor(t, time.Minute)
		if calls := store.calls.Load() - before; calls > 8*60 {
			t.Errorf("%d calls in a minute", calls)
		}
		if !strings.Contains(r.log.String(), "cannot work by the settings of the lease table now") {
			t.Errorf("the log says nothing:\n%s", r.log.String())
		}
		time.Sleep(3 * cfg.ReapAfter)
		synctest.Wait()
		if now := raw(t, table, table.sharedKeyAddress(1)); !reflect.DeepEqual(was, now) {
			t.Errorf("it has changed what was closed: %v, then %v", was, now)
		}
		late := newRigOn(t, cfg, store)
		<-late.ended
		if _, ok := errors.AsType[*MismatchError](late.err); !ok {
			t.Errorf("one that starts says %v", late.err)
		}
	})
}

// A shard's item that is closed takes no change, not even one that only renews a record: what is copied of it
// stays what it was.
func TestClosedShardTakesNoChange(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := formatOne(t, &cfg)
	const owner = "n.1~"
	old := Record{Seq: 1, Slots: 1, Total: 1, ReapAfter: time.Minute}.String()
	if _, done, err := table.Change(shortly(t), ShardChange{Shard: 0, Owner: owner, New: old, Take: 1}); !done || err != nil {
		t.Fatal(done, err)
	}
	if err := table.closeShard(shortly(t), 0); err != nil {
		t.Fatal(err)
	}
	renewed := Record{Seq: 2, Slots: 1, Total: 1, ReapAfter: time.Minute}.String()
	for _, c := range []ShardChange{{Owner: owner, Old: old, New: renewed}, {Owner: owner, Old: old}, {Owner: "late.1~", New: renewed}} {
		found, done, err := table.updateShardAt(shortly(t), c, table.sharedKeyAddress(0), true)
		if done || err != nil || found.text(ownerPrefix+owner) != old {
			t.Errorf("%+v: %v, %v; the item has %q", c, done, err, found.text(ownerPrefix+owner))
		}
	}
}
