package rewrite

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

const (
	DefaultMaxBytes     = parse.DefaultMaxBytes
	DefaultMaxNesting   = parse.DefaultMaxNesting
	DefaultCacheEntries = 10_000
	DefaultCacheBytes   = 32 << 20
)

const (
	// greatestNesting is the upper limit of Config.MaxNesting. At this depth the parser needs up to 1.5 MiB of stack
	// (guard_test.go). A thread has 8 MiB under the usual limit (ulimit -s), and 2 MiB without a limit (glibc on
	// x86-64).
	greatestNesting = DefaultMaxNesting
	// greatestBytes is the upper limit of Config.MaxBytes. For a hostile text of 2 MiB the parser takes 500 MB and 3 s
	// (measured). Memory and time grow linearly with the length.
	greatestBytes = 16 << 20
	// heavyBytes is the length in bytes from which texts count as long. Long texts are parsed one at a time, to bound
	// memory.
	heavyBytes = 64 << 10
)

// Config holds the limits and the rules of a Planner.
type Config struct {
	// MaxBytes and MaxNesting limit the texts that the parser gets. MaxNesting bounds the depth at which parentheses,
	// operators, casts, joins and set operations contain one another.
	MaxBytes, MaxNesting int
	// CacheEntries and CacheBytes bound the number and the bytes of cached plans.
	CacheEntries, CacheBytes int
	// Rules are the rewriting rules. The zero Rules disable all rules.
	Rules Rules
	// Choices are the configured values of the rules that users and clients may override (Planner.ForOptions). Rules
	// already contains these values.
	Choices ClientOptions
}

// Defaults returns the default limits with all rules enabled.
func Defaults() Config {
	return Config{
		MaxBytes:     DefaultMaxBytes,
		MaxNesting:   DefaultMaxNesting,
		CacheEntries: DefaultCacheEntries,
		CacheBytes:   DefaultCacheBytes,
		Rules:        AllRules(),
	}
}

// Validate returns an error that joins all invalid values, or nil if the configuration is valid.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %v: %s", key, value, want))
		}
	}
	check(c.MaxBytes > 0 && c.MaxBytes <= greatestBytes, "rewrite.max_bytes", c.MaxBytes,
		fmt.Sprintf("want 1 to %d: beyond, a parse takes too much memory", greatestBytes))
	check(c.MaxNesting > 0 && c.MaxNesting <= greatestNesting, "rewrite.max_nesting", c.MaxNesting,
		fmt.Sprintf("want 1 to %d: beyond, the parser's stack may not suffice", greatestNesting))
	check(c.CacheEntries > 0, "rewrite.cache_entries", c.CacheEntries, "want at least 1")
	check(c.CacheBytes > 0, "rewrite.cache_bytes", c.CacheBytes, "want at least 1")
	return errors.Join(append(errs, c.Rules.validate())...)
}

// Stats counts the texts that the planner has planned, by outcome.
type Stats struct {
	CacheHits  uint64 // the cache had the plan
	Scanned    uint64 // texts planned by their words, without the parser
	Parsed     uint64 // texts that the parser read
	Unparsable uint64 // parsed texts that violate PostgreSQL's grammar
	Rewritten  uint64 // parsed texts that the server gets in another form
	// Unverified counts texts that the server gets unchanged, because the rewritten text failed verification or
	// exceeded a limit.
	Unverified uint64

	// GuardedBytes, GuardedNesting and GuardedText count texts that did not reach the parser:
	GuardedBytes   uint64 // too long, or of too many tokens, or with too much that the parser would copy
	GuardedNesting uint64 // nested deeper than MaxNesting
	GuardedText    uint64 // not UTF-8, or with a quote or comment that has no end
}

// Planner makes plans of texts and caches them. Planner is safe for concurrent use.
type Planner struct {
	*plannerState
	config Config
	// of is the planner without client options from which ForOptions made this planner, and number identifies this
	// planner. For the planner of the configuration itself, of is nil and number is 0.
	of     *Planner
	number uint64
}

// plannerState is the state that a planner shares with all planners that ForOptions derives from it.
type plannerState struct {
	cache *cache

	heavy sync.Mutex // locked during the parse of a text of heavyBytes or more

	tables *tablePlanCache

	hits, scanned, parsed, unparsable atomic.Uint64
	rewritten, unverified             atomic.Uint64
	guarded                           [parse.Reasons]atomic.Uint64

	mu       sync.Mutex
	variants map[ruleVariant]*Planner // by client options; guarded by mu
}

// New returns a Planner, or the error of Config.Validate.
func New(c Config) (*Planner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Planner{config: c, plannerState: &plannerState{cache: newCache(c.CacheEntries, c.CacheBytes), tables: newTablePlanCache()}}, nil
}

