package lease

import (
	"errors"
	"math/rand/v2"
	"time"
)

// callKind names a method of Store, the interface of the DynamoDB table.
type callKind int

const (
	callSettings callKind = iota
	callLook
	callChange
	callReserve
)

func (k callKind) String() string {
	return [...]string{"settings", "look", "change", "reserve"}[k]
}

// call is a call of the Store that is to be made or is running.
type call struct {
	kind    callKind
	look    int   // the shard
	part    *part // the part that changes; nil for a record of another process
	grave   bool  // the record belongs to a predecessor, whose process has ended
	change  Change
	reserve Reservation
	first   bool // the ticket is for a process without backends, which may pass the queue
	sent    time.Duration
}

// shard returns the number of the shard that a callLook or a callChange is about.
func (c *call) shard() int {
	if c.kind == callLook {
		return c.look
	}
	return c.change.Shard
}

// answer is the result of a call of the Store.
type answer struct {
	settings Settings
	follows  bool // Store.Follows, read with the settings
	shard    Shard
	next     int64
	done     bool
	at       Stamp
	err      error
}

// core makes all decisions of a Lease: core names the next call of the Store and handles its answer. The Lease's mutex
// guards core.
type core struct {
	cfg     Config
	rng     *rand.Rand
	ledger  *ledger
	tickets *tickets

	open    int           // permits that led to a dial and were not released yet
	known   bool          // the settings have been read
	failing int           // consecutive failed reads of the settings
	pause   time.Duration // no read of the settings before
	// problem says why the settings cannot be read, so that nothing is granted. fatal is set if this process cannot work
	// with the settings.
	problem, fatal error
	differs        []Difference // between the settings and the configuration
	unusable       error        // why the newest settings were refused, so that the earlier ones apply
	troubles       troubles
}

func newCore(cfg Config, process string, rng *rand.Rand) *core {
	return &core{cfg: cfg, rng: rng, ledger: newLedger(cfg, process, rng), tickets: newTickets(cfg, rng)}
}

// next returns the call of the Store to make now, or the time to ask again. Renewals come first, and requests for more
// slots last. The caller passes the call's answer to done before it calls next again.
func (c *core) next(now time.Duration) (*call, time.Duration) {
	found, wake := c.decide(now)
	if found != nil {
		found.sent = now
	}
	return found, wake
}

func (c *core) decide(now time.Duration) (*call, time.Duration) {
	if !c.known {
		if now < c.pause || c.fatal != nil || c.ledger.leaving {
			return nil, max(c.pause, now+time.Second)
		}
		return &call{kind: callSettings}, now
	}
	wake := now + c.cfg.Heartbeat
	if c.cfg.Slots && c.ledger.urgent(now) {
		return c.ledger.next(now)
	}
	if !c.ledger.leaving {
		if now >= c.pause {
			return &call{kind: callSettings}, now
		}
		wake = min(wake, c.pause)
	}
	if c.cfg.Rate && !c.ledger.leaving {
		found, at := c.tickets.next(now, c.atHand(now), c.open)
		if found != nil {
			return found, now
		}
		wake = min(wake, at)
	}
	if c.cfg.Slots {
		found, at := c.ledger.next(now)
		if found != nil {
			return found, now
		}
		wake = min(wake, at)
	}
	return nil, wake
}

// atHand returns the number of dials that have a slot and may need a ticket, the right to dial once: waiting Admits
// with a slot, and unused slots.
func (c *core) atHand(now time.Duration) int {
	if !c.cfg.Slots {
		return ticketBatch
	}
	return c.tickets.holders + max(0, c.ledger.spare(now))
}

func (c *core) done(k *call, a answer, now time.Duration) {
	c.troubles.note(k, a.err, c.cfg.Table != "" && c.cfg.RateTable != "" && c.cfg.RateTable != c.cfg.Table)
	switch k.kind {
	case callSettings:
		c.learn(k, a, now)
	case callReserve:
		c.tickets.done(k, a, now)
	default:
		c.ledger.done(k, a, now)
	}
}

