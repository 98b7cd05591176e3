package advisory

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Who waits in one process is served in the order of arrival; who gives up leaves its place.
func TestQueueInOrder(t *testing.T) {
	t.Parallel()
	var q WaitQueue
	first, err := q.Join(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := q.Join(t.Context(), "b"); err != nil {
		t.Fatal("another lock's line:", err)
	} else {
		other()
	}
	const waiters = 5
	served := make(chan int, waiters)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	for i := range waiters {
		go func() {
			of := t.Context()
			if i == 2 {
				of = ctx
			}
			leave, err := q.Join(of, "a")
			if err != nil {
				ended <- err
				return
			}
			served <- i
			leave()
		}()
		for q.LineLength("a") != i+2 {
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("a wait that was ended: %v", err)
	}
	first()
	var got []int
	for range waiters - 1 {
		got = append(got, <-served)
	}
	if !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("served %v", got)
	}
	for q.LineLength("a") > 0 {
		time.Sleep(time.Millisecond)
	}
	if len(q.lines) != 0 {
		t.Errorf("%d lines are left", len(q.lines))
	}
}

// longestWait has so many processes fight for a lock, each of which holds it briefly and wants it
// again, and returns the longest wait in ten minutes of virtual time.
func longestWait(seed uint64, processes int, pacer func() func(epoch int64) time.Duration) time.Duration {
	type waiter struct {
		since, next time.Duration
		pause       func(int64) time.Duration
	}
	rnd := rand.New(rand.NewPCG(seed, 77))
	jittered := func(d time.Duration) time.Duration { return d*3/4 + time.Duration(rnd.Int64N(int64(d/2)+1)) }
	all := make([]waiter, processes)
	for i := range all {
		all[i] = waiter{next: time.Duration(rnd.Int64N(int64(time.Second))), pause: pacer()}
	}
	var free, longest time.Duration
	for epoch := int64(0); ; {
		w := &all[0]
		for i := range all {
			if all[i].next < w.next {
				w = &all[i]
			}
		}
		now := w.next
		if now > 10*time.Minute {
			return longest
		}
		if now < free {
			w.next = now + jittered(w.pause(epoch))
			continue
		}
		longest = max(longest, now-w.since)
		epoch++
		free = now + time.Duration(rnd.Int64N(int64(100*time.Millisecond)))
		*w = waiter{since: free, next: free + time.Duration(rnd.Int64N(int64(10*time.Millisecond))), pause: pacer()}
	}
}

// Among processes nobody waits for much longer than others: who was passed over looks more often.
// By pauses that grow for all, one of twelve waits for many times as long.
func TestWaitsAmongProcesses(t *testing.T) {
	t.Parallel()
	ours := func() func(int64) time.Duration { return new(PollPacer).NextPause }
	growing := func() func(int64) time.Duration {
		pause := 25 * time.Millisecond
		return func(int64) time.Duration { pause = min(2*pause, time.Second); return pause }
	}
	var longest, unfair time.Duration
	for seed := range uint64(30) {
		longest, unfair = max(longest, longestWait(seed, 12, ours)), max(unfair, longestWait(seed, 12, growing))
	}
	t.Logf("longest wait of twelve: %v; by pauses that grow for all: %v", longest, unfair)
	if longest > 10*time.Second {
		t.Errorf("one of twelve waited for %v", longest)
	}
	if unfair < 2*longest {
		t.Errorf("pauses that grow for all have a longest wait of %v, ours of %v", unfair, longest)
	}
}

// Whose lock stays with one holder looks once a second, however often it was passed over before.
func TestPatience(t *testing.T) {
	t.Parallel()
	var p PollPacer
	for epoch := range int64(20) {
		p.NextPause(100 + epoch)
	}
	if got := p.NextPause(120); got > 10*time.Millisecond {
		t.Errorf("passed over 20 times: %v", got)
	}
	for range 10 {
		p.NextPause(120)
	}
	if got := p.NextPause(120); got != time.Second {
		t.Errorf("behind ten looks at one holder: %v", got)
	}
	if got := p.NextPause(1); got != pauseFirst {
		t.Errorf("a row that is new: %v", got)
	}
}
