package proxy

import (
	"sync"
	"time"
	"unsafe"
)

// A third of a session's memory is needed only while a transaction runs. Most clients of a pool are silent, so that the
// memory is shared.

// atWork is the part of a session's state that it has only while it is active. Sessions take it from a pool and return
// it zeroed. Only the session's own goroutine uses it.
type atWork struct {
	tx          transaction
	openPortals         // portal.go
	charge      charges // accounts.go
	// lastSaid is the reason that the server gave when it closed the session's last backend; nil for none.
	lastSaid *lastWords
	probed   time.Time // when the client was probed last; see probe
}

var workPool = sync.Pool{New: func() any { return new(atWork) }}

// takeUp gets atWork from the pool, so that the session can take turns. Each run of the session begins with it.
func (s *session) takeUp() {
	if s.atWork == nil {
		s.atWork = workPool.Get().(*atWork)
	}
}

// layDown returns atWork to the pool at the end of a run, if all of its fields are zero.
func (s *session) layDown() {
	if s.atWork.zero() {
		workPool.Put(s.atWork)
		s.atWork = nil
	}
}

// zero reports whether all bits of w are zero. Comparing bits covers every field, later ones too.
func (w *atWork) zero() bool {
	return *(*[unsafe.Sizeof(atWork{})]byte)(unsafe.Pointer(w)) == [unsafe.Sizeof(atWork{})]byte{}
}
