package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

// queue is the tickets' item and its clock, with any number of processes.
type queue struct {
	t    *testing.T
	next int64
	open int           // backends of who reserves
	now  time.Duration // true time
}

func (q *queue) stamp() TableTime { return TableTime(tableEpoch.Add(q.now).Truncate(time.Second)) }

// process returns tickets whose own clock differs by skew.
func (q *queue) process(skew time.Duration) (*ticketLedger, func() time.Duration) {
	cfg := worldConfig()
	tk := newTicketLedger(cfg, rand.New(rand.NewPCG(1, uint64(skew))))
	tk.setRate(cfg.tableSettings())
	at := func() time.Duration { return q.now + skew }
	tk.clock.observe(at(), at(), q.stamp())
	return tk, at
}

// reserve lets the process make the reservation it wants, if any.
func (q *queue) reserve(tk *ticketLedger, now time.Duration) bool {
	c, _ := tk.nextReservation(now, 100, q.open)
	if c == nil {
		return false
	}
	c.sent = now
	next, done := c.reserve.Apply(q.next)
	q.next = next
	tk.handleAnswer(c, storeAnswer{next: next, done: done, at: q.stamp()}, now)
	return true
}

// The longest queue that there can be is not taken for a mistake of some clock, also
// where the table's rate is far below the configured one. A configuration that asks for
// a longer one is refused.
func TestLongestQueueIsNotSetBack(t *testing.T) {
	t.Parallel()
	for wait, valid := range map[time.Duration]bool{9*time.Minute + 56*time.Second: true, 10*time.Minute + time.Second: false} {
		cfg := worldConfig()
		cfg.MaxWait = wait
		if err := cfg.Validate(); (err == nil) != valid {
			t.Errorf("%v: %v", wait, err)
		}
		q := &queue{t: t}
		for i := range 300 {
			tk, at := q.process(time.Duration(i) * 17 * time.Minute)
			tk.setRate(Settings{Rate: 1, Burst: 5})
			tk.cfg.MaxWait, tk.demand = wait, 10_000
			for range 30 {
				tk.due, tk.firstAt, tk.pause = nil, 0, 0
				q.reserve(tk, at())
			}
			if tk.stats.Resets > 0 || tk.wrong != 0 {
				t.Fatalf("%v: a queue of %v is set back", wait, tk.queue)
			}
		}
		if ahead := time.Duration(q.next-tableEpoch.UnixMicro()) * time.Microsecond; ahead < 9*time.Minute+30*time.Second {
			t.Errorf("%v: the queue is %v long only: the test says little", wait, ahead)
		}
	}
}

// Who has no backend takes one ticket ahead of those who have some, once a heartbeat.
func TestFirstTicketGoesAhead(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, now: time.Hour, open: 20}
	rich, at := q.process(0)
	rich.demand = 50
	const ahead = 5 * time.Second
	q.next = rich.clock.tableMicros(at()) + ahead.Microseconds()
	if q.reserve(rich, at()); len(rich.due) != 0 {
		t.Errorf("%d tickets behind a queue for who has 20 backends", len(rich.due))
	}
	q.open = 0
	poor, at := q.process(time.Hour)
	poor.demand = 50
	if q.reserve(poor, at()); len(poor.due) != 1 {
		t.Fatalf("%d tickets for who has no backend", len(poor.due))
	}
	poor.due = nil
	if q.reserve(poor, at()); len(poor.due) != 0 && len(poor.due) != modestMost {
		t.Errorf("its backend failed, and it goes ahead again: %d tickets", len(poor.due))
	}
	q.now += poor.cfg.Heartbeat + ahead
	poor.pause, poor.due = 0, nil
	if q.next = poor.clock.tableMicros(at()) + (poor.cfg.MaxWait - time.Second).Microseconds(); !q.reserve(poor, at()) || len(poor.due) != 1 {
		t.Errorf("%d tickets a heartbeat later", len(poor.due))
	}
}

