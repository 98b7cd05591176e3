package lease

import (
	"slices"
	"time"
)

// shardImage is the newest content of a shard in DynamoDB that this process has read.
type shardImage struct {
	at          time.Duration
	limit, free int
	peers       map[string]*seenRecord // by owner; this process's own included
	homes       int                    // other living processes
	lasting     int                    // those of homes that are older than a heartbeat
	reapAt      time.Duration          // when the first record of others may be taken
}

// seenRecord is an owner's record in a shard. since is the time since when this process has seen the record
// unchanged. first is the time when this process first saw the owner.
type seenRecord struct {
	text         string
	rec          Record
	since, first time.Duration
}

// isLongLived reports whether a record's process is older than a heartbeat. A record of this version has a flag for
// that. A record of an older version must have changed over a heartbeat.
func (l *slotLedger) isLongLived(p *seenRecord) bool {
	return p.rec.Lasting || p.since-p.first >= l.cfg.Heartbeat
}

// reapTime returns the time when other processes may take the slots of an unchanged record. reapTime allows for clocks
// that differ by one part in a thousand.
func (p *seenRecord) reapTime() time.Duration {
	return p.since + p.rec.ReapAfter + p.rec.ReapAfter/1000 + 1
}

// recordImage records an image of a shard. The image may be older than the previous one. If a record seems changed
// for that reason, only its age begins again at 0.
func (l *slotLedger) recordImage(shard int, image Shard, now time.Duration) {
	if image.Limit == 0 && len(image.Owners) == 0 { // no item: the first join creates it
		image.Limit = l.settings.shardLimit(shard)
		image.Free = image.Limit
	}
	old := l.sight[shard]
	s := &shardImage{at: now, limit: image.Limit, free: image.Free, peers: make(map[string]*seenRecord, len(image.Owners)), reapAt: never}
	held := 0
	for owner, text := range image.Owners {
		var p *seenRecord
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
			p = &seenRecord{text: text, rec: rec, since: now, first: first}
		}
		held += p.rec.Slots
		s.peers[owner] = p
		if l.ownsRecord(owner) {
			continue
		}
		s.reapAt = min(s.reapAt, p.reapTime())
		if p.rec.Home && l.isAlive(s, p) {
			s.homes++
			if l.isLongLived(p) {
				s.lasting++
			}
		}
	}
	before := l.settings.shardLimit(shard)
	if old != nil {
		before = old.limit
	}
	if image.Limit > before {
		l.capAtFairShare(now)
	}
	if image.Limit != image.Free+held {
		l.stats.Drifts++
	}
	l.sight[shard] = s
}

// quietBeats is the number of heartbeats for which the owner of an unchanged record counts as alive. An owner writes
// once a heartbeat, and sends a failed write again within seconds.
const quietBeats = 2

// isAlive reports whether a record was new or had changed within the last quietBeats heartbeats before the shard was
// read. A dead owner has no fair share and no claim to slots, but its slots stay taken until ReapAfter. Silence does
// not count while this process itself could not reach DynamoDB.
func (l *slotLedger) isAlive(s *shardImage, p *seenRecord) bool {
	return s.at-max(p.since, l.sightless) <= quietBeats*l.cfg.Heartbeat
}

// claimedSlots returns how many slots living, waiting processes in a shard lack. lasting is the number for processes
// older than a heartbeat, each of which has a claim to due slots. new is that for younger processes, each with a
// claim to one block. A young process may crash again, and its slots would be blocked until ReapAfter.
func (l *slotLedger) claimedSlots(s *shardImage, due int) (lasting, new int) {
	for owner, p := range s.peers {
		switch {
		case !p.rec.Waiting || !l.isAlive(s, p) || l.ownsRecord(owner):
		case l.isLongLived(p):
			lasting += max(0, due-p.rec.Total)
		default:
			new += max(0, min(due, block)-p.rec.Total)
		}
	}
	return lasting, new
}

// hasRichPeer reports whether another living process in a shard has at least a quarter more than the fair share. A
// process just above the fair share would return too few slots to wait for.
func (l *slotLedger) hasRichPeer(s *shardImage, fair int) bool {
	if s == nil {
		return false
	}
	for owner, p := range s.peers {
		if p.rec.Total > fair+fair/4 && p.rec.Slots > 0 && l.isAlive(s, p) && !l.ownsRecord(owner) {
			return true
		}
	}
	return false
}

// peersAboveShare returns the number of other living processes in a shard that have more than the fair share.
func (l *slotLedger) peersAboveShare(s *shardImage, fair int) int {
	n := 0
	for owner, p := range s.peers {
		if p.rec.Total > fair && p.rec.Slots > 0 && l.isAlive(s, p) && !l.ownsRecord(owner) {
			n++
		}
	}
	return n
}

// sightBeats is the number of heartbeats for which a shard's image counts in the estimate of the fair share.
const sightBeats = 10

// fairShare returns the fair share of each process: the limit divided by the number of living processes. The number of
// processes is estimated from the home records in recent images of shards.
func (l *slotLedger) fairShare(now time.Duration) int {
	return l.sharePerProcess(now, func(s *shardImage) int { return s.homes })
}

// lastingShare returns the number of slots above which this process returns slots to others. It is the fair share
// among processes older than a heartbeat. A pod that crashes again and again is a new process each time. Its last
// few records, which still look alive, do not count.
func (l *slotLedger) lastingShare(now time.Duration) int {
	return l.sharePerProcess(now, func(s *shardImage) int {
		if now-s.at > l.cfg.Heartbeat { // processes that were new then have lasted since, or ended
			return s.homes
		}
		return s.lasting
	})
}

