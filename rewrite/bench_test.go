package rewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-proxy/sluice/rewrite/schema"
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
	p.RecordSuccess(p.Plan(text))
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
	p.RecordSuccess(p.Plan(text))
	b.ReportAllocs()
	for b.Loop() {
		p.Plan(text)
	}
}

// BenchmarkPlanMapped plans texts that are new each time: without a mapping, with one that
// their tables are not in, and with one that they are rewritten for.
func BenchmarkPlanMapped(b *testing.B) {
	relation := func(name string, mapped bool) schema.Relation {
		r := schema.Relation{Schema: "public", Name: name}
		for _, c := range []string{"shard_id", "namespace_id", "workflow_id", "run_id", "data", "data_encoding", "state", "state_encoding"} {
			r.Columns = append(r.Columns, schema.Column{Name: c, Mapped: mapped && strings.HasSuffix(c, "_id") && c[0] != 's' && c[0] != 'w'})
		}
		return r
	}
	for _, text := range []string{
		"SELECT data FROM executions WHERE shard_id = %d AND namespace_id = $1 AND run_id = $2",
		"INSERT INTO executions (shard_id, namespace_id, workflow_id, run_id, data, data_encoding) VALUES " +
			strings.Repeat("($1, $2, $3, $4, $5, $6), ", 9) + "(%d, $2, $3, $4, $5, $6) " +
			"ON CONFLICT (shard_id, namespace_id, workflow_id, run_id) DO UPDATE SET (shard_id, namespace_id, workflow_id, run_id, data, data_encoding) = " +
			"(excluded.shard_id, excluded.namespace_id, excluded.workflow_id, excluded.run_id, excluded.data, excluded.data_encoding)",
	} {
		for _, kind := range []string{"off", "elsewhere", "mapped"} {
			b.Run(fmt.Sprintf("%d/%s", len(text), kind), func(b *testing.B) {
				p, names := newPlanner(b), (*schema.NameResolver)(nil)
				if kind != "off" {
					p = mappedPlanner(b, nil)
					names = schema.New([]schema.Relation{relation("executions", kind == "mapped"), relation("tasks", true)}).ResolverFor([]string{"public"})
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					sql := fmt.Appendf(nil, text, i)
					if names == nil {
						p.Plan(sql)
					} else {
						p.PlanWithNames(sql, names)
					}
				}
			})
		}
	}
}