// The tenth backend is reserved by itself. Who met a queue when it was young waits for it until it is not, however
// empty the queue is by then; who is young and not alone, until there has been no queue for a while; who is alone does
// not wait.
func TestNoTenthWhileOthersHaveNone(t *testing.T) {
	t.Parallel()
	const late, soon = youngTime - time.Second, firstDial - 100*time.Millisecond
	for _, test := range []struct {
		name           string
		queue          time.Duration // that it meets first
		others         bool          // take a ticket after that
		after, idle    time.Duration // since then, and since the queue's end
		open, reserved int
	}{
		{"the ninth", 0, true, late, soon, 7, 2},
		{"the tenth, alone", 0, false, late, soon, 9, youngBatch},
		{"the tenth, not alone", 0, true, late, soon, 9, 0},
		{"the tenth, not alone, and no queue for a while", 0, true, late, firstDial + time.Millisecond, 9, youngBatch},
		{"the ninth, behind a queue", 5 * time.Second, true, late, soon, 7, 2},
		{"the tenth, behind a queue", 5 * time.Second, true, late, time.Hour, 9, 0},
		{"the tenth, behind a queue, not young", 5 * time.Second, true, youngTime + time.Second, 0, 9, ticketBatch},
		{"the tenth, behind a longer queue, not young", 11 * time.Second, true, youngTime + time.Second, 0, 9, 0},
		{"the ninth, not young", 0, true, youngTime + time.Second, 0, 7, 2},
	} {
		q := &queue{t: t, now: time.Hour, open: 1}
		tk, at := q.process(time.Minute)
		tk.demand, tk.startingUntil = 50, at()+youngTime
		if q.next = 1; test.queue > 0 {
			q.next = tk.clock.tableMicros(at()) + test.queue.Microseconds()
		}
		if q.reserve(tk, at()); (len(tk.due) == 0) != (test.queue > 0) {
			t.Fatalf("%s: %d tickets at first", test.name, len(tk.due))
		}
		if tk.due, tk.pause = nil, 0; test.others {
			q.next += tk.interval()
			q.reserve(tk, at())
		}
		q.now, q.open, tk.due, tk.pause = time.Hour+test.after, test.open, nil, 0
		if test.others {
			q.next = tk.clock.tableMicros(at()) - test.idle.Microseconds()
		}
		if q.reserve(tk, at()); len(tk.due) != test.reserved {
			t.Errorf("%s: %d tickets, want %d", test.name, len(tk.due), test.reserved)
		}
	}
}

// After a change of the rate, what was saved up is not used by both who know of it
// and who do not.
func TestNothingSavedIsUsedTwiceWhenTheRateChanges(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, now: time.Hour, open: 1}
	slow := Settings{Rate: 10, Burst: 400}
	used := 0
	for i := range 100 {
		tk, at := q.process(time.Duration(i) * time.Minute)
		tk.demand = 50
		if i < 35 { // they know of it, and of more saved-up time than others
			tk.replaceSettings(slow, at())
		}
		q.reserve(tk, at())
		for ok := true; ok; {
			if ok, _ = tk.takeTicket(at()); ok {
				used++
			}
		}
	}
	if most := 400 + ticketBatch; used > most {
		t.Errorf("%d dials at once, want %d at most", used, most)
	}
}

// Whatever two clocks say, and however long dials wait for a ticket, the uses of
// all fit into the cluster's bucket.
func TestTicketsFitTheClustersBucket(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, open: 1}
	rng := rand.New(rand.NewPCG(5, 5))
	type process struct {
		tk *ticketLedger
		at func() time.Duration
	}
	var processes []process
	for i := range 20 {
		tk, at := q.process(time.Duration(i) * 17 * time.Minute)
		tk.demand = 1000
		processes = append(processes, process{tk, at})
	}
	level, used := float64(burstQuota), 0
	for step := range 60_000 {
		q.now += 10 * time.Millisecond
		level = min(burstQuota, level+1)
		p := processes[rng.IntN(len(processes))]
		if step/6000%2 == 1 {
			continue // everybody pauses, and saves up what it may
		}
		q.reserve(p.tk, p.at())
		for {
			ok, _ := p.tk.takeTicket(p.at())
			if !ok {
				break
			}
			used++
			if level--; level < 0 {
				t.Fatalf("over the cluster's rate after %v and %d dials", q.now, used)
			}
		}
	}
	if most := 300 * 90; used < most*8/10 {
		t.Errorf("%d dials in 300 s, of some %d", used, most)
	}
}

