package lease

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// block is the largest number of slots that a process takes with one write. An idle process retains one block.
	block = 5
	// maxParts is the greatest number of shards in which one process may hold slots.
	maxParts = 8
)

// slotLedger is a process's part in the cluster's connection count: its slots in each shard, and its next write. A
// slotLedger does no I/O and starts no goroutine. Its times are on a monotonic clock that advances while the machine
// sleeps. The Lease's mutex guards a slotLedger.
type slotLedger struct {
	cfg      Config
	rng      *rand.Rand
	process  string // prefix of the owner names of its records
	follows  bool   // new owner names show that this process finds moved shards
	settings Settings
	began    time.Duration // when the first settings were read

	parts []*ownRecord // this process's records; the first one is the home, by which the process is counted
	joins int
	seq   uint64
	sight []*shardImage // by shard; nil for a shard that was not read yet
	// heard is the time of DynamoDB's last answer. sightless is the time of the last answer that followed a long silence
	// of DynamoDB. During the silence, dead processes could not be distinguished from living ones.
	heard, sightless time.Duration

	used   int // permits in use
	demand int // permits that callers wait for
	// giving is the number of slots that this process will return to the shard giveTo, for processes that wait in it.
	giving, giveTo int
	giveAt         time.Duration // no slots are returned before this time
	waiting        bool          // below the fair share without a free slot
	lapsed         bool          // the lease was lost, and no slot was granted since
	unrenewed      time.Duration // the age of the lost lease
	leaving        bool

	predecessorPlaces []recordPlace // possible places of ended predecessors' records
	predecessorsAt    time.Duration // no call for predecessors before this time

	hunt slotSearch
	// levelUntil is the time until which no process takes more than the fair share, after a raised limit.
	levelUntil time.Duration
	full       time.Duration // no growth before this time, because the cluster had no room
	lookAt     time.Duration // time of the next look at a shard of others
	cursor     int
	idle       idleMinimum
	pause      time.Duration // no call before this time, because the last call failed
	failing    int

	stats slotCounts
}

// slotCounts holds counters of a slotLedger for metrics.
type slotCounts struct {
	Granted, Returned      uint64 // slots
	Refused                uint64 // changes whose condition was not met
	Resolved               uint64 // changes whose outcome was unknown for a while
	Reaped, ReapsLost      uint64 // records of others: removed, and found changed
	PredecessorsRemoved    uint64 // removed records of predecessors
	ReapedSelf, Lapsed     uint64 // own records taken by others; leases not renewed in time
	GivenBack              uint64 // slots returned to waiting processes
	Drifts                 uint64 // shards whose numbers disagree
	Renewals, Looks, Fails uint64
}

func newSlotLedger(cfg Config, process string, rng *rand.Rand) *slotLedger {
	return &slotLedger{cfg: cfg, rng: rng, process: process}
}

// beginWithSettings initialises the ledger with the first settings that were read. beginWithSettings is called once.
func (l *slotLedger) beginWithSettings(s Settings, now time.Duration) {
	l.settings, l.began, l.heard, l.sightless = s, now, now, now
	l.sight = make([]*shardImage, s.Shards)
	l.cursor = l.rng.IntN(s.Shards)
	l.lookAt = now + l.jittered(l.cfg.Heartbeat)
}

// replaceSettings replaces the settings after the command sluice lease init has changed them.
func (l *slotLedger) replaceSettings(s Settings, now time.Duration) {
	if s.Limit > l.settings.Limit {
		l.hunt = slotSearch{}
		l.capAtFairShare(now)
	}
	l.settings = s
}

// capAtFairShare is called after the limit of the cluster or of a shard has risen. It starts a period in which no
// process takes more than the fair share. In that period all processes read the new limit.
func (l *slotLedger) capAtFairShare(now time.Duration) { l.levelUntil = now + 2*l.cfg.Heartbeat }

// nextCall returns the call of the Store to make now, or nil and the time at which to call nextCall again.
func (l *slotLedger) nextCall(now time.Duration) (*storeCall, time.Duration) {
	l.dropIfExpired(now)
	if now < l.pause {
		return nil, l.pause
	}
	wake := now + l.cfg.Heartbeat
	for _, step := range []func(time.Duration) (*storeCall, time.Duration){
		l.renewRecords, l.returnSlotsAtEnd, l.removePredecessors, l.returnPromised, l.returnIdleSlots, l.reapExpired, l.acquireMissing, l.readOtherShard,
	} {
		c, at := step(now)
		if c != nil {
			return c, now
		}
		wake = min(wake, at)
	}
	return nil, max(wake, now+time.Millisecond)
}

// never is a time that is later than every other time in this package.
const never = time.Duration(1<<63 - 1)

// handleAnswer handles DynamoDB's answer to a call that nextCall returned.
func (l *slotLedger) handleAnswer(c *storeCall, a storeAnswer, now time.Duration) {
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
	l.recordImage(c.shard(), a.shard, now)
	switch {
	case c.kind == callLook:
		l.stats.Looks++
		l.endPauseIfUsable(c.look, now)
	case c.predecessor && a.done:
		l.stats.PredecessorsRemoved++
	case c.predecessor: // the record has changed: removePredecessors tries again
	case c.part == nil && a.done:
		l.stats.Reaped++
	case c.part == nil:
		l.stats.ReapsLost++
	case slices.Contains(l.parts, c.part): // else the record was dropped meanwhile
		l.resolvePending(c.part, a, now)
		l.decideReturn(c.part, now)
	}
}

func (l *slotLedger) jittered(d time.Duration) time.Duration { return jittered(l.rng, d) }

// jittered returns d, made longer or shorter at random by up to a tenth.
func jittered(rng *rand.Rand, d time.Duration) time.Duration { return d - d/10 + randomUpTo(rng, d/5) }

// backoff returns a random pause after failures. The pause's bound starts at 100 ms and doubles with each failure, up
// to the smaller of 5 s and most.
func backoff(rng *rand.Rand, failures int, most time.Duration) time.Duration {
	most = min(most, 5*time.Second)
	pause := most
	if failures < 6 {
		pause = min(most, 100*time.Millisecond<<failures)
	}
	return pause/2 + randomUpTo(rng, pause/2)
}

// randomUpTo returns a random duration from 0 to most.
func randomUpTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(max(0, int64(most)) + 1))
}
