package retry

import "encoding/binary"

// output is what a turn has answered so far. Its position in the turn counts
// the digested bytes and the frames that are not digested. Requests that are the
// same have their answers in the same order, so the two counts together say what
// a client has seen.
type output struct {
	digest     digest
	others     int // frames for the client that are not digested
	statements int // that were completed
	verb       Verb
	failed     bool
}

func (o *output) reset() {
	o.digest.reset()
	o.others, o.statements, o.verb, o.failed = 0, 0, OtherVerb, false
}

// mark is a position in a turn's output.
type mark struct {
	sum
	others     int
	statements int
}

// Delivered notes that everything answered so far was sent to the client. The
// caller sends held output whole, or not at all.
func (l *Log[R]) Delivered() {
	if l == nil || l.refused != Replayable || l.behind() {
		return
	}
	if o := &l.out; o.digest.bytes != l.delivered.bytes || o.others != l.delivered.others {
		l.delivered = mark{sum: o.digest.sum(), others: o.others, statements: o.statements}
	}
}

// Untold reports whether nothing of the turn in progress was sent to the client
// and no turn came before it: then a replay has nothing to match.
func (l *Log[R]) Untold() bool { return len(l.turns) == 0 && l.delivered == mark{} }

// Rewind begins a replay: the replies that follow are those to the first turn's
// frames, sent once more. It reports false when the transaction is not
// replayable. A replay that meets a conflict begins again with Rewind.
func (l *Log[R]) Rewind() bool {
	if !l.Replayable() {
		return false
	}
	l.at = 0
	l.out.reset()
	l.diff = Difference{}
	return true
}

// At is the turn whose replies are awaited. During a replay it is less than
// Turns until every settled turn has been answered as before.
func (l *Log[R]) At() int { return l.at }

// Difference is where a replay differed.
func (l *Log[R]) Difference() Difference { return l.diff }

// Acknowledged is how many answers to the turn in progress the client has been sent
// that are not digested: acknowledgements, and what was made up.
func (l *Log[R]) Acknowledged() int { return l.delivered.others }

// Acknowledging is how many such answers have come, be they sent to the client yet or not.
func (l *Log[R]) Acknowledging() int { return l.out.others }

// Behind reports whether the client has been sent something of the turn in
// progress, or of one before it, that the replay has not come to yet. A frame
// that commits must not be sent before.
func (l *Log[R]) Behind() bool { return l.Replayable() && l.behind() }

// Begun reports whether a part of the answer of the turn in progress was sent to the client.
func (l *Log[R]) Begun() bool { return l.delivered.bytes > 0 }

// Stands goes past a settled turn whose answer stands: nothing of the turn is sent again.
func (l *Log[R]) Stands() {
	l.at++
	l.out.reset()
}

// behind reports whether the client has already seen what comes next.
func (l *Log[R]) behind() bool {
	return l.at < len(l.turns) || l.out.digest.bytes < l.delivered.bytes || l.out.others < l.delivered.others
}

// Rows notes bytes of whole frames that are digested as they are: DataRow and
// CopyData, as many as there are, and the rest of a frame whose beginning was
// given to Rows or Reply. Where a span is cut does not matter.
//
// drop is how many of the leading bytes the client has already: it is sent the
// rest. ok is false when the replay differs: nothing may be sent, and the
// transaction has failed. Outside a replay drop is 0 and ok true.
func (l *Log[R]) Rows(span []byte) (drop int, ok bool) {
	if l == nil || l.refused != Replayable {
		return 0, l == nil || !l.stuck
	}
	o := &l.out
	if l.at < len(l.turns) {
		o.digest.write(span)
		return len(span), true
	}
	left := l.delivered.bytes - o.digest.bytes
	if left <= 0 {
		o.digest.write(span)
		return 0, true
	}
	if left > int64(len(span)) {
		o.digest.write(span)
		return len(span), true
	}
	o.digest.write(span[:left])
	if o.digest.sum() != l.delivered.sum {
		return len(span), l.differs(o.statements+1, Values)
	}
	o.digest.write(span[left:])
	return int(left), true
}

