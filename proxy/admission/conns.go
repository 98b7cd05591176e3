// Package admission decides which clients may connect. ConnLimiter bounds the connections of clients, and MemoryMonitor
// refuses more work when the process is short of memory. Heartbeat detects a process that hangs.
//
// The Server of package proxy owns one of each. The package knows no sessions and no backends.
package admission

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/startup"
)

const (
	// displaceAfter is the age from which a new connection may displace any startup. (The comment of ConnLimiter
	// describes an exception.) displaceAfter is many times the duration of a startup.
	displaceAfter = 250 * time.Millisecond
	// reportEvery is the shortest time between two results of ConnLimiter.TakeRefusalCounts other than zeros.
	reportEvery = 10 * time.Second
)

// ConnLimiter counts the connections of clients. ConnLimiter is safe for concurrent use.
//
// If all places (connections that may be open) are taken, a new connection displaces one whose startup is not
// finished. So silent connections do not block others. If one source has at least two startups more than the new
// connection's source, its oldest startup is displaced. Otherwise the oldest startup of all is displaced, once it is
// older than displaceAfter. So a flood from one address displaces itself, and a single source can use all places.
type ConnLimiter struct {
	mu   sync.Mutex
	most int
	open int
	// startups are connections whose startup is not finished. openings are connections whose startup is finished and that
	// have no session yet.
	startups, openings connList
	sources            map[source]int // of startups
	// refused and displaced are the numbers of connections that were refused and displaced since the time in the field
	// reported.
	refused, displaced int
	reported           time.Time
}

// NewConnLimiter returns a ConnLimiter for a number of connections, most, that may be open at the same time.
func NewConnLimiter(most int) *ConnLimiter {
	return &ConnLimiter{most: most, sources: map[source]int{}}
}

// source is the origin of connections: an address (a /64 of IPv6), or a process at a Unix socket. The zero source means
// unknown processes of this machine, which are not counted.
type source struct {
	addresses netip.Prefix
	process   int32
}

// connSource returns the source of a connection. connSource is called once, right after the accept. The process at
// the other end may end before its connection, and another process may then get its number.
func connSource(conn net.Conn) (of source) {
	if pid, _, ok := rawconn.PeerProcess(conn); ok {
		of.process = pid
	} else if addresses, ok := startup.AddrSource(conn.RemoteAddr()); ok {
		of.addresses = addresses
	}
	return of
}

// Conn is one connection of a client. Its ConnLimiter owns the unexported fields. The caller sets the other fields
// before Admit.
type Conn struct {
	Net       net.Conn
	from      source
	arrived   time.Time
	place     listLinks
	displaced bool // another connection has its place
	KeptAlive bool // the socket has its keepalive times already
}

// Admit admits a connection, or returns false if no more may be open. displaced is the connection whose place the
// admitted one takes, or nil. The caller closes it.
func (c *ConnLimiter) Admit(in *Conn, now time.Time) (displaced *Conn, ok bool) {
	in.from, in.arrived = connSource(in.Net), now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most {
		if displaced = c.chooseDisplaced(in.from, now); displaced == nil {
			c.refused++
			return nil, false
		}
		c.removeStartup(displaced)
		displaced.displaced = true
		c.displaced++
		c.open--
	}
	c.open++
	c.startups.add(in)
	if in.from != (source{}) {
		c.sources[in.from]++
	}
	return displaced, true
}

// chooseDisplaced returns the connection in its startup that a new connection from the source newcomer displaces, or
// nil. chooseDisplaced checks each source. There are at most as many sources as open connections.
func (c *ConnLimiter) chooseDisplaced(newcomer source, now time.Time) *Conn {
	oldest := c.startups.first
	if oldest == nil {
		return nil
	}
	var greediest source
	for from, n := range c.sources {
		if n > c.sources[greediest] {
			greediest = from
		}
	}
	if greediest != newcomer && c.sources[greediest] > c.sources[newcomer]+1 {
		for oldest.from != greediest {
			oldest = oldest.place.next
		}
	} else if now.Sub(oldest.arrived) < displaceAfter {
		return nil
	}
	return oldest
}

// removeStartup removes a connection from the startups. A source without startups is removed from the map, so that
// the map is no larger than the list.
func (c *ConnLimiter) removeStartup(in *Conn) {
	c.startups.remove(in)
	if c.sources[in.from]--; c.sources[in.from] <= 0 {
		delete(c.sources, in.from)
	}
}

// FinishStartup records that the startup of a connection has ended, with success or not. CloseUnopened still closes the
// connection.
func (c *ConnLimiter) FinishStartup(in *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.place.in == &c.startups {
		c.removeStartup(in)
		c.openings.add(in)
	}
}

// FinishOpening records that a connection has its session, or is closed. From then on, CloseUnopened does not close the
// connection.
func (c *ConnLimiter) FinishOpening(in *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeFromList(in)
}

// removeFromList removes a connection from the list of startups or openings, if it is in one. The caller holds mu.
func (c *ConnLimiter) removeFromList(in *Conn) {
	switch in.place.in {
	case &c.startups:
		c.removeStartup(in)
	case &c.openings:
		c.openings.remove(in)
	}
}

// CloseUnopened closes all connections that have no session yet. Admit must not be called afterwards. CloseUnopened
// holds the lock during the closing, so that none of these connections gets a session meanwhile.
func (c *ConnLimiter) CloseUnopened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range [...]*connList{&c.startups, &c.openings} {
		for in := l.first; in != nil; in = in.place.next {
			in.Net.Close()
		}
	}
}

// ReleasePlace records that a connection was closed, and frees its place.
func (c *ConnLimiter) ReleasePlace(in *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeFromList(in)
	if !in.displaced {
		c.open--
	}
}

// TakeRefusalCounts returns how many connections were refused and displaced since the last call with a result other
// than zeros. Within reportEvery of that call, TakeRefusalCounts returns zeros.
func (c *ConnLimiter) TakeRefusalCounts(now time.Time) (refused, displaced int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused+c.displaced == 0 || now.Sub(c.reported) < reportEvery {
		return 0, 0
	}
	refused, displaced, c.reported = c.refused, c.displaced, now
	c.refused, c.displaced = 0, 0
	return refused, displaced
}