func TestStaleTicketsAreNotUsed(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, now: time.Hour, open: 1}
	tk, at := q.process(0)
	tk.demand = 5
	q.reserve(tk, at())
	q.now += tk.burstTime()*2 + ticketValidity + time.Second
	if ok, _ := tk.takeTicket(at()); ok {
		t.Error("a ticket of long ago was used")
	}
	if tk.stats.Stale != 5 {
		t.Errorf("%d stale, want 5", tk.stats.Stale)
	}
}

func TestQueueIsNotJoinedBeyondMaxWait(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, now: time.Hour, open: 1}
	tk, at := q.process(0)
	tk.demand = 5
	far := tk.clock.tableMicros(at()) + 2*tk.cfg.MaxWait.Microseconds()
	q.next = far
	q.reserve(tk, at())
	if q.next != far || len(tk.due) != 0 {
		t.Fatal("a ticket was reserved beyond max_wait")
	}
	_, again := tk.nextReservation(at(), 100, 1)
	if wait := again - at(); wait < tk.cfg.MaxWait || wait > tk.cfg.MaxWait*5/2 {
		t.Errorf("it comes back after %v", wait)
	}
	q.now = again
	if !q.reserve(tk, at()) || len(tk.due) != 5 {
		t.Error("no ticket once the queue is short")
	}
}

func TestImpossibleTicketTimeIsSetBack(t *testing.T) {
	t.Parallel()
	q := &queue{t: t, now: time.Hour}
	tk, at := q.process(0)
	tk.demand = 5
	q.next = tk.clock.tableMicros(at()) + 2*impossibleQueue.Microseconds()
	q.reserve(tk, at())
	q.reserve(tk, at())
	if ok, _ := tk.takeTicket(at()); !ok || tk.stats.Resets != 1 {
		t.Errorf("no ticket after a reset: %+v", tk.stats)
	}
}

// Out of reach of the table every process has its part of the reserve, from a
// random moment on, and no burst.
func TestLocalShare(t *testing.T) {
	t.Parallel()
	const processes, seconds = 400, 1000
	dials, most := 0, 0
	bySecond := make([]int, seconds)
	for i := range processes {
		cfg := Defaults()
		cfg.Rate, cfg.Table, cfg.MaxInstances = true, "t", processes
		tk := newTicketLedger(cfg, rand.New(rand.NewPCG(9, uint64(i))))
		tk.setRate(cfg.tableSettings())
		tk.demand = 10
		for range localAfter {
			tk.recordFailure(0)
		}
		for now := time.Duration(0); now < seconds*time.Second; now += 100 * time.Millisecond {
			if ok, _ := tk.takeTicket(now); ok {
				dials++
				bySecond[now/time.Second]++
			}
			if now%(7*time.Second) == 0 { // it flaps
				tk.failing = 0
				tk.recordFailure(now)
				tk.recordFailure(now)
			}
		}
	}
	for _, n := range bySecond {
		most = max(most, n)
	}
	if want := seconds * DefaultReserve; dials > want || dials < want/10 {
		t.Errorf("%d dials in %d s, want some of %d", dials, seconds, want)
	}
	if most > 4*DefaultReserve {
		t.Errorf("%d dials in one second", most)
	}
}

func TestTableClock(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	var c tableClock
	const skew = 3 * time.Hour
	now := time.Minute
	check := func(most time.Duration) {
		t.Helper()
		truth := tableEpoch.Add(now + skew).UnixMicro()
		if off := time.Duration(c.tableMicros(now)-truth) * time.Microsecond; off.Abs() > most {
			t.Errorf("the clock is off by %v", off)
		}
	}
	for range 50 {
		now += time.Duration(rng.Int64N(int64(5 * time.Second)))
		sent := now
		now += 10 * time.Millisecond
		c.observe(sent, now, TableTime(tableEpoch.Add(now-5*time.Millisecond+skew).Truncate(time.Second)))
		check(clockError)
	}
	check(100 * time.Millisecond) // each answer narrowed it down
	c.observe(now, now, TableTime(tableEpoch.Add(now+skew+time.Hour).Truncate(time.Second)))
	if c.clockOffset() < skew+50*time.Minute {
		t.Error("a step of the table's clock went unnoticed")
	}
	before := c
	c.observe(now, now, TableTime{})
	if c != before {
		t.Error("an answer without a time moved the clock")
	}
}
