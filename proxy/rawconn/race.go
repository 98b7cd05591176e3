//go:build race

package rawconn

import (
	"runtime"
	"unsafe"
)

// streams is what every write releases and every read acquires: like package
// syscall, the race detector is told that bytes read were written before.
var streams byte

// sending tells the race detector that the kernel reads b.
func sending(b []byte) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&streams))
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// received tells the race detector that the kernel wrote b.
func received(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
	runtime.RaceAcquire(unsafe.Pointer(&streams))
}
