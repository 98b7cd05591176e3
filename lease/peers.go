package lease

import (
	"slices"
	"time"
)

// sight is the newest image of a shard that this process has read.
type sight struct {
	at          time.Duration
	limit, free int
	peers       map[string]*peer // by owner; this process's own included
	homes       int              // living processes of others
	lasting     int              // those of homes that are older than a heartbeat
	reapAt      time.Duration    // when the first record of others may be taken
}

// peer is an owner's record in a shard. since is the time since when the record was seen unchanged, and first the time
// when its owner was first seen.
type peer struct {
	text         string
	rec          Record
	since, first time.Duration
}

// lasting reports whether a record's process is older than a heartbeat. A record of this version says so. A record of
// an older version must have changed over a heartbeat.
func (l *ledger) lasting(p *peer) bool { return p.rec.Lasting || p.since-p.first >= l.cfg.Heartbeat }

// reapAt returns the time when other processes may take the slots of an unchanged record. reapAt allows for clocks that
// differ by one part in a thousand.
func (p *peer) reapAt() time.Duration { return p.since + p.rec.ReapAfter + p.rec.ReapAfter/1000 + 1 }

// see records an image of a shard. The image may be older than the previous one. A record that then seems changed only
// starts to age again.
func (l *ledger) see(shard int, image Shard, now time.Duration) {
	if image.Limit == 0 && len(image.Owners) == 0 { // no item: the first join creates it
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
				continue // unreadable; it counts as drift
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

// quietBeats is the number of heartbeats for which the owner of an unchanged record counts as alive. An owner writes
// once a heartbeat, and sends a failed write again within seconds.
const quietBeats = 2

// lives reports whether a record was new or had changed within the last quietBeats heartbeats before the shard was
// read. A dead owner has no fair share and no claim to slots, but retains its slots until they are reaped. Silence does
// not count while this process itself could not reach the table.
func (l *ledger) lives(s *sight, p *peer) bool {
	return s.at-max(p.since, l.sightless) <= quietBeats*l.cfg.Heartbeat
}

// owed returns the slots that living, waiting processes in a shard lack. lasting is for processes older than a
// heartbeat, which have a claim to the share due. new is for younger processes, which have a claim to one block. Young
// processes may crash again, and their slots would be blocked until they are reaped.
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

// rich reports whether another living process in a shard has at least a quarter more than the fair share. A process
// just above the fair share would return too few slots to wait for.
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

// givers returns the number of other living processes in a shard that have more than the fair share.
func (l *ledger) givers(s *sight, fair int) int {
	n := 0
	for owner, p := range s.peers {
		if p.rec.Total > fair && p.rec.Slots > 0 && l.lives(s, p) && !l.owns(owner) {
			n++
		}
	}
	return n
}

// sightBeats is the number of heartbeats for which the image of a shard counts in the estimate of the fair share.
const sightBeats = 10

// fair returns the fair share of each process: the limit divided by the number of living processes. The number of
// processes is estimated from the home records in recent images of shards.
func (l *ledger) fair(now time.Duration) int {
	return l.share(now, func(s *sight) int { return s.homes })
}

// due returns the number of slots above which this process returns slots to others: the fair share among processes
// older than a heartbeat. A pod that crashes again and again is a new process each time, and its last few records still
// look alive.
func (l *ledger) due(now time.Duration) int {
	return l.share(now, func(s *sight) int {
		if now-s.at > l.cfg.Heartbeat { // processes that were new then have lasted since, or ended
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

// closePart is a divisor: while the limit is lowered, a process returns at most 1/closePart of its slots within a
// heartbeat.
const closePart = 4

// asked decides, after a renewal of a part, whether slots of its shard must be returned. Slots are returned when a
// waiting process in the shard has a claim, or when a lowered limit made the free slots negative.
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
			l.giveAt = now + l.cfg.Heartbeat*4/5 // a renewal may be a little early
		}
	}
}

// portion returns how many of a shard's missing slots this process returns when a lowered limit made the free slots
// negative. portion is 0 if some other process is above the fair share. Otherwise it is proportional to this process's
// slots in the shard. Other shards then have free slots for this process.
func (l *ledger) portion(s *sight, p *part, over, fair int) int {
	if l.givers(s, fair) > 0 {
		return 0
	}
	all := max(1, s.limit-s.free)
	return (over*p.held() + all - 1) / all
}

// part returns the number of slots that this process returns for the claims in a shard. All processes above the given
// share return equal parts.
func (l *ledger) part(s *sight, owed, share int) int {
	return min(max(block, owed/(1+l.givers(s, share))), l.held()-share, owed)
}

// give returns a call that gives back promised slots, as far as no permit covers them.
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

// idle records the least number of unused slots since a time.
type idle struct {
	since time.Duration
	least int
}

func (i *idle) note(spare int) { i.least = min(i.least, spare) }

// shrink returns slots that were unused for IdleRelease. The last block of slots stays with the process.
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
	// The part with the fewest slots gives them back, because its record may become superfluous.
	p := slices.MinFunc(l.parts, func(a, b *part) int { return cmpSlots(a, b) })
	return l.change(p, now, -min(n, p.rec.Slots)), now
}

// cmpSlots orders parts by their number of slots. Parts without slots come last.
func cmpSlots(a, b *part) int {
	size := func(p *part) int {
		if p.rec.Slots == 0 {
			return 1 << 30
		}
		return p.rec.Slots
	}
	return size(a) - size(b)
}

// reap takes the slots of a record that has not changed for its ReapAfter. The record's owner has closed all backends
// by then, because its own clock started earlier.
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
			s.reapAt = now + l.cfg.Heartbeat // try again if this call fails
			return &call{kind: callChange, change: Change{Shard: shard, Owner: owner, Old: p.text, Take: -p.rec.Slots}}, now
		}
		s.reapAt = now + l.cfg.Heartbeat
	}
	return nil, wake
}

// ripest returns a record of another process whose slots may be taken. If there are several, the one that was unchanged
// for longest is returned.
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
