package admission

// connList holds connections, the oldest first. The links are in the connections, so that a list needs no memory for
// them. The zero list is empty. The lock of a ConnLimiter guards its lists and the places of its connections.
type connList struct {
	first, last *Conn
	n           int
}

// listLinks is a connection's position in a list. A connection is in at most one list.
type listLinks struct {
	in             *connList
	previous, next *Conn
}

// add appends a connection that is in no list yet.
func (l *connList) add(in *Conn) {
	in.place = listLinks{in: l, previous: l.last}
	if l.last == nil {
		l.first = in
	} else {
		l.last.place.next = in
	}
	l.last = in
	l.n++
}

// remove removes a connection from its list. The connection must be in this list.
func (l *connList) remove(in *Conn) {
	at := in.place
	if at.previous == nil {
		l.first = at.next
	} else {
		at.previous.place.next = at.next
	}
	if at.next == nil {
		l.last = at.previous
	} else {
		at.next.place.previous = at.previous
	}
	in.place = listLinks{}
	l.n--
}
