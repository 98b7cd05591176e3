package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// mixed is a world with sidecars of this version and of the one before on one table in
// memory, which operators of both migrate and change meanwhile. What one of them does
// is cut up into its calls of DynamoDB, between which anything may happen.
type mixed struct {
	*world
	items  itemAPI
	cuts   bool // calls of different runs come between each other
	first  *Table
	tables map[*proc]*Table
	before map[*proc]bool // of the version before
	runs   []*run
	stray  []stray
	counts map[string]int // of what the schedule met
}

// run is a call of a Store, or an operator, under way.
type run struct {
	next   func() (struct{}, bool)
	stop   func()
	frozen time.Duration // it does not go on before
	admin  bool
}

// stray is a write that arrives once more, or late.
type stray struct {
	at time.Duration
	do func()
}

// line is the way of one run to the cloud. It yields before each call, and loses some.
type line struct {
	m     *mixed
	yield func(struct{}) bool
}

func (l line) reach() error {
	if !l.yield(struct{}{}) {
		return errLost
	}
	if l.m.faulty && l.m.rng.IntN(40) == 0 {
		return errLost
	}
	return nil
}

func (l line) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	return l.m.items.GetItem(ctx, in)
}

func (l line) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	return l.m.items.PutItem(ctx, in)
}

func (l line) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if err := l.reach(); err != nil {
		return nil, err
	}
	fate := l.m.rng.IntN(30)
	if !l.m.faulty || fate > 2 {
		return l.m.items.UpdateItem(ctx, in)
	}
	if fate < 2 { // late, or once more
		at := l.m.now + time.Duration(l.m.rng.Int64N(int64(lateBeats*l.m.cfg.Heartbeat)))
		l.m.stray = append(l.m.stray, stray{at, func() { _, _ = l.m.items.UpdateItem(context.Background(), in) }})
	}
	if fate > 0 {
		out, err := l.m.items.UpdateItem(ctx, in)
		if fate == 1 {
			return out, err
		}
	}
	return nil, errLost
}

func newMixed(t *testing.T, seed uint64, cfg Config) *mixed {
	return newMixedOn(t, seed, cfg, NewTable(cfg, aws.Config{Region: "us-east-1"}), newCloud())
}

// newMixedOn is newMixed on the table that first names, among any items.
func newMixedOn(t *testing.T, seed uint64, cfg Config, first *Table, items itemAPI) *mixed {
	m := &mixed{first: first, items: items, cuts: true, counts: map[string]int{}, tables: map[*proc]*Table{}, before: map[*proc]bool{}}
	m.world = newWorld(seed, cfg, nil)
	t.Cleanup(func() {
		for _, r := range m.runs {
			r.stop()
		}
	})
	whole := m.newTable(m.items)
	m.table, m.begin = whole, m.arrived
	if err := (versionBefore{whole}).agree(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return m
}

// newTable is a table of which nothing is known yet.
func (m *mixed) newTable(items itemAPI) *Table {
	table := *m.first
	table.items, table.places, table.server = items, new(shardLocations), new(serverTime)
	return &table
}

// on is a table whose calls go by a run's line.
func (m *mixed) on(table *Table, yield func(struct{}) bool) *Table {
	own := *table
	own.items = line{m, yield}
	return &own
}

// met counts what the schedule has come to, before it is brought to an end.
func (m *mixed) met() {
	for shard := range m.cfg.Shards {
		found, _, _ := m.newTable(m.items).readItem(context.Background(), m.cfg.Table, m.newTable(m.items).sharedKeyAddress(shard), true)
		if !found.isClosed() {
			continue
		}
		m.counts["closed"]++
		if found.number(attrWasFree) < found.number(attrWasLimit) {
			m.counts["closed with slots held"]++
		}
		for name := range found {
			if strings.HasPrefix(name, asidePrefix) && !strings.Contains(name, follower) {
				m.counts["put aside"]++
			}
		}
	}
	for p, before := range m.before {
		if before && p.core.ledger.stats.ReapedSelf > 0 && p.core.unusable != nil {
			m.counts["the version before lost its slots"]++
		}
		if !before && !p.dead && p.core.ledger.heldSlots() > 0 {
			m.counts["this version has slots"]++
		}
	}
}

// start begins a run.
func (m *mixed) start(admin bool, do func(yield func(struct{}) bool)) *run {
	r := &run{admin: admin}
	r.next, r.stop = iter.Pull(iter.Seq[struct{}](do))
	m.runs = append(m.runs, r)
	return r
}

// arrived lets a sidecar's call of its Store begin.
func (m *mixed) arrived(msg *message) {
	table := m.tables[msg.proc]
	if table == nil {
		table = m.newTable(nil)
		m.tables[msg.proc] = table
	}
	m.start(false, func(yield func(struct{}) bool) {
		store := Store(m.on(table, yield))
		if m.before[msg.proc] {
			store = versionBefore{m.on(table, yield)}
		}
		m.answer(msg, m.performOn(store, msg.call))
	})
}

// advance lets each run make some of its calls.
func (m *mixed) advance() {
	for len(m.stray) > 0 && slices.ContainsFunc(m.stray, func(s stray) bool { return s.at <= m.now }) {
		i := slices.IndexFunc(m.stray, func(s stray) bool { return s.at <= m.now })
		late := m.stray[i]
		m.stray = slices.Delete(m.stray, i, i+1)
		late.do()
	}
	m.rng.Shuffle(len(m.runs), func(i, j int) { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] })
	m.runs = slices.DeleteFunc(m.runs, func(r *run) bool {
		if r.frozen > m.now && m.faulty {
			return false
		}
		calls := 1 + m.rng.IntN(3)
		if !r.admin && m.rng.IntN(3) > 0 || !m.cuts {
			calls = 1000
		}
		for range calls {
			if _, more := r.next(); !more {
				return true
			}
		}
		return false
	})
}

