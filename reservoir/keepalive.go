package reservoir

import (
	"net"
	"time"
)

// mostKeepAlive is near Linux's limit of 32,767 s until the first probe.
const mostKeepAlive = 18 * time.Hour

// KeepAlive returns settings by which the kernel detects within about limit that the other host is
// gone. Half of the time passes in silence, then it sends probes. 0 turns probes off.
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
