package retry

import "encoding/binary"

// turnOutput is the answer to a turn so far. A position in the answer has two counts: the hashed bytes, and the
// frames that are not hashed. Equal requests have their answers in the same order, so both counts together say how
// much of the answer the client has.
type turnOutput struct {
	digest     runningDigest
	others     int // frames for the client that are not hashed
	statements int // completed statements
	verb       CommandVerb
	failed     bool
}

func (o *turnOutput) reset() {
	o.digest.reset()
	o.others, o.statements, o.verb, o.failed = 0, 0, OtherVerb, false
}

// outputPosition is how far a turn's output has come: hashed bytes with their digest, other frames, statements.
type outputPosition struct {
	digestSum
	others     int
	statements int
}

// RecordDelivered records that all answers so far were sent to the client. The caller sends held output completely or
// not at all.
func (l *ReplayLog[R]) RecordDelivered() {
	if l == nil || l.refused != Replayable || l.isBehindClient() {
		return
	}
	if o := &l.out; o.digest.bytes != l.delivered.bytes || o.others != l.delivered.others {
		l.delivered = outputPosition{digestSum: o.digest.sum(), others: o.others, statements: o.statements}
	}
}

// HasDeliveredNothing reports whether the client has no answer of any turn, so that a replay need not match any answer.
func (l *ReplayLog[R]) HasDeliveredNothing() bool {
	return len(l.turns) == 0 && l.delivered == outputPosition{}
}

// BeginReplay begins a replay: the next replies answer the first turn's frames again. BeginReplay returns false when
// the transaction is not replayable. A replay that meets a conflict begins again with BeginReplay.
func (l *ReplayLog[R]) BeginReplay() bool {
	if !l.Replayable() {
		return false
	}
	l.at = 0
	l.out.reset()
	l.diff = ReplayDifference{}
	return true
}

// CurrentTurn returns the index of the turn whose replies are due. In a replay, the index is below TurnCount until
// all settled turns have been answered again.
func (l *ReplayLog[R]) CurrentTurn() int { return l.at }

// Difference returns the first difference between the transaction's answers and its replay.
func (l *ReplayLog[R]) Difference() ReplayDifference { return l.diff }

// UnhashedDelivered returns how many unhashed answers of the turn in progress the client has. Unhashed answers are
// acknowledgements such as ParseComplete, and answers that Sluice made itself.
func (l *ReplayLog[R]) UnhashedDelivered() int { return l.delivered.others }

// UnhashedReceived returns how many unhashed answers of the current turn have arrived, delivered or not. Unhashed
// answers are acknowledgements such as ParseComplete, and answers that Sluice made itself.
func (l *ReplayLog[R]) UnhashedReceived() int { return l.out.others }

// IsReplayBehind reports whether a replay has not yet repeated all answers that the client has. While it is true, no
// frame that commits may be sent.
func (l *ReplayLog[R]) IsReplayBehind() bool { return l.Replayable() && l.isBehindClient() }

// HasDeliveredPart reports whether a hashed part of the current turn's answer was sent to the client.
func (l *ReplayLog[R]) HasDeliveredPart() bool { return l.delivered.bytes > 0 }

// SkipValidTurn skips a settled turn whose answer remains valid. None of the turn's frames is sent again.
func (l *ReplayLog[R]) SkipValidTurn() {
	l.at++
	l.out.reset()
}

// isBehindClient reports whether the client already has the answer that is due next in a replay.
func (l *ReplayLog[R]) isBehindClient() bool {
	return l.at < len(l.turns) || l.out.digest.bytes < l.delivered.bytes || l.out.others < l.delivered.others
}

