package reservoir

import (
	"net"
	"time"
)

// mostKeepAlive is near the longest that Linux takes: 32,767 s to the first question.
const mostKeepAlive = 18 * time.Hour

// KeepAlive has the kernel find out within about limit that the other host of an idle
// connection is gone: half of it without a word, then questions. 0: the kernel asks nothing.
func KeepAlive(limit time.Duration) net.KeepAliveConfig {
	if limit <= 0 {
		return net.KeepAliveConfig{Enable: false}
	}
	limit = min(limit, mostKeepAlive)
	// The kernel counts in whole seconds.
	idle := max(limit/2, time.Second).Round(time.Second)
	interval := max(limit/10, time.Second).Round(time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: max(1, int((limit-idle)/interval))}
}
