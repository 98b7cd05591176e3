package lease

import (
	"slices"
	"time"
)

// sight is what was last seen of a shard.
type sight struct {
	at          time.Duration
	limit, free int
	peers       map[string]*peer // by owner; this process's own included
	homes       int              // of others that live
	lasting     int              // of those, of processes that did not just come
	reapAt      time.Duration    // when the first record of others may be taken
}

// peer is a record, since when it has been seen unchanged, and since when its
// owner has been seen at all.
type peer struct {
	text         string
	rec          Record
	since, first time.Duration
}

// lasting reports whether a record's process did not just come: it says so, or, of
// a version before that, was seen to change over a heartbeat.
func (l *ledger) lasting(p *peer) bool { return p.rec.Lasting || p.since-p.first >= l.cfg.Heartbeat }

// reapAt is when a record's slots may be taken, should it not change until then.
// Clocks may run differently by one part in a thousand.
func (p *peer) reapAt() time.Duration { return p.since + p.rec.ReapAfter + p.rec.ReapAfter/1000 + 1 }

// see books an image of a shard. An image may be older than the one before: then
// a record that looks changed merely begins to age anew.
func (l *ledger) see(shard int, image Shard, now time.Duration) {
	if image.Limit == 0 && len(image.Owners) == 0 { // not there: the first join makes it
		image.Limit = l.settings.shardLimit(shard)
		image.Free = image.Limit
	}
	old := l.sight[shard]
	s := &sight{at: now, limit: image.Limit, free: image.Free, peers: make(map[string]*peer, len(image.Owners)), reapAt: never}
	held := 0
	for owner, text := range image.Owners {
		var p *peer
		if old != nil {
			p = old.peers[owner]
		}
		if p == nil || p.text != text {
			rec, err := ParseRecord(text)
			if err != nil {
				continue // no version of this wrote it; it counts as drift
			}
			first := now
			if p != nil {
				first = p.first
			}
			p = &peer{text: text, rec: rec, since: now, first: first}
		}
		held += p.rec.Slots
		s.peers[owner] = p
		if l.owns(owner) {
			continue
		}
		s.reapAt = min(s.reapAt, p.reapAt())
		if p.rec.Home && l.lives(s, p) {
			s.homes++
			if l.lasting(p) {
				s.lasting++
			}
		}
	}
	before := l.settings.shardLimit(shard)
	if old != nil {
		before = old.limit
	}
	if image.Limit > before {
		l.raised(now)
	}
	if image.Limit != image.Free+held {
		l.stats.Drifts++
	}
	l.sight[shard] = s
}

// quietBeats is for how many heartbeats a record that does not change counts as
// alive. Its owner writes one each; one that fails is sent again within seconds.
const quietBeats = 2

// lives reports whether a record was seen alive lately, as of the shard's sight:
// it was new then, or had changed within the last heartbeats. Who is dead shares
// nothing, waits for nothing and gives nothing back, though its slots are its own
// until they are reaped. While this process itself could see nothing, nobody's
// silence counts.
func (l *ledger) lives(s *sight, p *peer) bool {
	return s.at-max(p.since, l.sightless) <= quietBeats*l.cfg.Heartbeat
}

// owed is what the others in a shard lack, who live and say that they wait for it:
// of the share due to those that last, of one block for those that just came. They
// may be about to crash, as they did before, and what they get would die with them.
func (l *ledger) owed(s *sight, due int) (lasting, new int) {
	for owner, p := range s.peers {
		switch {
		case !p.rec.Waiting || !l.lives(s, p) || l.owns(owner):
		case l.lasting(p):
			lasting += max(0, due-p.rec.Total)
		default:
			new += max(0, min(due, block)-p.rec.Total)
		}
	}
	return lasting, new
}

// rich reports whether somebody else in a shard lives and has clearly more than the
// fair share: to wait for what is just above it would take for ever.
func (l *ledger) rich(s *sight, fair int) bool {
	if s == nil {
		return false
	}
	for owner, p := range s.peers {
		if p.rec.Total > fair+fair/4 && p.rec.Slots > 0 && l.lives(s, p) && !l.owns(owner) {
			return true
		}
	}
	return false
}

// givers is how many others in a shard live and are above the fair share.
func (l *ledger) givers(s *sight, fair int) int {
	n := 0
	for owner, p := range s.peers {
		if p.rec.Total > fair && p.rec.Slots > 0 && l.lives(s, p) && !l.owns(owner) {
			n++
		}
	}
	return n
}

// sightAge is how long what was seen counts for the fair share.
const sightBeats = 10

// fair is the share of each process: the limit over the number of the living,
// which is estimated from the homes in the shards seen lately.
func (l *ledger) fair(now time.Duration) int {
	return l.share(now, func(s *sight) int { return s.homes })
}

// due is the share above which this process gives to others that last. It is the
// fair share among those: a pod that crashes again and again is a newcomer each
// time, and its last few records still look alive.
func (l *ledger) due(now time.Duration) int {
	return l.share(now, func(s *sight) int {
		if now-s.at > l.cfg.Heartbeat { // who came then has lasted since, or never will
			return s.homes
		}
		return s.lasting
	})
}

