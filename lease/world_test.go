package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// world is a cluster, a table and some sidecars, all in virtual time and driven
// by one seed: what a step does is drawn, what must hold is checked after it.
type world struct {
	rng   *rand.Rand
	cfg   Config
	table Store
	// begin, unless nil, sees to a message that has arrived, in place of table.
	begin  func(*message)
	limit  int
	ever   int           // highest limit that there was
	now    time.Duration // true time
	procs  []*proc
	late   []*message // requests that will still reach the table
	bucket float64    // the cluster's own rate limit
	filled time.Duration
	faulty bool
	// broken is the first shard whose numbers disagreed after a write.
	broken error
	traced bool
	trace  []string // the last events
}

// proc is one sidecar: a core, its clock, and its backends.
type proc struct {
	name   string
	core   *leaseState
	speed  float64 // of its clock
	offset time.Duration
	dead   bool
	frozen time.Duration // it does not run before
	losses uint64        // of slots without its doing, as last seen
	// cutUntil is when its way to the table is whole again.
	cutUntil time.Duration
	want     int
	file     []recordPlace // what a file of its would say
	slots    int           // permits that wait for a ticket
	open     int           // backends
	message  *message
}

// message is a call on its way.
type message struct {
	proc     *proc
	call     *storeCall
	arrive   time.Duration // at the table; never: lost
	back     time.Duration // the answer at its sender; never: lost
	give     time.Duration // when its sender stops waiting
	answer   storeAnswer
	answered bool
}

// stepMost is the longest step: a sidecar needs so long to notice anything, and
// its guard is no longer, so that nothing but the rules keeps it safe.
const stepMost = 330 * time.Millisecond

// lateBeats is how many heartbeats late a message may be.
const lateBeats = 10

var errLost = errors.New("lost")

// tableEpoch is the table's time at the world's beginning.
var tableEpoch = time.Unix(1_700_000_000, 300_000_000)

func worldConfig() Config {
	c := Defaults()
	c.Slots, c.Rate, c.Table, c.Cluster = true, true, "leases", "c"
	c.Limit, c.Margin, c.Shards = 60, 0, 3
	c.Heartbeat, c.ReapAfter, c.Guard, c.TransactionLimit = time.Second, 12*time.Second, stepMost, time.Second
	c.IdleRelease = 5 * time.Second
	c.Lifetime = 4 * time.Second
	c.RateLimit, c.Reserve, c.Burst, c.MaxInstances = 100, 10, 400, 4
	c.CallTimeout = 200 * time.Millisecond
	return c
}

func newWorld(seed uint64, cfg Config, table Store) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 1)), cfg: cfg, table: table, limit: cfg.totalSlots(), bucket: burstQuota, faulty: true}
}

// clock is the table's.
func (w *world) clock() time.Time { return tableEpoch.Add(w.now) }

// add starts a sidecar that wants so many backends.
func (w *world) add(want int) *proc {
	p := &proc{
		name: fmt.Sprintf("p%d", len(w.procs)), want: want,
		speed:  1 + (w.rng.Float64()-0.5)/drift, // two of them differ by less than 1/drift
		offset: time.Duration(w.rng.Int64N(int64(time.Hour))),
	}
	p.core = newLeaseState(w.cfg, p.name, rand.New(rand.NewPCG(w.rng.Uint64(), 2)))
	w.procs = append(w.procs, p)
	return p
}

func (w *world) at(p *proc) time.Duration {
	return p.offset + time.Duration(float64(w.now)*p.speed)
}

