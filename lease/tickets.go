package lease

import (
	"math/rand/v2"
	"time"
)

const (
	// ticketBatch is the number of tickets (rights to dial once) reserved with one write. A process goes to the end of the
	// queue with each batch, so that processes share the rate.
	ticketBatch = 10
	// queuePart limits how far ahead a process reserves tickets (rights to dial once). Without backends the limit is
	// MaxWait/queuePart, and queueHalf backends halve it. The limit falls further with more backends, but not below
	// queueLeast, which uses the full rate. So processes with fewer backends go first.
	queuePart  = 3
	queueHalf  = 8
	queueLeast = time.Second
	// youngTime begins at a process's start. In it a process with a backend leaves saved tickets (unused rights to dial)
	// to others. To processes that start at the same time it leaves fewer and fewer.
	youngTime = 10 * time.Second
	// youngBatch is the number of tickets (rights to dial once) that a process reserves at once until youngTime after its
	// start.
	youngBatch = 4
	// modestMost is the number of backends up to which a process reserves several tickets (rights to dial once)
	// together. The ticket of the next backend is reserved alone, after the first tickets of other processes. If a
	// process sees a queue within youngTime, it waits until youngTime is over and that queue's processes have
	// dialled.
	//
	// firstDial allows time for one dial, and for two clocks that are each misread by up to half a second. A young
	// process that sees other processes waits until there has been no queue for firstDial. If more processes start
	// together than the burst has tickets, there is a queue. So the wait wastes no part of the rate.
	modestMost = 9
	firstDial  = clockError + 500*time.Millisecond
	// retryLeast and mostRefusals bound the pause after a refused reservation. A process waits until the queue is short
	// enough, and for a random time more. The random time is up to retryLeast, and four times as much after each further
	// refusal.
	retryLeast   = 100 * time.Millisecond
	mostRefusals = 4
	// impossibleQueue is the distance from now beyond which the time of the next dial in DynamoDB cannot be right. A
	// wrong clock or an edit by hand is the cause. A process that reads a time beyond impossibleQueue resets the time.
	impossibleQueue = 10 * time.Minute
	// localAfter is the number of consecutive failed calls after which DynamoDB counts as out of reach.
	localAfter = 2
	// raceMost is the longest pause after another process was faster to reserve saved tickets, unused rights to dial.
	raceMost = 50 * time.Millisecond
	// refusedRateLeast and refusedRateMost bound the pause after the cluster refused a connection because of the rate.
	refusedRateLeast = time.Second
	refusedRateMost  = 5 * time.Second
)

// ticketLedger is a process's part in the cluster's connection rate. A ticket is the right to dial once. Like
// slotLedger, ticketLedger does no I/O and receives the time as a parameter.
type ticketLedger struct {
	cfg             Config
	rng             *rand.Rand
	rate            int // per second; 0 while the settings are not known
	burst           int
	clock           tableClock
	due             []time.Duration // times of the reserved tickets, ascending
	demand          int             // tickets that callers wait for
	holders         int             // callers that have a slot and wait for a ticket
	batch           int
	keep            time.Duration // how long a due ticket stays valid
	pause           time.Duration // no reservation before this time
	refused         time.Duration // no dial before this time, because the cluster refused a dial for the rate
	wrong           int64
	queue           time.Duration // how far ahead the next ticket was at the last answer
	failing         int
	localAt         time.Duration // time of the next dial without a ticket
	refusals        int           // recent refusals of a reservation
	startingUntil   time.Duration // until then this process counts as just started
	last            int64         // time of the next ticket at the last answer; 0 for none yet
	others          bool          // other processes took tickets in this process's youngTime
	firstAt         time.Duration // no ticket ahead of the queue before this time
	smallBatchUntil time.Duration // until then this process reserves no more than modestMost
	// noSavedUntil is the time until which this process uses no saved ticket (unused right to dial), because the rate
	// changed.
	noSavedUntil time.Duration
	stats        ticketCounts
}

// ticketCounts holds counters of tickets, rights to dial once, for metrics.
type ticketCounts struct {
	Reserved, Used  uint64
	Stale           uint64 // not used in time
	Local           uint64 // dials by the local share
	Reservations    uint64
	Refused, Resets uint64 // refused for a long queue; impossible times reset
	Fails, Refusals uint64 // calls that failed; refusals by the cluster
}