// RecordRows records bytes of whole frames that are hashed as they are: any number of DataRow and CopyData frames,
// and the rest of a frame that began in RecordRows or RecordReply. A span may end within a frame.
//
// drop is the number of leading bytes that the client already has. The caller sends the other bytes. ok is false when
// the replay differs: the caller sends nothing, and the transaction has failed. Outside a replay drop is 0 and ok true.
func (l *ReplayLog[R]) RecordRows(span []byte) (drop int, ok bool) {
	if l == nil || l.refused != Replayable {
		return 0, l == nil || !l.refusedMidReplay
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
	if o.digest.sum() != l.delivered.digestSum {
		return len(span), l.recordDifference(o.statements+1, Values)
	}
	o.digest.write(span[left:])
	return int(left), true
}

// RecordReply records one frame of the server for the client. Of a frame that is too long for a buffer, RecordReply
// gets the beginning, at least one kilobyte, and RecordRows the rest. The rest of an error or a notice does not count.
// The results are those of RecordRows.
//
// The caller does not pass answers to Sluice's own statements, an error that reports a conflict, or the ReadyForQuery
// after such an error.
func (l *ReplayLog[R]) RecordReply(typ byte, frame []byte) (drop int, ok bool) {
	if l == nil || l.refused != Replayable {
		return 0, l == nil || !l.refusedMidReplay
	}
	o := &l.out
	switch typ {
	case 'S', 'A':
		// ParameterStatus and NotificationResponse may arrive at any time. Other code compares the parameters, as a
		// map.
		if l.isBehindClient() {
			return len(frame), true
		}
		return 0, true
	case '1', '2', '3':
		return l.RecordLocalReply(len(frame)), true
	case 'E', 'N':
		if typ == 'E' {
			o.failed = true
			o.statements++
		}
		return l.recordKeyFields(typ, frame, typ == 'E' && l.AwaitsError())
	case 'Z':
		if l.at > 0 && l.at == len(l.turns) && l.turns[l.at-1].broken {
			return len(frame), true // the turn has ended already
		}
		return l.recordKeyFields(typ, frame, true)
	case 'C':
		if o.verb == OtherVerb && len(frame) > headerLen {
			o.verb = VerbOf(frame[headerLen : len(frame)-1])
		}
		o.statements++
	case 'I', 's':
		o.statements++
	}
	return l.RecordRows(frame)
}

// RecordLocalReply records one answer of size bytes, of any number of frames, that Sluice made itself. A replay must
// produce the answer again. RecordLocalReply returns how many bytes to drop: all or none.
func (l *ReplayLog[R]) RecordLocalReply(size int) (drop int) {
	if l == nil || l.refused != Replayable {
		if l != nil && l.refusedMidReplay {
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

// recordKeyFields records the relevant part of a frame: severity and SQLSTATE of an error or notice, or the status of a
// ReadyForQuery. ends says that the frame ends the turn.
func (l *ReplayLog[R]) recordKeyFields(typ byte, frame []byte, ends bool) (drop int, ok bool) {
	var buf [64]byte
	short := append(buf[:0], typ, 0, 0, 0, 0)
	if len(frame) > headerLen {
		if payload := frame[headerLen:]; typ == 'Z' {
			short = append(short, payload...)
		} else {
			short = appendLengthPrefixed(short, ErrorField(payload, 'V'))
			short = appendLengthPrefixed(short, ErrorField(payload, 'C'))
		}
	}
	binary.BigEndian.PutUint32(short[1:], uint32(len(short)-1))
	if ends {
		return l.endTurn(short, len(frame), false)
	}
	// The client has such a frame completely or not at all, so drop is the whole frame or nothing.
	n, ok := l.RecordRows(short)
	if n > 0 {
		n = len(frame)
	}
	return n, ok
}

// appendLengthPrefixed appends the length of b and then b, cut off after 16 bytes.
func appendLengthPrefixed(dst, b []byte) []byte {
	b = b[:min(len(b), 16)]
	return append(append(dst, byte(len(b))), b...)
}

// endTurn settles the turn in progress. short is the relevant part of the frame that ends the turn, and size the
// frame's length. cut says that CutTurn ends the turn, without a frame.
func (l *ReplayLog[R]) endTurn(short []byte, size int, cut bool) (drop int, ok bool) {
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
			return size, l.recordDifference(t.statements, what)
		}
		l.at++
		o.reset()
		return size, true
	}
	if l.isBehindClient() {
		return size, l.recordDifference(max(l.delivered.statements, o.statements), Size)
	}
	o.digest.write(short)
	if !l.chargeOrRefuse(turnCost) {
		return 0, true
	}
	l.turns = append(l.turns, loggedTurn{frames: len(l.frames), sum: o.digest.sum(), statements: o.statements,
		verb: o.verb, failed: o.failed, wrote: l.wrote, cut: cut})
	l.at++
	o.reset()
	l.delivered, l.wrote = outputPosition{}, false
	return 0, true
}

// recordDifference records that the current turn of a replay differs, in one of its first statements, whose number is
// the parameter statements. It returns false.
func (l *ReplayLog[R]) recordDifference(statements int, what DifferenceKind) bool {
	before := 0
	for i := range l.turns[:l.at] {
		before += l.turns[i].statements
	}
	verb := l.out.verb
	if l.at < len(l.turns) {
		verb = l.turns[l.at].verb
	}
	l.diff = ReplayDifference{First: before + 1, Last: before + max(1, statements), Verb: verb, Kind: what}
	return false
}
