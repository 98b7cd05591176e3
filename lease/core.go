package lease

import (
	"errors"
	"math/rand/v2"
	"time"
)

// callKind says which call of a Store is meant.
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

// call is a call of the Store that should be made.
type call struct {
	kind    callKind
	look    int   // the shard
	part    *part // whose change it is; nil when it is about a record of others
	grave   bool  // of a predecessor, which is gone
	change  Change
	reserve Reservation
	sent    time.Duration
}

// shard that a look or a change is about.
func (c *call) shard() int {
	if c.kind == callLook {
		return c.look
	}
	return c.change.Shard
}

// answer is what a call came back with.
type answer struct {
	settings Settings
	shard    Shard
	next     int64
	done     bool
	at       Stamp
	err      error
}

// core is all of a Lease that decides: one call at a time, and what follows from
// its answer. The Lease's mutex guards it.
type core struct {
	cfg     Config
	rng     *rand.Rand
	ledger  *ledger
	tickets *tickets

	known   bool          // the settings are
	failing int           // reads of them in a row
	pause   time.Duration // before the next one
	// problem is why nothing is granted: the settings are not to be had. fatal
	// is that they are not the configured ones.
	problem, fatal error
	troubles       troubles
}

func newCore(cfg Config, process string, rng *rand.Rand) *core {
	return &core{cfg: cfg, rng: rng, ledger: newLedger(cfg, process, rng), tickets: newTickets(cfg, rng)}
}

// next is the call that should be made now, or when to ask again. Renewals come
// first, growth comes last. A call must come back before next is asked again.
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
	if c.cfg.Slots {
		if c.ledger.urgent(now) {
			return c.ledger.next(now)
		}
	}
	if c.cfg.Rate && !c.ledger.leaving {
		found, at := c.tickets.next(now, c.atHand(now))
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

// atHand is how many dials there are slots for: permits whose ticket is missing,
// and slots without a permit.
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

func (c *core) learn(k *call, a answer, now time.Duration) {
	if a.err != nil {
		c.problem = c.troubles[callSettings]
		c.pause = now + backoff(c.rng, c.failing, c.cfg.Heartbeat)
		c.failing++
		if !errors.Is(a.err, ErrNoSettings) { // nobody may dial by a share of nothing
			c.tickets.failed(now)
		}
		return
	}
	if c.fatal = c.cfg.agree(a.settings); c.fatal != nil {
		c.problem = c.fatal
		return
	}
	c.known, c.problem = true, nil
	c.tickets.failing = 0
	c.tickets.clock.observe(k.sent, now, a.at)
	c.tickets.start(a.settings)
	c.ledger.start(a.settings, now)
}

// takeSlot and takeTicket are what a permit consists of. What is not shared is
// always there.
func (c *core) takeSlot(now time.Duration) bool {
	if !c.cfg.Slots {
		return !c.ledger.leaving
	}
	return c.known && c.ledger.take(now)
}

func (c *core) takeTicket(now time.Duration) (bool, time.Duration) {
	if !c.cfg.Rate {
		return true, 0
	}
	if c.fatal != nil || errors.Is(c.problem, ErrNoSettings) {
		return false, never
	}
	return c.tickets.take(now)
}

func (c *core) releaseSlot() {
	if c.cfg.Slots {
		c.ledger.release()
	}
}

// valid reports whether a permit that is out may still be used for a dial.
func (c *core) valid(now time.Duration) bool {
	return !c.cfg.Slots || c.ledger.valid(now)
}

func (c *core) state(now time.Duration) State {
	s := State{Phase: OK, Reason: c.problem, Problem: c.troubles.worst(), Unticketed: c.tickets.holders}
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
