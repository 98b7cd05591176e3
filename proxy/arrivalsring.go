package proxy

// ring is a list of arrivals, oldest first, whose links stand in the arrivals themselves: a
// connection costs it no memory. The zero value is empty. Its owner's lock guards it, and the
// places of those in it.
type ring struct {
	first, last *arrival
	n           int
}

// ringPlace is where an arrival stands: in one ring at most, nil for none.
type ringPlace struct {
	in             *ring
	previous, next *arrival
}

// add puts an arrival that stands nowhere at the end.
func (r *ring) add(in *arrival) {
	in.place = ringPlace{in: r, previous: r.last}
	if r.last == nil {
		r.first = in
	} else {
		r.last.place.next = in
	}
	r.last = in
	r.n++
}

// remove takes out an arrival that stands in the ring.
func (r *ring) remove(in *arrival) {
	at := in.place
	if at.previous == nil {
		r.first = at.next
	} else {
		at.previous.place.next = at.next
	}
	if at.next == nil {
		r.last = at.previous
	} else {
		at.next.place.previous = at.previous
	}
	in.place = ringPlace{}
	r.n--
}
