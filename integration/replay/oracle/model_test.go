package oracle

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// store is a database with strong snapshot isolation, or one with a flaw.
type store struct {
	flaw    string
	lists   map[int][]int
	changed map[int]int // the commit that changed a key last
	commits int
	old     []map[int][]int // what each commit left
}

const modelKeys = 4

// session is a transaction under way, and the client's record of it.
type session struct {
	*Txn
	snapshot int // commits in it
	writes   map[int][]int
	locked   map[int]bool
}

func newStore(flaw string) *store {
	return &store{flaw: flaw, lists: map[int][]int{}, changed: map[int]int{}, old: []map[int][]int{{}}}
}

func (s *store) begin(t *Txn, r *rand.Rand) *session {
	at := s.commits
	if s.flaw == "stale snapshots" {
		at = r.IntN(at + 1)
	}
	return &session{Txn: t, snapshot: at, writes: map[int][]int{}, locked: map[int]bool{}}
}

func (s *store) read(x *session, key int, kind OpKind) {
	base := s.old[x.snapshot][key]
	if s.flaw == "reads what is committed meanwhile" {
		base = s.lists[key]
	}
	if kind == Lock {
		x.locked[key] = true
	}
	x.Ops = append(x.Ops, Op{Kind: kind, Key: key, Seen: slices.Concat(base, x.writes[key])})
}

func (s *store) append(x *session, key, id int) {
	x.writes[key] = append(x.writes[key], id)
	x.Ops = append(x.Ops, Op{Kind: Append, Key: key, Write: id})
}

// commit reports whether it succeeded.
func (s *store) commit(x *session) bool {
	for key := range x.writes {
		if s.changed[key] > x.snapshot && s.flaw != "the last writer wins" && s.flaw != "merges writes" {
			return false
		}
	}
	for key := range x.locked {
		if s.changed[key] > x.snapshot && s.flaw != "ignores locks" {
			return false
		}
	}
	s.commits++
	for key, ids := range x.writes {
		base := s.old[x.snapshot][key]
		if s.flaw == "merges writes" {
			base = s.lists[key]
		}
		if s.flaw == "drops a write" && s.commits%10 == 0 {
			ids = nil
		}
		if s.flaw == "applies twice" && s.commits%10 == 0 {
			ids = slices.Concat(ids, ids)
		}
		s.lists[key] = slices.Concat(base, ids)
		s.changed[key] = s.commits
	}
	for key := range x.locked {
		s.changed[key] = s.commits // a lock counts as a write
	}
	s.old = append(s.old, maps.Clone(s.lists))
	return true
}

// play lets clients use a store in an order drawn from a seed.
func play(seed uint64, flaw string) *History {
	r := rand.New(rand.NewPCG(seed, 0))
	s := newStore(flaw)
	h := &History{}
	open := make([]*session, 5)
	var clock int64
	var write int
	for range 600 {
		clock++
		c := r.IntN(len(open))
		x, key := open[c], r.IntN(modelKeys)
		if x == nil {
			open[c] = s.begin(&Txn{ID: len(h.Txns), Began: clock}, r)
			h.Txns = append(h.Txns, open[c].Txn)
			continue
		}
		x.Ended = clock
		switch r.IntN(6) {
		case 0, 1:
			s.read(x, key, Read)
		case 2:
			s.read(x, key, Lock)
		case 3:
			write++
			s.append(x, key, write)
		case 4:
			open[c] = nil
			committed := s.commit(x)
			switch {
			case r.IntN(10) == 0:
				x.Outcome = Unknown
			case committed:
				x.Outcome = Committed
			}
			if flaw == "acknowledges what failed" && !committed && r.IntN(10) == 0 {
				x.Outcome = Committed
			}
			if flaw == "denies what committed" && committed && r.IntN(10) == 0 {
				x.Outcome = Aborted
			}
		case 5:
			if r.IntN(4) == 0 {
				open[c] = nil
			}
		}
	}
	h.Lists = s.lists
	return h
}

// The check agrees with a database that keeps the rules, whatever the order.
func TestRightStore(t *testing.T) {
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		flag.Set("rapid.seed", "1")
	}
	rapid.Check(t, func(t *rapid.T) {
		if found := CheckHistory(play(rapid.Uint64().Draw(t, "seed"), "")); len(found) > 0 {
			t.Fatal(found[0])
		}
	})
}

// And it finds each flaw, in most runs, as what it is.
func TestFlaws(t *testing.T) {
	t.Parallel()
	for flaw, want := range map[string][]BrokenRule{
		"stale snapshots":                   {Cycle},
		"reads what is committed meanwhile": {Cycle},
		"the last writer wins":              {Lost},
		"merges writes":                     {Cycle, LostUpdate},
		"ignores locks":                     {Cycle},
		"drops a write":                     {Lost},
		"applies twice":                     {Twice},
		"acknowledges what failed":          {Lost},
		"denies what committed":             {Undead},
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			const runs = 50
			caught := 0
			seen := map[BrokenRule]int{}
			for seed := range uint64(runs) {
				found := CheckHistory(play(seed, flaw))
				if len(found) > 0 {
					caught++
				}
				for _, v := range found {
					seen[v.Rule]++
				}
			}
			if caught < runs/2 {
				t.Errorf("caught in %d of %d runs", caught, runs)
			}
			for _, v := range want {
				if seen[v] == 0 {
					t.Errorf("never as %q: %v", v, fmt.Sprint(seen))
				}
			}
		})
	}
}
