package proxy

import (
	"net"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
	"github.com/sluice-proxy/sluice/proxy/admission"
	"github.com/sluice-proxy/sluice/proxy/rawconn"
	"github.com/sluice-proxy/sluice/proxy/sqlerror"
	"github.com/sluice-proxy/sluice/reservoir"
)

// This file handles client connections from their accept on: it admits or refuses a connection, runs its startup, and
// then its session.
//
// A goroutine's stack grows by copying, to 16 KiB for a startup and a query. For a client with one query, that growth
// costs more than the startup. So a goroutine whose client has left serves the next client (serveClients). A client has
// its goroutine while it is active. An idle client gives it up (parking.go).

// SpareConns is how many connections beyond listen.max_clients Sluice accepts from clients that have not identified
// themselves yet. Cancel requests need them when all places for clients are taken.
const SpareConns = 100

const (
	// maxIdleWorkers bounds the goroutines that wait to serve the next client.
	maxIdleWorkers = 8
	// earlyIdleLimit is how long a client may be idle in its first firstTurns turns before Sluice frees its goroutine. The
	// limit is longer than a round trip within a region.
	earlyIdleLimit = 10 * time.Millisecond
	firstTurns     = 8
	// sweepsBeforePark is the number of sweeps (checks of all sessions) for which a session must be idle before it frees
	// its goroutine again. Freeing costs some 10 µs, stack growth included, which is little at one query per 10 s.
	sweepsBeforePark = 10
	// refusalWriteTimeout bounds the write of an error to a refused client, because other new clients wait for it.
	refusalWriteTimeout = 5 * time.Millisecond
)

// clientConn is one connection of a client. Once the client has a session, only the sweeper (which checks all
// sessions) uses the field swept.
type clientConn struct {
	admission.Conn
	swept sweepState
}

// startClient begins the startup of an accepted client, or refuses the client if there is no room. If Sluice has been
// closed, startClient closes the connection and returns false. keptAlive says that the connection already has the
// configured keepalive.
func (srv *Server) startClient(conn net.Conn, keptAlive bool) bool {
	now := time.Now()
	in, displaced, closed := srv.admitConn(conn, keptAlive, now)
	switch {
	case closed:
		conn.Close()
		return false
	case in == nil:
		srv.metrics.CountStartupRefusal(metrics.RefusedClients)
		// The socket's buffer usually has room for the error. A client that has already sent bytes may not receive the error.
		conn.SetWriteDeadline(time.Now().Add(refusalWriteTimeout))
		conn.Write(sqlerror.TooManyClients(srv.cfg.MaxClients).Append(nil))
		conn.Close()
	case displaced != nil:
		displaced.Net.Close() // the startup ends with an error, and is counted
	}
	if refused, displaced := srv.accepting.arrivals.TakeRefusalCounts(now); refused+displaced > 0 {
		srv.log.Warn("connections turned away: as many as listen.max_clients allows are open, and more that do not say who they are",
			"max_clients", srv.cfg.MaxClients, "newcomers", refused, "silent", displaced)
	}
	return true
}

// admitConn admits a connection and passes it to a goroutine that serves clients. It runs on the accepting goroutine,
// so that a burst of connections cannot take the file descriptors that other connections need.
func (srv *Server) admitConn(conn net.Conn, keptAlive bool, now time.Time) (in *clientConn, displaced *admission.Conn, closed bool) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.closed {
		return nil, nil, true
	}
	in = &clientConn{Conn: admission.Conn{Net: conn, KeptAlive: keptAlive}}
	displaced, ok := srv.accepting.arrivals.Admit(&in.Conn, now)
	if !ok {
		return nil, nil, false
	}
	select {
	case srv.accepting.guests <- in: // a host is waiting
	default:
		srv.running.Go(func() { srv.serveClients(in) })
	}
	return in, displaced, false
}

// serveClients serves one client after another. It ends when over maxIdleWorkers goroutines wait, or the server closes.
func (srv *Server) serveClients(in *clientConn) {
	for {
		srv.serveConn(in)
		if srv.accepting.spare.Add(1) > maxIdleWorkers {
			srv.accepting.spare.Add(-1)
			return
		}
		select {
		case in = <-srv.accepting.guests:
			srv.accepting.spare.Add(-1)
		case <-srv.ctx.Done():
			return
		}
	}
}

// serveConn runs the startup of a connection and then its session, until the session ends or its client becomes idle.
// An idle session continues without this goroutine (parking.go).
func (srv *Server) serveConn(in *clientConn) {
	if tcp, ok := in.Net.(*net.TCPConn); ok && !in.KeptAlive {
		tcp.SetKeepAliveConfig(reservoir.KeepAliveSettings(srv.cfg.ClientPathLimit))
	}
	raw := rawconn.Wrap(in.Net)
	if srv.cfg.PlainConn {
		raw = rawconn.WrapPlain(in.Net)
	}
	s := srv.admitRecovering(in, raw)
	if s == nil {
		srv.accepting.arrivals.ReleasePlace(&in.Conn)
		return
	}
	s.logStart()
	if s.guest = true; !s.run() {
		srv.accepting.arrivals.ReleasePlace(&in.Conn)
		return
	}
	s.guest = false
	srv.parkOrResume(s)
}
