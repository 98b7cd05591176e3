package lease

import (
	"slices"
	"time"
)

const (
	// settleTime is the first time after a process's start. In that time, the process takes its second block of slots
	// only from a shard of which less than 1/settlePart is taken. So processes that start together share the slots.
	settleTime = 10 * time.Second
	settlePart = 8
	// reserveTime is the first time after a process's start. In that time, a process with more slots than the fair share
	// leaves 1/reservePart of each shard to later processes.
	reserveTime = time.Minute
	reservePart = 20
	// freshTime is how long ago a shard may have been read when a write is based on that reading. In DynamoDB, a
	// read costs half a unit, and a refused write a whole unit.
	freshTime = 2 * time.Second
	// These constants bound a hunt, a process's search for free slots. firstLooks is the number of shards that a process
	// compares before its first join. huntLooks is the number of shards that a hunt reads before it pauses. Each failed
	// hunt halves that number, down to one, and doubles the pause, up to a heartbeat. A process with less than half of
	// the fair share reads more shards, and more often.
	firstLooks   = 2
	huntLooks    = 8
	huntHalvings = 3
	huntPause    = 250 * time.Millisecond
	// looksPerBeat is the least number of shards of other processes that are read per heartbeat, at half a read unit each.
	// It bounds the time within which a new process is noticed.
	looksPerBeat = 3
	// refusedPause is the time for which a process takes no slots after the cluster had no room for a connection.
	refusedPause = 30 * time.Second
)

// slotSearch is a process's search for shards with free slots.
type slotSearch struct {
	looked []int         // shards read by this hunt, the current search
	again  time.Duration // no hunt begins before this time
	failed int
}

// pauseGrowth records that the cluster had no room for a connection. The process then takes no slots for refusedPause.
func (l *slotLedger) pauseGrowth(now time.Duration) {
	l.full = now + refusedPause + randomUpTo(l.rng, refusedPause/3)
}

// missingSlots returns how many slots the dials that wait in this process still lack.
func (l *slotLedger) missingSlots(now time.Duration) int {
	if l.leaving || l.demand == 0 {
		return 0
	}
	return max(0, l.demand-max(0, l.sparePermits(now)))
}

// acquireMissing returns a call of DynamoDB that looks for missing slots or takes them. While the lease is not
// renewed in time, acquireMissing returns no call.
func (l *slotLedger) acquireMissing(now time.Duration) (*storeCall, time.Duration) {
	need := l.missingSlots(now)
	if phase := l.phase(now); need == 0 || phase == Degraded || phase == Draining || l.giving > 0 {
		if need == 0 {
			l.waiting = false
		}
		return nil, never
	}
	if until := max(l.hunt.again, l.full); now < until {
		return nil, until
	}
	fair := l.fairShare(now)
	first := len(l.parts) == 0
	if !first || len(l.hunt.looked) >= min(firstLooks, l.settings.Shards) {
		if shard, slots := l.bestShard(need, fair, now); slots > 0 {
			if p := l.recordIn(shard); p != nil {
				return l.beginChange(p, now, slots), now
			}
			return l.joinShard(shard, slots, now), now
		}
	}
	if shard, ok := l.nextUnreadShard(fair, now); ok {
		return &storeCall{kind: callLook, look: shard}, now
	}
	// No shard has a free slot. This process announces that it waits, so that other processes may return some slots.
	c := l.announceWaiting(fair, now)
	l.hunt.looked = nil
	l.hunt.failed++
	pause := min(l.cfg.Heartbeat, huntPause<<min(l.hunt.failed, 10))
	if l.isBelowHalfShare(now) {
		pause = min(pause, l.cfg.Heartbeat/3)
	}
	l.hunt.again = now + pause/2 + randomUpTo(l.rng, pause)
	return c, l.hunt.again
}

// bestShard returns the shard to take slots from and the number of slots, 0 for none. Shards with a record of this
// process come first, because each further record costs a renewal per heartbeat.
func (l *slotLedger) bestShard(need, fair int, now time.Duration) (shard, slots int) {
	most := 0
	for i, s := range l.sight {
		if !s.isFresh(now) {
			continue
		}
		own := l.recordIn(i) != nil
		if !own && len(l.parts) >= maxParts {
			continue
		}
		n := l.takeableSlots(s, need, fair, now)
		rank := s.free
		if own {
			rank += 1 << 30
		}
		if n > 0 && (rank > most || rank == most && i < shard) {
			shard, slots, most = i, n, rank
		}
	}
	return shard, slots
}

// takeableSlots returns the number of slots that this process may take from a shard now without taking more than is
// fair.
func (l *slotLedger) takeableSlots(s *shardImage, need, fair int, now time.Duration) int {
	held := l.heldSlots()
	if held >= block && now-l.began < settleTime && (s.limit-s.free)*settlePart > s.limit {
		return 0
	}
	n := min(need, block, s.free)
	if held < fair {
		return max(0, min(n, fair-held))
	}
	if now < l.levelUntil {
		return 0
	}
	lasting, new := l.claimedSlots(s, fair)
	kept := lasting + new
	if now-l.began < reserveTime {
		kept = max(kept, (s.limit+reservePart-1)/reservePart)
	}
	return max(0, min(n, s.free-kept))
}