func (l *slotLedger) sharePerProcess(now time.Duration, count func(*shardImage) int) int {
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

// decideReturn decides, after a renewal of one of this process's records, whether this process must return slots of
// the record's shard. It must if a waiting process in the shard has a claim to slots. It must also if a lowered limit
// made the free slots negative.
func (l *slotLedger) decideReturn(p *ownRecord, now time.Duration) {
	s := l.sight[p.shard]
	fair, due := l.fairShare(now), l.lastingShare(now)
	lasting, new := l.claimedSlots(s, due)
	owed, over := max(0, lasting+new-s.free), max(0, -s.free)
	switch {
	case l.giving > 0 && l.giveTo == p.shard && owed == 0:
		l.giving = 0
	case l.giving == 0 && owed > 0 && now >= l.giveAt:
		n := max(l.claimPortion(s, min(owed, lasting+over), due), l.claimPortion(s, min(owed, new+over), fair))
		if over > 0 {
			n = max(n, min(over, l.heldSlots()-fair), l.overcommitPortion(s, p, over, fair))
			n = min(n, (l.heldSlots()+closePart-1)/closePart)
		}
		if n = min(n, p.heldSlots()); n > 0 {
			l.giving, l.giveTo = n, p.shard
			l.giveAt = now + l.cfg.Heartbeat*4/5 // a renewal may be a little early
		}
	}
}

// overcommitPortion returns how many slots this process returns to a shard whose free slots are negative (-over)
// after the limit was lowered. If some other process is above the fair share, it returns 0. Otherwise the number is
// proportional to this process's slots in the shard. Other shards then have free slots for this process.
func (l *slotLedger) overcommitPortion(s *shardImage, p *ownRecord, over, fair int) int {
	if l.peersAboveShare(s, fair) > 0 {
		return 0
	}
	all := max(1, s.limit-s.free)
	return (over*p.heldSlots() + all - 1) / all
}

// claimPortion returns how many of the owed slots, which other processes in a shard claim, this process returns. All
// processes with more than share slots return equal parts.
func (l *slotLedger) claimPortion(s *shardImage, owed, share int) int {
	return min(max(block, owed/(1+l.peersAboveShare(s, share))), l.heldSlots()-share, owed)
}

// returnPromised returns a call that gives back slots promised to other processes, as far as no permit covers these.
func (l *slotLedger) returnPromised(now time.Duration) (*storeCall, time.Duration) {
	free := l.heldSlots() - l.used
	if l.giving == 0 || free <= 0 || l.leaving {
		return nil, never
	}
	p := l.recordIn(l.giveTo)
	if p == nil || p.pending != nil || p.rec.Slots == 0 {
		l.giving = 0
		return nil, never
	}
	n := min(l.giving, free, p.rec.Slots)
	l.giving -= n
	l.stats.GivenBack += uint64(n)
	return l.beginChange(p, now, -n), now
}

// idleMinimum records the least number of unused slots since the time in the field since.
type idleMinimum struct {
	since time.Duration
	least int
}

func (i *idleMinimum) recordSpare(spare int) { i.least = min(i.least, spare) }

// returnIdleSlots returns slots that were unused for IdleRelease. The process retains the last block of slots.
func (l *slotLedger) returnIdleSlots(now time.Duration) (*storeCall, time.Duration) {
	l.idle.recordSpare(l.sparePermits(now))
	end := l.idle.since + l.cfg.IdleRelease
	if now < end {
		return nil, end
	}
	n := min(l.idle.least, l.heldSlots()-block)
	l.idle = idleMinimum{since: now, least: l.sparePermits(now)}
	if n <= 0 || l.phase(now) != OK || l.leaving {
		return nil, now + l.cfg.IdleRelease
	}
	// The record with the fewest slots gives slots back first, because this process may then remove that record.
	p := slices.MinFunc(l.parts, func(a, b *ownRecord) int { return compareSlots(a, b) })
	return l.beginChange(p, now, -min(n, p.rec.Slots)), now
}

// compareSlots orders this process's records by their number of slots. Records without slots come last.
func compareSlots(a, b *ownRecord) int {
	size := func(p *ownRecord) int {
		if p.rec.Slots == 0 {
			return 1 << 30
		}
		return p.rec.Slots
	}
	return size(a) - size(b)
}

// reapExpired takes the slots of a record that has not changed for its ReapAfter. The record's owner has already
// closed all its backends, because it began to count before this process saw the record.
func (l *slotLedger) reapExpired(now time.Duration) (*storeCall, time.Duration) {
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
		if owner, p := l.nextReapable(s, now); p != nil {
			s.reapAt = now + l.cfg.Heartbeat // try again if this call fails
			return &storeCall{kind: callChange, change: ShardChange{Shard: shard, Owner: owner, Old: p.text, Take: -p.rec.Slots}}, now
		}
		s.reapAt = now + l.cfg.Heartbeat
	}
	return nil, wake
}

// nextReapable returns a record of another process whose slots may be taken. If there are several, the one that was
// unchanged for longest is returned.
func (l *slotLedger) nextReapable(s *shardImage, now time.Duration) (owner string, ripest *seenRecord) {
	for name, p := range s.peers {
		if now < p.reapTime() || l.ownsRecord(name) {
			continue
		}
		if ripest == nil || p.since < ripest.since || p.since == ripest.since && name < owner {
			owner, ripest = name, p
		}
	}
	return owner, ripest
}
