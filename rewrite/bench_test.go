package rewrite

import (
	"fmt"
	"strings"
	"testing"
)

const (
	benchSelect  = "SELECT abalance FROM pgbench_accounts WHERE aid = 123456"
	benchLocking = "SELECT range_id FROM shards WHERE shard_id = $1 FOR UPDATE"
)

func newPlanner(t testing.TB) *Planner {
	t.Helper()
	p, err := New(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func BenchmarkPlanHit(b *testing.B) {
	p, text := newPlanner(b), []byte(benchLocking)
	p.Plan(text)
	b.ReportAllocs()
	for b.Loop() {
		p.Plan(text)
	}
}

func BenchmarkPlanScan(b *testing.B) {
	for _, text := range []string{
		benchSelect,
		"UPDATE pgbench_accounts SET abalance = abalance + -1234 WHERE aid = 123456",
		strings.Repeat(" ", 3) + "SELECT " + strings.Repeat("column_name, ", 40) + "count(*) FROM a WHERE b = 'c'",
	} {
		b.Run(fmt.Sprint(len(text)), func(b *testing.B) {
			p, text := newPlanner(b), []byte(text)
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				p.Plan(text)
			}
		})
	}
}

func BenchmarkPlanParse(b *testing.B) {
	p := newPlanner(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Plan(fmt.Appendf(nil, "SELECT range_id FROM shards WHERE shard_id = %d FOR UPDATE", i))
	}
}

func BenchmarkPlanRewrite(b *testing.B) {
	p := newPlanner(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Plan(fmt.Appendf(nil, "SELECT range_id FROM shards WHERE shard_id = %d FOR SHARE", i))
	}
}

func BenchmarkPlanRewrittenHit(b *testing.B) {
	p, text := newPlanner(b), []byte("SELECT range_id FROM shards WHERE shard_id = $1 FOR SHARE")
	p.Plan(text)
	b.ReportAllocs()
	for b.Loop() {
		p.Plan(text)
	}
}
