package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// edit changes a shard's free slots behind everybody's back.
func (t *Table) edit(tb testing.TB, shard, by int) {
	tb.Helper()
	t.hand(tb, shard, "SET #f = #f + :n", attrFree, by)
}

// editLimit changes its limit.
func (t *Table) editLimit(tb testing.TB, shard, limit int) {
	tb.Helper()
	t.hand(tb, shard, "SET #f = :n", attrLimit, limit)
}

func (t *Table) hand(tb testing.TB, shard int, expression, attribute string, n int) {
	tb.Helper()
	_, at, err := t.readShardItem(tb.Context(), shard, true)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = t.api.UpdateItem(tb.Context(), &dynamodb.UpdateItemInput{TableName: &t.slots, Key: at.primaryKey(),
		UpdateExpression: &expression, ExpressionAttributeNames: map[string]string{"#f": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": numberAttr(int64(n))}})
	if err != nil {
		tb.Fatal(err)
	}
}

func TestLimitChangesWhileSlotsAreHeld(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := newTable(t, cfg)
	ctx := shortly(t)
	if _, done, err := table.Change(ctx, ShardChange{Shard: 1, Owner: "o", New: "1|15|15|1000|h", Take: 15}); !done || err != nil {
		t.Fatal(done, err)
	}
	for _, limit := range []int{60, 31, 5, 100} {
		cfg.Limit, cfg.Shards = limit, 7 // a table keeps its shards
		for range 2 {
			if _, err := table.Init(ctx, cfg); err != nil {
				t.Fatal(err)
			}
			s, err := table.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			sum, free := 0, 0
			for i, shard := range s.Shards {
				if shard.Drift() != 0 {
					t.Errorf("limit %d: shard %d drifts: %+v", limit, i, shard)
				}
				sum, free = sum+shard.Limit, free+shard.Free
			}
			if len(s.Shards) != 3 || sum != limit || free != limit-15 || s.Settings.Limit != limit {
				t.Errorf("limit %d: %+v", limit, s)
			}
		}
	}
}

func TestRepairs(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := newTable(t, cfg)
	ctx := shortly(t)
	_, _, err := table.Change(ctx, ShardChange{Shard: 0, Owner: "o", New: "1|4|4|1000|h", Take: 4})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMicro()
	if _, _, _, err := table.Reserve(ctx, Reservation{Tickets: 1, Interval: 1, Floor: now + time.Hour.Microseconds(), Ceiling: now + 2*time.Hour.Microseconds()}); err != nil {
		t.Fatal(err)
	}
	table.edit(t, 0, +3)
	table.edit(t, 2, -2)
	s, err := table.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Shards[0].Drift() != -3 || s.Shards[2].Drift() != 2 || s.Queue < 50*time.Minute {
		t.Fatalf("%+v", s)
	}
	repairs := table.Repairs(s, nil)
	if len(repairs) != 3 {
		t.Fatalf("%d repairs, want 3: %+v", len(repairs), repairs)
	}
	// A sidecar goes on meanwhile; the repairs are right all the same.
	if _, done, err := table.Change(ctx, ShardChange{Shard: 2, Owner: "p", New: "1|1|1|1000|h", Take: 1}); !done || err != nil {
		t.Fatal(done, err)
	}
	for _, r := range repairs {
		if err := table.Repair(ctx, r); err != nil {
			t.Error(err)
		}
	}
	s = mustStatus(t, table)
	if len(table.Repairs(s, nil)) != 0 || len(s.Problems()) != 0 || s.Shards[0].Free != 16 || s.Shards[2].Free != 19 {
		t.Errorf("not repaired: %+v", s)
	}
	// Another operator saw the same, and a release has made free what it was then.
	if _, done, err := table.Change(ctx, ShardChange{Shard: 0, Owner: "o", Old: "1|4|4|1000|h", New: "2|1|1|1000|h", Take: -3}); !done || err != nil {
		t.Fatal(done, err)
	}
	if free := mustStatus(t, table).Shards[0].Free; free != 19 {
		t.Fatalf("%d free: the test says nothing", free)
	}
	for _, r := range repairs {
		if err := table.Repair(ctx, r); !errors.Is(err, errChanged) && !strings.HasPrefix(r.Text, "tickets") {
			t.Errorf("%s, a second time: %v", r.Text, err)
		}
	}
	if problems := mustStatus(t, table).Problems(); len(problems) != 0 {
		t.Error(problems)
	}
	// An owner that was renewed since it was looked at is not dead.
	repairs = table.Repairs(s, []string{"p"})
	if _, done, err := table.Change(ctx, ShardChange{Shard: 2, Owner: "p", Old: "1|1|1|1000|h", New: "2|1|1|1000|h"}); !done || err != nil {
		t.Fatal(done, err)
	}
	if len(repairs) != 1 || table.Repair(ctx, repairs[0]) == nil {
		t.Errorf("a living owner was removed")
	}
}

func mustStatus(t *testing.T, table *Table) Status {
	t.Helper()
	s, err := table.Status(shortly(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What nobody uses for 30 days expires; the first join makes it again.
func TestExpiredShardBeginsAnew(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	table := newTable(t, cfg)
	for shard := range cfg.Shards {
		if _, err := table.api.DeleteItem(shortly(t), &dynamodb.DeleteItemInput{TableName: &table.slots, Key: table.ownKeyAddress(shard).primaryKey()}); err != nil {
			t.Fatal(err)
		}
	}
	if repairs := table.Repairs(mustStatus(t, table), nil); len(repairs) != 0 {
		t.Errorf("%+v", repairs)
	}
	w := newWorld(1, cfg, table)
	w.faulty = false
	w.add(cfg.Limit)
	if err := w.heal(); err != nil {
		t.Error(err)
	}
}

func TestTwoTables(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.RateTable = "rates"
	table := bareTable(t, &cfg)
	if _, _, err := table.Settings(shortly(t)); err == nil {
		t.Error("settings of a table that does not exist")
	}
	did, err := table.Init(shortly(t), cfg)
	if err != nil || !slices.ContainsFunc(did, func(s string) bool { return strings.Contains(s, "rates") }) {
		t.Fatalf("%v, %v", did, err)
	}
	w := newWorld(1, cfg, table)
	w.faulty = false
	w.add(10)
	if err := w.heal(); err != nil {
		t.Error(err)
	}
	found, _, err := table.readItem(shortly(t), "rates", table.clusterItemAddress(itemTickets), true)
	if err != nil || found.number(attrNext) == 0 {
		t.Errorf("no tickets in the second table: %v, %v", found, err)
	}

	// The settings of both become those of another format together.
	now, err := table.newestRevision(shortly(t))
	if err != nil {
		t.Fatal(err)
	}
	before := now
	before.Format = formatOneKey
	for _, name := range []string{table.slots, table.rate} {
		if done, err := table.replaceSettings(shortly(t), name, now, before); !done || err != nil {
			t.Fatal(name, done, err)
		}
	}
	if _, err := table.Migrate(shortly(t)); err != nil {
		t.Error(err)
	}
	if s := mustStatus(t, table); len(s.Problems()) > 0 || s.Settings.Format != Format || s.rateIntent.Format != Format {
		t.Errorf("format %d, of the tickets %d, %q", s.Settings.Format, s.rateIntent.Format, s.Problems())
	}
}

// A change of the rate is cut off in front of the tickets' own table: it is seen, and
// finished by the repairs or by the next init.
func TestUnfinishedRateIsFinished(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"repairs", "init"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cfg := worldConfig()
			cfg.RateTable = "tickets"
			table := newTable(t, cfg)
			cfg.Cluster = strings.TrimPrefix(table.cluster, "L#")
			cfg.RateLimit = 60
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			operator, _ := through(t, cfg, func(write int) fault {
				if write == 1+cfg.Shards {
					cancel() // and it is not sent again
					return lost
				}
				return passes
			})
			if _, err := operator.Init(ctx, cfg); err == nil {
				t.Fatal("the init was not cut off")
			}
			s := mustStatus(t, table)
			if problems := strings.Join(s.Problems(), "\n"); !strings.Contains(problems, "the table of the tickets has 90 per second") || s.Settings.Rate != 90 {
				t.Errorf("problems %q, rate %d", problems, s.Settings.Rate)
			}
			if how == "repairs" {
				for _, r := range table.Repairs(s, nil) {
					if err := table.Repair(shortly(t), r); err != nil {
						t.Error(err)
					}
				}
			} else if _, err := table.Init(shortly(t), cfg); err != nil {
				t.Error(err)
			}
			if s := mustStatus(t, table); len(s.Problems()) > 0 || s.Settings.Rate != 50 {
				t.Errorf("problems %q, rate %d", s.Problems(), s.Settings.Rate)
			}
		})
	}
}

// What init puts into a table does for every sidecar, whatever of it the one shares who runs init.
func TestInitWritesNothingThatSidecarsRefuse(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	refused := 0
	gone, cancel := context.WithCancel(t.Context())
	cancel() // an init that begins says so, at once
	for range 300 {
		cfg := worldConfig()
		cfg.Slots, cfg.Rate = false, false
		cfg.RateLimit, cfg.Reserve, cfg.Burst = 1+rng.IntN(250), rng.IntN(20), 1+rng.IntN(1200)
		if cfg.Validate() != nil {
			continue
		}
		table := tableAt(cfg, "http://127.0.0.1:1")
		_, err := table.Init(gone, cfg)
		table.Close()
		sidecar := cfg
		sidecar.Slots, sidecar.Rate, sidecar.RateTable = true, true, cfg.Table
		wrong := errors.Join(sidecar.Validate(), sidecar.checkSettings(cfg.tableSettings()))
		if wrong != nil {
			refused++
		}
		if begun := errors.Is(err, context.Canceled); begun != (wrong == nil) {
			t.Errorf("rate %d less %d, burst %d: init says %v, a sidecar %v", cfg.RateLimit, cfg.Reserve, cfg.Burst, err, wrong)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused: the test says little")
	}
}
