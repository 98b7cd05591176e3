package retry

import (
	"sync"
	"unsafe"
)

// turnCost and savepointCost are the bytes that a turn and a savepoint count for in a log, without names.
const (
	turnCost      = int(unsafe.Sizeof(turn{}))
	savepointCost = 256 // with the caller's own record of it, rounded up
)

// frameCost returns the bytes that a frame counts for in a log, without its payload.
func frameCost[R any]() int { return int(unsafe.Sizeof(Frame[R]{})) }

// Logs creates the logs of a process's transactions and enforces their bounds. R is the caller's data with each frame,
// which the caller needs to send the frame again.
type Logs[R any] struct {
	limit  int
	quota  *Quota
	hasher *hasher
	pool   sync.Pool
}

// NewLogs returns Logs within the bounds that c sets.
func NewLogs[R any](c Config) (*Logs[R], error) {
	h, err := newHasher()
	if err != nil {
		return nil, err
	}
	return &Logs[R]{limit: c.LogBytes, quota: NewQuota(c.LogTotalBytes), hasher: h}, nil
}

// Used returns the bytes of all open logs together, in whole chunks.
func (l *Logs[R]) Used() int64 { return l.quota.Used() }

// Open returns the log of a new transaction. The caller ends the log with Close.
func (l *Logs[R]) Open() *Log[R] {
	log, ok := l.pool.Get().(*Log[R])
	if !ok {
		log = &Log[R]{logs: l}
		log.out.digest.h = l.hasher
	}
	log.out.reset()
	return log
}

// Frame is a frame that was sent to the backend, or a mark for an answer that Sluice made itself.
type Frame[R any] struct {
	Type byte // the frame's type
	Note R
	// start and end are the position of the frame's payload in the log's data.
	start, end int
}

// Len returns the length of the frame's payload.
func (f *Frame[R]) Len() int { return f.end - f.start }

// Log records one transaction: the frames of each of its turns, and digests of the answers to its client.
//
// A nil Log, and a refused one, records nothing and accepts all answers. A Log that was refused in the middle of a
// replay accepts no answers. The methods that a replay uses (Turns, At, Untold, Frames, Payload, Difference) need a Log
// that is Replayable.
type Log[R any] struct {
	logs    *Logs[R]
	refused Reason
	data    chain
	frames  []Frame[R] // of all turns
	turns   []turn     // settled turns
	saves   []savepoint
	// charged is the number of bytes that the log counts for. reserved is the number of bytes that the quota has granted
	// to the log.
	charged, reserved int

	// at is the index of the turn whose replies are due: len(turns), except in a replay.
	at        int
	out       output // its replies so far
	delivered mark   // how much of the turn in progress was sent to the client
	wrote     bool   // the turn in progress may write
	diff      Difference
	// stuck is set if the log was refused during a replay that had not reached the client's position.
	stuck bool
}

// turn is one settled turn in a log.
type turn struct {
	frames     int // end of its frames
	sum        sum
	statements int
	verb       Verb
	failed     bool
	wrote      bool
	cut        bool // Cut ended it, not a ReadyForQuery
	// broken means that an error ended the turn, and that only RollbackTo can follow. blind means that a replay compares
	// only whether the turn failed.
	broken, blind bool
}

// Replayable reports whether the log allows a replay of the transaction.
func (l *Log[R]) Replayable() bool { return l != nil && l.refused == Replayable }

// Refused returns the Reason why the transaction cannot be run again.
func (l *Log[R]) Refused() Reason {
	if l == nil {
		return OptedOut
	}
	return l.refused
}

// Refuse makes the transaction unreplayable and frees the log. The first reason stays. If a statement failed after a
// savepoint, the log stays for Fork and RollbackTo.
func (l *Log[R]) Refuse(why Reason) {
	if l == nil || l.refused != Replayable {
		return
	}
	l.refused, l.stuck = why, l.behind()
	if l.Recoverable() && !l.stuck {
		l.breakOff()
		return
	}
	l.free()
	l.at = 0
}

