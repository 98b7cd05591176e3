package proxy

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/startup"
	"github.com/sluice-proxy/sluice/reservoir"
)

// Connections of clients from their accept on, however many come: Serve calls start, welcome
// takes one through its startup, run is its session.
//
// A goroutine's stack grows by copies, to 16 KiB for a startup and a query, which costs a
// client that asks one query more than its startup does. So a goroutine whose client has left
// takes the next one (host), and a client keeps it while it is at work; one that lingers leaves it
// (linger.go).

// SpareConns is how many connections there may be beside those of listen.max_clients, of clients
// that have not said who they are: a cancel must get through when all clients are in.
const SpareConns = 100

const (
	// patience is how long a connection keeps its place in any case, while it does not say who
	// it is: many times what a startup takes.
	patience = 250 * time.Millisecond
	// spareHosts is how many goroutines may wait for clients.
	spareHosts = 8
	// briefly is how long a client may think, in its first turns, before it lingers: longer than
	// a network's round trip within a region.
	briefly    = 10 * time.Millisecond
	firstTurns = 8
	// quietLooks is how many looks of the sweeper have a client that is silent linger again: what
	// that costs, some 10 µs with the growth of a stack behind it, is to be little beside a query
	// each 10 s.
	quietLooks = 10
	// farewell is for how long a connection that is turned away may keep the next one waiting.
	farewell = 5 * time.Millisecond
	// tellEvery is how often the log is told of connections that were turned away.
	tellEvery = 10 * time.Second
)

// arrivals counts the connections of clients. Where there is no room, one of those that have not
// said who they are gives way to the newcomer, so that connections which say nothing keep nobody
// out: where a source has more of them than the newcomer's would then have, the oldest of the source
// that has most, at once; else the oldest of all, if it has had its time. So no flood from one address
// keeps others out, however fast it is, and a source that is alone has all places. Anybody may call
// its methods.
type arrivals struct {
	mu   sync.Mutex
	most int
	open int
	// startups have not said who they are; openings have, and their sessions have not begun.
	startups, openings ring
	sources            map[source]int // how many of the startups each source has
	// refused and displaced are those turned away since told.
	refused, displaced int
	told               time.Time
}

// source is who opens connections: an address (for IPv6 its /64), or a process at a Unix socket. The
// zero value is of this machine, and nobody knows who: such connections have no share.
type source struct {
	addresses netip.Prefix
	process   int32
}

// sourceOf asks the system once, when a connection is accepted: the process may end before it, and
// another get its number.
func sourceOf(conn net.Conn) (of source) {
	if pid, _, ok := rawconn.PeerProcess(conn); ok {
		of.process = pid
	} else if addresses, ok := startup.SourceOf(conn.RemoteAddr()); ok {
		of.addresses = addresses
	}
	return of
}

// arrival is one connection. swept is the sweeper's, once it has a session.
type arrival struct {
	conn      net.Conn
	from      source
	came      time.Time
	place     ringPlace
	displaced bool // its place has gone to another
	keptAlive bool // it has the configuration's keepalive already
	swept     swept
}

// admit takes a connection in, in the place of another (displaced) where that must be closed; nil
// for one that there is no room for.
func (a *arrivals) admit(conn net.Conn, now time.Time) (in, displaced *arrival) {
	from := sourceOf(conn)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= a.most {
		if displaced = a.last(from, now); displaced == nil {
			a.refused++
			return nil, nil
		}
		a.leave(displaced)
		displaced.displaced = true
		a.displaced++
		a.open--
	}
	a.open++
	in = &arrival{conn: conn, from: from, came: now}
	a.startups.add(in)
	if from != (source{}) {
		a.sources[from]++
	}
	return in, displaced
}

// last is who gives way to a newcomer; nil for nobody. It looks through all sources, of which there
// are no more than places; it is asked only where no place is free.
func (a *arrivals) last(newcomer source, now time.Time) *arrival {
	oldest := a.startups.first
	if oldest == nil {
		return nil
	}
	var greediest source
	for from, n := range a.sources {
		if n > a.sources[greediest] {
			greediest = from
		}
	}
	if greediest != newcomer && a.sources[greediest] > a.sources[newcomer]+1 {
		for oldest.from != greediest {
			oldest = oldest.place.next
		}
	} else if now.Sub(oldest.came) < patience {
		return nil
	}
	return oldest
}

// leave takes one that has a place out of the startups. A source is forgotten with its last, so that
// the map is no larger than the list.
func (a *arrivals) leave(in *arrival) {
	a.startups.remove(in)
	if a.sources[in.from]--; a.sources[in.from] <= 0 {
		delete(a.sources, in.from)
	}
}

