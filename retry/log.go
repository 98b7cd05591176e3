package retry

import (
	"sync"
	"unsafe"
)

// turnCost and savepointCost are the bytes that one turn and one savepoint count for in the log's size. savepointCost
// excludes the name.
const (
	turnCost      = int(unsafe.Sizeof(loggedTurn{}))
	savepointCost = 256 // with the caller's own record of it, rounded up
)

// frameOverhead returns the bytes that a frame counts for in a log, without its payload.
func frameOverhead[R any]() int { return int(unsafe.Sizeof(LoggedFrame[R]{})) }

// ReplayLogPool creates the logs of a process's transactions and enforces their bounds. R is the type of the data
// that the caller needs to send a frame again. A log stores it with each frame.
type ReplayLogPool[R any] struct {
	limit  int
	quota  *ByteQuota
	hasher *hasher
	pool   sync.Pool
}

// NewReplayLogPool returns a ReplayLogPool within the bounds that c sets.
func NewReplayLogPool[R any](c Config) (*ReplayLogPool[R], error) {
	h, err := newHasher()
	if err != nil {
		return nil, err
	}
	return &ReplayLogPool[R]{limit: c.LogBytes, quota: NewByteQuota(c.LogTotalBytes), hasher: h}, nil
}

// Used returns the bytes of all open logs together, in whole chunks.
func (l *ReplayLogPool[R]) Used() int64 { return l.quota.Used() }

// Open returns the log of a new transaction. The caller ends the log with Close.
func (l *ReplayLogPool[R]) Open() *ReplayLog[R] {
	log, ok := l.pool.Get().(*ReplayLog[R])
	if !ok {
		log = &ReplayLog[R]{logs: l}
		log.out.digest.h = l.hasher
	}
	log.out.reset()
	return log
}

// LoggedFrame is a frame that was sent to the backend, or an entry for an answer that Sluice made itself.
type LoggedFrame[R any] struct {
	Type byte // the frame's type
	Note R
	// start and end are the position of the frame's payload in the log's data.
	start, end int
	// beside is the number of bytes that the caller holds in memory for the frame, besides the payload.
	beside int
}

// Len returns the length of the frame's payload.
func (f *LoggedFrame[R]) Len() int { return f.end - f.start }

// ReplayLog records one transaction: the frames of each of its turns, and digests of the answers to its client.
//
// A nil ReplayLog, and a refused one, records nothing and accepts all answers. A ReplayLog that was refused in the
// middle of a replay accepts no answers. The methods that a replay uses (TurnCount, CurrentTurn, HasDeliveredNothing,
// TurnFrames, EachPayloadPiece, Difference) need a log that is replayable (Replayable).
type ReplayLog[R any] struct {
	logs    *ReplayLogPool[R]
	refused RefusalReason
	data    chunkedBuffer
	frames  []LoggedFrame[R] // of all turns
	turns   []loggedTurn     // settled turns
	saves   []savepoint
	// charged is the number of bytes that the log counts for. reserved is the number of bytes that the quota has granted
	// to the log.
	charged, reserved int

	// at is the index of the turn whose replies are due, which is len(turns) except in a replay.
	at        int
	out       turnOutput     // its replies so far
	delivered outputPosition // how much of the turn in progress was sent to the client
	wrote     bool           // the turn in progress may write
	diff      ReplayDifference
	// refusedMidReplay is set if the log was refused during a replay that had not yet repeated all answers that the
	// client has.
	refusedMidReplay bool
}

// loggedTurn is one settled turn in a log.
type loggedTurn struct {
	frames     int // end of its frames
	sum        digestSum
	statements int
	verb       CommandVerb
	failed     bool
	wrote      bool
	cut        bool // CutTurn ended it, not a ReadyForQuery
	// broken means that an error ended the turn, and that only RollbackTo can follow. blind means that a replay compares
	// only whether the turn failed.
	broken, blind bool
}

// Replayable reports whether the log allows a replay of the transaction.
func (l *ReplayLog[R]) Replayable() bool { return l != nil && l.refused == Replayable }

// RefusalReason returns the reason why the transaction cannot be run again.
func (l *ReplayLog[R]) RefusalReason() RefusalReason {
	if l == nil {
		return OptedOut
	}
	return l.refused
}

// RefuseReplay makes the transaction unreplayable and frees the log. Only the first reason is recorded. If a
// statement failed after a savepoint, the log is not freed, for Fork and RollbackTo.
func (l *ReplayLog[R]) RefuseReplay(why RefusalReason) {
	if l == nil || l.refused != Replayable {
		return
	}
	l.refused, l.refusedMidReplay = why, l.isBehindClient()
	if l.CanRollbackTo() && !l.refusedMidReplay {
		l.endTurnWithError()
		return
	}
	l.releaseMemory()
	l.at = 0
}

