package metrics

import "github.com/prometheus/client_golang/prometheus"

// Rewrite shows the counts of the statement planner. Rewrite has only SetSource, because the planner does not import
// metrics.
type Rewrite struct {
	counts snapshotMetrics[RewriteCounts]
}

// RewriteCounts is a snapshot of the statement planner's counts since the process started.
type RewriteCounts struct {
	Parsed     uint64 // texts that PostgreSQL's parser read
	CacheHits  uint64 // texts with a plan in the cache
	Scanned    uint64 // texts that the word scan cleared without parsing
	Unparsable uint64 // texts that PostgreSQL's grammar rejects
	Rewritten  uint64 // parsed texts that were replaced by another one for the server
	Unverified uint64 // parsed texts that pass unchanged because the rewritten one had another meaning

	GuardedBytes   uint64 // texts over the size guard, not parsed
	GuardedNesting uint64 // texts over the nesting guard, not parsed
	GuardedText    uint64 // invalid UTF-8, or quotes or comments without an end
}

func newRewrite(reg prometheus.Registerer) *Rewrite {
	r := &Rewrite{}
	r.counts.rows = []seriesRow[RewriteCounts]{
		counterRow("dsql_rewrite_parsed_total", "Statement texts that were parsed.",
			func(c RewriteCounts) float64 { return float64(c.Parsed) }),
		counterRow("dsql_rewrite_cache_hits_total", "Statement texts whose plan was remembered.",
			func(c RewriteCounts) float64 { return float64(c.CacheHits) }),
		counterRow("dsql_rewrite_scanned_total", "Statement texts that needed no parse because none of their words concerns a rule.",
			func(c RewriteCounts) float64 { return float64(c.Scanned) }),
		counterRow("dsql_rewrite_unparsable_total", "Statement texts outside PostgreSQL's grammar; they pass unchanged.",
			func(c RewriteCounts) float64 { return float64(c.Unparsable) }),
		counterRow("dsql_rewrite_rewritten_total", "Parsed statement texts that Sluice replaced by another.",
			func(c RewriteCounts) float64 { return float64(c.Rewritten) }),
		counterRow("dsql_rewrite_unverified_total", "Parsed statement texts that pass unchanged because the rewritten text had another meaning than intended.",
			func(c RewriteCounts) float64 { return float64(c.Unverified) }),
	}
	guarded := prometheus.NewDesc("dsql_rewrite_guarded_total",
		"Statement texts that a guard withheld from the parser, by guard; they pass unchanged and pin.", []string{"reason"}, nil)
	guard := func(reason string, value func(RewriteCounts) float64) seriesRow[RewriteCounts] {
		return seriesRow[RewriteCounts]{desc: guarded, kind: prometheus.CounterValue, value: value, labels: []string{reason}}
	}
	r.counts.rows = append(r.counts.rows,
		guard("bytes", func(c RewriteCounts) float64 { return float64(c.GuardedBytes) }),
		guard("nesting", func(c RewriteCounts) float64 { return float64(c.GuardedNesting) }),
		guard("text", func(c RewriteCounts) float64 { return float64(c.GuardedText) }),
	)
	reg.MustRegister(&r.counts)
	return r
}

// SetSource sets f as the source of the planner's counts, which is called at each scrape.
func (r *Rewrite) SetSource(f func() RewriteCounts) {
	if r != nil {
		r.counts.setSource(f)
	}
}