// started says that a client has said who it is, or that its connection is about to end. cut still
// closes it, up to opened.
func (a *arrivals) started(in *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.place.in == &a.startups {
		a.leave(in)
		a.openings.add(in)
	}
}

// opened says that a connection has its session, or is closed: cut leaves it alone from now on.
func (a *arrivals) opened(in *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(in)
}

// forget takes one out of the list that it stands in, if any. The caller holds mu.
func (a *arrivals) forget(in *arrival) {
	switch in.place.in {
	case &a.startups:
		a.leave(in)
	case &a.openings:
		a.openings.remove(in)
	}
}

// cut closes the connections of all clients that have no session yet. Nobody may be admitted any
// more. mu is held meanwhile, so that none of them is given to a session that should be told
// first; those who read or write them do not hold it.
func (a *arrivals) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range [...]*ring{&a.startups, &a.openings} {
		for in := r.first; in != nil; in = in.place.next {
			in.conn.Close()
		}
	}
}

// left gives back the place of a connection that is closed.
func (a *arrivals) left(in *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(in)
	if !in.displaced {
		a.open--
	}
}

// news are the connections turned away since it last returned any; zeros, most of the time.
func (a *arrivals) news(now time.Time) (refused, displaced int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused+a.displaced == 0 || now.Sub(a.told) < tellEvery {
		return 0, 0
	}
	refused, displaced, a.told = a.refused, a.displaced, now
	a.refused, a.displaced = 0, 0
	return refused, displaced
}

// start begins the startup of a client that was accepted, unless there is no room. false: the
// server has been closed meanwhile, and the connection with it, since nobody waits for its
// end any more. keptAlive says that the connection has the configuration's keepalive already.
func (srv *Server) start(conn net.Conn, keptAlive bool) bool {
	now := time.Now()
	in, displaced, closed := srv.takeIn(conn, keptAlive, now)
	switch {
	case closed:
		conn.Close()
		return false
	case in == nil:
		srv.metrics.StartupRefused(metrics.RefusedClients)
		// There is room for it, unless the kernel is short of memory. Who has sent something
		// already may not hear it.
		conn.SetWriteDeadline(time.Now().Add(farewell))
		conn.Write(errTooManyClients(srv.cfg.MaxClients).Append(nil))
		conn.Close()
	case displaced != nil:
		displaced.conn.Close() // its startup ends with an error, and is counted
	}
	if refused, displaced := srv.arrivals.news(now); refused+displaced > 0 {
		srv.log.Warn("connections turned away: as many as listen.max_clients allows are open, and more that do not say who they are",
			"max_clients", srv.cfg.MaxClients, "newcomers", refused, "silent", displaced)
	}
	return true
}

// takeIn admits a connection and has a host welcome it. Here and not in the goroutine, so that no
// burst takes the descriptors that others need.
func (srv *Server) takeIn(conn net.Conn, keptAlive bool, now time.Time) (in, displaced *arrival, closed bool) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return nil, nil, true
	}
	if in, displaced = srv.arrivals.admit(conn, now); in == nil {
		return nil, nil, false
	}
	in.keptAlive = keptAlive
	select {
	case srv.guests <- in: // a host waits
	default:
		srv.running.Go(func() { srv.host(in) })
	}
	return in, displaced, false
}

// host welcomes one client after the other until there are spareHosts without it, or the
// sessions end.
func (srv *Server) host(in *arrival) {
	for {
		srv.welcome(in)
		if srv.spare.Add(1) > spareHosts {
			srv.spare.Add(-1)
			return
		}
		select {
		case in = <-srv.guests:
			srv.spare.Add(-1)
		case <-srv.ctx.Done():
			return
		}
	}
}

// welcome runs the startup of a connection, which is its own to close, and its session, up to
// the end of that or until the client lingers: then the session goes on elsewhere.
func (srv *Server) welcome(in *arrival) {
	if tcp, ok := in.conn.(*net.TCPConn); ok && !in.keptAlive {
		tcp.SetKeepAliveConfig(reservoir.KeepAlive(srv.cfg.ClientPathLimit))
	}
	raw := rawconn.Wrap(in.conn)
	if srv.cfg.PlainConn {
		raw = rawconn.Plain(in.conn)
	}
	s := srv.admitGuarded(in, raw)
	if s == nil {
		srv.arrivals.left(in)
		return
	}
	s.logStart()
	if s.guest = true; !s.run() {
		srv.arrivals.left(in)
		return
	}
	s.guest = false
	srv.linger(s)
}