// Close ends the log and returns its memory.
func (l *ReplayLog[R]) Close() {
	if l == nil {
		return
	}
	clear(l.saves)
	l.saves = l.saves[:0]
	l.releaseMemory()
	logs, frames, turns, saves, out := l.logs, l.frames[:0], l.turns[:0], l.saves[:0], &l.out
	if cap(frames) > 512 {
		frames = nil
	}
	if cap(turns) > 256 {
		turns = nil
	}
	out.reset()
	l.refused, l.at, l.delivered, l.wrote, l.refusedMidReplay, l.diff = Replayable, 0, outputPosition{}, false, false, ReplayDifference{}
	l.frames, l.turns, l.saves = frames, turns, saves
	logs.pool.Put(l)
}

// releaseMemory releases the log's memory, except the names of its savepoints.
func (l *ReplayLog[R]) releaseMemory() {
	l.data.truncate(0)
	clear(l.frames)
	l.frames, l.turns = l.frames[:0], l.turns[:0]
	l.charged = 0
	for _, s := range l.saves {
		l.charged += savepointCost + len(s.name)
	}
	keep := roundUpToChunks(l.charged)
	l.logs.quota.Give(l.reserved - keep)
	l.reserved = keep
}

// roundUpToChunks returns n bytes, rounded up to whole chunks.
func roundUpToChunks(n int) int { return (n + chunkSize - 1) / chunkSize * chunkSize }

// chargeOrRefuse counts n more bytes for the log. If the log then exceeds a bound, chargeOrRefuse refuses the log and
// returns false.
func (l *ReplayLog[R]) chargeOrRefuse(n int) bool {
	if n > l.logs.limit-l.charged {
		l.RefuseReplay(LogFull)
		return false
	}
	if need := l.charged + n - l.reserved; need > 0 {
		need = roundUpToChunks(need)
		if !l.logs.quota.Take(need) {
			l.RefuseReplay(MemoryFull)
			return false
		}
		l.reserved += need
	}
	l.charged += n
	return true
}

// ReserveBytes counts n bytes of the caller's own data for the log until the log is closed. If they do not fit,
// ReserveBytes counts nothing and returns false.
func (l *ReplayLog[R]) ReserveBytes(n int) bool {
	if l == nil || l.refused != Replayable || n > l.logs.limit-l.charged {
		return false
	}
	if need := l.charged + n - l.reserved; need > 0 {
		need = roundUpToChunks(need)
		if !l.logs.quota.Take(need) {
			return false
		}
		l.reserved += need
	}
	l.charged += n
	return true
}

// RecordFrame records the next frame of the turn in progress, before the caller sends it. Then the caller passes the
// frame's payload of size bytes to AppendPayload. A frame to which the server sends no answer is also recorded, if a
// replay must send it. beside is the number of further bytes that the caller holds for the frame, such as its plan.
// RecordFrame returns false when the transaction is not replayable, or no longer.
func (l *ReplayLog[R]) RecordFrame(typ byte, note R, size, beside int) bool {
	if l == nil || l.refused != Replayable || !l.chargeOrRefuse(size+beside+frameOverhead[R]()) {
		return false
	}
	l.frames = append(l.frames, LoggedFrame[R]{Type: typ, Note: note, start: l.data.n, end: l.data.n, beside: beside})
	return true
}

// AppendPayload adds a piece to the payload of the last frame that RecordFrame recorded.
func (l *ReplayLog[R]) AppendPayload(piece []byte) {
	if l == nil || l.refused != Replayable {
		return
	}
	l.data.append(piece)
	l.frames[len(l.frames)-1].end = l.data.n
}

// RecordWrite records that the turn in progress may do more than read.
func (l *ReplayLog[R]) RecordWrite() {
	if l != nil {
		l.wrote = true
	}
}

// TurnCount returns the number of settled turns in the log.
func (l *ReplayLog[R]) TurnCount() int { return len(l.turns) }

// TurnFrames returns the frames of turn i. The turn in progress has the index TurnCount(). The frames are valid until
// the next RecordFrame.
func (l *ReplayLog[R]) TurnFrames(i int) []LoggedFrame[R] {
	from, to := 0, len(l.frames)
	if i > 0 {
		from = l.turns[i-1].frames
	}
	if i < len(l.turns) {
		to = l.turns[i].frames
	}
	return l.frames[from:to]
}

// EachPayloadPiece calls f with the payload of a frame, in pieces, until f returns an error. The pieces are valid until
// the log is closed or refused.
func (l *ReplayLog[R]) EachPayloadPiece(frame *LoggedFrame[R], f func(piece []byte) error) error {
	return l.data.each(frame.start, frame.end, f)
}
