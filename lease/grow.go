package lease

import (
	"slices"
	"time"
)

const (
	// settleTime is a time after a process's start. Until then, the process takes a second block of slots only where less
	// than 1/settlePart of a shard is taken. So processes that start together share the slots.
	settleTime = 10 * time.Second
	settlePart = 8
	// reserveTime is a time after a process's start. Until then, a process above the fair share leaves 1/reservePart of
	// each shard to later processes.
	reserveTime = time.Minute
	reservePart = 20
	// freshTime is the greatest age of the image of a shard on which a write is based. In DynamoDB, a read costs half a
	// unit, and a refused write a whole unit.
	freshTime = 2 * time.Second
	// These bound a hunt, a process's search for free slots. firstLooks is the number of shards that a process compares
	// before its first join. huntLooks is the number of shards that a hunt reads before it pauses. Each failed hunt halves
	// the number, down to one, and doubles the pause, up to a heartbeat. A process with less than half of the fair share
	// reads more shards, and more often.
	firstLooks   = 2
	huntLooks    = 8
	huntHalvings = 3
	huntPause    = 250 * time.Millisecond
	// looksPerBeat is the least number of shards of other processes that are read per heartbeat, at half a read unit each.
	// It bounds the time within which a new process is noticed.
	looksPerBeat = 3
	// refusedPause is the time for which a process takes no slots after the cluster refused one connection too many.
	refusedPause = 30 * time.Second
)

// hunt is a process's search for shards with free slots.
type hunt struct {
	looked []int         // shards read by this hunt
	again  time.Duration // not before
	failed int
}

// refuse records that the cluster had no room for a connection. The process then takes no slots for refusedPause.
func (l *ledger) refuse(now time.Duration) {
	l.full = now + refusedPause + upTo(l.rng, refusedPause/3)
}

// need returns the number of slots that waiting dials still lack.
func (l *ledger) need(now time.Duration) int {
	if l.leaving || l.demand == 0 {
		return 0
	}
	return max(0, l.demand-max(0, l.spare(now)))
}

// grow returns a call that looks for missing slots or takes them. While the lease is not renewed in time, grow returns
// none.
func (l *ledger) grow(now time.Duration) (*call, time.Duration) {
	need := l.need(now)
	if phase := l.phase(now); need == 0 || phase == Degraded || phase == Draining || l.giving > 0 {
		if need == 0 {
			l.waiting = false
		}
		return nil, never
	}
	if until := max(l.hunt.again, l.full); now < until {
		return nil, until
	}
	fair := l.fair(now)
	first := len(l.parts) == 0
	if !first || len(l.hunt.looked) >= min(firstLooks, l.settings.Shards) {
		if shard, slots := l.best(need, fair, now); slots > 0 {
			if p := l.partIn(shard); p != nil {
				return l.change(p, now, slots), now
			}
			return l.join(shard, slots, now), now
		}
	}
	if shard, ok := l.unseen(fair, now); ok {
		return &call{kind: callLook, look: shard}, now
	}
	// No shard has a free slot. This process waits, and asks processes that may return some.
	c := l.wait(fair, now)
	l.hunt.looked = nil
	l.hunt.failed++
	pause := min(l.cfg.Heartbeat, huntPause<<min(l.hunt.failed, 10))
	if l.poor(now) {
		pause = min(pause, l.cfg.Heartbeat/3)
	}
	l.hunt.again = now + pause/2 + upTo(l.rng, pause)
	return c, l.hunt.again
}