func (w *world) note(format string, args ...any) {
	if !w.traced {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%8.3fs ", w.now.Seconds())+fmt.Sprintf(format, args...))
	if len(w.trace) > 60 {
		w.trace = w.trace[1:]
	}
}

// step lets a little time pass, in which messages arrive and sidecars act, and
// perhaps something goes wrong.
func (w *world) step() error {
	w.now += time.Duration(w.rng.Int64N(int64(stepMost)))
	if w.faulty {
		w.trouble()
	}
	w.deliver()
	for _, p := range w.procs {
		if !p.dead && p.frozen <= w.now {
			if err := w.act(p); err != nil {
				return err
			}
		}
	}
	return w.check()
}

// trouble draws what goes wrong.
func (w *world) trouble() {
	p := w.procs[w.rng.IntN(len(w.procs))]
	switch w.rng.IntN(60) {
	case 0:
		w.kill(p)
	case 1, 2:
		p.cutUntil = w.now + time.Duration(w.rng.Int64N(int64(2*w.cfg.ReapAfter)))
		w.note("%s is cut off until %v", p.name, p.cutUntil)
	case 3:
		p.cutUntil = 0
	case 5:
		p.want = w.rng.IntN(40)
	case 6:
		if len(w.procs) < 8 {
			w.add(w.rng.IntN(40))
		}
	case 7:
		p.core.tickets.delayAfterRefusal(w.at(p))
	case 8, 9: // another process starts in its place, and knows that it is gone
		if !p.dead {
			w.kill(p)
			w.add(p.want).inherit(w, p.file)
		}
	case 10:
		w.adopt()
	}
}

// adopt gives the cluster other limits, where the table is in memory.
func (w *world) adopt() {
	m, ok := w.table.(*memory)
	if !ok {
		return
	}
	w.ever = max(w.ever, w.limit)
	w.limit = 20 + w.rng.IntN(80)
	s := w.cfg.tableSettings()
	s.Limit, s.Rate, s.Burst = w.limit, s.Rate/2+w.rng.IntN(s.Rate/2), 1+w.rng.IntN(s.Burst)
	m.adopt(s)
	w.note("the limits are %+v", s)
}

// kill ends a sidecar without a word. Its sockets close with it.
func (w *world) kill(p *proc) {
	p.dead, p.open, p.slots = true, 0, 0
	w.note("%s is killed", p.name)
}

// inherit gives a new sidecar the file of one that is gone.
func (p *proc) inherit(w *world, file []recordPlace) {
	p.core.ledger.setPredecessors(slices.Clone(file), w.at(p))
	p.file = file
	w.note("%s comes after another: %v", p.name, file)
}

// deliver lets the table do what has arrived, in the order of arrival.
func (w *world) deliver() {
	slices.SortStableFunc(w.late, func(a, b *message) int { return int(a.arrive - b.arrive) })
	for len(w.late) > 0 && w.late[0].arrive <= w.now {
		m := w.late[0]
		w.late = w.late[1:]
		if w.begin != nil {
			w.begin(m)
			continue
		}
		w.answer(m, w.perform(m.call))
	}
}

// answer is what a message has come to.
func (w *world) answer(m *message, a storeAnswer) {
	if !m.answered {
		m.answer, m.answered = a, true
	}
	w.note("%s: %s %+v: %v %v", m.proc.name, m.call.kind, m.call.change, a.done, a.err)
}

func (w *world) perform(c *storeCall) (a storeAnswer) { return w.performOn(w.table, c) }

func (w *world) performOn(table Store, c *storeCall) (a storeAnswer) {
	ctx := context.Background()
	switch c.kind {
	case callSettings:
		a.settings, _, a.err = table.Settings(ctx)
		a.follows = table.FindsMovedShards()
	case callLook:
		a.shard, a.err = table.Look(ctx, c.look)
	case callChange:
		a.shard, a.done, a.err = table.Change(ctx, c.change)
		if s := a.shard; s.Limit >= 0 && (s.Drift() != 0 || s.Free < 0 && a.done && c.change.Take > 0) && w.broken == nil {
			w.broken = fmt.Errorf("shard %d: limit %d, free %d, held %d", c.change.Shard, s.Limit, s.Free, s.HeldSlots())
		}
	case callReserve:
		a.next, a.done, _, a.err = table.Reserve(ctx, c.reserve)
	}
	a.at = TableTime(w.clock().Truncate(time.Second)) // a table of another time
	return a
}

// act lets one sidecar do what it can now.
func (w *world) act(p *proc) error {
	now := w.at(p)
	if m := p.message; m != nil {
		switch {
		case m.answered && m.back <= w.now:
			p.core.handleAnswer(m.call, m.answer, now)
			p.message = nil
		case m.give <= w.now:
			p.core.handleAnswer(m.call, storeAnswer{err: errLost}, now)
			p.message = nil
		}
	}
	if err := w.dial(p); err != nil {
		return err
	}
	if p.message == nil {
		if c, _ := p.core.nextCall(now); c != nil {
			p.message = w.send(p, c)
		}
	}
	return nil
}

// dial closes and opens what the state demands and allows.
func (w *world) dial(p *proc) error {
	now := w.at(p)
	revoked := p.core.state(now).Revoked
	losses := p.core.ledger.stats.ReapedSelf + p.core.ledger.stats.Lapsed
	if revoked > 0 && losses == p.losses {
		return fmt.Errorf("%s has given away %d slots that it uses", p.name, revoked)
	}
	p.losses = losses
	for range revoked {
		w.drop(p)
	}
	if w.rng.IntN(3) == 0 { // the others close when they come back
		for range p.core.state(now).Excess {
			w.drop(p)
		}
	}
	for p.open > p.want {
		w.drop(p)
	}
	for p.slots > 0 && !p.core.canStillDial(now) {
		p.slots--
		p.core.tickets.holders--
		p.core.releaseSlot()
	}
	p.core.ledger.demand = max(0, p.want-p.open-p.slots)
	p.core.tickets.demand = max(0, p.want-p.open)
	for p.open+p.slots < p.want && p.core.takeSlot(now) {
		p.slots++
		p.core.tickets.holders++
		p.core.ledger.demand--
	}
	for p.slots > 0 {
		if ok, _ := p.core.takeTicket(now); !ok {
			break
		}
		p.core.tickets.holders--
		p.slots--
		p.open++
		w.bucket = min(burstQuota, w.bucket+float64(w.cfg.RateLimit)*(w.now-w.filled).Seconds()) - 1
		w.filled = w.now
		if w.bucket < 0 {
			return errors.New("the cluster's connection rate is exceeded")
		}
	}
	return nil
}

// drop closes a backend, or gives up one that waits for its ticket.
func (w *world) drop(p *proc) {
	switch {
	case p.slots > 0:
		p.slots--
		p.core.tickets.holders--
		p.core.releaseSlot()
	case p.open > 0:
		p.open--
		p.core.releasePermit()
	}
}

// send puts a call on its way and draws its fate.
func (w *world) send(p *proc, c *storeCall) *message {
	some := func(most time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(most))) }
	m := &message{proc: p, call: c, give: w.now + w.cfg.CallTimeout}
	if c.part != nil && c.change.Old == "" {
		p.file = p.core.ledger.recordPlaces()
	}
	m.arrive = w.now + some(w.cfg.CallTimeout/8)
	m.back = m.arrive + some(w.cfg.CallTimeout/8)
	fate := w.rng.IntN(20)
	if !w.faulty {
		fate = 19
	}
	cut := w.now < p.cutUntil
	switch {
	case cut && fate < 16, fate == 0: // the request is lost
		return m
	case cut, fate == 1: // the answer is lost
		m.back = never
	case fate == 2: // it arrives when nobody waits for it any more
		m.arrive = w.now + some(lateBeats*w.cfg.Heartbeat)
		m.back = never
	case fate == 3: // it arrives twice
		again := *m
		again.arrive = m.arrive + some(lateBeats*w.cfg.Heartbeat)
		w.late = append(w.late, &again)
	}
	w.late = append(w.late, m)
	return m
}