func newTicketLedger(cfg Config, rng *rand.Rand) *ticketLedger {
	return &ticketLedger{cfg: cfg, rng: rng, batch: ticketBatch}
}

func (t *ticketLedger) setRate(s Settings) { t.rate, t.burst = s.Rate, s.Burst }

// thriftyBeats is the number of heartbeats after a change of the connection rate without use of saved tickets (unused
// rights to dial). All processes read the new rate within these heartbeats.
const thriftyBeats = 3

// replaceSettings replaces the settings. A process that has not read the new settings may still use tickets (rights
// to dial) that it counts as saved. So this process uses no saved tickets for a while: otherwise all processes
// together could exceed the cluster's burst.
func (t *ticketLedger) replaceSettings(s Settings, now time.Duration) {
	if t.rate != s.Rate || t.burst != s.Burst {
		t.setRate(s)
		t.noSavedUntil = now + thriftyBeats*t.cfg.Heartbeat
	}
}

// savedTickets returns the number of unused tickets (rights to dial once) of the past that may still be reserved.
func (t *ticketLedger) savedTickets(now time.Duration) int64 {
	if now < t.noSavedUntil {
		return 0
	}
	return int64(t.burst)
}

// interval returns the time between two tickets (rights to dial once), in microseconds of DynamoDB's clock.
func (t *ticketLedger) interval() int64 { return int64(time.Second/time.Microsecond) / int64(t.rate) }

// burstTime returns how long unused tickets (rights to dial) remain usable: the time in which a burst accumulates.
func (t *ticketLedger) burstTime() time.Duration {
	return time.Duration(int64(t.burst)*t.interval()) * time.Microsecond
}

// usesLocalShare reports whether the DynamoDB table is out of reach, so that dials use the reserved part of the rate.
func (t *ticketLedger) usesLocalShare() bool { return t.failing >= localAfter }

// localInterval returns the time between two dials of one process while the DynamoDB table is out of reach.
func (t *ticketLedger) localInterval() time.Duration {
	return time.Second * time.Duration(t.cfg.MaxInstances) / time.Duration(max(1, t.cfg.Reserve))
}

// takeTicket uses a ticket (right to dial once) that is due. Without such a ticket, takeTicket returns false, and the
// time to call it again if nothing happens earlier.
func (t *ticketLedger) takeTicket(now time.Duration) (ok bool, wake time.Duration) {
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
	if t.usesLocalShare() && t.cfg.Reserve > 0 {
		if t.localAt <= now {
			t.localAt = now + t.localInterval()
			t.stats.Local++
			return true, 0
		}
		wake = min(wake, t.localAt)
	}
	return false, wake
}

