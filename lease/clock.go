package lease

import "time"

var began = time.Now()

// processClock returns the time since the process started, by Go's monotonic clock.
func processClock() time.Duration { return time.Since(began) }
