package lease

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fault is what becomes of a write on its way.
type fault int

const (
	passes     fault = iota
	refused          // throttled, this time
	lost             // it never arrives, nor does any after it
	unanswered       // it arrives, and nobody hears of it, nor does any arrive after it
	again            // the answer is lost, and nothing else
)

var faultNames = [...]string{"passes", "refused", "lost", "unanswered", "again"}

// front is a server in front of dynalite that does what a plan says with each
// write of one operator, counted from 0.
type front struct {
	*httptest.Server
	mu     sync.Mutex
	writes int
	plan   func(write int) fault
	cut    bool
}

func newFront(t *testing.T, plan func(write int) fault) *front {
	t.Helper()
	target, err := url.Parse(serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport = &http.Transport{}
	f := &front{plan: plan}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		what := f.meet(operation)
		switch what {
		case passes:
			forward.ServeHTTP(w, r)
			return
		case refused:
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}`))
			return
		case unanswered, again:
			forward.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() {
		f.Close()
		forward.Transport.(*http.Transport).CloseIdleConnections()
	})
	return f
}

// meet is what becomes of a call.
func (f *front) meet(operation string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return lost
	}
	if operation != "UpdateItem" && operation != "PutItem" {
		return passes
	}
	write := f.writes
	f.writes++
	f.mu.Unlock()
	what := f.plan(write)
	f.mu.Lock()
	f.cut = what == lost || what == unanswered
	return what
}

// through is a table that an operator reaches by way of a front.
func through(t *testing.T, cfg Config, plan func(write int) fault) (*Table, *front) {
	t.Helper()
	f := newFront(t, plan)
	table := tableAt(cfg, f.URL)
	t.Cleanup(table.Close)
	return table, f
}

// whole fails unless the table is as limit has it, shard by shard.
func whole(t *testing.T, table *Table, limit, held int) {
	t.Helper()
	s := mustStatus(t, table)
	free, sum := 0, 0
	for _, shard := range s.Shards {
		free, sum = free+shard.Free, sum+shard.Limit
	}
	if problems := s.Problems(); len(problems) > 0 || s.Settings.Limit != limit || sum != limit || free != limit-held {
		t.Errorf("limit %d, %d in the shards, %d free; want %d with %d held: %q", s.Settings.Limit, sum, free, limit, held, problems)
	}
}

// sidecar is one that takes and gives back slots of every shard as it is told.
type sidecar struct {
	name  string // "" for s.1
	table *Table
	seq   int
	text  map[int]string
	held  map[int]int
}

func (s *sidecar) take(t *testing.T, shard, n int) {
	t.Helper()
	s.seq++
	if s.name == "" {
		s.name = "s.1"
	}
	next := fmt.Sprintf("%d|%d|%d|1000|h", s.seq, s.held[shard]+n, s.held[shard]+n)
	_, done, err := s.table.Change(shortly(t), ShardChange{Shard: shard, Owner: s.name, Old: s.text[shard], New: next, Take: n, Limit: 20})
	if err != nil {
		t.Error(err)
	}
	if done {
		s.text[shard], s.held[shard] = next, s.held[shard]+n
	}
}

func (s *sidecar) sum() int {
	n := 0
	for _, held := range s.held {
		n += held
	}
	return n
}

// Init is cut off at each of its writes, in each way. The table says so, or it is
// finished; Init, Init with a third limit, and the repairs all finish it, while a
// sidecar goes on taking and giving back.
func TestUnfinishedInitIsFinishedByAnyCommand(t *testing.T) {
	t.Parallel()
	finish := map[string]func(*Table, Config) (limit int, err error){
		"init": func(table *Table, cfg Config) (int, error) {
			_, err := table.Init(context.Background(), cfg)
			return cfg.totalSlots(), err
		},
		"init with another limit": func(table *Table, cfg Config) (int, error) {
			cfg.Limit = 77
			_, err := table.Init(context.Background(), cfg)
			return 77, err
		},
		"repairs": func(table *Table, cfg Config) (int, error) {
			s, err := table.Status(context.Background())
			for _, r := range table.Repairs(s, nil) {
				if err == nil {
					err = table.Repair(context.Background(), r)
				}
			}
			return s.Settings.Limit, err
		},
	}
	const writes = 4 // the intent and three shards
	var unfinished atomic.Int64
	t.Cleanup(func() {
		if unfinished.Load() < 12 {
			t.Errorf("only %d of the cuts left anything undone: the test says little", unfinished.Load())
		}
	})
	for at := range writes {
		for _, kind := range []fault{lost, unanswered} {
			for name, finishing := range finish {
				t.Run(fmt.Sprintf("write %d %s, %s", at, faultNames[kind], name), func(t *testing.T) {
					t.Parallel()
					cfg := worldConfig()
					direct := newTable(t, cfg)
					cfg.Cluster = strings.TrimPrefix(direct.cluster, "L#")
					s := &sidecar{table: direct, text: map[int]string{}, held: map[int]int{}}
					for shard := range cfg.Shards {
						s.take(t, shard, 12)
					}
					wanted := cfg
					wanted.Limit = 30
					ctx, cancel := context.WithCancel(t.Context())
					operator, front := through(t, cfg, func(write int) fault {
						s.take(t, write%3, []int{-5, 3}[write%2])
						if write == at {
							time.AfterFunc(200*time.Millisecond, cancel)
							return kind
						}
						return passes
					})
					_, err := operator.Init(ctx, wanted)
					cancel()
					front.Close() // the write under way, and what its plan does, has come to its end
					if err == nil {
						t.Fatalf("an operator that was cut off saw no error after %d writes", front.writes)
					}
					before := mustStatus(t, direct)
					inTable, sum := before.Settings.Limit, 0
					for _, shard := range before.Shards {
						sum += shard.Limit
					}
					if wrong := len(before.Problems()) > 0; wrong != (sum != inTable) {
						t.Errorf("limit %d, %d in the shards: problems %q", inTable, sum, before.Problems())
					} else if wrong {
						unfinished.Add(1)
					}
					for shard := range cfg.Shards {
						s.take(t, shard, -1)
					}
					limit, err := finishing(direct, wanted)
					if err != nil {
						t.Fatal(err)
					}
					whole(t, direct, limit, s.sum())
					if did, err := direct.Init(shortly(t), configured(cfg, limit)); err != nil || !strings.Contains(strings.Join(did, "\n"), "as configured") {
						t.Errorf("init again: %q, %v", did, err)
					}
				})
			}
		}
	}
}

func configured(cfg Config, limit int) Config {
	cfg.Limit, cfg.Margin = limit, 0
	return cfg
}

// One write is throttled, or its answer lost: Init goes on and no slot is counted
// twice.
func TestInitSendsAgain(t *testing.T) {
	t.Parallel()
	for at := range 4 {
		for _, kind := range []fault{refused, again} {
			t.Run(fmt.Sprintf("write %d %s", at, faultNames[kind]), func(t *testing.T) {
				t.Parallel()
				cfg := worldConfig()
				direct := newTable(t, cfg)
				cfg.Cluster = strings.TrimPrefix(direct.cluster, "L#")
				cfg.Limit = 31
				operator, front := through(t, cfg, func(write int) fault {
					if write == at {
						return kind
					}
					return passes
				})
				if _, err := operator.Init(shortly(t), cfg); err != nil {
					t.Error(err)
				}
				if front.writes != 5 {
					t.Errorf("%d writes, want 5", front.writes)
				}
				whole(t, direct, 31, 0)
			})
		}
	}
}

// Two operators set two limits. The second begins and ends, or is cut off, at any
// write of the first, when that has been reckoned and not sent. In the end the
// table has one of them, or says what is wrong and is repaired to the newest.
func TestOperatorsOvertakeEachOther(t *testing.T) {
	t.Parallel()
	for at := range 4 {
		for cut := range 5 { // 4: not at all
			t.Run(fmt.Sprintf("at write %d, cut off at %d", at, cut), func(t *testing.T) {
				t.Parallel()
				cfg := worldConfig()
				direct := newTable(t, cfg)
				cfg.Cluster = strings.TrimPrefix(direct.cluster, "L#")
				s := &sidecar{table: direct, text: map[int]string{}, held: map[int]int{}}
				ctx, giveUp := context.WithCancel(shortly(t))
				defer giveUp()
				second, _ := through(t, cfg, func(write int) fault {
					if write == cut {
						time.AfterFunc(200*time.Millisecond, giveUp)
						return lost
					}
					return passes
				})
				first, _ := through(t, cfg, func(write int) fault {
					if write == at {
						s.take(t, 0, 7)
						if _, err := second.Init(ctx, configured(cfg, 440)); (err != nil) != (cut < 4) {
							t.Errorf("the second operator: %v", err)
						}
						s.take(t, 0, -7)
					}
					return passes
				})
				_, err := first.Init(shortly(t), configured(cfg, 80))
				before := mustStatus(t, direct)
				if err == nil && (before.Settings.Limit != 80 || len(before.Problems()) > 0) {
					t.Errorf("the first operator saw no error: limit %d, %q", before.Settings.Limit, before.Problems())
				}
				if err == nil && at > 0 && cut > 0 {
					t.Error("the first operator does not know that it was overtaken")
				}
				if at > 0 && cut == 4 && len(before.Problems()) > 0 {
					t.Errorf("the first operator has undone some of what the second did: %q", before.Problems())
				}
				if want := int64(2 + min(cut, 1)); before.intent.epoch != want {
					t.Errorf("epoch %d, want %d", before.intent.epoch, want)
				}
				for _, r := range direct.Repairs(before, nil) {
					if err := direct.Repair(shortly(t), r); err != nil {
						t.Error(err)
					}
				}
				whole(t, direct, before.Settings.Limit, 0)
			})
		}
	}
}

// While the first operator's write is under way the limit changes and changes back,
// or a version before epochs changes it. The write changes nothing.
func TestLateLimitChangesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*testing.T, *Table, Config){
		"there and back": func(t *testing.T, direct *Table, cfg Config) {
			for _, limit := range []int{440, 60} {
				if _, err := direct.Init(shortly(t), configured(cfg, limit)); err != nil {
					t.Error(err)
				}
			}
		},
		"by a version before": func(t *testing.T, direct *Table, _ Config) {
			direct.edit(t, 0, 5)
			direct.editLimit(t, 0, 25)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := worldConfig()
			direct := newTable(t, cfg)
			cfg.Cluster = strings.TrimPrefix(direct.cluster, "L#")
			first, _ := through(t, cfg, func(write int) fault {
				if write == 1 {
					meanwhile(t, direct, cfg)
				}
				return passes
			})
			_, err := first.Init(shortly(t), configured(cfg, 80))
			s := mustStatus(t, direct)
			if name == "there and back" {
				if err == nil || s.Settings.Limit != 60 {
					t.Errorf("limit %d, %v", s.Settings.Limit, err)
				}
				whole(t, direct, 60, 0)
			} else if whole(t, direct, 80, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// A table of the version before, which knew no epochs, goes on working: it is right
// as it is, and if its init was not finished this is seen, and finished.
func TestTableWithoutEpochs(t *testing.T) {
	t.Parallel()
	for _, unfinished := range []bool{false, true} {
		for _, how := range []string{"init", "init with another limit", "repairs"} {
			t.Run(fmt.Sprintf("unfinished %v, %s", unfinished, how), func(t *testing.T) {
				t.Parallel()
				cfg := worldConfig()
				table := bareTable(t, &cfg)
				if _, err := table.createTable(shortly(t), table.slots); err != nil {
					t.Fatal(err)
				}
				was := settingsRevision{cfg.tableSettings(), 0}
				was.Format = formatOneKey
				if done, err := table.replaceSettings(shortly(t), table.slots, settingsRevision{}, was); !done || err != nil {
					t.Fatal(done, err)
				}
				for shard := range cfg.Shards {
					if _, err := table.applyShardLimit(shortly(t), was, shard); err != nil {
						t.Fatal(err)
					}
				}
				s := &sidecar{table: table, text: map[int]string{}, held: map[int]int{}}
				s.take(t, 1, 4)
				if unfinished {
					table.edit(t, 1, 10)
					table.editLimit(t, 1, 30)
				}
				if got := len(mustStatus(t, table).Problems()) > 0; got != unfinished {
					t.Errorf("problems %q", mustStatus(t, table).Problems())
				}
				switch how {
				case "init":
					if _, err := table.Init(shortly(t), cfg); err != nil {
						t.Error(err)
					}
				case "init with another limit":
					cfg.Limit = 99
					if _, err := table.Init(shortly(t), cfg); err != nil {
						t.Error(err)
					}
				case "repairs":
					for _, r := range table.Repairs(mustStatus(t, table), nil) {
						if err := table.Repair(shortly(t), r); err != nil {
							t.Error(err)
						}
					}
				}
				whole(t, table, cfg.Limit, 4)
				// The version before sets settings without an epoch over ours.
				now, err := table.newestRevision(shortly(t))
				if err != nil {
					t.Fatal(err)
				}
				before := now
				before.epoch, before.Limit = 0, 61
				if done, err := table.replaceSettings(shortly(t), table.slots, now, before); !done || err != nil {
					t.Fatal(done, err)
				}
				if len(mustStatus(t, table).Problems()) == 0 {
					t.Error("nobody sees the shards that did not follow")
				}
				cfg.Limit = 61
				if _, err := table.Init(shortly(t), cfg); err != nil {
					t.Error(err)
				}
				whole(t, table, 61, 4)
				cfg.Limit = 62
				if _, err := table.Init(shortly(t), cfg); err != nil {
					t.Error(err)
				}
				whole(t, table, 62, 4)
			})
		}
	}
}
