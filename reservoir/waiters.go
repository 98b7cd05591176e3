package reservoir

import (
	"errors"
	"time"
)

// waitQueue is a first-come queue of borrowers that wait for a T. Borrowers that overtake others (AcquireAhead) wait
// in a separate part at the head of the queue. The Reservoir's mutex guards a waitQueue.
//
// A wait allocates neither a channel nor a timer: channels are reused, and one timer (Reservoir.expiry) ends all
// waits. All waits are equally long, so in each part of the queue the wait of the first borrower ends first.
type waitQueue[T any] struct {
	first, last *waiter[T]
	ahead       *waiter[T] // the last one that goes ahead; nil for none
	count       int
}

// waiter is one borrower's wait, which ends with one answer.
type waiter[T any] struct {
	answer     chan waitResult[T] // capacity 1: the sender never waits
	queued     bool
	until      time.Time // when the wait ends
	prev, next *waiter[T]
}

// waitResult is the result of a wait: a T, or an error.
type waitResult[T any] struct {
	served T
	err    error
}

// errExpired is the error of a wait that reached its bound. The caller returns a *NoBackendError to the borrower.
var errExpired = errors.New("waited for too long")

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan waitResult[T], 1)} }

func (q *waitQueue[T]) enqueue(w *waiter[T], ahead bool, until time.Time) {
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

// removeWaiter removes w from the queue. removeWaiter returns false if w has been answered already.
func (q *waitQueue[T]) removeWaiter(w *waiter[T]) bool {
	if !w.queued {
		return false
	}
	if q.ahead == w { // the one before the last also goes ahead
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

// serveFirst gives v to the first waiter in the queue. The queue must not be empty.
func (q *waitQueue[T]) serveFirst(v T) {
	w := q.first
	q.removeWaiter(w)
	w.answer <- waitResult[T]{served: v}
}

// refuseWaiter ends w's wait with an error. refuseWaiter returns false if the wait is over already.
func (q *waitQueue[T]) refuseWaiter(w *waiter[T], err error) bool {
	left := q.removeWaiter(w)
	if left {
		w.answer <- waitResult[T]{err: err}
	}
	return left
}

// refuseAll ends the waits of all borrowers in the queue with an error.
func (q *waitQueue[T]) refuseAll(err error) {
	for q.first != nil {
		q.refuseWaiter(q.first, err)
	}
}

// expireWaits ends the waits whose time has passed. expireWaits returns their number, and the time when the next
// wait ends (zero if the queue is empty).
func (q *waitQueue[T]) expireWaits(now time.Time) (ended int, next time.Time) {
	due := func(w *waiter[T]) bool { return w != nil && !now.Before(w.until) }
	for ; due(q.first); ended++ {
		q.refuseWaiter(q.first, errExpired)
	}
	for ; due(q.firstNotAhead()); ended++ {
		q.refuseWaiter(q.firstNotAhead(), errExpired)
	}
	for _, w := range []*waiter[T]{q.first, q.firstNotAhead()} {
		if w != nil && (next.IsZero() || w.until.Before(next)) {
			next = w.until
		}
	}
	return ended, next
}

// firstNotAhead returns the first waiter in the queue that does not overtake others, or nil.
func (q *waitQueue[T]) firstNotAhead() *waiter[T] {
	if q.ahead != nil {
		return q.ahead.next
	}
	return q.first
}
