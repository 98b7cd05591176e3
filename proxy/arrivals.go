package proxy

import (
	"net"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/admission"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
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
)

// arrival is one connection of a client. swept is the sweeper's, once it has a session.
type arrival struct {
	admission.Conn
	swept swept
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
		displaced.Net.Close() // its startup ends with an error, and is counted
	}
	if refused, displaced := srv.arrivals.TurnedAway(now); refused+displaced > 0 {
		srv.log.Warn("connections turned away: as many as listen.max_clients allows are open, and more that do not say who they are",
			"max_clients", srv.cfg.MaxClients, "newcomers", refused, "silent", displaced)
	}
	return true
}

// takeIn admits a connection and has a host welcome it. Here and not in the goroutine, so that no
// burst takes the descriptors that others need.
func (srv *Server) takeIn(conn net.Conn, keptAlive bool, now time.Time) (in *arrival, displaced *admission.Conn, closed bool) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return nil, nil, true
	}
	in = &arrival{Conn: admission.Conn{Net: conn, KeptAlive: keptAlive}}
	displaced, ok := srv.arrivals.Admit(&in.Conn, now)
	if !ok {
		return nil, nil, false
	}
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
	if tcp, ok := in.Net.(*net.TCPConn); ok && !in.KeptAlive {
		tcp.SetKeepAliveConfig(reservoir.KeepAlive(srv.cfg.ClientPathLimit))
	}
	raw := rawconn.Wrap(in.Net)
	if srv.cfg.PlainConn {
		raw = rawconn.Plain(in.Net)
	}
	s := srv.admitGuarded(in, raw)
	if s == nil {
		srv.arrivals.Left(&in.Conn)
		return
	}
	s.logStart()
	if s.guest = true; !s.run() {
		srv.arrivals.Left(&in.Conn)
		return
	}
	s.guest = false
	srv.linger(s)
}
