//go:build !linux

package lease

import "time"

// MachineClock is the time since the process started. Where a machine sleeps it
// may stand still: a lease that was overslept is known to be lost only when its
// renewal fails.
func MachineClock() time.Duration { return processClock() }

// bootID names the machine's start, "" where it is not known.
func bootID() string { return "" }
