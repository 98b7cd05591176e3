package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// formatOne returns a table of the version before, on dynalite, for a cluster of its own.
func formatOne(t *testing.T, cfg *Config) *Table {
	t.Helper()
	table := bareTable(t, cfg)
	if _, err := table.createTable(shortly(t), table.slots); err != nil {
		t.Fatal(err)
	}
	if err := (versionBefore{table}).agree(shortly(t), *cfg); err != nil {
		t.Fatal(err)
	}
	return table
}

// raw is an item as it stands.
func raw(t *testing.T, table *Table, at itemAddress) itemAttrs {
	t.Helper()
	found, _, err := table.readItem(shortly(t), table.slots, at, true)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A new table has a key for each shard. What the version before does to it, as a sidecar
// or an operator, makes no second ledger, and is seen and repaired.
func TestNewTableIsNotForTheVersionBefore(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := newTable(t, cfg)
	cfg.Cluster = strings.TrimPrefix(table.cluster, "L#")
	whole(t, table, 60, 0)
	before := versionBefore{table}
	if s, _, err := before.Settings(shortly(t)); err != nil || cfg.checkSettings(s) == nil {
		t.Errorf("the version before starts: %+v, %v", s, err)
	}
	was := map[int]itemAttrs{}
	for shard := range cfg.Shards {
		was[shard] = raw(t, table, table.sharedKeyAddress(shard))
		if was[shard][attrExpiry] != nil || !was[shard].isClosed() || raw(t, table, table.ownKeyAddress(shard)).number(attrLimit) != 20 {
			t.Errorf("shard %d: %v", shard, was[shard])
		}
	}
	if _, done, err := table.Change(shortly(t), ShardChange{Shard: 1, Owner: "n.1~", New: "1|7|7|1000|h", Take: 7}); !done || err != nil {
		t.Fatal(done, err)
	}
	for _, limit := range []int{60, 90} { // its operator sets the limits
		old := cfg
		old.Limit = limit
		if err := before.agree(shortly(t), old); err == nil {
			t.Error("an init of the version before saw no error")
		}
		for _, c := range []ShardChange{
			{Shard: 1, Owner: "o.1", New: "1|5|5|1000|h", Take: 5, Limit: 20}, {Shard: 1, Owner: "o.1", New: "1|0|0|1000|hw", Limit: 20},
			{Shard: 1, Owner: "n.1~", Old: "1|7|7|1000|h", Take: -7}, {Shard: 1, Owner: tombstone, Old: tombstoneText, Take: -1},
		} {
			if _, done, err := before.Change(shortly(t), c); done && err == nil {
				t.Errorf("%+v was done", c)
			}
		}
		s := mustStatus(t, table)
		if len(s.Problems()) == 0 || s.Settings.Format != formatOneKey {
			t.Errorf("format %d, %q", s.Settings.Format, s.Problems())
		}
		// Sidecars of this version go on, also those that start now.
		other := tableAt(cfg, serverURL(t))
		if shard, err := other.Look(shortly(t), 1); err != nil || shard.Free != 13 {
			t.Errorf("%+v, %v", shard, err)
		}
		other.Close()
		for _, r := range table.Repairs(s, nil) {
			if err := table.Repair(shortly(t), r); err != nil {
				t.Error(r.Text, err)
			}
		}
		whole(t, table, limit, 7)
		if mustStatus(t, table).Settings.Format != Format {
			t.Error("the repairs left format 1")
		}
	}
	for shard := range cfg.Shards {
		if now := raw(t, table, table.sharedKeyAddress(shard)); !reflect.DeepEqual(now, was[shard]) {
			t.Errorf("shard %d: a closed item has changed: %v, then %v", shard, was[shard], now)
		}
	}
}

// An item of the table of a version that comes after this one is left alone.
func TestLaterFormatIsRefused(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := newTable(t, cfg)
	now, err := table.newestRevision(shortly(t))
	if err != nil {
		t.Fatal(err)
	}
	later := now
	later.Format = Format + 1
	if done, err := table.replaceSettings(shortly(t), table.slots, now, later); !done || err != nil {
		t.Fatal(done, err)
	}
	_, initErr := table.applyInit(shortly(t), cfg)
	_, migrateErr := table.Migrate(shortly(t))
	_, statusErr := table.Status(shortly(t))
	for what, err := range map[string]error{"init": initErr, "migrate": migrateErr, "status": statusErr} {
		if _, ok := errors.AsType[*MismatchError](err); !ok || !strings.Contains(err.Error(), "upgrade Sluice") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The migration is cut off at each of its writes, in each way, while a sidecar of this
// version takes and gives back. Then any command that finishes things does.
func TestMigrationIsFinishedByAnyCommand(t *testing.T) {
	t.Parallel()
	writes := 3*2 + 1 + 3 // each shard is closed and moved; the settings; each shard follows
	for at := range writes {
		for i, kind := range []fault{lost, unanswered} {
			t.Run(fmt.Sprintf("write %d %s", at, faultNames[kind]), func(t *testing.T) {
				t.Parallel()
				cfg := worldConfig()
				direct := formatOne(t, &cfg)
				s := &sidecar{name: "s.1~", table: direct, text: map[int]string{}, held: map[int]int{}}
				for shard := range cfg.Shards {
					s.take(t, shard, 12)
				}
				ctx, cancel := context.WithCancel(t.Context())
				operator, front := through(t, cfg, func(write int) fault {
					s.take(t, write%3, []int{-5, 3}[write%2])
					if write == at {
						time.AfterFunc(200*time.Millisecond, cancel)
						return kind
					}
					return passes
				})
				_, err := operator.Migrate(ctx)
				cancel()
				front.Close() // the write under way, and what its plan does, has come to its end
				if err == nil {
					t.Fatalf("an operator that was cut off saw no error after %d writes", front.writes)
				}
				before := mustStatus(t, direct)
				half := before.Settings.Format == formatOneKey && before.moved > 0
				if len(before.Problems()) > 0 != half {
					t.Errorf("format %d, %d moved: %q", before.Settings.Format, before.moved, before.Problems())
				}
				for shard := range cfg.Shards {
					s.take(t, shard, -1)
				}
				if i == 0 {
					_, err = direct.Migrate(shortly(t))
				} else {
					for _, r := range direct.Repairs(before, nil) {
						err = errors.Join(err, direct.Repair(shortly(t), r))
					}
					if err = nil; !half {
						_, err = direct.Migrate(shortly(t))
					}
				}
				if err != nil {
					t.Error(err)
				}
				whole(t, direct, 60, s.sum())
				if did, err := direct.Migrate(shortly(t)); err != nil || !strings.Contains(did, "nothing to migrate") {
					t.Errorf("migrate again: %q, %v", did, err)
				}
			})
		}
	}
}

// Each write of a migration is throttled once, or its answer lost: it goes on. A shard
// that has expired unused comes back whole.
func TestMigrationSendsAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []fault{refused, again} {
		t.Run(faultNames[kind], func(t *testing.T) {
			t.Parallel()
			cfg := worldConfig()
			direct := formatOne(t, &cfg)
			if _, err := direct.api.DeleteItem(shortly(t), &dynamodb.DeleteItemInput{TableName: &direct.slots, Key: direct.sharedKeyAddress(1).primaryKey()}); err != nil {
				t.Fatal(err)
			}
			operator, _ := through(t, cfg, func(write int) fault {
				if write%2 == 0 {
					return kind
				}
				return passes
			})
			if did, err := operator.Migrate(shortly(t)); err != nil || !strings.Contains(did, "3 shards") {
				t.Error(did, err)
			}
			whole(t, direct, 60, 0)
		})
	}
}

// While somebody of the version before has a record, dead or alive, the migration changes
// nothing and names it. One who joins while it is under way loses its record, and its
// slots stay taken until they are reaped. Two hundred records are moved like one.
func TestMigrationRefusesTheVersionBefore(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Limit = 600
	table := formatOne(t, &cfg)
	whole(t, table, 600, 0)
	join := func(store Store, owner string) string {
		t.Helper()
		record := Record{Seq: 1, Slots: 1, Total: 1, ReapAfter: time.Minute}.String()
		if _, done, err := store.Change(shortly(t), ShardChange{Shard: 1, Owner: owner, New: record, Take: 1, Limit: 200}); !done || err != nil {
			t.Fatal(done, err)
		}
		return record
	}
	for i := range 120 {
		join(table, fmt.Sprintf("new%d.1~", i))
	}
	join(versionBefore{table}, "old.1")
	was := raw(t, table, table.sharedKeyAddress(1))
	_, err := table.Migrate(shortly(t))
	strays, ok := errors.AsType[*StrandedOwnersError](err)
	if !ok || len(strays.Owners) != 1 || !strings.Contains(err.Error(), ": old.1. They run an older version") {
		t.Fatal(err)
	}
	if now := raw(t, table, table.sharedKeyAddress(1)); !reflect.DeepEqual(was, now) || mustStatus(t, table).moved > 0 {
		t.Errorf("it has changed something: %v", now)
	}
	if _, done, err := table.Change(shortly(t), ShardChange{Shard: 1, Owner: "old.1", Old: was.text("oold.1"), Take: -1}); !done || err != nil {
		t.Fatal(done, err)
	}

	// One comes while the first shard is moved: the others are left as they are.
	operator, _ := through(t, cfg, func(write int) fault {
		if write == 1 {
			join(versionBefore{table}, "soon.1")
		}
		return passes
	})
	_, err = operator.Migrate(shortly(t))
	if strays, ok := errors.AsType[*StrandedOwnersError](err); !ok || strays.Moved != 1 || strays.Owners[0] != "soon.1" || raw(t, table, table.sharedKeyAddress(1)).isClosed() {
		t.Fatal(err)
	}
	soon := raw(t, table, table.sharedKeyAddress(1)).text("osoon.1")
	if _, done, err := (versionBefore{table}).Change(shortly(t), ShardChange{Shard: 1, Owner: "soon.1", Old: soon, Take: -1}); !done || err != nil {
		t.Fatal(done, err)
	}

	var late string
	operator, _ = through(t, cfg, func(write int) fault {
		switch write {
		case 1: // shard 1 is about to be closed
			late = join(versionBefore{table}, "late.1")
		case 2: // it is closed: a heartbeat is the only thing that is still done
			next := strings.Replace(late, "1|", "2|", 1)
			if _, done, err := (versionBefore{table}).Change(shortly(t), ShardChange{Shard: 1, Owner: "late.1", Old: late, New: next}); !done || err != nil {
				t.Error(done, err)
			}
			if _, done, err := (versionBefore{table}).Change(shortly(t), ShardChange{Shard: 1, Owner: "late.1", Old: next, Take: -1}); done || err == nil {
				t.Error("a closed item takes slots back")
			}
			late = next
		}
		return passes
	})
	if _, err := operator.Migrate(shortly(t)); err != nil {
		t.Fatal(err)
	}
	whole(t, table, 600, 121)
	found, done, err := versionBefore{table}.Change(shortly(t), ShardChange{Shard: 1, Owner: "late.1", Old: late, New: "3|1|1|1000|"})
	if done || err != nil || found.Owners["late.1"] != "" {
		t.Errorf("%+v, %v, %v: its owner does not see that the record is gone", found, done, err)
	}
	if shard, err := table.Look(shortly(t), 1); err != nil || shard.Owners["late.1"] != late {
		t.Errorf("%q is not where it was moved to: %v", late, err)
	}
	if closed := raw(t, table, table.sharedKeyAddress(1)); closed[attrExpiry] != nil {
		t.Error("the closed item expires")
	}
}

// The items in memory, on which schedules are played, and DynamoDB's stand-in do the
// same, under the code of both versions, before a shard is closed, while it is moved, and
// behind that.
func TestCloudAndTableAnswerAlike(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Shards = 2
	real := formatOne(t, &cfg)
	model := *real
	model.items, model.places = newCloud(), new(shardLocations)
	if err := (versionBefore{&model}).agree(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(*firstSeed, 5))
	owners := []string{"a.1~", "b.1~", "c.1"}
	texts := []string{""}
	counts := map[string]int{}
	for i := range 600 {
		shard := rng.IntN(2)
		before := rng.IntN(3) == 0
		var do func(*Table) string
		switch kind := rng.IntN(40); {
		case kind == 0 && i > 200:
			do = func(t *Table) string { return fmt.Sprint("close ", t.closeShard(context.Background(), shard)) }
		case kind < 4 && i > 200:
			do = func(table *Table) string {
				found, moved, err := table.peekShardItem(context.Background(), shard)
				return fmt.Sprint("peek ", found.shard(), moved, err)
			}
		default:
			c := ShardChange{Shard: shard, Owner: owners[rng.IntN(len(owners))], Take: rng.IntN(12) - 4, Limit: 30}
			found, _, err := real.peekShardItem(t.Context(), shard)
			if err != nil {
				t.Fatal(err)
			}
			if c.Old = found.shard().Owners[c.Owner]; rng.IntN(4) == 0 {
				c.Old = texts[rng.IntN(len(texts))]
			}
			if rng.IntN(4) > 0 || c.Old == "" {
				c.New = Record{Seq: uint64(i), Slots: rng.IntN(5), ReapAfter: time.Second}.String()
				texts = append(texts, c.New)
			}
			do = func(t *Table) string {
				store := Store(t)
				if before {
					store = versionBefore{t}
				}
				after, done, err := store.Change(context.Background(), c)
				return fmt.Sprint("change ", before, " ", done, err != nil, normal(after))
			}
		}
		got, want := do(real), do(&model)
		if got != want {
			t.Fatalf("operation %d: DynamoDB answers %s, memory %s", i, got, want)
		}
		counts[strings.Join(strings.Fields(got)[:min(3, len(strings.Fields(got)))], " ")]++
	}
	for _, shard := range []int{0, 1} {
		for _, at := range []itemAddress{real.sharedKeyAddress(shard), real.ownKeyAddress(shard)} {
			a, b := raw(t, real, at), raw(t, &model, at)
			for _, found := range []itemAttrs{a, b} {
				maps.DeleteFunc(found, func(name string, _ types.AttributeValue) bool { return name == attrExpiry })
			}
			if !reflect.DeepEqual(a, b) || len(a) == 0 {
				t.Errorf("shard %d: DynamoDB has %v, memory %v", shard, a, b)
			}
		}
	}
	for _, kind := range []string{"change false true", "change false false", "change true true", "change true false", "close <nil>"} {
		if counts[kind] < 3 {
			t.Errorf("%d of %s: the test says little", counts[kind], kind)
		}
	}
}

// A sidecar of this version whose policy is that of the version before works, and cannot
// follow: the migration refuses and names it. With the new policy and a restart it can.
func TestMigrationRefusesThePolicyBefore(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	direct := formatOne(t, &cfg)
	join := func(url string) string {
		t.Helper()
		table := tableAt(cfg, url)
		defer table.Close()
		w := newWorld(1, cfg, table)
		w.faulty = false
		p := w.add(5)
		w.settle(4)
		if p.open != 5 {
			t.Errorf("%d backends are open", p.open)
		}
		return p.core.ledger.parts[0].owner
	}
	owner := join(onlyKeys(t, `"`+direct.cluster+`"`))
	_, err := direct.Migrate(shortly(t))
	if strays, ok := errors.AsType[*StrandedOwnersError](err); !ok || !slices.Equal(strays.Owners, []string{owner}) {
		t.Fatalf("%s joined: %v", owner, err)
	}
	for _, r := range direct.Repairs(mustStatus(t, direct), []string{owner}) {
		if err := direct.Repair(shortly(t), r); err != nil {
			t.Error(err)
		}
	}
	owner = join(only(t, direct.cluster))
	if _, err := direct.Migrate(shortly(t)); err != nil || !strings.Contains(owner, follower) {
		t.Errorf("%s joined: %v", owner, err)
	}
	whole(t, direct, 60, 5)
}

// A fleet of the version before is upgraded, one sidecar after the other, on a table that
// is not ours. While one of the old ones is left its migration is refused; then it goes
// through. Backends are never more than slots, and in the end all of the limit is used.
func TestRollingUpgradeOnTable(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Shards, cfg.CallTimeout = 2, 2*time.Second
	first := formatOne(t, &cfg)
	m := newMixedOn(t, 1, cfg, first, first.api)
	m.faulty, m.cuts = false, false
	for range 3 {
		m.join(25, true)
	}
	m.settled(t, 14)
	for _, p := range slices.Clone(m.procs) {
		m.counts["refused"] = 0
		m.migrate(true)
		m.settled(t, 1)
		if m.counts["refused"] != 1 {
			t.Error("a migration was not refused")
		}
		p.core.ledger.leaving = true // as SIGTERM does
		p.want = 0
		m.settled(t, 2)
		m.kill(p)
		m.join(25, false)
		if open := m.settled(t, 4); open < 30 {
			t.Errorf("%d backends are open", open)
		}
	}
	m.cuts = true
	m.migrate(true)
	if open := m.settled(t, 14); open < 50 {
		t.Errorf("%d backends are open after the migration", open)
	}
	m.procs = m.procs[3:]
	m.unharmed(t, Format)
	open := 0
	for _, p := range m.procs {
		open += p.core.ledger.heldSlots()
	}
	whole(t, m.newTable(m.items), 60, open)
}

// The records of a shard are moved in two writes, and the migrator is killed between them.
// The next sidecar finds no half of a shard: it moves the rest first.
func TestHalfOfAShardIsNone(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Limit = 600
	table := formatOne(t, &cfg)
	record := Record{Seq: 1, Slots: 1, Total: 1, ReapAfter: time.Minute}.String()
	for i := range movedAtOnce + 10 {
		if _, done, err := table.Change(shortly(t), ShardChange{Shard: 0, Owner: fmt.Sprintf("n%d.1~", i), New: record, Take: 1}); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	aside := (movedAtOnce + 10 + asideAtOnce - 1) / asideAtOnce
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	operator, _ := through(t, cfg, func(write int) fault {
		if write == 1+aside+1 {
			time.AfterFunc(200*time.Millisecond, giveUp)
			return lost
		}
		return passes
	})
	if _, err := operator.Migrate(ctx); err == nil {
		t.Error("the migrator was not cut off")
	}
	if half := raw(t, table, table.ownKeyAddress(0)); len(half) < movedAtOnce/2 || half.isComplete() {
		t.Fatalf("the test says nothing: %v", half)
	}
	whole := mustStatus(t, table).Shards[0]
	if whole.Free != 200-movedAtOnce-10 || whole.Drift() != 0 {
		t.Errorf("status: %+v", whole)
	}
	found, done, err := table.Change(shortly(t), ShardChange{Shard: 0, Owner: "late.1~", New: record, Take: 1})
	if err != nil || !done || found.Free != 200-movedAtOnce-11 || found.Drift() != 0 || len(found.Owners) != movedAtOnce+11 {
		t.Errorf("%v, %v: %+v", done, err, found)
	}
}
