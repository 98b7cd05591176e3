package lease

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// The store in memory, on which the schedules run, and DynamoDB's stand-in must
// answer every operation alike. Shards begin as missing items.
func TestMemoryAndTableAnswerAlike(t *testing.T) {
	t.Parallel()
	cfg := worldConfig()
	cfg.Shards = 2
	table := newTable(t, cfg)
	model := newMemory(cfg.tableSettings(), time.Now)
	settings, _, err := table.Settings(shortly(t))
	if want, _, _ := model.Settings(t.Context()); err != nil || settings != want {
		t.Fatalf("settings %+v, %v; want %+v", settings, err, want)
	}
	const missing = 7 // a shard that no item is there for
	delete(model.shards, missing)

	rng := rand.New(rand.NewPCG(*firstSeed, 3))
	owners := []string{"a.1", "b-_.2", "c"}
	texts := []string{""} // every text ever written
	counts := map[string]int{}
	for i := range 1500 {
		shard := []int{0, 1, missing}[rng.IntN(3)]
		var got, want any
		var kind string
		switch rng.IntN(4) {
		case 0:
			kind = "look"
			one, err := table.Look(t.Context(), shard)
			model, _ := model.Look(t.Context(), shard)
			got, want = storeAnswer{shard: normal(one), err: err}, storeAnswer{shard: normal(model)}
		case 1:
			kind = "reserve"
			r := Reservation{Tickets: 1 + rng.IntN(10), Interval: 1 + rng.Int64N(20), Floor: rng.Int64N(3000)}
			r.Ceiling = r.Floor + rng.Int64N(1000)
			if rng.IntN(8) == 0 {
				r.Wrong = model.next + int64(rng.IntN(2))
			}
			next, done, _, err := table.Reserve(t.Context(), r)
			wantNext, wantDone, _, _ := model.Reserve(t.Context(), r)
			kind += fmt.Sprint(wantDone)
			got, want = storeAnswer{next: next, done: done, err: err}, storeAnswer{next: wantNext, done: wantDone}
		default:
			c := ShardChange{Shard: shard, Owner: owners[rng.IntN(len(owners))], Take: rng.IntN(12) - 4, Limit: 20}
			if s := model.shards[shard]; s != nil && rng.IntN(4) > 0 {
				c.Old = s.Owners[c.Owner]
			} else {
				c.Old = texts[rng.IntN(len(texts))]
			}
			if rng.IntN(4) > 0 || c.Old == "" {
				c.New = Record{Seq: uint64(i), Slots: rng.IntN(5), ReapAfter: time.Second}.String()
				texts = append(texts, c.New)
			}
			one, done, err := table.Change(t.Context(), c)
			wantOne, wantDone, _ := model.Change(t.Context(), c)
			kind = fmt.Sprint("change", wantDone)
			got, want = storeAnswer{shard: normal(one), done: done, err: err}, storeAnswer{shard: normal(wantOne), done: wantDone}
		}
		counts[kind]++
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("operation %d, %s of shard %d: DynamoDB answers %+v, memory %+v", i, kind, shard, got, want)
		}
	}
	for _, kind := range []string{"look", "reservetrue", "reservefalse", "changetrue", "changefalse"} {
		if counts[kind] < 50 {
			t.Errorf("only %d of %s: the test says little", counts[kind], kind)
		}
	}
}

// normal makes no difference between no owners and none yet.
func normal(s Shard) Shard {
	if len(s.Owners) == 0 {
		s.Owners = nil
	}
	return s
}
