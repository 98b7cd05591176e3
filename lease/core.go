package lease

import (
	"errors"
	"math/rand/v2"
	"time"
)

// storeCallKind names a method of Store, the interface of the DynamoDB table.
type storeCallKind int

const (
	callSettings storeCallKind = iota
	callLook
	callChange
	callReserve
)

func (k storeCallKind) String() string {
	return [...]string{"settings", "look", "change", "reserve"}[k]
}

// storeCall is a call of the Store (the DynamoDB table) that is to be made or is running.
type storeCall struct {
	kind        storeCallKind
	look        int        // the shard
	part        *ownRecord // this process's record that changes; nil for a record of another process
	predecessor bool       // the record belongs to a predecessor, whose process has ended
	change      ShardChange
	reserve     Reservation
	first       bool // the ticket is for a process without backends, which may pass the queue
	sent        time.Duration
}

// shard returns the number of the shard that a callLook reads or a callChange writes.
func (c *storeCall) shard() int {
	if c.kind == callLook {
		return c.look
	}
	return c.change.Shard
}

// storeAnswer is the result of a call of the Store (the DynamoDB table).
type storeAnswer struct {
	settings Settings
	follows  bool // Store.FindsMovedShards, read with the settings
	shard    Shard
	next     int64
	done     bool
	at       TableTime
	err      error
}

// leaseState makes all decisions of a Lease: nextCall returns the next call of the Store, and handleAnswer handles the
// answer. The Lease's mutex guards a leaseState.
type leaseState struct {
	cfg     Config
	rng     *rand.Rand
	ledger  *slotLedger
	tickets *ticketLedger

	open    int           // permits that led to a dial and were not released yet
	known   bool          // the settings have been read
	failing int           // consecutive failed reads of the settings
	pause   time.Duration // no read of the settings before this time
	// problem is the error because of which the settings cannot be read, so that no backend may be dialled. fatal is set
	// if this process cannot work with the settings.
	problem, fatal error
	differs        []SettingDifference // between the settings and the configuration
	unusable       error               // why the newest settings were refused, so that the earlier ones apply
	troubles       problemsByKind
}

func newLeaseState(cfg Config, process string, rng *rand.Rand) *leaseState {
	return &leaseState{cfg: cfg, rng: rng, ledger: newSlotLedger(cfg, process, rng), tickets: newTicketLedger(cfg, rng)}
}

// nextCall returns the call of the Store to make now, or the time to call nextCall again. It returns renewals first,
// and requests for more slots last. The caller passes the call's answer to handleAnswer before the next nextCall.
func (c *leaseState) nextCall(now time.Duration) (*storeCall, time.Duration) {
	found, wake := c.chooseCall(now)
	if found != nil {
		found.sent = now
	}
	return found, wake
}

func (c *leaseState) chooseCall(now time.Duration) (*storeCall, time.Duration) {
	if !c.known {
		if now < c.pause || c.fatal != nil || c.ledger.leaving {
			return nil, max(c.pause, now+time.Second)
		}
		return &storeCall{kind: callSettings}, now
	}
	wake := now + c.cfg.Heartbeat
	if c.cfg.Slots && c.ledger.hasUrgentCall(now) {
		return c.ledger.nextCall(now)
	}
	if !c.ledger.leaving {
		if now >= c.pause {
			return &storeCall{kind: callSettings}, now
		}
		wake = min(wake, c.pause)
	}
	if c.cfg.Rate && !c.ledger.leaving {
		found, at := c.tickets.nextReservation(now, c.dialsWithSlots(now), c.open)
		if found != nil {
			return found, now
		}
		wake = min(wake, at)
	}
	if c.cfg.Slots {
		found, at := c.ledger.nextCall(now)
		if found != nil {
			return found, now
		}
		wake = min(wake, at)
	}
	return nil, wake
}

// dialsWithSlots returns the number of dials that have a slot and may need a ticket (right to dial once). They are
// the waiting calls of Admit with a slot, and one dial for each unused slot.
func (c *leaseState) dialsWithSlots(now time.Duration) int {
	if !c.cfg.Slots {
		return ticketBatch
	}
	return c.tickets.holders + max(0, c.ledger.sparePermits(now))
}

