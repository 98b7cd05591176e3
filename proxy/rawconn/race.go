//go:build race

package rawconn

import (
	"runtime"
	"unsafe"
)

// streams is released by every write and acquired by every read, as in package syscall: bytes that
// were read must have been written before.
var streams byte

// sending informs the race detector that the kernel reads b.
func sending(b []byte) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&streams))
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}

// received informs the race detector that the kernel wrote b.
func received(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
	runtime.RaceAcquire(unsafe.Pointer(&streams))
}
