package statement

import (
	"runtime"
	"testing"
	"time"

	"github.com/sluice-proxy/sluice/proxy/settings"
	"github.com/sluice-proxy/sluice/rewrite"
)

// collected reports whether a condition holds once what nobody has is gone.
func collected(done func() bool) bool {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if runtime.GC(); done() {
			return true
		}
	}
	return false
}

// A text counts for as long as anybody has it, in whatever form.
func TestTextOfASplitForm(t *testing.T) {
	planner, err := rewrite.New(rewrite.Config{MaxBytes: 2 << 20, MaxNesting: 2000, CacheEntries: 1000, CacheBytes: 8 << 20, Rules: rewrite.Rules{Split: true}})
	if err != nil {
		t.Fatal(err)
	}
	sql := []byte("SELECT a.v FROM split_a a, split_b b WHERE a.id = 77 FOR UPDATE")
	plan := planner.Plan(sql)
	if _, again := planner.HandleRefusal(plan, nil, "0A000", []byte("locking clause such as FOR UPDATE can be applied on a single table")); !again {
		t.Fatal("the text has no split form")
	}
	cache := NewCache(10, 1<<20, NewBudget(0), planner.Plan)
	form := cache.New(sql, []byte{0, 0}, plan, settings.ParsingHashes{}).CurrentForm()
	free := cache.New(sql, []byte{0, 0}, plan, settings.ParsingHashes{}).Cost
	if !collected(func() bool { return cache.budget.Used() <= int64(free) }) {
		t.Fatal("a text that nobody has still counts")
	}
	for range 10 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if used := cache.budget.Used(); used != int64(form.Cost) {
		t.Errorf("%d bytes are counted, of a text that costs %d", used, form.Cost)
	}
	runtime.KeepAlive(form)
}

// The memory that a budget counts does not keep a cache in memory that is no longer used.
func TestCacheIsFreed(t *testing.T) {
	freed := make(chan bool, 1)
	func() {
		cache := NewCache(10, 1<<20, NewBudget(0), nil)
		runtime.AddCleanup(cache, func(freed chan bool) { freed <- true }, freed)
		cache.add([]byte("k"), cache.New([]byte("SELECT 1"), []byte{0, 0}, nil, settings.ParsingHashes{}))
	}()
	if !collected(func() bool { return len(freed) > 0 }) {
		t.Error("it is still there")
	}
}