func (c *leaseState) handleAnswer(k *storeCall, a storeAnswer, now time.Duration) {
	c.troubles.recordOutcome(k, a.err, c.cfg.Table != "" && c.cfg.RateTable != "" && c.cfg.RateTable != c.cfg.Table)
	switch k.kind {
	case callSettings:
		c.handleSettings(k, a, now)
	case callReserve:
		c.tickets.handleAnswer(k, a, now)
	default:
		c.ledger.handleAnswer(k, a, now)
	}
}

// handleSettings handles an answer with the DynamoDB table's settings. Sluice reads the settings at the start and
// once a heartbeat, so that changes by the command sluice lease init take effect.
func (c *leaseState) handleSettings(k *storeCall, a storeAnswer, now time.Duration) {
	if a.err != nil {
		c.pause = now + backoff(c.rng, c.failing, c.cfg.Heartbeat)
		c.failing++
		if c.known {
			return // the known settings still apply
		}
		c.problem = c.troubles[callSettings]
		if !errors.Is(a.err, ErrNoSettings) { // without settings nobody may dial, not even by the local share
			c.tickets.recordFailure(now)
		}
		return
	}
	c.failing, c.pause = 0, now+jittered(c.rng, c.cfg.Heartbeat)
	s := a.settings
	err := c.cfg.checkSettings(s)
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
	c.differs = c.cfg.settingDifferences(s)
	c.tickets.clock.observe(k.sent, now, a.at)
	if c.known {
		c.tickets.replaceSettings(s, now)
		c.ledger.replaceSettings(s, now)
		return
	}
	c.known, c.problem = true, nil
	c.tickets.failing = 0
	c.tickets.setRate(s)
	c.tickets.startingUntil = now + youngTime
	c.ledger.beginWithSettings(s, now)
}

// takeSlot takes the slot of a permit, and takeTicket its ticket, the right to dial once. takeSlot always succeeds if
// slots are not shared. takeTicket always succeeds if the rate is not shared.
func (c *leaseState) takeSlot(now time.Duration) bool {
	if !c.cfg.Slots {
		return !c.ledger.leaving
	}
	return c.known && c.ledger.takePermit(now)
}

func (c *leaseState) takeTicket(now time.Duration) (ok bool, wake time.Duration) {
	switch {
	case !c.cfg.Rate:
		ok = true
	case c.fatal != nil || errors.Is(c.problem, ErrNoSettings):
		return false, never
	default:
		ok, wake = c.tickets.takeTicket(now)
	}
	if ok {
		c.open++
	}
	return ok, wake
}

// releaseSlot returns the slot of a permit without a dial. releasePermit returns that of a permit with a dial.
func (c *leaseState) releaseSlot() {
	if c.cfg.Slots {
		c.ledger.releasePermit()
	}
}

func (c *leaseState) releasePermit() {
	c.open--
	c.releaseSlot()
}

// canStillDial reports whether a waiting call of Admit may still use its slot for a dial.
func (c *leaseState) canStillDial(now time.Duration) bool {
	return !c.cfg.Slots || c.ledger.canStillDial(now)
}

func (c *leaseState) state(now time.Duration) State {
	s := State{Phase: OK, Reason: c.problem, Problem: c.troubles.worst(), Differences: c.differs, Unusable: c.unusable, Unticketed: c.tickets.holders}
	if c.cfg.Rate {
		s.Local = c.tickets.usesLocalShare()
		s.Queue = c.tickets.queue
	}
	if !c.cfg.Slots {
		return s
	}
	l := c.ledger
	l.dropIfExpired(now)
	s.Phase = l.phase(now)
	if s.Phase == Lost && s.Problem == nil && s.Reason == nil {
		s.Problem = suspendedProblem(l.unrenewed)
	}
	s.Age, _ = l.renewalAge(now)
	s.Held, s.InUse, s.Waiting = l.heldSlots(), l.used, l.demand
	s.Excess = max(0, l.used-l.allowedPermits(now))
	s.Postpone = s.Phase == Degraded || s.Phase == Draining
	s.Revoked = max(0, l.used-s.Held)
	if c.known {
		s.Limit, s.Fair = l.settings.Limit, l.fairShare(now)
	}
	return s
}
