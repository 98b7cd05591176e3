package lease

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// block is how many slots are taken at once, and the last that are kept.
	block = 5
	// maxParts bounds the shards that a process holds slots in.
	maxParts = 8
)

// ledger is a process's part in the cluster's connection count: what it holds in
// which shard, and what should be written next. It does no I/O, starts nothing
// and is told the time: a duration on a clock of its own that never stands still
// nor steps. The Lease's mutex guards it.
type ledger struct {
	cfg      Config
	rng      *rand.Rand
	process  string // begins the name of each of its records
	follows  bool   // new records say that this process finds shards that are moved
	settings Settings
	began    time.Duration // when the settings were known

	parts []*part // the first one is home
	joins int
	seq   uint64
	sight []*sight // by shard; nil for one not seen yet
	// heard is when the table answered last, sightless when it did so after a
	// time in which others could not be told from the dead.
	heard, sightless time.Duration

	used   int // permits out
	demand int // permits that callers wait for
	// giving slots of giveTo were promised to those who wait there.
	giving, giveTo int
	giveAt         time.Duration // not before
	waiting        bool          // below the fair share, and nothing free was found
	lapsed         bool          // everything was lost and nothing came back yet
	unrenewed      time.Duration // for so long when that happened
	leaving        bool

	graves  []place       // where predecessors that are gone may have records
	graveAt time.Duration // not before

	hunt hunt
	// levelUntil nobody takes more than the fair share, see raised.
	levelUntil time.Duration
	full       time.Duration // no growth before: the cluster itself had no room
	lookAt     time.Duration // the next look at a shard of others
	cursor     int
	idle       idle
	pause      time.Duration // after a failure: no call before
	failing    int

	stats ledgerCounts
}

// part is a record of this process in one shard.
type part struct {
	shard   int
	owner   string
	text    string // as confirmed; "" while it joins
	rec     Record
	renewed time.Duration // when the first attempt to write text was sent
	due     time.Duration // of the next renewal
	tried   time.Duration

	pending *attempt
	// doubt is a change that was refused, though an earlier sending of it may yet
	// arrive. The next renewal fences it.
	doubt *attempt
}

// attempt is a change that was sent and whose outcome is not known yet. It is
// sent again unchanged until it is.
type attempt struct {
	change Change
	rec    Record
	sent   time.Duration // first
	tries  int
}

// ledgerCounts only grow.
type ledgerCounts struct {
	Granted, Returned      uint64 // slots
	Refused                uint64 // changes whose condition did not hold
	Resolved               uint64 // changes whose outcome was unknown for a while
	Reaped, ReapsLost      uint64 // records of others: taken, and found changed
	Buried                 uint64 // records of predecessors that were removed
	ReapedSelf, Lapsed     uint64 // records lost to others, and leases not renewed in time
	GivenBack              uint64 // slots closed for those who wait
	Drifts                 uint64 // shards seen whose numbers disagree
	Renewals, Looks, Fails uint64
}

func newLedger(cfg Config, process string, rng *rand.Rand) *ledger {
	return &ledger{cfg: cfg, rng: rng, process: process}
}

// start is called once, when the settings are known.
func (l *ledger) start(s Settings, now time.Duration) {
	l.settings, l.began, l.heard, l.sightless = s, now, now, now
	l.sight = make([]*sight, s.Shards)
	l.cursor = l.rng.IntN(s.Shards)
	l.lookAt = now + l.jittered(l.cfg.Heartbeat)
}

// adopt goes on by other settings.
func (l *ledger) adopt(s Settings, now time.Duration) {
	if s.Limit > l.settings.Limit {
		l.hunt = hunt{}
		l.raised(now)
	}
	l.settings = s
}

// raised is told that the limit, or a shard's, has become higher. It is shared before
// anybody takes more than the fair share: soon all have read of it.
func (l *ledger) raised(now time.Duration) { l.levelUntil = now + 2*l.cfg.Heartbeat }

// held is how many slots are surely this process's, whatever becomes of the
// changes under way.
func (l *ledger) held() int {
	held := 0
	for _, p := range l.parts {
		held += p.held()
	}
	return held
}

func (p *part) held() int {
	if p.pending != nil {
		return min(p.rec.Slots, p.pending.rec.Slots)
	}
	return p.rec.Slots
}

// age is the time since the oldest of the records that hold slots was renewed.
func (l *ledger) age(now time.Duration) (age time.Duration, any bool) {
	for _, p := range l.parts {
		if p.rec.Slots > 0 {
			any = true
			age = max(age, now-p.renewed)
		}
	}
	return age, any
}