// nextReservation returns the reservation to make now, or nil and the time to call nextReservation again. A
// reservation is made when the last batch is used up, for at most as many dials as have slots.
//
// A process without backends may reserve one ticket (right to dial) in any queue. It may do so once a heartbeat,
// because its backends may fail right after the dial. Other reservations wait until the queue is short.
func (t *ticketLedger) nextReservation(now time.Duration, most, open int) (*storeCall, time.Duration) {
	want := min(t.demand, t.batch, most)
	if t.rate == 0 || want <= 0 || len(t.due) > 0 {
		return nil, never
	}
	if until := max(t.pause, t.refused); now < until {
		return nil, until
	}
	at := t.clock.tableMicros(now)
	r := Reservation{Tickets: 1, Interval: t.interval(), Floor: at - t.savedTickets(now)*t.interval(), Wrong: t.wrong}
	r.Ceiling = at + t.maxWait().Microseconds()
	first := open == 0 && now >= t.firstAt
	tenth := open >= modestMost
	if !tenth {
		want = min(want, modestMost-open)
	} else if now < t.smallBatchUntil {
		return nil, t.smallBatchUntil
	}
	switch left := t.startingUntil - now; {
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
	return &storeCall{kind: callReserve, reserve: r, first: first}, now
}

// maxWait returns how far ahead a ticket, the right to dial once, may be reserved. The table's rate may be lower than
// the rate for which MaxWait was configured. The queue of tickets must not grow to impossibleQueue, at which its time
// would be reset.
func (t *ticketLedger) maxWait() time.Duration {
	longest := impossibleQueue - ticketBatch*time.Duration(t.interval())*time.Microsecond - 2*clockError - time.Second
	return min(t.cfg.MaxWait, longest)
}

// handleAnswer handles the answer of a reservation. A lost answer only costs the tickets (rights to dial) of that
// reservation.
func (t *ticketLedger) handleAnswer(c *storeCall, a storeAnswer, now time.Duration) {
	if a.err != nil {
		t.recordFailure(now)
		return
	}
	t.failing = 0
	t.clock.observe(c.sent, now, a.at)
	r := c.reserve
	if t.queue = time.Duration(a.next-t.clock.tableMicros(now)) * time.Microsecond; t.queue < 0 {
		t.queue = 0
	}
	t.observeQueue(r, a, now)
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
			t.due = append(t.due, t.clock.processTime(first+int64(i)*r.Interval))
		}
	case t.queue > impossibleQueue:
		t.wrong = a.next
	case r.Wrong != 0: // another process was faster
		t.wrong = 0
	case a.next <= r.Ceiling:
		t.pause = now + randomUpTo(t.rng, raceMost)
	default:
		t.stats.Refused++
		wait := time.Duration(a.next-r.Ceiling) * time.Microsecond
		if left := t.startingUntil - now; left > 0 {
			wait = min(wait, left) // the ceiling rises then
		}
		spread := max(wait, retryLeast<<(2*t.refusals))
		t.pause = now + wait + randomUpTo(t.rng, min(spread, t.maxWait()/2))
		t.refusals = min(t.refusals+1, mostRefusals)
	}
}

// observeQueue records, in the first seconds of this process (youngTime), whether other processes reserve tickets and
// whether there is a queue of reserved tickets. A ticket is the right to dial once.
func (t *ticketLedger) observeQueue(r Reservation, a storeAnswer, now time.Duration) {
	alone := t.last
	if a.done {
		alone = max(t.last, r.Floor) + int64(r.Tickets)*r.Interval
	}
	if now < t.startingUntil {
		t.others = t.others || t.last != 0 && a.next != alone
		if t.queue > 0 {
			t.smallBatchUntil = max(t.smallBatchUntil, t.startingUntil, now+t.queue+firstDial)
		}
	}
	t.last = a.next
}

// recordFailure records a failed call for the settings or for a reservation. When DynamoDB is out of reach, the first
// dial comes at a random time, because other processes may have lost DynamoDB too.
func (t *ticketLedger) recordFailure(now time.Duration) {
	t.stats.Fails++
	t.pause = now + backoff(t.rng, t.failing, 5*time.Second)
	if t.failing++; t.failing == localAfter && t.localAt <= now {
		t.localAt = now + randomUpTo(t.rng, t.localInterval())
	}
}

// delayAfterRefusal delays dials after the cluster refused a connection for the rate. Some program that takes no
// tickets (rights to dial) uses the cluster's rate too.
func (t *ticketLedger) delayAfterRefusal(now time.Duration) {
	t.stats.Refusals++
	t.refused = max(t.refused, now+refusedRateLeast+randomUpTo(t.rng, refusedRateMost-refusedRateLeast))
	t.batch = max(1, t.batch/2)
}

// tableClock estimates the difference between DynamoDB's clock and the process's own clock. Each answer shows the
// second in which it was given, and so narrows the bounds of the difference.
type tableClock struct {
	low, high time.Duration // bounds of the difference
	at        time.Duration // when the bounds were last narrowed; 0 for never
}

// drift is a bound for the speed of clocks: two clocks diverge by at most 1/drift.
const drift = 1000

func (c *tableClock) observe(sent, received time.Duration, at TableTime) {
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

// tableMicros returns DynamoDB's time at the process's time now, in microseconds. processTime is the inverse function.
func (c *tableClock) tableMicros(now time.Duration) int64 {
	return (now + c.clockOffset()).Microseconds()
}

func (c *tableClock) processTime(micros int64) time.Duration {
	return time.Duration(micros)*time.Microsecond - c.clockOffset()
}

func (c *tableClock) clockOffset() time.Duration { return c.low + (c.high-c.low)/2 }
