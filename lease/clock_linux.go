package lease

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MachineClock returns the time since the machine started. MachineClock counts while a virtual machine is suspended,
// which Go's monotonic clock does not. So a process that wakes up notices that its lease has run out.
func MachineClock() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil { // a kernel before 2.6.39
		return processClock()
	}
	return time.Duration(t.Nano())
}

// bootID identifies one start of the machine. Containers on the machine share it.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