// endPauseIfUsable ends the pause between hunts, the searches for free slots, when a read of a shard finds usable
// slots.
func (l *slotLedger) endPauseIfUsable(shard int, now time.Duration) {
	room := len(l.parts) < maxParts || l.recordIn(shard) != nil
	if need := l.missingSlots(now); room && need > 0 && l.takeableSlots(l.sight[shard], need, l.fairShare(now), now) > 0 {
		l.hunt.again = now
	}
}

func (l *slotLedger) isBelowHalfShare(now time.Duration) bool {
	return 2*l.heldSlots() < l.fairShare(now)
}

func (s *shardImage) isFresh(now time.Duration) bool { return s != nil && now-s.at <= freshTime }

// nextUnreadShard returns a shard that this hunt, the current search for free slots, has not read. Shards with a record
// of this process come first.
func (l *slotLedger) nextUnreadShard(fair int, now time.Duration) (int, bool) {
	for _, p := range l.parts {
		if !slices.Contains(l.hunt.looked, p.shard) {
			l.hunt.looked = append(l.hunt.looked, p.shard)
			if !l.sight[p.shard].isFresh(now) {
				return p.shard, true
			}
		}
	}
	looks := huntLooks >> min(l.hunt.failed, huntHalvings)
	if l.isBelowHalfShare(now) {
		looks = max(looks, huntLooks/2)
	}
	foreign := len(l.hunt.looked) - len(l.parts)
	if foreign >= min(looks, l.settings.Shards-len(l.parts)) || len(l.parts) >= maxParts {
		return 0, false
	}
	shard := l.promisingShard(fair)
	l.hunt.looked = append(l.hunt.looked, shard)
	return shard, true
}

// promisingShard returns a shard that this hunt, the current search for free slots, has not read. promisingShard
// prefers a shard that had free slots, or a process far above the fair share, when last read.
func (l *slotLedger) promisingShard(fair int) int {
	start, n := l.rng.IntN(l.settings.Shards), l.settings.Shards
	any := -1
	for i := range n {
		shard := (start + i) % n
		if slices.Contains(l.hunt.looked, shard) {
			continue
		}
		if s := l.sight[shard]; s != nil && (s.free > 0 || l.hasRichPeer(s, fair)) {
			return shard
		}
		if any < 0 {
			any = shard
		}
	}
	return any
}

// announceWaiting writes into a record of this process that the process waits for slots and is below its fair share.
// If no process in its shards can return a slot, announceWaiting joins another shard without taking slots.
func (l *slotLedger) announceWaiting(fair int, now time.Duration) *storeCall {
	if l.heldSlots() >= fair {
		l.waiting = false
		return nil
	}
	news := !l.waiting
	l.waiting = true
	for _, p := range l.parts {
		if l.hasRichPeer(l.sight[p.shard], fair) || len(l.parts) >= maxParts {
			if news {
				return l.beginChange(p, now, 0)
			}
			return nil
		}
	}
	for _, shard := range l.hunt.looked {
		if l.recordIn(shard) == nil && l.hasRichPeer(l.sight[shard], fair) {
			return l.joinShard(shard, 0, now)
		}
	}
	if len(l.parts) == 0 {
		return l.joinShard(l.hunt.looked[0], 0, now)
	}
	return nil
}

// readsPerHeartbeat returns the number of shards that this process reads per heartbeat.
//
// All living processes together read each shard once in two heartbeats, so that few processes find the slots of many
// dead ones. The number of living processes is estimated from the shards of this process, which it sees with each
// renewal. In other shards a dead process looks alive until the shard is read again. A process without a record reads
// the least, because no other process counts it and thousands may be idle.
func (l *slotLedger) readsPerHeartbeat() int {
	if len(l.parts) == 0 {
		return looksPerBeat
	}
	homes := 0
	for _, p := range l.parts {
		if s := l.sight[p.shard]; s != nil {
			homes += s.homes
		}
	}
	living := 1 + homes*l.settings.Shards/len(l.parts)
	return max(looksPerBeat, l.settings.Shards/(2*living))
}

// readOtherShard reads the shards without a record of this process, one after another. Such a shard may hold records of
// dead processes only, and the fair share is estimated from a sample of shards.
func (l *slotLedger) readOtherShard(now time.Duration) (*storeCall, time.Duration) {
	if l.leaving || now < l.lookAt {
		return nil, l.lookAt
	}
	l.lookAt = now + l.jittered(l.cfg.Heartbeat/time.Duration(l.readsPerHeartbeat()))
	for range l.settings.Shards {
		l.cursor = (l.cursor + 1) % l.settings.Shards
		if l.recordIn(l.cursor) == nil {
			return &storeCall{kind: callLook, look: l.cursor}, now
		}
	}
	return nil, l.lookAt
}
