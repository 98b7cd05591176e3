package rawconn

import "time"

// Path watches the network path to a peer. If a network drops packets, the kernel retransmits for about 15 minutes, and
// a connection with a Limit is known to be dead earlier.
type Path struct {
	// Limit is how long the peer's host may delay an acknowledgement. 0 means no limit.
	Limit time.Duration
	// since is when a check first found an acknowledgement missing. A later acknowledgement resets it.
	since time.Time
}

// IsDead reports whether the host at the other end of a connection has not acknowledged sent data for the limit.
func (p *Path) IsDead(conn Conn) bool {
	owed, last := conn.Unacked()
	return p.exceeds(time.Now(), owed, last)
}

// exceeds reports whether the peer's host has not acknowledged sent data for the limit. last is the age of the latest
// acknowledgement. If a program does not read, its host still acknowledges window probes, so that the path is not dead.
func (p *Path) exceeds(now time.Time, owed bool, last time.Duration) bool {
	if !owed || p.Limit == 0 {
		p.since = time.Time{}
		return false
	}
	if p.since.IsZero() || now.Add(-last).After(p.since) {
		p.since = now
	}
	return now.Sub(p.since) >= p.Limit
}