// allowed is how many permits may be out: what is held, less what was promised
// to others, falling to nothing while the lease is not renewed.
func (l *ledger) allowed(now time.Duration) int {
	allowed := max(0, l.held()-l.giving)
	age, _ := l.age(now)
	switch c := l.cfg; {
	case age < c.drainAfter():
		return allowed
	case age < c.idleUntil():
		return int(float64(allowed) * float64(c.idleUntil()-age) / float64(c.idleUntil()-c.drainAfter()))
	}
	return 0
}

func (l *ledger) spare(now time.Duration) int { return l.allowed(now) - l.used }

func (l *ledger) phase(now time.Duration) Phase {
	age, any := l.age(now)
	switch c := l.cfg; {
	case !any && l.lapsed, any && age >= c.lostAfter():
		return Lost
	case !any:
		return Starting
	case age >= c.drainAfter():
		return Draining
	case age >= c.degradedAfter():
		return Degraded
	}
	return OK
}

// take takes a permit, if one is to be had.
func (l *ledger) take(now time.Duration) bool {
	l.expire(now)
	if l.leaving || l.spare(now) <= 0 {
		return false
	}
	l.used++
	l.idle.note(l.spare(now))
	return true
}

// valid reports whether a permit that has not led to a dial yet may do so.
func (l *ledger) valid(now time.Duration) bool {
	l.expire(now)
	return l.spare(now) >= 0
}

func (l *ledger) release() {
	if l.used--; l.used < 0 {
		panic("lease: more permits came back than were given")
	}
}

// expire gives up everything when the lease was not renewed for too long. The
// records stay in the table, for others to reap.
func (l *ledger) expire(now time.Duration) {
	if age, any := l.age(now); any && age >= l.cfg.lostAfter() {
		l.parts, l.giving, l.lapsed, l.unrenewed = nil, 0, true, age
		l.stats.Lapsed++
	}
}

// next is the call that should be made now, or when to ask again.
func (l *ledger) next(now time.Duration) (*call, time.Duration) {
	l.expire(now)
	if now < l.pause {
		return nil, l.pause
	}
	wake := now + l.cfg.Heartbeat
	for _, step := range []func(time.Duration) (*call, time.Duration){
		l.renew, l.leave, l.bury, l.give, l.shrink, l.reap, l.grow, l.look,
	} {
		c, at := step(now)
		if c != nil {
			return c, now
		}
		wake = min(wake, at)
	}
	return nil, max(wake, now+time.Millisecond)
}

// never is later than any wake that matters.
const never = time.Duration(1<<63 - 1)

// renew sends again what is unresolved, and renews what is due. The record that
// was tried longest ago comes first: a shard in trouble does not starve another.
func (l *ledger) renew(now time.Duration) (*call, time.Duration) {
	var best *part
	wake := never
	for _, p := range l.parts {
		if p.pending == nil && now < p.due {
			wake = min(wake, p.due)
		} else if best == nil || p.tried < best.tried {
			best = p
		}
	}
	switch {
	case best == nil || l.leaving && best.pending == nil:
		return nil, wake
	case best.pending != nil:
		return l.send(best, now), now
	case best.rec.Slots == 0 && l.superfluous(best):
		return l.leaveCall(best, now), now
	}
	l.stats.Renewals++
	return l.change(best, now, 0), now
}

// superfluous reports whether a part without slots is of no use. The home moves
// to one that has some.
func (l *ledger) superfluous(p *part) bool {
	if p == l.parts[0] {
		for i, q := range l.parts {
			if q.rec.Slots > 0 {
				l.parts[0], l.parts[i] = q, p
				break
			}
		}
	}
	return p != l.parts[0] && !l.waiting && p.doubt == nil
}

// change begins a change of a part: take slots, or give back when below 0.
func (l *ledger) change(p *part, now time.Duration, take int) *call {
	l.seq++
	rec := Record{Seq: l.seq, Slots: p.rec.Slots + take, Total: l.held() + take, ReapAfter: l.cfg.ReapAfter,
		Home: p == l.parts[0], Waiting: l.waiting, Lasting: now-l.began >= l.cfg.Heartbeat}
	change := Change{Shard: p.shard, Owner: p.owner, Old: p.text, New: rec.String(), Take: take, Limit: l.settings.shardLimit(p.shard)}
	p.pending = &attempt{change: change, rec: rec, sent: now}
	return l.send(p, now)
}

// leaveCall gives back all that a part holds and removes it.
func (l *ledger) leaveCall(p *part, now time.Duration) *call {
	p.pending = &attempt{sent: now,
		change: Change{Shard: p.shard, Owner: p.owner, Old: p.text, Take: -p.rec.Slots}}
	return l.send(p, now)
}

func (l *ledger) send(p *part, now time.Duration) *call {
	p.pending.tries++
	p.tried = now
	return &call{kind: callChange, part: p, change: p.pending.change}
}