// operate begins, stops and freezes operators.
func (m *mixed) operate(heed bool) {
	switch m.rng.IntN(13) {
	case 0, 1:
		m.migrate(heed && m.rng.IntN(2) == 0)
	case 2:
		limit := 20 + m.rng.IntN(80)
		m.ever = max(m.ever, limit)
		cfg := configured(m.cfg, limit)
		before := m.rng.IntN(3) == 0
		m.note("init with %d, of the version before: %v", limit, before)
		m.start(true, func(yield func(struct{}) bool) {
			table := m.on(m.newTable(nil), yield)
			if before {
				m.note("init before: %v", versionBefore{table}.agree(context.Background(), cfg))
			} else {
				did, err := table.applyInit(context.Background(), cfg)
				m.note("init: %v %v", did, err)
			}
		})
	case 3, 4:
		if i := slices.IndexFunc(m.runs, func(r *run) bool { return r.admin }); i >= 0 {
			m.note("an operator is stopped")
			m.runs[i].stop()
			m.runs = slices.Delete(m.runs, i, i+1)
		}
	case 6: // a process stands still, for less than its lease lasts
		p := m.procs[m.rng.IntN(len(m.procs))]
		age, _ := p.core.ledger.renewalAge(m.at(p))
		if left := m.cfg.lostAfter() - age - 2*stepMost; left > 0 && p.frozen <= m.now {
			p.frozen = m.now + time.Duration(m.rng.Int64N(int64(left)))
			m.note("%s stands still until %v", p.name, p.frozen)
		}
	case 5:
		if i := m.rng.IntN(len(m.runs) + 1); i < len(m.runs) {
			m.runs[i].frozen = m.now + time.Duration(m.rng.Int64N(int64(m.cfg.ReapAfter)))
		}
	}
}

func (m *mixed) migrate(heed bool) {
	m.start(true, func(yield func(struct{}) bool) {
		did, err := m.on(m.newTable(nil), yield).migrate(context.Background(), heed)
		m.note("migrate: %s %v", did, err)
		if _, refused := errors.AsType[*StrandedOwnersError](err); refused {
			m.counts["refused"]++
		}
	})
}

// join starts a sidecar of one of the versions.
func (m *mixed) join(want int, before bool) *proc {
	p := m.add(want)
	m.before[p] = before
	return p
}

// play is a schedule in which a table is migrated, in the end with sidecars of this
// version alone.
func (m *mixed) play(steps int) error {
	for range 2 + m.rng.IntN(4) {
		m.join(m.rng.IntN(40), m.rng.IntN(2) == 0)
	}
	heed := m.rng.IntN(2) == 0
	for range steps {
		for _, p := range m.procs { // who came by the world's trouble
			if _, known := m.before[p]; !known {
				m.before[p] = m.rng.IntN(2) == 0
			}
		}
		m.operate(heed)
		m.advance()
		if err := m.step(); err != nil {
			return err
		}
		if err := m.covered(); err != nil {
			return err
		}
		m.advance()
	}
	m.met()
	return m.end()
}

// end upgrades all, ends what is under way, finishes the migration, and heals.
func (m *mixed) end() error {
	m.faulty, m.cuts = false, false
	for _, p := range slices.Clone(m.procs) {
		p.frozen = 0
		if m.before[p] && !p.dead {
			m.kill(p)
			m.join(p.want, false)
		}
	}
	begin := m.begin
	m.begin = func(msg *message) {
		begin(msg)
		m.advance()
	}
	m.advance()
	for len(m.stray) > 0 {
		m.now += m.cfg.Heartbeat / 10
		m.advance()
	}
	operator := m.newTable(m.items)
	if _, err := operator.migrate(context.Background(), false); err != nil {
		return err
	}
	cfg := configured(m.cfg, m.limit)
	if _, err := operator.applyInit(context.Background(), cfg); err != nil {
		return err
	}
	if err := m.heal(); err != nil {
		return err
	}
	s, err := operator.Status(context.Background())
	if err == nil && (s.Settings.Format != Format || len(s.Problems()) > 0) {
		err = fmt.Errorf("in the end: format %d, %q", s.Settings.Format, s.Problems())
	}
	return err
}

// covered fails unless every shard's numbers are right, wherever its item is, and every
// backend that is open has a slot there.
func (m *mixed) covered() error {
	table, held, open := m.newTable(m.items), 0, 0
	for shard := range m.cfg.Shards {
		found, _, err := table.peekShardItem(context.Background(), shard)
		if err != nil {
			return err
		}
		s := found.shard()
		if s.Drift() != 0 {
			return fmt.Errorf("shard %d: limit %d, free %d, held %d", shard, s.Limit, s.Free, s.HeldSlots())
		}
		held += s.HeldSlots()
	}
	for _, p := range m.procs {
		open += p.open
	}
	if open > held {
		return fmt.Errorf("%d backends are open with %d slots", open, held)
	}
	return nil
}
