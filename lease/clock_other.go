//go:build !linux

package lease

import "time"

// MachineClock is the time since the process started. It may stop while the machine sleeps. A
// process then learns only from a failed renewal that its lease has run out.
func MachineClock() time.Duration { return processClock() }

// bootID identifies one start of the machine; it is "" where the system has no such identifier.
func bootID() string { return "" }
