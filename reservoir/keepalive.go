package reservoir

import (
	"net"
	"time"
)

// mostKeepAlive is the largest limit for KeepAliveSettings, near Linux's limit of 32,767 s until the first probe.
const mostKeepAlive = 18 * time.Hour

// KeepAliveSettings returns TCP settings with which the kernel detects a lost host within about limit. After half of
// limit in silence, the kernel sends probes. A limit of 0 turns probes off.
func KeepAliveSettings(limit time.Duration) net.KeepAliveConfig {
	if limit <= 0 {
		return net.KeepAliveConfig{Enable: false}
	}
	limit = min(limit, mostKeepAlive)
	// The times are rounded because the kernel counts in whole seconds.
	idle := max(limit/2, time.Second).Round(time.Second)
	interval := max(limit/10, time.Second).Round(time.Second)
	return net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: max(1, int((limit-idle)/interval))}
}
