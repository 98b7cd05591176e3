package lease

import "time"

// This file has the number of permits that this process may use, with a lease that is renewed in time and with one that
// is not.

// held returns the number of slots that this process certainly has, whatever the outcome of its pending changes.
func (l *ledger) held() int {
	held := 0
	for _, p := range l.parts {
		held += p.held()
	}
	return held
}

// age returns the time since the oldest renewal among this process's records with slots. any is false if no record has
// slots.
func (l *ledger) age(now time.Duration) (age time.Duration, any bool) {
	for _, p := range l.parts {
		if p.rec.Slots > 0 {
			any = true
			age = max(age, now-p.renewed)
		}
	}
	return age, any
}

// allowed returns the number of permits that may be in use: held slots less those promised to other processes. The
// number falls to 0 while the lease is not renewed.
func (l *ledger) allowed(now time.Duration) int {
	allowed := max(0, l.held()-l.giving)
	age, _ := l.age(now)
	switch c := l.cfg; {
	case age < c.drainAfter():
		return allowed
	case age < c.idleUntil():
		return int(float64(allowed) * float64(c.idleUntil()-age) / float64(c.idleUntil()-c.drainAfter()))
	}
	return 0
}

func (l *ledger) spare(now time.Duration) int { return l.allowed(now) - l.used }

func (l *ledger) phase(now time.Duration) Phase {
	age, any := l.age(now)
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

// take takes a slot for a permit, if one is free.
func (l *ledger) take(now time.Duration) bool {
	l.expire(now)
	if l.leaving || l.spare(now) <= 0 {
		return false
	}
	l.used++
	l.idle.note(l.spare(now))
	return true
}

// valid reports whether a waiting Admit may still use its slot for a dial.
func (l *ledger) valid(now time.Duration) bool {
	l.expire(now)
	return l.spare(now) >= 0
}

func (l *ledger) release() {
	if l.used--; l.used < 0 {
		panic("lease: more permits came back than were given")
	}
}

// expire drops all parts when the lease was not renewed for too long. Their records stay in the table until other
// processes reap them.
func (l *ledger) expire(now time.Duration) {
	if age, any := l.age(now); any && age >= l.cfg.lostAfter() {
		l.parts, l.giving, l.lapsed, l.unrenewed = nil, 0, true, age
		l.stats.Lapsed++
	}
}
