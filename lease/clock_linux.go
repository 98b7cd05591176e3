package lease

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MachineClock is the time since the machine started. Unlike Go's monotonic
// clock it goes on while a virtual machine is suspended: a lease that was
// overslept is known to be lost.
func MachineClock() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil { // a kernel before 2.6.39
		return processClock()
	}
	return time.Duration(t.Nano())
}

// bootID names the machine's start: containers share it, machines and starts do not.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