// learn handles an answer with the table's settings. The settings are read at the start and once a heartbeat, so that
// changes by sluice lease init take effect.
func (c *core) learn(k *call, a answer, now time.Duration) {
	if a.err != nil {
		c.pause = now + backoff(c.rng, c.failing, c.cfg.Heartbeat)
		c.failing++
		if c.known {
			return // the known settings still apply
		}
		c.problem = c.troubles[callSettings]
		if !errors.Is(a.err, ErrNoSettings) { // without settings nobody may dial, not even by the local share
			c.tickets.failed(now)
		}
		return
	}
	c.failing, c.pause = 0, now+jittered(c.rng, c.cfg.Heartbeat)
	s := a.settings
	err := c.cfg.usable(s)
	if c.known && err == nil && s.Shards != c.ledger.settings.Shards {
		err = &MismatchError{Key: "shards", Table: s.Shards, Configured: c.ledger.settings.Shards}
	}
	switch {
	case err != nil && c.known:
		c.unusable = err
		return
	case err != nil:
		c.fatal, c.problem = err, err
		return
	}
	c.unusable = nil
	c.ledger.follows = a.follows
	c.differs = c.cfg.differences(s)
	c.tickets.clock.observe(k.sent, now, a.at)
	if c.known {
		c.tickets.adopt(s, now)
		c.ledger.adopt(s, now)
		return
	}
	c.known, c.problem = true, nil
	c.tickets.failing = 0
	c.tickets.start(s)
	c.tickets.young = now + youngTime
	c.ledger.start(s, now)
}

// takeSlot takes the slot of a permit, and takeTicket its ticket, the right to dial once. If slots or the rate are not
// shared, that part is always granted.
func (c *core) takeSlot(now time.Duration) bool {
	if !c.cfg.Slots {
		return !c.ledger.leaving
	}
	return c.known && c.ledger.take(now)
}

func (c *core) takeTicket(now time.Duration) (ok bool, wake time.Duration) {
	switch {
	case !c.cfg.Rate:
		ok = true
	case c.fatal != nil || errors.Is(c.problem, ErrNoSettings):
		return false, never
	default:
		ok, wake = c.tickets.take(now)
	}
	if ok {
		c.open++
	}
	return ok, wake
}

// releaseSlot returns the slot of a permit that led to no dial. release ends a permit that led to a dial.
func (c *core) releaseSlot() {
	if c.cfg.Slots {
		c.ledger.release()
	}
}

func (c *core) release() {
	c.open--
	c.releaseSlot()
}

// valid reports whether a waiting Admit may still use its slot for a dial.
func (c *core) valid(now time.Duration) bool {
	return !c.cfg.Slots || c.ledger.valid(now)
}

func (c *core) state(now time.Duration) State {
	s := State{Phase: OK, Reason: c.problem, Problem: c.troubles.worst(), Differences: c.differs, Unusable: c.unusable, Unticketed: c.tickets.holders}
	if c.cfg.Rate {
		s.Local = c.tickets.local()
		s.Queue = c.tickets.queue
	}
	if !c.cfg.Slots {
		return s
	}
	l := c.ledger
	l.expire(now)
	s.Phase = l.phase(now)
	if s.Phase == Lost && s.Problem == nil && s.Reason == nil {
		s.Problem = suspended(l.unrenewed)
	}
	s.Age, _ = l.age(now)
	s.Held, s.InUse, s.Waiting = l.held(), l.used, l.demand
	s.Excess = max(0, l.used-l.allowed(now))
	s.Postpone = s.Phase == Degraded || s.Phase == Draining
	s.Revoked = max(0, l.used-s.Held)
	if c.known {
		s.Limit, s.Fair = l.settings.Limit, l.fair(now)
	}
	return s
}
