package lease

import (
	"fmt"
	"slices"
	"time"
)

// This file has the records of this process in the shards of the ledger. Each change of a record is sent until its
// outcome is known, and each record is renewed when it is due.

// ownRecord is a record of this process in one shard of the ledger.
type ownRecord struct {
	shard   int
	owner   string
	text    string // the text of the confirmed record; "" while the record is being created
	rec     Record
	renewed time.Duration // when the first attempt to write text was sent
	due     time.Duration // of the next renewal
	tried   time.Duration

	pending *pendingChange
	// doubt is a change that DynamoDB refused, although an earlier sending of the same change may still arrive. After
	// the next renewal of the record, that earlier sending can have no effect.
	doubt *pendingChange
}

// pendingChange is a change of a record whose outcome is unknown. The same change is sent again until its outcome is
// known.
type pendingChange struct {
	change ShardChange
	rec    Record
	sent   time.Duration // the first time
	tries  int
}

func (p *ownRecord) heldSlots() int {
	if p.pending != nil {
		return min(p.rec.Slots, p.pending.rec.Slots)
	}
	return p.rec.Slots
}

// renewRecords returns a call that sends an unresolved change again, or that renews a due record. The record that was
// tried longest ago comes first, so that one shard in trouble does not delay the others.
func (l *slotLedger) renewRecords(now time.Duration) (*storeCall, time.Duration) {
	var best *ownRecord
	wake := never
	for _, p := range l.parts {
		if p.pending == nil && now < p.due {
			wake = min(wake, p.due)
		} else if best == nil || p.tried < best.tried {
			best = p
		}
	}
	switch {
	case best == nil || l.leaving && best.pending == nil:
		return nil, wake
	case best.pending != nil:
		return l.sendPending(best, now), now
	case best.rec.Slots == 0 && l.canRemoveRecord(best):
		return l.removalCall(best, now), now
	}
	l.stats.Renewals++
	return l.beginChange(best, now, 0), now
}

// canRemoveRecord reports whether a record of this process without slots can be removed. The home, the record by which
// the process is counted, must stay. So canRemoveRecord first makes a record with slots the home, if there is one.
func (l *slotLedger) canRemoveRecord(p *ownRecord) bool {
	if p == l.parts[0] {
		for i, q := range l.parts {
			if q.rec.Slots > 0 {
				l.parts[0], l.parts[i] = q, p
				break
			}
		}
	}
	return p != l.parts[0] && !l.waiting && p.doubt == nil
}

// beginChange begins a change of p, one of this process's records: it takes slots, or returns some if take is below
// 0.
func (l *slotLedger) beginChange(p *ownRecord, now time.Duration, take int) *storeCall {
	l.seq++
	rec := Record{Seq: l.seq, Slots: p.rec.Slots + take, Total: l.heldSlots() + take, ReapAfter: l.cfg.ReapAfter,
		Home: p == l.parts[0], Waiting: l.waiting, Lasting: now-l.began >= l.cfg.Heartbeat}
	change := ShardChange{Shard: p.shard, Owner: p.owner, Old: p.text, New: rec.String(), Take: take, Limit: l.settings.shardLimit(p.shard)}
	p.pending = &pendingChange{change: change, rec: rec, sent: now}
	return l.sendPending(p, now)
}

// removalCall returns a call that gives back all slots of one of this process's records and removes the record.
func (l *slotLedger) removalCall(p *ownRecord, now time.Duration) *storeCall {
	p.pending = &pendingChange{sent: now,
		change: ShardChange{Shard: p.shard, Owner: p.owner, Old: p.text, Take: -p.rec.Slots}}
	return l.sendPending(p, now)
}

func (l *slotLedger) sendPending(p *ownRecord, now time.Duration) *storeCall {
	p.pending.tries++
	p.tried = now
	return &storeCall{kind: callChange, part: p, change: p.pending.change}
}

// resolvePending decides the outcome of a record's pending change by the record that DynamoDB has now. That is the
// new record, or the old one, or none because another process took its slots.
func (l *slotLedger) resolvePending(p *ownRecord, a storeAnswer, now time.Duration) {
	at := p.pending
	p.pending = nil
	if at.tries > 1 {
		l.stats.Resolved++
	}
	switch found := a.shard.Owners[p.owner]; {
	case a.done || found == at.change.New:
		l.applyChange(p, at, now)
	case p.text == "" && found == "": // the join was refused
		l.stats.Refused++
		l.dropRecord(p)
	case found == p.text: // too few were free
		l.stats.Refused++
		if at.tries > 1 {
			p.doubt, p.due = at, now
		}
	case p.doubt != nil && found == p.doubt.change.New: // the earlier change has arrived after all
		l.applyChange(p, p.doubt, now)
		p.due = now
	default:
		l.stats.ReapedSelf++
		l.dropRecord(p)
	}
}

func (l *slotLedger) applyChange(p *ownRecord, at *pendingChange, now time.Duration) {
	if at.change.New == "" {
		l.stats.Returned += uint64(p.rec.Slots)
		l.dropRecord(p)
		return
	}
	if more := at.rec.Slots - p.rec.Slots; more > 0 {
		l.stats.Granted += uint64(more)
		l.hunt = slotSearch{}
		l.lapsed = false
	} else {
		l.stats.Returned += uint64(-more)
	}
	p.text, p.rec, p.renewed, p.doubt = at.change.New, at.rec, at.sent, nil
	p.due = at.sent + l.jittered(l.cfg.Heartbeat)
	l.idle.recordSpare(l.sparePermits(now))
}

// dropRecord removes a record from this process's list of its records. If the record was the home, by which the process
// is counted, the next record becomes the home.
func (l *slotLedger) dropRecord(p *ownRecord) {
	l.parts = slices.DeleteFunc(l.parts, func(q *ownRecord) bool { return q == p })
	if l.giveTo == p.shard {
		l.giving = 0
	}
}

// returnSlotsAtEnd returns, after Run's end has begun, calls that give back all slots that no permit covers.
func (l *slotLedger) returnSlotsAtEnd(now time.Duration) (*storeCall, time.Duration) {
	if !l.leaving {
		return nil, never
	}
	for _, p := range l.parts {
		switch free := l.heldSlots() - l.used; {
		case p.rec.Slots <= free:
			return l.removalCall(p, now), now
		case free > 0:
			return l.beginChange(p, now, -free), now
		}
	}
	return nil, never
}

// recordIn returns this process's record in a shard, or nil if the process has no record in it.
func (l *slotLedger) recordIn(shard int) *ownRecord {
	for _, p := range l.parts {
		if p.shard == shard {
			return p
		}
	}
	return nil
}

// ownsRecord reports whether an owner name belongs to one of this process's records.
func (l *slotLedger) ownsRecord(owner string) bool {
	return slices.ContainsFunc(l.parts, func(p *ownRecord) bool { return p.owner == owner })
}

// joinShard begins a new record of this process in a shard, with the given number of slots.
func (l *slotLedger) joinShard(shard, slots int, now time.Duration) *storeCall {
	l.joins++
	p := &ownRecord{shard: shard, owner: fmt.Sprintf("%s.%d", l.process, l.joins)}
	if l.follows {
		p.owner += follower
	}
	l.parts = append(l.parts, p)
	return l.beginChange(p, now, slots)
}

// hasUrgentCall reports whether one of this process's records is due for renewal or has an unknown outcome.
func (l *slotLedger) hasUrgentCall(now time.Duration) bool {
	return now >= l.pause && slices.ContainsFunc(l.parts, func(p *ownRecord) bool { return p.pending != nil || now >= p.due })
}