func (l *ledger) share(now time.Duration, count func(*sight) int) int {
	homes, seen := 0, 0
	for _, s := range l.sight {
		if s != nil && now-s.at <= sightBeats*l.cfg.Heartbeat {
			seen++
			homes += count(s)
		}
	}
	others := 0
	if seen > 0 {
		others = homes * l.settings.Shards / seen
	}
	return max(1, l.settings.Limit/(1+others))
}

// closePart (1/4) of what it holds is what a process gives back at most within a
// heartbeat while the limit is being lowered.
const closePart = 4

// asked decides, after a renewal, whether slots must go back: because somebody who
// waits there is owed them, or because the limit was lowered and the shard has given
// out more than it has.
func (l *ledger) asked(p *part, now time.Duration) {
	s := l.sight[p.shard]
	fair, due := l.fair(now), l.due(now)
	lasting, new := l.owed(s, due)
	owed, over := max(0, lasting+new-s.free), max(0, -s.free)
	switch {
	case l.giving > 0 && l.giveTo == p.shard && owed == 0:
		l.giving = 0
	case l.giving == 0 && owed > 0 && now >= l.giveAt:
		n := max(l.part(s, min(owed, lasting+over), due), l.part(s, min(owed, new+over), fair))
		if over > 0 {
			n = max(n, min(over, l.held()-fair), l.portion(s, p, over, fair))
			n = min(n, (l.held()+closePart-1)/closePart)
		}
		if n = min(n, p.held()); n > 0 {
			l.giving, l.giveTo = n, p.shard
			l.giveAt = now + l.cfg.Heartbeat*4/5 // a renewal that is a little early counts
		}
	}
}

// portion is this process's part of what a shard has given out too much of, where
// nobody is above the fair share: as large as its part in the shard. What it lacks
// then is free in another one.
func (l *ledger) portion(s *sight, p *part, over, fair int) int {
	if l.givers(s, fair) > 0 {
		return 0
	}
	all := max(1, s.limit-s.free)
	return (over*p.held() + all - 1) / all
}

// part is this process's part of what is owed in a shard, if all above a share give
// theirs.
func (l *ledger) part(s *sight, owed, share int) int {
	return min(max(block, owed/(1+l.givers(s, share))), l.held()-share, owed)
}

// give gives back what was promised, as far as no permit covers it.
func (l *ledger) give(now time.Duration) (*call, time.Duration) {
	free := l.held() - l.used
	if l.giving == 0 || free <= 0 || l.leaving {
		return nil, never
	}
	p := l.partIn(l.giveTo)
	if p == nil || p.pending != nil || p.rec.Slots == 0 {
		l.giving = 0
		return nil, never
	}
	n := min(l.giving, free, p.rec.Slots)
	l.giving -= n
	l.stats.GivenBack += uint64(n)
	return l.change(p, now, -n), now
}

// idle watches how many slots were unused all the time since it began.
type idle struct {
	since time.Duration
	least int
}

func (i *idle) note(spare int) { i.least = min(i.least, spare) }

// shrink gives back slots that were not used for long; the last block stays.
func (l *ledger) shrink(now time.Duration) (*call, time.Duration) {
	l.idle.note(l.spare(now))
	end := l.idle.since + l.cfg.IdleRelease
	if now < end {
		return nil, end
	}
	n := min(l.idle.least, l.held()-block)
	l.idle = idle{since: now, least: l.spare(now)}
	if n <= 0 || l.phase(now) != OK || l.leaving {
		return nil, now + l.cfg.IdleRelease
	}
	// The part with the fewest slots: it may become superfluous.
	p := slices.MinFunc(l.parts, func(a, b *part) int { return cmpSlots(a, b) })
	return l.change(p, now, -min(n, p.rec.Slots)), now
}

// cmpSlots orders parts by their slots, those that have none last.
func cmpSlots(a, b *part) int {
	size := func(p *part) int {
		if p.rec.Slots == 0 {
			return 1 << 30
		}
		return p.rec.Slots
	}
	return size(a) - size(b)
}

// reap takes the slots of a record that has not changed for as long as it said.
// That its owner has closed everything by then follows from its own clock, which
// started earlier.
func (l *ledger) reap(now time.Duration) (*call, time.Duration) {
	if l.leaving {
		return nil, never
	}
	wake := never
	for shard, s := range l.sight {
		if s == nil {
			continue
		}
		if now < s.reapAt {
			wake = min(wake, s.reapAt)
			continue
		}
		if owner, p := l.ripest(s, now); p != nil {
			s.reapAt = now + l.cfg.Heartbeat // again, should this call fail
			return &call{kind: callChange, change: Change{Shard: shard, Owner: owner, Old: p.text, Take: -p.rec.Slots}}, now
		}
		s.reapAt = now + l.cfg.Heartbeat
	}
	return nil, wake
}

// ripest is the record of others that may be taken and was seen first.
func (l *ledger) ripest(s *sight, now time.Duration) (owner string, ripest *peer) {
	for name, p := range s.peers {
		if now < p.reapAt() || l.owns(name) {
			continue
		}
		if ripest == nil || p.since < ripest.since || p.since == ripest.since && name < owner {
			owner, ripest = name, p
		}
	}
	return owner, ripest
}
