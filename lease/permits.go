package lease

import "time"

// This file computes the number of permits that this process may use, both while the lease is renewed in time and while
// it is not.

// heldSlots returns how many slots this process certainly has, whatever the outcome of its pending changes.
func (l *slotLedger) heldSlots() int {
	held := 0
	for _, p := range l.parts {
		held += p.heldSlots()
	}
	return held
}

// renewalAge returns the time since the last renewal of that record with slots whose renewal is oldest. any is false
// if this process has no record with slots.
func (l *slotLedger) renewalAge(now time.Duration) (age time.Duration, any bool) {
	for _, p := range l.parts {
		if p.rec.Slots > 0 {
			any = true
			age = max(age, now-p.renewed)
		}
	}
	return age, any
}

// allowedPermits returns the number of permits (rights to an open backend) that may be in use: held slots less those
// promised to other processes. The number falls to 0 while the lease is not renewed.
func (l *slotLedger) allowedPermits(now time.Duration) int {
	allowed := max(0, l.heldSlots()-l.giving)
	age, _ := l.renewalAge(now)
	switch c := l.cfg; {
	case age < c.drainAfter():
		return allowed
	case age < c.idleClosedAfter():
		return int(float64(allowed) * float64(c.idleClosedAfter()-age) / float64(c.idleClosedAfter()-c.drainAfter()))
	}
	return 0
}

func (l *slotLedger) sparePermits(now time.Duration) int { return l.allowedPermits(now) - l.used }

func (l *slotLedger) phase(now time.Duration) Phase {
	age, any := l.renewalAge(now)
	switch c := l.cfg; {
	case !any && l.lapsed, any && age >= c.lostAfter():
		return Lost
	case !any:
		return Starting
	case age >= c.drainAfter():
		return Draining
	case age >= c.degradedAfter():
		return Degraded
	}
	return OK
}

// takePermit takes a slot for a permit (right to an open backend), if a slot is free.
func (l *slotLedger) takePermit(now time.Duration) bool {
	l.dropIfExpired(now)
	if l.leaving || l.sparePermits(now) <= 0 {
		return false
	}
	l.used++
	l.idle.recordSpare(l.sparePermits(now))
	return true
}

// canStillDial reports whether a waiting Admit may still use its slot for a dial.
func (l *slotLedger) canStillDial(now time.Duration) bool {
	l.dropIfExpired(now)
	return l.sparePermits(now) >= 0
}

func (l *slotLedger) releasePermit() {
	if l.used--; l.used < 0 {
		panic("lease: more permits came back than were given")
	}
}

// dropIfExpired forgets all records of this process when the lease was not renewed for too long. The records stay in
// DynamoDB until other processes take their slots.
func (l *slotLedger) dropIfExpired(now time.Duration) {
	if age, any := l.renewalAge(now); any && age >= l.cfg.lostAfter() {
		l.parts, l.giving, l.lapsed, l.unrenewed = nil, 0, true, age
		l.stats.Lapsed++
	}
}
