package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

func (c *cache) size() (entries, bytes int) {
	for i := range c.shards {
		s := &c.shards[i]
		entries += len(s.entries)
		bytes += s.bytes
		if len(s.entries) != len(s.clock) {
			panic("the clock and the map differ")
		}
	}
	return entries, bytes
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	for _, bound := range []struct{ entries, bytes int }{
		{1, 1 << 20}, {3, 1 << 20}, {100, 1 << 20}, {1 << 20, 20_000}, {1 << 20, 1 << 20},
	} {
		c := newCache(bound.entries, bound.bytes)
		for i := range 20_000 {
			c.add(0, fmt.Sprint("text ", i), &Plan{Kind: Write, Statements: make([]Statement, i%3)})
		}
		entries, bytes := c.size()
		if entries == 0 || entries > bound.entries || bytes > bound.bytes {
			t.Errorf("%+v: %d entries, %d bytes", bound, entries, bytes)
		}
		if entries < bound.entries/2 && bytes < bound.bytes/2 {
			t.Errorf("%+v: half empty, %d entries, %d bytes", bound, entries, bytes)
		}
	}
}

func TestCacheKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := newCache(1600, 1<<20) // 100 in each shard
	hot := []byte("hot")
	c.add(0, string(hot), updatePlan)
	for i := range 50_000 {
		if c.find(0, hot) == nil {
			t.Fatalf("gone after %d others", i)
		}
		c.add(0, fmt.Sprint("cold ", i), selectPlan)
	}
	// CLOCK is not exact, but what nobody asks for goes within a few rounds.
	for i := range 50_000 - 5*1600 {
		if c.find(0, fmt.Append(nil, "cold ", i)) != nil {
			t.Fatalf("cold %d outlived all that came after it", i)
		}
	}
}

func TestCacheRefusesGiants(t *testing.T) {
	t.Parallel()
	c := newCache(100, 160_000)
	c.add(0, "small", selectPlan)
	giant := strings.Repeat("x", 10_000)
	c.add(0, giant, selectPlan)
	if c.find(0, []byte(giant)) != nil {
		t.Error("a text larger than a shard was kept")
	}
	c.add(0, "plan", &Plan{Statements: make([]Statement, 1000)})
	if c.find(0, []byte("plan")) != nil {
		t.Error("a plan larger than a shard was kept")
	}
	if c.find(0, []byte("small")) != selectPlan {
		t.Error("the small one had to go for what was not kept")
	}
}

func TestCacheKeepsTheFirst(t *testing.T) {
	t.Parallel()
	c := newCache(10, 1<<20)
	c.add(0, "text", selectPlan)
	c.add(0, "text", updatePlan)
	if entries, _ := c.size(); entries != 1 || c.find(0, []byte("text")) != selectPlan {
		t.Error("one text, two entries")
	}
}

func TestPlanBytes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("b", 60)
	for _, c := range []struct {
		sql  string
		more int // bytes than the statement with a short name
	}{
		{"SET %s = a", 50},
		{"SET a = %s", 2 * 50},
		{"SAVEPOINT %s", 50},
		{"DEALLOCATE %s", 50},
		{"SHOW %s", 50},
		{"LOCK TABLE a, %s", 50},
	} {
		small := parsed(t, fmt.Sprintf(c.sql, "b")).Bytes()
		if got := parsed(t, fmt.Sprintf(c.sql, long)).Bytes(); got < small+c.more {
			t.Errorf(c.sql+": %d bytes, with a short name %d", long, got, small)
		}
	}
	if one, ten := parsed(t, "SELECT 1").Bytes(), parsed(t, strings.Repeat("SELECT 1;", 10)).Bytes(); ten < 5*one {
		t.Errorf("ten statements take %d bytes, one %d", ten, one)
	}
}
