//go:build race

package rawconn

import (
	"runtime"
	"unsafe"
)

// streams orders writes before reads for the race detector, as package syscall does. Every write releases streams and
// every read acquires it, because bytes that were read must have been written before.
var streams byte

// raceBeforeSend informs the race detector that the kernel reads b.
func raceBeforeSend(b []byte) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&streams))
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// raceAfterReceive informs the race detector that the kernel wrote b.
func raceAfterReceive(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
	runtime.RaceAcquire(unsafe.Pointer(&streams))
}
