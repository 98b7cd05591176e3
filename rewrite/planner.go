package rewrite

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-proxy/sluice/rewrite/parse"
	"github.com/sluice-proxy/sluice/rewrite/schema"
)

// Defaults of a Config.
const (
	DefaultMaxBytes     = 2 << 20
	DefaultMaxNesting   = 2000
	DefaultCacheEntries = 10_000
	DefaultCacheBytes   = 32 << 20
)

const (
	// greatestNesting is the most that MaxNesting may be. The parser needs up to
	// 1.5 MiB of stack for it (guard_test.go). A thread's stack is 8 MiB under the
	// usual limit, and 2 MiB when there is none (glibc on x86-64).
	greatestNesting = DefaultMaxNesting
	// greatestBytes is the most that MaxBytes may be: a hostile text of 2 MiB takes
	// the parser 500 MB and 3 s (measured), and it goes with the length.
	greatestBytes = 16 << 20
	// heavyBytes is the length from which texts are parsed one at a time, so that
	// the memory of one is the memory of all.
	heavyBytes = 64 << 10
)

// Config of a Planner.
type Config struct {
	// MaxBytes and MaxNesting are the guard of the parser: a longer or deeper
	// text is not parsed. MaxNesting counts parentheses, operators, casts, joins
	// and set operations that lie above one another.
	MaxBytes, MaxNesting int
	// CacheEntries and CacheBytes bound the plans that are remembered.
	CacheEntries, CacheBytes int
	// Rules are what is rewritten; none in the zero value.
	Rules Rules
	// Choices are those values of the configuration that users and clients may have otherwise
	// (Planner.Under); Rules has them already.
	Choices Choices
}

// Defaults is the configuration of a planner that nobody configured: all rules.
func Defaults() Config {
	return Config{
		MaxBytes:     DefaultMaxBytes,
		MaxNesting:   DefaultMaxNesting,
		CacheEntries: DefaultCacheEntries,
		CacheBytes:   DefaultCacheBytes,
		Rules:        AllRules(),
	}
}

// Validate reports every bad value at once.
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

// Stats counts texts by what became of them.
type Stats struct {
	CacheHits  uint64 // the plan was remembered
	Scanned    uint64 // cleared by the word scan
	Parsed     uint64 // given to the parser
	Unparsable uint64 // of those: not PostgreSQL's grammar
	Rewritten  uint64 // of those: another text goes to the server
	// Unverified texts would have been rewritten, but the result did not mean what
	// was intended, or was over a guard. They pass unchanged.
	Unverified uint64

	// Not given to the parser:
	GuardedBytes   uint64 // longer than MaxBytes, or nearly as long and all tokens, or repeated by the parser
	GuardedNesting uint64 // deeper than MaxNesting
	GuardedText    uint64 // no UTF-8, or quotes or comments without end
}

// Planner makes plans of texts and remembers them. It is safe for concurrent use.
type Planner struct {
	*shared
	config Config
	// of is the planner by the configuration alone, and number tells others apart (Under); nil and
	// 0: it is that one.
	of     *Planner
	number uint64
}

// shared is what a planner and those of Under have in common.
type shared struct {
	cache *cache

	heavy sync.Mutex // held while a text of heavyBytes or more is parsed

	tables *tables

	hits, scanned, parsed, unparsable atomic.Uint64
	rewritten, unverified             atomic.Uint64
	guarded                           [parse.Reasons]atomic.Uint64

	mu       sync.Mutex
	variants map[variation]*Planner // guarded by mu
}

// New makes a Planner.
func New(c Config) (*Planner, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Planner{config: c, shared: &shared{cache: newCache(c.CacheEntries, c.CacheBytes), tables: newTables()}}, nil
}

// Plan says what sql may do. It never returns nil. A plan that is remembered,
// and one that the words alone tell, cost no allocation.
func (p *Planner) Plan(sql []byte) *Plan {
	if p.of != nil {
		return p.chosen(sql, nil, p.of.Plan(sql))
	}
	if plan := p.cache.find(0, sql); plan != nil {
		p.hits.Add(1)
		return plan
	}
	if plan, table := scan(sql); plan != nil && !p.config.Rules.mayList(plan, table) {
		p.scanned.Add(1)
		return p.tables.planOf(plan, table)
	}
	return p.planByTree(sql, nil)
}

// Mapping tells how columns of keys that are of type bytea are stored, and whether a CHECK of
// the column's physical name is there for each (Rules.ByteaCheck).
func (p *Planner) Mapping() (how ByteaMapping, checked bool) {
	return p.config.Rules.Bytea, p.config.Rules.ByteaCheck
}

// PlanIn is Plan for a session in which names stand for what names says, where columns are
// mapped (Rules.Bytea); nil: no name is known, and nothing is mapped.
func (p *Planner) PlanIn(sql []byte, names *schema.Names) *Plan {
	if names == nil || p.config.Rules.Bytea == ByteaOff {
		return p.Plan(sql)
	}
	if p.of != nil {
		return p.chosen(sql, names, p.of.PlanIn(sql, names))
	}
	if plan := p.cache.find(names.ID(), sql); plan != nil {
		p.hits.Add(1)
		return plan
	}
	if !names.NeedsTree(sql) {
		return p.Plan(sql)
	}
	return p.planByTree(sql, names)
}

// chosen is the plan of a text under the choices of a session: that of the configuration, unless
// they may change it.
func (p *Planner) chosen(sql []byte, names *schema.Names, plan *Plan) *Plan {
	if !plan.choosable() {
		return plan
	}
	if own := p.cache.find(p.under(names), sql); own != nil {
		p.hits.Add(1)
		return own
	}
	return p.planByTree(sql, names)
}

// under is the number by which plans are remembered: of names, which are counted from 1, and of the
// planner.
func (p *Planner) under(names *schema.Names) uint64 { return names.ID() | p.number<<56 }

// planByTree plans a text by its tree, and remembers the plan.
func (p *Planner) planByTree(sql []byte, names *schema.Names) *Plan {
	if why := p.config.guard(sql); why != parse.Fits {
		p.guarded[why].Add(1)
		return unread(names, sql)
	}
	text := string(sql)
	plan := p.parse(text, names)
	p.cache.add(p.under(names), text, plan)
	return plan
}

// Stats is a snapshot of the counts.
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

// parse plans a text that passed the guard.
func (p *Planner) parse(sql string, names *schema.Names) *Plan {
	if len(sql) >= heavyBytes {
		p.heavy.Lock()
		defer p.heavy.Unlock()
	}
	p.parsed.Add(1)
	tree, err := parseDialect(sql)
	if err != nil {
		p.unparsable.Add(1)
		return unparsable(sql)
	}
	plan, parts := p.draft(sql, tree)
	plan = p.rewrite(sql, tree, names, plan, parts)
	p.config.Rules.list(sql, tree, plan)
	if names != nil && len(plan.Statements) > 0 { // else it may be shared
		plan.Lacks = lacks(parts, names)
		plan.Mapped = plan.Mapped || slices.ContainsFunc(plan.Statements, func(st Statement) bool { return names.MapsAny(st.Tables) })
	}
	return plan
}

// guard decides by the limits of c whether a text may be given to the parser.
func (c Config) guard(sql []byte) parse.Reason { return parse.Guard(sql, c.MaxBytes, c.MaxNesting) }
