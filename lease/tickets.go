package lease

import (
	"math/rand/v2"
	"time"
)

const (
	// ticketBatch is how many tickets are reserved with one write. A process goes
	// to the end of the queue with each batch, which shares the rate.
	ticketBatch = 10
	// queuePart of MaxWait (1/3) is how far ahead those reserve who have some backends,
	// half as far who have queueHalf, and so on, down to queueLeast, which keeps the rate
	// in use: who has fewer goes ahead.
	queuePart  = 3
	queueHalf  = 8
	queueLeast = time.Second
	// youngTime after its start, a process that has a backend leaves others that start
	// with it what was saved up, less and less of it.
	youngTime = 10 * time.Second
	// youngBatch is how many tickets it reserves at once until then.
	youngBatch = 4
	// modestMost is how many backends a process has before it may want to wait: the next one is reserved by
	// itself, behind those who reserved their first one meanwhile. Who met a queue when it was young waits
	// until it is not, and until that queue has dialled, for which firstDial is left: two clocks that are
	// misread by half a second each, and a dial. Who is young and not alone waits until there has been no
	// queue for so long. There is one at that time where a fleet is larger than the burst: it finds use for
	// the rate all the same.
	modestMost = 9
	firstDial  = clockError + 500*time.Millisecond
	// Who was refused comes back after a time that is drawn from up to retryLeast, four
	// times that after the next refusal and so on, or up to the time that it had to wait
	// anyhow.
	retryLeast   = 100 * time.Millisecond
	mostRefusals = 4
	// poisoned is how far ahead the next ticket's time cannot be: some clock or
	// hand was wrong, and it is set back.
	poisoned = 10 * time.Minute
	// localAfter failures in a row, the table is considered out of reach.
	localAfter = 2
	// raceMost is the longest pause after an idle bucket was found busy.
	raceMost = 50 * time.Millisecond
	// Pauses after the cluster itself refused a connection for their rate.
	refusedRateLeast = time.Second
	refusedRateMost  = 5 * time.Second
)

// tickets is a process's part in the cluster's connection rate. Like ledger it
// does no I/O and is told the time.
type tickets struct {
	cfg      Config
	rng      *rand.Rand
	rate     int // per second; 0 while the settings are not known
	burst    int
	clock    tableClock
	due      []time.Duration // of the tickets at hand, ascending
	demand   int             // tickets that callers wait for
	holders  int             // callers of those that have their slot
	batch    int
	keep     time.Duration // how late those at hand may be used
	pause    time.Duration // no reservation before
	refused  time.Duration // no dial before: the cluster said so
	wrong    int64
	queue    time.Duration // how far ahead the next ticket was, at the last answer
	failing  int
	localAt  time.Duration // the next dial without a ticket
	refusals int           // since the last success, in short
	young    time.Duration // until then this process has just started
	last     int64         // the next ticket's time, at the last answer; 0: none yet
	others   bool          // took tickets while it was young
	firstAt  time.Duration // no ticket ahead of others before
	modest   time.Duration // until then this process takes no more than modestMost
	// thrifty until then: nothing of what was saved up is used, see adopt.
	thrifty time.Duration
	stats   ticketCounts
}

// ticketCounts only grow.
type ticketCounts struct {
	Reserved, Used  uint64
	Stale           uint64 // not used in time
	Local           uint64 // dials of the local share
	Reservations    uint64
	Refused, Resets uint64 // queue too long; poisoned times set back
	Fails, Refusals uint64 // calls that failed; refusals by the cluster
}

func newTickets(cfg Config, rng *rand.Rand) *tickets {
	return &tickets{cfg: cfg, rng: rng, batch: ticketBatch}
}

func (t *tickets) start(s Settings) { t.rate, t.burst = s.Rate, s.Burst }

// thriftyBeats is for how many heartbeats after a change of the rate nothing that was
// saved up is used: by then all have read of it.
const thriftyBeats = 3

// adopt goes on by other settings. Who has not read of them yet may still use what it
// counts as saved up; both together could be more than a cluster takes at once.
func (t *tickets) adopt(s Settings, now time.Duration) {
	if t.rate != s.Rate || t.burst != s.Burst {
		t.start(s)
		t.thrifty = now + thriftyBeats*t.cfg.Heartbeat
	}
}

