package proxy

import (
	"sync"
	"time"
	"unsafe"
)

// A third of a session's memory is needed only while a transaction runs. Sessions share that memory by a pool, since
// most of the clients are idle.

// activeState is the part of a session's state that the session needs only while it is active. Sessions take it from a
// pool and return it zeroed. Only the session's own goroutine uses it.
type activeState struct {
	tx      transaction
	portals openPortals   // portal.go
	charge  memoryCharges // accounts.go
	// lastServerFatal is the reason that the server gave for closing the session's last backend, or nil.
	lastServerFatal *serverFatalError
	probed          time.Time // when the client was probed last; see probe
}

var activeStatePool = sync.Pool{New: func() any { return new(activeState) }}

// activate gets activeState from the pool, so that the session can take turns. Every session.run starts with it.
func (s *session) activate() {
	if s.activeState == nil {
		s.activeState = activeStatePool.Get().(*activeState)
	}
}

// deactivate returns activeState to the pool when the session pauses or ends, if all of its fields are zero.
func (s *session) deactivate() {
	if s.activeState.isZero() {
		activeStatePool.Put(s.activeState)
		s.activeState = nil
	}
}

// isZero reports whether all bits of activeState are zero. The comparison of bits covers every field, later ones too.
func (w *activeState) isZero() bool {
	return *(*[unsafe.Sizeof(activeState{})]byte)(unsafe.Pointer(w)) == [unsafe.Sizeof(activeState{})]byte{}
}
