package retry

import "encoding/binary"

// output is the answer of a turn so far. A position in it is the number of hashed bytes and the number of frames that
// are not hashed. Equal requests have their answers in the same order, so both counts together give a client's
// position.
type output struct {
	digest     digest
	others     int // frames for the client that are not hashed
	statements int // completed statements
	verb       Verb
	failed     bool
}

func (o *output) reset() {
	o.digest.reset()
	o.others, o.statements, o.verb, o.failed = 0, 0, OtherVerb, false
}

// mark is a position in the output of a turn.
type mark struct {
	sum
	others     int
	statements int
}

// Delivered records that all answers so far were sent to the client. The caller sends held output completely or not at
// all.
func (l *Log[R]) Delivered() {
	if l == nil || l.refused != Replayable || l.behind() {
		return
	}
	if o := &l.out; o.digest.bytes != l.delivered.bytes || o.others != l.delivered.others {
		l.delivered = mark{sum: o.digest.sum(), others: o.others, statements: o.statements}
	}
}

// Untold reports whether the client has no answer of any turn, so that a replay need not match any answer.
func (l *Log[R]) Untold() bool { return len(l.turns) == 0 && l.delivered == mark{} }

// Rewind begins a replay: the next replies answer the first turn's frames again. Rewind returns false when the
// transaction is not replayable. A replay that meets a conflict begins again with Rewind.
func (l *Log[R]) Rewind() bool {
	if !l.Replayable() {
		return false
	}
	l.at = 0
	l.out.reset()
	l.diff = Difference{}
	return true
}

// At returns the index of the turn whose replies are due. In a replay, At is below Turns until every settled turn has
// been answered again.
func (l *Log[R]) At() int { return l.at }

// Difference returns the first difference between the transaction's answers and its replay.
func (l *Log[R]) Difference() Difference { return l.diff }

// Acknowledged returns how many answers of the turn in progress that are not hashed the client has. These are
// acknowledgements such as ParseComplete, and answers that Sluice made itself.
func (l *Log[R]) Acknowledged() int { return l.delivered.others }

// Acknowledging returns how many answers of the current turn that are not hashed have arrived so far, delivered or not.
func (l *Log[R]) Acknowledging() int { return l.out.others }

// Behind reports whether a replay has not reached the client's position yet. A frame that commits must not be sent
// before the replay has.
func (l *Log[R]) Behind() bool { return l.Replayable() && l.behind() }

// Begun reports whether a hashed part of the current turn's answer was sent to the client.
func (l *Log[R]) Begun() bool { return l.delivered.bytes > 0 }

// Stands skips a settled turn whose answer remains valid. None of the turn's frames is sent again.
func (l *Log[R]) Stands() {
	l.at++
	l.out.reset()
}

// behind reports whether the client already has the answer that is due next.
func (l *Log[R]) behind() bool {
	return l.at < len(l.turns) || l.out.digest.bytes < l.delivered.bytes || l.out.others < l.delivered.others
}

// Rows records bytes of whole frames that are hashed as they are: any number of DataRow and CopyData frames, and the
// rest of a frame that began in Rows or Reply. A span may end anywhere.
//
// drop is the number of leading bytes that the client already has. The caller sends the other bytes. ok is false when
// the replay differs: the caller sends nothing, and the transaction has failed. Outside a replay drop is 0 and ok true.
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

// Reply records one frame of the server for the client. Of a frame that is too long for a buffer, Reply gets the
// beginning, at least one kilobyte, and Rows the rest. The rest of an error or a notice does not count. The results are
// those of Rows.
//
// The caller does not pass answers to Sluice's own statements, an error that reports a conflict, or the ReadyForQuery
// after such an error.
func (l *Log[R]) Reply(typ byte, frame []byte) (drop int, ok bool) {
	if l == nil || l.refused != Replayable {
		return 0, l == nil || !l.stuck
	}
	o := &l.out
	switch typ {
	case 'S', 'A':
		// ParameterStatus and NotificationResponse may arrive at any time. Parameters are compared as a map, elsewhere.
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
			return len(frame), true // the turn has ended already
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

// Made records one answer of size bytes, of any number of frames, that Sluice made itself. A replay must produce the
// answer again. Made returns how many bytes to drop: all or none.
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

// reply records the relevant part of a frame: severity and SQLSTATE of an error or notice, or the status of a
// ReadyForQuery. ends says that the frame ends the turn.
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
	// A client has such a frame completely or not at all.
	n, ok := l.Rows(short)
	if n > 0 {
		n = len(frame)
	}
	return n, ok
}

// appendCounted appends the length of b and then b, cut off after 16 bytes.
func appendCounted(dst, b []byte) []byte {
	b = b[:min(len(b), 16)]
	return append(append(dst, byte(len(b))), b...)
}

// settle ends a turn. short is the relevant part of the frame that ends the turn, and size the frame's length. cut says
// that Cut ends the turn, without a frame.
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

// differs records that the current turn of a replay differs within its first statements. It returns false.
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
