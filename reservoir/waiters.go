package reservoir

import (
	"errors"
	"time"
)

// waiters is a queue, first come, first served, of borrowers that wait for a T;
// those who go ahead are a queue in front of it. The Reservoir's mutex guards it.
//
// A wait makes neither a channel nor a timer: a waiter's channel is used again,
// and one timer for all (Reservoir.expiry) watches the waits' ends. All waits are
// equally long, so in each of the two queues who came first ends first.
type waiters[T any] struct {
	first, last *waiter[T]
	ahead       *waiter[T] // the last of those who go ahead; nil: nobody does
	count       int
}

// waiter is one of them. Each wait ends with one answer.
type waiter[T any] struct {
	answer     chan ending[T] // of capacity 1: who answers never waits
	queued     bool
	until      time.Time // when the wait ends
	prev, next *waiter[T]
}

// ending is what a wait ended with.
type ending[T any] struct {
	served T
	err    error
}

// errExpired ends a wait that was as long as may be; its waiter says so in other words.
var errExpired = errors.New("waited for too long")

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan ending[T], 1)} }

func (q *waiters[T]) join(w *waiter[T], ahead bool, until time.Time) {
	w.queued, w.until = true, until
	w.prev = q.last
	if ahead {
		w.prev = q.ahead
		q.ahead = w
	}
	if w.prev != nil {
		w.next, w.prev.next = w.prev.next, w
	} else {
		w.next, q.first = q.first, w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		q.last = w
	}
	q.count++
}

// leave takes w out of the queue, or reports false: it is not in there, and has its answer.
func (q *waiters[T]) leave(w *waiter[T]) bool {
	if !w.queued {
		return false
	}
	if q.ahead == w { // who is before the last of them is one, too
		q.ahead = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.queued, w.prev, w.next = false, nil, nil
	q.count--
	return true
}

// serve gives v to the first in the queue. There must be one.
func (q *waiters[T]) serve(v T) {
	w := q.first
	q.leave(w)
	w.answer <- ending[T]{served: v}
}

// refuse ends the wait of one, with an error; false: it is over.
func (q *waiters[T]) refuse(w *waiter[T], err error) bool {
	left := q.leave(w)
	if left {
		w.answer <- ending[T]{err: err}
	}
	return left
}

// dismiss sends everybody away.
func (q *waiters[T]) dismiss(err error) {
	for q.first != nil {
		q.refuse(q.first, err)
	}
}

// expire ends the waits that are over by now, and says how many they were and when the next
// one will be: zero for never.
func (q *waiters[T]) expire(now time.Time) (ended int, next time.Time) {
	due := func(w *waiter[T]) bool { return w != nil && !now.Before(w.until) }
	for ; due(q.first); ended++ {
		q.refuse(q.first, errExpired)
	}
	for ; due(q.behind()); ended++ {
		q.refuse(q.behind(), errExpired)
	}
	for _, w := range []*waiter[T]{q.first, q.behind()} {
		if w != nil && (next.IsZero() || w.until.Before(next)) {
			next = w.until
		}
	}
	return ended, next
}

// behind is the first of those who do not go ahead; nil: there is none.
func (q *waiters[T]) behind() *waiter[T] {
	if q.ahead != nil {
		return q.ahead.next
	}
	return q.first
}
