package lease

import "time"

var began = time.Now()

// processClock is Go's monotonic clock.
func processClock() time.Duration { return time.Since(began) }
