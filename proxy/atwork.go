package proxy

import (
	"sync"
	"time"
	"unsafe"
)

// What a session needs while a transaction of it runs, and not while its client is silent for long:
// it is a third of a session, and most clients of a pool are silent.

// atWork is what a session has only while it does not linger. Sessions take one from the pool and
// give it back zero, so that what it holds between two transactions is as it was. Nobody but the
// session's own goroutine looks into it.
type atWork struct {
	tx          transaction
	openPortals         // portal.go
	charge      charges // accounts.go
	// lastSaid is what the server of the backend that a session ends with has given as its reason; nil: none.
	lastSaid *lastWords
	probed   time.Time // when the client was probed last; see probe
}

var workPool = sync.Pool{New: func() any { return new(atWork) }}

// takeUp has the session ready to take turns. It begins so, and so does each run of it.
func (s *session) takeUp() {
	if s.atWork == nil {
		s.atWork = workPool.Get().(*atWork)
	}
}

// layDown gives back what only work needs, where a run has ended. What has something in it stays
// the session's.
func (s *session) layDown() {
	if s.atWork.zero() {
		workPool.Put(s.atWork)
		s.atWork = nil
	}
}

// zero reports whether w is as new, bit for bit: nothing that a field may come to mean is forgotten.
func (w *atWork) zero() bool {
	return *(*[unsafe.Sizeof(atWork{})]byte)(unsafe.Pointer(w)) == [unsafe.Sizeof(atWork{})]byte{}
}
