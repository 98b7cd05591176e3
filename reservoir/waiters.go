package reservoir

import "container/list"

// waiters is a queue, first come, first served, of borrowers that wait for a T;
// those who go ahead are a queue in front of it. The Reservoir's mutex guards it.
type waiters[T any] struct {
	queue list.List     // of *waiter[T]
	ahead *list.Element // the last of those who go ahead; nil: nobody does
}

// waiter is one of them. served gets one value, or is closed.
type waiter[T any] struct {
	served  chan T
	element *list.Element
}

func (q *waiters[T]) join(ahead bool) *waiter[T] {
	w := &waiter[T]{served: make(chan T, 1)}
	switch {
	case !ahead:
		w.element = q.queue.PushBack(w)
		return w
	case q.ahead == nil:
		w.element = q.queue.PushFront(w)
	default:
		w.element = q.queue.InsertAfter(w, q.ahead)
	}
	q.ahead = w.element
	return w
}

// leave takes w out of the queue, or reports false: it has been served.
func (q *waiters[T]) leave(w *waiter[T]) bool {
	if w.element == nil {
		return false
	}
	if q.ahead == w.element { // who is before the last of them is one, too
		q.ahead = w.element.Prev()
	}
	q.queue.Remove(w.element)
	w.element = nil
	return true
}

// serve gives v to the first in the queue. There must be one.
func (q *waiters[T]) serve(v T) {
	w := q.queue.Front().Value.(*waiter[T])
	q.leave(w)
	w.served <- v
}

// dismiss sends everybody away.
func (q *waiters[T]) dismiss() {
	for q.queue.Len() > 0 {
		w := q.queue.Front().Value.(*waiter[T])
		q.leave(w)
		close(w.served)
	}
}