// done books the answer of a call.
func (l *ledger) done(c *call, a answer, now time.Duration) {
	if a.err != nil {
		l.stats.Fails++
		l.pause = now + backoff(l.rng, l.failing, l.cfg.Heartbeat/3)
		l.failing++
		return
	}
	l.failing = 0
	if now-l.heard >= l.cfg.degradedAfter() {
		l.sightless = now
	}
	l.heard = now
	l.see(c.shard(), a.shard, now)
	switch {
	case c.kind == callLook:
		l.stats.Looks++
		l.found(c.look, now)
	case c.grave && a.done:
		l.stats.Buried++
	case c.grave: // it has changed meanwhile: again
	case c.part == nil && a.done:
		l.stats.Reaped++
	case c.part == nil:
		l.stats.ReapsLost++
	case slices.Contains(l.parts, c.part): // else given up meanwhile
		l.settle(c.part, a, now)
		l.asked(c.part, now)
	}
}

// settle finds out what became of a part's pending change. The record that the
// table shows decides: it is the new one, the old one, or not ours any more.
func (l *ledger) settle(p *part, a answer, now time.Duration) {
	at := p.pending
	p.pending = nil
	if at.tries > 1 {
		l.stats.Resolved++
	}
	switch found := a.shard.Owners[p.owner]; {
	case a.done || found == at.change.New:
		l.applied(p, at, now)
	case p.text == "" && found == "": // the join was refused
		l.stats.Refused++
		l.drop(p)
	case found == p.text: // too few were free
		l.stats.Refused++
		if at.tries > 1 {
			p.doubt, p.due = at, now
		}
	case p.doubt != nil && found == p.doubt.change.New: // it has arrived after all
		l.applied(p, p.doubt, now)
		p.due = now
	default:
		l.stats.ReapedSelf++
		l.drop(p)
	}
}

func (l *ledger) applied(p *part, at *attempt, now time.Duration) {
	if at.change.New == "" {
		l.stats.Returned += uint64(p.rec.Slots)
		l.drop(p)
		return
	}
	if more := at.rec.Slots - p.rec.Slots; more > 0 {
		l.stats.Granted += uint64(more)
		l.hunt = hunt{}
		l.lapsed = false
	} else {
		l.stats.Returned += uint64(-more)
	}
	p.text, p.rec, p.renewed, p.doubt = at.change.New, at.rec, at.sent, nil
	p.due = at.sent + l.jittered(l.cfg.Heartbeat)
	l.idle.note(l.spare(now))
}

// drop forgets a part. A home that is gone moves to the next one.
func (l *ledger) drop(p *part) {
	l.parts = slices.DeleteFunc(l.parts, func(q *part) bool { return q == p })
	if l.giveTo == p.shard {
		l.giving = 0
	}
}

// leave gives back, at the end, all that no permit covers.
func (l *ledger) leave(now time.Duration) (*call, time.Duration) {
	if !l.leaving {
		return nil, never
	}
	for _, p := range l.parts {
		switch free := l.held() - l.used; {
		case p.rec.Slots <= free:
			return l.leaveCall(p, now), now
		case free > 0:
			return l.change(p, now, -free), now
		}
	}
	return nil, never
}

func (l *ledger) jittered(d time.Duration) time.Duration { return jittered(l.rng, d) }

// jittered is d, give or take a tenth.
func jittered(rng *rand.Rand, d time.Duration) time.Duration { return d - d/10 + upTo(rng, d/5) }

// partIn finds the part in a shard, or nil.
func (l *ledger) partIn(shard int) *part {
	for _, p := range l.parts {
		if p.shard == shard {
			return p
		}
	}
	return nil
}

// owns reports whether a record is one of this process's parts.
func (l *ledger) owns(owner string) bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.owner == owner })
}

// join begins a part in a shard with so many slots.
func (l *ledger) join(shard, slots int, now time.Duration) *call {
	l.joins++
	p := &part{shard: shard, owner: fmt.Sprintf("%s.%d", l.process, l.joins)}
	if l.follows {
		p.owner += follower
	}
	l.parts = append(l.parts, p)
	return l.change(p, now, slots)
}

// backoff is a jittered pause that doubles with each failure, from 100 ms to 5 s
// or to most, if that is less.
func backoff(rng *rand.Rand, failures int, most time.Duration) time.Duration {
	most = min(most, 5*time.Second)
	pause := most
	if failures < 6 {
		pause = min(most, 100*time.Millisecond<<failures)
	}
	return pause/2 + upTo(rng, pause/2)
}

// urgent reports whether a record waits to be renewed or resolved.
func (l *ledger) urgent(now time.Duration) bool {
	return now >= l.pause && slices.ContainsFunc(l.parts, func(p *part) bool { return p.pending != nil || now >= p.due })
}

// upTo is a random duration from 0 to most.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(max(0, int64(most)) + 1))
}