// best returns the shard to take slots from and the number of slots, 0 for none. Shards with a record of this process
// come first, because each further record costs a renewal per heartbeat.
func (l *ledger) best(need, fair int, now time.Duration) (shard, slots int) {
	most := 0
	for i, s := range l.sight {
		if !s.fresh(now) {
			continue
		}
		own := l.partIn(i) != nil
		if !own && len(l.parts) >= maxParts {
			continue
		}
		n := l.permitted(s, need, fair, now)
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

// permitted returns the number of slots that this process may take from a shard now, by the rules of fairness.
func (l *ledger) permitted(s *sight, need, fair int, now time.Duration) int {
	held := l.held()
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
	lasting, new := l.owed(s, fair)
	kept := lasting + new
	if now-l.began < reserveTime {
		kept = max(kept, (s.limit+reservePart-1)/reservePart)
	}
	return max(0, min(n, s.free-kept))
}

// found ends the pause between hunts when a read of a shard finds usable slots.
func (l *ledger) found(shard int, now time.Duration) {
	room := len(l.parts) < maxParts || l.partIn(shard) != nil
	if need := l.need(now); room && need > 0 && l.permitted(l.sight[shard], need, l.fair(now), now) > 0 {
		l.hunt.again = now
	}
}

func (l *ledger) poor(now time.Duration) bool { return 2*l.held() < l.fair(now) }

func (s *sight) fresh(now time.Duration) bool { return s != nil && now-s.at <= freshTime }

// unseen returns a shard that this hunt has not read: first shards with a record of this process, then any.
func (l *ledger) unseen(fair int, now time.Duration) (int, bool) {
	for _, p := range l.parts {
		if !slices.Contains(l.hunt.looked, p.shard) {
			l.hunt.looked = append(l.hunt.looked, p.shard)
			if !l.sight[p.shard].fresh(now) {
				return p.shard, true
			}
		}
	}
	looks := huntLooks >> min(l.hunt.failed, huntHalvings)
	if l.poor(now) {
		looks = max(looks, huntLooks/2)
	}
	foreign := len(l.hunt.looked) - len(l.parts)
	if foreign >= min(looks, l.settings.Shards-len(l.parts)) || len(l.parts) >= maxParts {
		return 0, false
	}
	shard := l.promising(fair)
	l.hunt.looked = append(l.hunt.looked, shard)
	return shard, true
}

// promising returns a shard that this hunt has not read. It prefers a shard that had free slots, or a process far above
// the fair share, when last read.
func (l *ledger) promising(fair int) int {
	start, n := l.rng.IntN(l.settings.Shards), l.settings.Shards
	any := -1
	for i := range n {
		shard := (start + i) % n
		if slices.Contains(l.hunt.looked, shard) {
			continue
		}
		if s := l.sight[shard]; s != nil && (s.free > 0 || l.rich(s, fair)) {
			return shard
		}
		if any < 0 {
			any = shard
		}
	}
	return any
}

// wait announces in a record that this process waits below its fair share. If no process in its shards can return a
// slot, wait joins another shard without taking slots.
func (l *ledger) wait(fair int, now time.Duration) *call {
	if l.held() >= fair {
		l.waiting = false
		return nil
	}
	news := !l.waiting
	l.waiting = true
	for _, p := range l.parts {
		if l.rich(l.sight[p.shard], fair) || len(l.parts) >= maxParts {
			if news {
				return l.change(p, now, 0)
			}
			return nil
		}
	}
	for _, shard := range l.hunt.looked {
		if l.partIn(shard) == nil && l.rich(l.sight[shard], fair) {
			return l.join(shard, 0, now)
		}
	}
	if len(l.parts) == 0 {
		return l.join(l.hunt.looked[0], 0, now)
	}
	return nil
}

// looks returns the number of shards that this process reads per heartbeat.
//
// All living processes together read each shard once in two heartbeats, so that few processes find the slots of many
// dead ones. The number of living processes is estimated from the shards of this process, which it sees with each
// renewal. In other shards a dead process looks alive until the shard is read again. A process without a record reads
// the least, because nobody counts it and thousands may be idle.
func (l *ledger) looks() int {
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

// look reads the shards without a record of this process, one after another. Such a shard may hold records of dead
// processes only, and the fair share is estimated from a sample of shards.
func (l *ledger) look(now time.Duration) (*call, time.Duration) {
	if l.leaving || now < l.lookAt {
		return nil, l.lookAt
	}
	l.lookAt = now + l.jittered(l.cfg.Heartbeat/time.Duration(l.looks()))
	for range l.settings.Shards {
		l.cursor = (l.cursor + 1) % l.settings.Shards
		if l.partIn(l.cursor) == nil {
			return &call{kind: callLook, look: l.cursor}, now
		}
	}
	return nil, l.lookAt
}
