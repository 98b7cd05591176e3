package lease

import (
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

func (l *ledger) jittered(d time.Duration) time.Duration { return jittered(l.rng, d) }

// jittered is d, give or take a tenth.
func jittered(rng *rand.Rand, d time.Duration) time.Duration { return d - d/10 + upTo(rng, d/5) }

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

// upTo is a random duration from 0 to most.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(max(0, int64(most)) + 1))
}