// check is what must hold after every step.
func (w *world) check() error {
	open := 0
	for _, p := range w.procs {
		open += p.open
	}
	if most := max(w.limit, w.ever); open > most {
		return fmt.Errorf("%d backends open, %d allowed", open, most)
	}
	if m, ok := w.table.(*memory); ok {
		if n := m.recorded(); open > n {
			return fmt.Errorf("%d backends open with %d slots", open, n)
		}
	}
	return w.broken
}

// heal ends all trouble and lets time pass until the dead are reaped; then
// everything must be as if nothing had happened.
func (w *world) heal() error {
	w.faulty = false
	if !slices.ContainsFunc(w.procs, func(p *proc) bool { return !p.dead }) {
		w.add(10) // somebody must reap
	}
	want := 0
	for _, p := range w.procs {
		p.cutUntil = 0
		if !p.dead {
			want += p.want
		}
	}
	// The last late message makes a record that nobody owns; it is seen, and reaped.
	for end := w.now + lateBeats*w.cfg.Heartbeat + 2*w.cfg.ReapAfter; w.now < end; {
		if err := w.step(); err != nil {
			return err
		}
	}
	held, recorded, open, kept := 0, 0, 0, 0
	for _, p := range w.procs {
		if !p.dead {
			kept += block // each may keep one unused
			held += p.core.ledger.heldSlots()
			open += p.open
		}
	}
	for i := range w.cfg.Shards {
		s, err := w.table.Look(context.Background(), i)
		if err != nil {
			return err
		}
		recorded += s.HeldSlots()
	}
	if held != recorded {
		return fmt.Errorf("after all trouble the table records %d slots, the living hold %d", recorded, held)
	}
	if recorded > w.limit {
		return fmt.Errorf("after all trouble the table records %d slots of %d", recorded, w.limit)
	}
	if open < min(want, w.limit-kept) {
		return fmt.Errorf("after all trouble %d backends are open, of %d wanted and %d allowed", open, want, w.limit)
	}
	return nil
}