// Plan returns the plan of a text, which is never nil. Plan allocates nothing if the cache or the words of the text
// give the plan.
func (p *Planner) Plan(sql []byte) *Plan {
	if p.of != nil {
		return p.planForOptions(sql, nil, p.of.Plan(sql))
	}
	if plan := p.cache.find(0, sql); plan != nil {
		p.hits.Add(1)
		return plan
	}
	if plan, table := planByWords(sql); plan != nil && !p.config.Rules.mayBeBatched(plan, table) {
		p.scanned.Add(1)
		return p.tables.planForTable(plan, table)
	}
	return p.planByTree(sql, nil)
}

// ByteaMapping returns how Sluice stores bytea columns in keys. checked reports whether new tables get a CHECK
// constraint for each of these columns (Rules.ByteaCheck).
func (p *Planner) ByteaMapping() (how ByteaMapping, checked bool) {
	return p.config.Rules.Bytea, p.config.Rules.ByteaCheck
}

// PlanWithNames returns the plan of a text for a session that resolves relations by names. If names is nil, or
// Rules.Bytea is off, no column is mapped (bytea stored as text).
func (p *Planner) PlanWithNames(sql []byte, names *schema.NameResolver) *Plan {
	if names == nil || p.config.Rules.Bytea == ByteaOff {
		return p.Plan(sql)
	}
	if p.of != nil {
		return p.planForOptions(sql, names, p.of.PlanWithNames(sql, names))
	}
	if plan := p.cache.find(names.ID(), sql); plan != nil {
		p.hits.Add(1)
		return plan
	}
	if !names.NeedsParse(sql) {
		return p.Plan(sql)
	}
	return p.planByTree(sql, names)
}

// planForOptions returns the plan of a text under this planner's client options. plan is the text's plan without client
// options. planForOptions returns plan itself if client options cannot affect the text.
func (p *Planner) planForOptions(sql []byte, names *schema.NameResolver, plan *Plan) *Plan {
	if !plan.dependsOnOptions() {
		return plan
	}
	if own := p.cache.find(p.cacheKey(names), sql); own != nil {
		p.hits.Add(1)
		return own
	}
	return p.planByTree(sql, names)
}

// cacheKey returns the cache key for plans of this planner with a NameResolver. The IDs of NameResolvers begin at 1.
func (p *Planner) cacheKey(names *schema.NameResolver) uint64 { return names.ID() | p.number<<56 }

// planByTree parses a text, plans its tree and caches the plan.
func (p *Planner) planByTree(sql []byte, names *schema.NameResolver) *Plan {
	if why := p.config.checkLimits(sql); why != parse.Fits {
		p.guarded[why].Add(1)
		return unparsedPlan(names, sql)
	}
	text := string(sql)
	plan := p.parseAndPlan(text, names)
	p.cache.add(p.cacheKey(names), text, plan)
	return plan
}

// Stats returns how many texts the planner has planned so far, by outcome.
func (p *Planner) Stats() Stats {
	return Stats{
		CacheHits:      p.hits.Load(),
		Scanned:        p.scanned.Load(),
		Parsed:         p.parsed.Load(),
		Unparsable:     p.unparsable.Load(),
		Rewritten:      p.rewritten.Load(),
		Unverified:     p.unverified.Load(),
		GuardedBytes:   p.guarded[parse.TooLong].Load(),
		GuardedNesting: p.guarded[parse.TooDeep].Load(),
		GuardedText:    p.guarded[parse.NotText].Load(),
	}
}

// parseAndPlan parses and plans a text that checkLimits has accepted.
func (p *Planner) parseAndPlan(sql string, names *schema.NameResolver) *Plan {
	if len(sql) >= heavyBytes {
		p.heavy.Lock()
		defer p.heavy.Unlock()
	}
	p.parsed.Add(1)
	tree, err := parseDialect(sql)
	if err != nil {
		p.unparsable.Add(1)
		return unparsablePlan(sql)
	}
	plan, parts := p.draftPlan(sql, tree)
	plan = p.applyRules(sql, tree, names, plan, parts)
	p.config.Rules.markBatchCandidate(sql, tree, plan)
	if names != nil && len(plan.Statements) > 0 { // an empty text may have the shared emptyPlan, which must not change
		plan.compareWithSnapshot(parts, names)
	}
	return plan
}

// checkLimits returns why the parser must not read a text, or parse.Fits if it may.
func (c Config) checkLimits(sql []byte) parse.GuardReason {
	return parse.CheckLimits(sql, c.MaxBytes, c.MaxNesting)
}