// saved is how many unused tickets of the past may be reserved.
func (t *tickets) saved(now time.Duration) int64 {
	if now < t.thrifty {
		return 0
	}
	return int64(t.burst)
}

// interval between two tickets, in microseconds of the table's clock.
func (t *tickets) interval() int64 { return int64(time.Second/time.Microsecond) / int64(t.rate) }

// burstTime is how much time of unused tickets is kept.
func (t *tickets) burstTime() time.Duration {
	return time.Duration(int64(t.burst)*t.interval()) * time.Microsecond
}

// local reports whether the table is out of reach and dials go by the share that
// is kept in reserve for that.
func (t *tickets) local() bool { return t.failing >= localAfter }

// localInterval is the time between two dials of one process by its local share.
func (t *tickets) localInterval() time.Duration {
	return time.Second * time.Duration(t.cfg.MaxInstances) / time.Duration(max(1, t.cfg.Reserve))
}

// take uses a ticket, if one is due. Otherwise it says when to ask again, should
// nothing else happen.
func (t *tickets) take(now time.Duration) (ok bool, wake time.Duration) {
	if now < t.refused {
		return false, t.refused
	}
	for len(t.due) > 0 && t.due[0]+t.keep < now {
		t.due = t.due[1:]
		t.stats.Stale++
	}
	wake = never
	if len(t.due) > 0 {
		if t.due[0] <= now {
			t.due = t.due[1:]
			t.stats.Used++
			return true, 0
		}
		wake = t.due[0]
	}
	if t.local() && t.cfg.Reserve > 0 {
		if t.localAt <= now {
			t.localAt = now + t.localInterval()
			t.stats.Local++
			return true, 0
		}
		wake = min(wake, t.localAt)
	}
	return false, wake
}

// next is the reservation that should be made now, or when to ask again. It is made
// when the last batch is used up, for as many as slots are at hand. Who has no backend
// takes one ticket, ahead of those who have some: these join the queue only where it is
// short. A process whose backends fail at once has that right once a heartbeat.
func (t *tickets) next(now time.Duration, most, open int) (*call, time.Duration) {
	want := min(t.demand, t.batch, most)
	if t.rate == 0 || want <= 0 || len(t.due) > 0 {
		return nil, never
	}
	if until := max(t.pause, t.refused); now < until {
		return nil, until
	}
	at := t.clock.read(now)
	r := Reservation{Tickets: 1, Interval: t.interval(), Floor: at - t.saved(now)*t.interval(), Wrong: t.wrong}
	r.Ceiling = at + t.maxWait().Microseconds()
	first := open == 0 && now >= t.firstAt
	tenth := open >= modestMost
	if !tenth {
		want = min(want, modestMost-open)
	} else if now < t.modest {
		return nil, t.modest
	}
	switch left := t.young - now; {
	case first:
	case left > 0:
		part := float64(left) / float64(youngTime)
		saved := int64(float64(t.burst)*part*part) * t.interval()
		if tenth && t.others {
			saved = max(saved, firstDial.Microseconds())
		}
		r.Tickets = min(want, youngBatch)
		r.Ceiling = max(r.Floor, at-saved)
	default:
		r.Tickets = want
		most := t.maxWait() / queuePart * queueHalf / time.Duration(queueHalf+open)
		r.Ceiling = at + max(most, min(queueLeast, t.maxWait())).Microseconds()
	}
	t.stats.Reservations++
	return &call{kind: callReserve, reserve: r, first: first}, now
}

// maxWait is how far ahead a ticket is reserved. The table's rate may be lower than the
// one that MaxWait was configured for: a queue must not be taken for a mistake.
func (t *tickets) maxWait() time.Duration {
	longest := poisoned - ticketBatch*time.Duration(t.interval())*time.Microsecond - 2*clockError - time.Second
	return min(t.cfg.MaxWait, longest)
}

