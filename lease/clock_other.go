//go:build !linux

package lease

import "time"

// MachineClock returns the time since the process started. MachineClock may stop while the machine sleeps. A process
// then learns only from a failed renewal that its lease has run out.
func MachineClock() time.Duration { return processClock() }

// bootID identifies one start of the machine. bootID returns "" because this system has no such identifier.
func bootID() string { return "" }
