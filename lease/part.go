package lease

import (
	"fmt"
	"slices"
	"time"
)

// This file has the records of this process in the shards of the ledger. Each change of a record is sent until its
// outcome is known, and each record is renewed when it is due.

// part is a record of this process in one shard of the ledger.
type part struct {
	shard   int
	owner   string
	text    string // the confirmed record; "" while the part joins
	rec     Record
	renewed time.Duration // when the first attempt to write text was sent
	due     time.Duration // of the next renewal
	tried   time.Duration

	pending *attempt
	// doubt is a change that the table refused although an earlier sending of it may still arrive. The next renewal of the
	// record makes that impossible.
	doubt *attempt
}

// attempt is a change of a record whose outcome is unknown. The same change is sent again until its outcome is known.
type attempt struct {
	change Change
	rec    Record
	sent   time.Duration // the first time
	tries  int
}

func (p *part) held() int {
	if p.pending != nil {
		return min(p.rec.Slots, p.pending.rec.Slots)
	}
	return p.rec.Slots
}

// renew returns a call that sends an unresolved change again, or that renews a due record. The record that was tried
// longest ago comes first, so that one shard in trouble does not delay the others.
func (l *ledger) renew(now time.Duration) (*call, time.Duration) {
	var best *part
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
		return l.send(best, now), now
	case best.rec.Slots == 0 && l.superfluous(best):
		return l.leaveCall(best, now), now
	}
	l.stats.Renewals++
	return l.change(best, now, 0), now
}

// superfluous reports whether the record of a part without slots can be removed. The home, the part that counts the
// process, is never superfluous. So superfluous first makes a part with slots the home, if there is one.
func (l *ledger) superfluous(p *part) bool {
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

// change begins a change of a part's record: it takes slots, or returns some when take is below 0.
func (l *ledger) change(p *part, now time.Duration, take int) *call {
	l.seq++
	rec := Record{Seq: l.seq, Slots: p.rec.Slots + take, Total: l.held() + take, ReapAfter: l.cfg.ReapAfter,
		Home: p == l.parts[0], Waiting: l.waiting, Lasting: now-l.began >= l.cfg.Heartbeat}
	change := Change{Shard: p.shard, Owner: p.owner, Old: p.text, New: rec.String(), Take: take, Limit: l.settings.shardLimit(p.shard)}
	p.pending = &attempt{change: change, rec: rec, sent: now}
	return l.send(p, now)
}

// leaveCall returns a call that gives back all slots of a part and removes its record.
func (l *ledger) leaveCall(p *part, now time.Duration) *call {
	p.pending = &attempt{sent: now,
		change: Change{Shard: p.shard, Owner: p.owner, Old: p.text, Take: -p.rec.Slots}}
	return l.send(p, now)
}

func (l *ledger) send(p *part, now time.Duration) *call {
	p.pending.tries++
	p.tried = now
	return &call{kind: callChange, part: p, change: p.pending.change}
}

// settle decides the outcome of a part's pending change by the record that the table has now. The record is the new
// one, the old one, or gone because another process reaped it.
func (l *ledger) settle(p *part, a answer, now time.Duration) {
	at := p.pending
	p.pending = nil
	if at.tries > 1 {
		l.stats.Resolved++
	}
	switch found := a.shard.Owners[p.owner]; {
	case a.done || found == at.change.New:
		l.applied(p, at, now)
	case p.text == "" && found == "": // the join was refused
		l.stats.Refused++
		l.drop(p)
	case found == p.text: // too few were free
		l.stats.Refused++
		if at.tries > 1 {
			p.doubt, p.due = at, now
		}
	case p.doubt != nil && found == p.doubt.change.New: // the earlier change has arrived after all
		l.applied(p, p.doubt, now)
		p.due = now
	default:
		l.stats.ReapedSelf++
		l.drop(p)
	}
}

func (l *ledger) applied(p *part, at *attempt, now time.Duration) {
	if at.change.New == "" {
		l.stats.Returned += uint64(p.rec.Slots)
		l.drop(p)
		return
	}
	if more := at.rec.Slots - p.rec.Slots; more > 0 {
		l.stats.Granted += uint64(more)
		l.hunt = hunt{}
		l.lapsed = false
	} else {
		l.stats.Returned += uint64(-more)
	}
	p.text, p.rec, p.renewed, p.doubt = at.change.New, at.rec, at.sent, nil
	p.due = at.sent + l.jittered(l.cfg.Heartbeat)
	l.idle.note(l.spare(now))
}

// drop removes a part from this process's list. If the part was the home, which counts the process, the next part
// becomes the home.
func (l *ledger) drop(p *part) {
	l.parts = slices.DeleteFunc(l.parts, func(q *part) bool { return q == p })
	if l.giveTo == p.shard {
		l.giving = 0
	}
}

// leave returns, when Run ends, calls that give back all slots that no permit covers.
func (l *ledger) leave(now time.Duration) (*call, time.Duration) {
	if !l.leaving {
		return nil, never
	}
	for _, p := range l.parts {
		switch free := l.held() - l.used; {
		case p.rec.Slots <= free:
			return l.leaveCall(p, now), now
		case free > 0:
			return l.change(p, now, -free), now
		}
	}
	return nil, never
}

// partIn returns this process's part in a shard, or nil if it has no record there.
func (l *ledger) partIn(shard int) *part {
	for _, p := range l.parts {
		if p.shard == shard {
			return p
		}
	}
	return nil
}

// owns reports whether an owner name belongs to one of this process's parts.
func (l *ledger) owns(owner string) bool {
	return slices.ContainsFunc(l.parts, func(p *part) bool { return p.owner == owner })
}

// join begins a new record of this process in a shard, with the given number of slots.
func (l *ledger) join(shard, slots int, now time.Duration) *call {
	l.joins++
	p := &part{shard: shard, owner: fmt.Sprintf("%s.%d", l.process, l.joins)}
	if l.follows {
		p.owner += follower
	}
	l.parts = append(l.parts, p)
	return l.change(p, now, slots)
}

// urgent reports whether one of this process's records is due for renewal or has an unknown outcome.
func (l *ledger) urgent(now time.Duration) bool {
	return now >= l.pause && slices.ContainsFunc(l.parts, func(p *part) bool { return p.pending != nil || now >= p.due })
}
