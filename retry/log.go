package retry

import (
	"sync"
	"unsafe"
)

// What a turn and a savepoint cost of a log's bytes, besides names.
const (
	turnCost      = int(unsafe.Sizeof(turn{}))
	savepointCost = 256 // with what a caller keeps beside it, rounded up
)

// frameCost is what a frame costs of a log's bytes, besides its payload.
func frameCost[R any]() int { return int(unsafe.Sizeof(Frame[R]{})) }

// Logs makes the logs of a process and holds them to their bounds. R is what a
// caller keeps with each frame: what it needs to send the frame once more.
type Logs[R any] struct {
	limit  int
	quota  *Quota
	hasher *hasher
	pool   sync.Pool
}

// NewLogs returns Logs within the bounds of c.
func NewLogs[R any](c Config) (*Logs[R], error) {
	h, err := newHasher()
	if err != nil {
		return nil, err
	}
	return &Logs[R]{limit: c.LogBytes, quota: NewQuota(c.LogTotalBytes), hasher: h}, nil
}

// Used is how many bytes all open logs hold, in whole chunks.
func (l *Logs[R]) Used() int64 { return l.quota.Used() }

// Open returns the log of a transaction that begins. It ends with Close.
func (l *Logs[R]) Open() *Log[R] {
	log, ok := l.pool.Get().(*Log[R])
	if !ok {
		log = &Log[R]{logs: l}
		log.out.digest.h = l.hasher
	}
	log.out.reset()
	return log
}

// Frame is one frame that was sent to the backend, or an answer that was made up
// in its place.
type Frame[R any] struct {
	Type byte // the caller's: the frame's type
	Note R
	// of the payload, in the log's data
	start, end int
}

// Len is the length of the payload.
func (f *Frame[R]) Len() int { return f.end - f.start }

// Log is one transaction: what was sent in each of its turns, and what its
// client was told.
//
// A nil Log, and one that was refused, notes nothing and lets everything pass; one
// that was refused in the middle of a replay lets nothing pass. What a replay
// asks (Turns, At, Untold, Frames, Payload, Difference) needs a log that is
// Replayable.
type Log[R any] struct {
	logs    *Logs[R]
	refused Reason
	data    chain
	frames  []Frame[R] // of all turns
	turns   []turn     // settled
	saves   []savepoint
	// charged bytes, of which the quota has granted reserved.
	charged, reserved int

	// at is the turn whose replies are awaited: len(turns) but during a replay.
	at        int
	out       output // its replies so far
	delivered mark   // how far the turn in progress was sent to the client
	wrote     bool   // the turn in progress writes
	diff      Difference
	// stuck: it was refused while a replay was behind what the client has seen.
	stuck bool
}

// turn is one settled turn.
type turn struct {
	frames     int // where its frames end
	sum        sum
	statements int
	verb       Verb
	failed     bool
	wrote      bool
	cut        bool // no ReadyForQuery ended it: see Cut
	// broken: an error ended it, and only RollbackTo can follow; blind: of its answers only
	// counts whether one was an error.
	broken, blind bool
}

// Replayable reports whether the transaction can be run again as far as the log
// knows.
func (l *Log[R]) Replayable() bool { return l != nil && l.refused == Replayable }

// Refused is why the transaction cannot be run again.
func (l *Log[R]) Refused() Reason {
	if l == nil {
		return OptedOut
	}
	return l.refused
}

// Refuse makes the transaction unreplayable and frees what was logged. The
// first reason stays. Where a statement failed behind a savepoint, what was logged is
// kept for Fork and RollbackTo.
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

// Close ends the log.
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

// free gives back what the log holds, but for the names of its savepoints.
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

// inChunks is n rounded up to whole chunks.
func inChunks(n int) int { return (n + chunkSize - 1) / chunkSize * chunkSize }

// charge books n bytes, or refuses the log.
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

// Keep books n bytes that the caller keeps beside the log until that is closed. It reports
// false, and books nothing, where there is no room.
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

// Sent notes the next frame of the turn in progress, before it is sent: its
// payload of size bytes follows by Write. Frames without an answer that a replay
// would have to send are noted too. It reports false when the transaction is not
// replayable, or no longer so.
func (l *Log[R]) Sent(typ byte, note R, size int) bool {
	if l == nil || l.refused != Replayable || !l.charge(size+frameCost[R]()) {
		return false
	}
	l.frames = append(l.frames, Frame[R]{Type: typ, Note: note, start: l.data.n, end: l.data.n})
	return true
}

// Write adds a piece to the payload of the frame that Sent noted last.
func (l *Log[R]) Write(piece []byte) {
	if l == nil || l.refused != Replayable {
		return
	}
	l.data.append(piece)
	l.frames[len(l.frames)-1].end = l.data.n
}

// Wrote notes that the turn in progress may do more than read.
func (l *Log[R]) Wrote() {
	if l != nil {
		l.wrote = true
	}
}

// Turns is how many turns have settled.
func (l *Log[R]) Turns() int { return len(l.turns) }

// Frames are those of turn i; i == Turns() is the one in progress. Valid until
// the next Sent.
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

// Payload calls f with the payload of a frame, in pieces, until f fails. The
// pieces are valid until the log is closed or refused.
func (l *Log[R]) Payload(frame *Frame[R], f func(piece []byte) error) error {
	return l.data.each(frame.start, frame.end, f)
}