// Close ends the log and returns its memory.
func (l *Log[R]) Close() {
	if l == nil {
		return
	}
	clear(l.saves)
	l.saves = l.saves[:0]
	l.free()
	logs, frames, turns, saves, out := l.logs, l.frames[:0], l.turns[:0], l.saves[:0], &l.out
	if cap(frames) > 512 {
		frames = nil
	}
	if cap(turns) > 256 {
		turns = nil
	}
	out.reset()
	l.refused, l.at, l.delivered, l.wrote, l.stuck, l.diff = Replayable, 0, mark{}, false, false, Difference{}
	l.frames, l.turns, l.saves = frames, turns, saves
	logs.pool.Put(l)
}

// free releases the log's memory, except the names of its savepoints.
func (l *Log[R]) free() {
	l.data.truncate(0)
	clear(l.frames)
	l.frames, l.turns = l.frames[:0], l.turns[:0]
	l.charged = 0
	for _, s := range l.saves {
		l.charged += savepointCost + len(s.name)
	}
	keep := inChunks(l.charged)
	l.logs.quota.Give(l.reserved - keep)
	l.reserved = keep
}

// inChunks returns n bytes, rounded up to whole chunks.
func inChunks(n int) int { return (n + chunkSize - 1) / chunkSize * chunkSize }

// charge counts n more bytes for the log. If they exceed a bound, charge refuses the log and returns false.
func (l *Log[R]) charge(n int) bool {
	if n > l.logs.limit-l.charged {
		l.Refuse(LogFull)
		return false
	}
	if need := l.charged + n - l.reserved; need > 0 {
		need = inChunks(need)
		if !l.logs.quota.Take(need) {
			l.Refuse(MemoryFull)
			return false
		}
		l.reserved += need
	}
	l.charged += n
	return true
}

// Keep counts n bytes of the caller's own data for the log until the log is closed. If they do not fit, Keep counts
// nothing and returns false.
func (l *Log[R]) Keep(n int) bool {
	if l == nil || l.refused != Replayable || n > l.logs.limit-l.charged {
		return false
	}
	if need := l.charged + n - l.reserved; need > 0 {
		need = inChunks(need)
		if !l.logs.quota.Take(need) {
			return false
		}
		l.reserved += need
	}
	l.charged += n
	return true
}

// Sent records the next frame of the turn in progress, before the frame is sent. The frame's payload of size bytes
// follows by Write. Sent also records frames without an answer that a replay must send. Sent returns false when the
// transaction is not replayable, or no longer.
func (l *Log[R]) Sent(typ byte, note R, size int) bool {
	if l == nil || l.refused != Replayable || !l.charge(size+frameCost[R]()) {
		return false
	}
	l.frames = append(l.frames, Frame[R]{Type: typ, Note: note, start: l.data.n, end: l.data.n})
	return true
}

// Write adds a piece to the payload of the last frame that Sent recorded.
func (l *Log[R]) Write(piece []byte) {
	if l == nil || l.refused != Replayable {
		return
	}
	l.data.append(piece)
	l.frames[len(l.frames)-1].end = l.data.n
}

// Wrote records that the turn in progress may do more than read data.
func (l *Log[R]) Wrote() {
	if l != nil {
		l.wrote = true
	}
}

// Turns returns the number of settled turns in the log.
func (l *Log[R]) Turns() int { return len(l.turns) }

// Frames returns the frames of turn i. The turn in progress has the index Turns(). The frames are valid until the next
// Sent.
func (l *Log[R]) Frames(i int) []Frame[R] {
	from, to := 0, len(l.frames)
	if i > 0 {
		from = l.turns[i-1].frames
	}
	if i < len(l.turns) {
		to = l.turns[i].frames
	}
	return l.frames[from:to]
}

// Payload calls f with the payload of a frame, in pieces, until f returns an error. The pieces are valid until the log
// is closed or refused.
func (l *Log[R]) Payload(frame *Frame[R], f func(piece []byte) error) error {
	return l.data.each(frame.start, frame.end, f)
}