// Reply notes one frame of the server that is meant for the client, or the
// beginning of one that is too long for a buffer, but at least its first
// kilobyte; the rest follows by Rows, unless the frame is an error or a notice,
// whose rest counts for nothing. The results are those of Rows.
//
// Not for Reply: what we asked for ourselves, the error that reports a conflict,
// and the ReadyForQuery behind that.
func (l *Log[R]) Reply(typ byte, frame []byte) (drop int, ok bool) {
	if l == nil || l.refused != Replayable {
		return 0, l == nil || !l.stuck
	}
	o := &l.out
	switch typ {
	case 'S', 'A':
		// They come when they like. Parameters are compared as a map, elsewhere.
		if l.behind() {
			return len(frame), true
		}
		return 0, true
	case '1', '2', '3':
		return l.Made(len(frame)), true
	case 'E', 'N':
		if typ == 'E' {
			o.failed = true
			o.statements++
		}
		return l.reply(typ, frame, typ == 'E' && l.AwaitsError())
	case 'Z':
		if l.at > 0 && l.at == len(l.turns) && l.turns[l.at-1].broken {
			return len(frame), true // the turn is over
		}
		return l.reply(typ, frame, true)
	case 'C':
		if o.verb == OtherVerb && len(frame) > headerLen {
			o.verb = VerbOf(frame[headerLen : len(frame)-1])
		}
		o.statements++
	case 'I', 's':
		o.statements++
	}
	return l.Rows(frame)
}

// Made notes one answer of size bytes that was made up for the client, however
// many frames it has; a replay has to make it up again. It returns how many of
// the bytes to drop: all or none.
func (l *Log[R]) Made(size int) (drop int) {
	if l == nil || l.refused != Replayable {
		if l != nil && l.stuck {
			return size
		}
		return 0
	}
	o := &l.out
	o.others++
	if l.at < len(l.turns) || o.others <= l.delivered.others {
		return size
	}
	return 0
}

// reply notes a frame by what counts of it: severity and SQLSTATE of an error or
// notice, the status of a ReadyForQuery. ends: the turn ends with it.
func (l *Log[R]) reply(typ byte, frame []byte, ends bool) (drop int, ok bool) {
	var buf [64]byte
	short := append(buf[:0], typ, 0, 0, 0, 0)
	if len(frame) > headerLen {
		if payload := frame[headerLen:]; typ == 'Z' {
			short = append(short, payload...)
		} else {
			short = appendCounted(short, Field(payload, 'V'))
			short = appendCounted(short, Field(payload, 'C'))
		}
	}
	binary.BigEndian.PutUint32(short[1:], uint32(len(short)-1))
	if ends {
		return l.settle(short, len(frame), false)
	}
	// A client is never sent part of such a frame, so it has all of it or nothing.
	n, ok := l.Rows(short)
	if n > 0 {
		n = len(frame)
	}
	return n, ok
}

// appendCounted appends at most 16 bytes of b behind their number.
func appendCounted(dst, b []byte) []byte {
	b = b[:min(len(b), 16)]
	return append(append(dst, byte(len(b))), b...)
}

// settle ends a turn: short is what counts of the frame that ends it, size its own
// length; a turn that is cut has none.
func (l *Log[R]) settle(short []byte, size int, cut bool) (drop int, ok bool) {
	o := &l.out
	if l.at < len(l.turns) {
		o.digest.write(short)
		t := &l.turns[l.at]
		if got := o.digest.sum(); o.failed != t.failed || got != t.sum && !t.blind {
			what := Values
			switch {
			case o.failed != t.failed:
				what = Outcome
			case got.bytes != t.sum.bytes:
				what = Size
			}
			return size, l.differs(t.statements, what)
		}
		l.at++
		o.reset()
		return size, true
	}
	if l.behind() {
		return size, l.differs(max(l.delivered.statements, o.statements), Size)
	}
	o.digest.write(short)
	if !l.charge(turnCost) {
		return 0, true
	}
	l.turns = append(l.turns, turn{frames: len(l.frames), sum: o.digest.sum(), statements: o.statements,
		verb: o.verb, failed: o.failed, wrote: l.wrote, cut: cut})
	l.at++
	o.reset()
	l.delivered, l.wrote = mark{}, false
	return 0, true
}

// differs notes where the turn that is awaited differs: among the first
// statements of it. It returns false.
func (l *Log[R]) differs(statements int, what What) bool {
	before := 0
	for i := range l.turns[:l.at] {
		before += l.turns[i].statements
	}
	verb := l.out.verb
	if l.at < len(l.turns) {
		verb = l.turns[l.at].verb
	}
	l.diff = Difference{First: before + 1, Last: before + max(1, statements), Verb: verb, What: what}
	return false
}