// done books the answer of a reservation. One whose answer is lost costs its
// tickets and nothing else.
func (t *tickets) done(c *call, a answer, now time.Duration) {
	if a.err != nil {
		t.failed(now)
		return
	}
	t.failing = 0
	t.clock.observe(c.sent, now, a.at)
	r := c.reserve
	if t.queue = time.Duration(a.next-t.clock.read(now)) * time.Microsecond; t.queue < 0 {
		t.queue = 0
	}
	t.notice(r, a, now)
	switch {
	case a.done:
		if r.Wrong != 0 {
			t.stats.Resets++
		}
		t.wrong = 0
		t.refusals = max(0, t.refusals-1)
		if c.first {
			t.firstAt = now + t.cfg.Heartbeat
		}
		t.batch = min(ticketBatch, t.batch+1)
		t.stats.Reserved += uint64(r.Tickets)
		t.keep = t.burstTime() + ticketValidity
		first := a.next - int64(r.Tickets)*r.Interval
		for i := range r.Tickets {
			t.due = append(t.due, t.clock.when(first+int64(i)*r.Interval))
		}
	case t.queue > poisoned:
		t.wrong = a.next
	case r.Wrong != 0: // somebody else was faster
		t.wrong = 0
	case a.next <= r.Ceiling:
		t.pause = now + upTo(t.rng, raceMost)
	default:
		t.stats.Refused++
		wait := time.Duration(a.next-r.Ceiling) * time.Microsecond
		if left := t.young - now; left > 0 {
			wait = min(wait, left) // then the ceiling is another
		}
		spread := max(wait, retryLeast<<(2*t.refusals))
		t.pause = now + wait + upTo(t.rng, min(spread, t.maxWait()/2))
		t.refusals = min(t.refusals+1, mostRefusals)
	}
}

// notice learns from the answers that a young process gets whether others take tickets, and whether they queue.
func (t *tickets) notice(r Reservation, a answer, now time.Duration) {
	alone := t.last
	if a.done {
		alone = max(t.last, r.Floor) + int64(r.Tickets)*r.Interval
	}
	if now < t.young {
		t.others = t.others || t.last != 0 && a.next != alone
		if t.queue > 0 {
			t.modest = max(t.modest, t.young, now+t.queue+firstDial)
		}
	}
	t.last = a.next
}

// failed books a call that failed, of the settings or of a reservation. Out of
// reach of the table, the first dial comes at a random time: all others may be
// out of reach as well.
func (t *tickets) failed(now time.Duration) {
	t.stats.Fails++
	t.pause = now + backoff(t.rng, t.failing, 5*time.Second)
	if t.failing++; t.failing == localAfter && t.localAt <= now {
		t.localAt = now + upTo(t.rng, t.localInterval())
	}
}

// slow is told that the cluster refused a connection for their rate: somebody
// who takes no tickets uses it too.
func (t *tickets) slow(now time.Duration) {
	t.stats.Refusals++
	t.refused = max(t.refused, now+refusedRateLeast+upTo(t.rng, refusedRateMost-refusedRateLeast))
	t.batch = max(1, t.batch/2)
}

// tableClock estimates the table's clock. Its answers show the second in which
// they were given, and each narrows down by how much that clock is ahead of the
// process's own.
type tableClock struct {
	low, high time.Duration // bounds of the difference
	at        time.Duration // when they were last narrowed; 0: never
}

// drift is by how much (1/drift) the two clocks may diverge.
const drift = 1000

func (c *tableClock) observe(sent, received time.Duration, at Stamp) {
	second := time.Time(at)
	if second.IsZero() {
		return
	}
	given := time.Duration(second.UnixMicro()) * time.Microsecond
	low, high := given-received, given+time.Second-sent
	if c.at != 0 {
		wider := (received - c.at) / drift
		l, h := max(low, c.low-wider), min(high, c.high+wider)
		if l <= h { // else the table's clock has stepped
			low, high = l, h
		}
	}
	c.low, c.high, c.at = low, high, max(received, 1)
}

// read is the table's time now, in microseconds; when is the reverse.
func (c *tableClock) read(now time.Duration) int64 { return (now + c.ahead()).Microseconds() }

func (c *tableClock) when(micros int64) time.Duration {
	return time.Duration(micros)*time.Microsecond - c.ahead()
}

func (c *tableClock) ahead() time.Duration { return c.low + (c.high-c.low)/2 }
