package daemon

import (
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-proxy/sluice/metrics"
)

const (
	// maxAdminConns is the maximum number of connections to the admin address. Probes, a scraper or two and a person need
	// only a few.
	maxAdminConns = 32
	// adminRequestTime is the time for which a request to the admin address can certainly use its connection. A probe
	// or a scrape takes far less.
	adminRequestTime = time.Second
	// adminLogEvery is the interval at which the limiter logs how many admin connections it has closed.
	adminLogEvery = 10 * time.Second
)

// AdminConnLimiter bounds the connections to the admin address, so that enough file descriptors remain for clients and
// backends. If there are too many connections, AdminConnLimiter closes the one that has been idle for longest. So
// silent connections do not block a probe. A connection with a request is closed only after adminRequestTime.
type AdminConnLimiter struct {
	maxConns int
	patience time.Duration
	log      *slog.Logger
	metrics  *metrics.Admin
	now      func() time.Time

	mu       sync.Mutex
	conns    map[net.Conn]adminConn
	closed   int // since the last log line
	loggedAt time.Time
}

// adminConn is one connection to the admin address. since is the time when the connection was opened, or when its last
// request began or ended.
type adminConn struct {
	since      time.Time
	hasRequest bool
}

// NewAdminConnLimiter returns the AdminConnLimiter of one admin address. It logs the connections that it closes, and
// counts them by m.
func NewAdminConnLimiter(log *slog.Logger, m *metrics.Admin) *AdminConnLimiter {
	return &AdminConnLimiter{maxConns: maxAdminConns, patience: adminRequestTime, log: log, metrics: m, now: time.Now, conns: map[net.Conn]adminConn{}}
}

// trackState is the function ConnState of the admin http.Server. The server calls trackState for a new connection
// before it accepts the next one.
func (g *AdminConnLimiter) trackState(conn net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, in := g.conns[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(g.conns, conn)
	case state == http.StateNew && len(g.conns) >= g.maxConns:
		g.admitConn(conn)
	case state == http.StateNew || in:
		g.conns[conn] = adminConn{g.now(), state == http.StateActive}
	}
}

// admitConn handles a new connection when too many are open, by closing one. It closes an old connection if
// possible, otherwise the new one. A new connection that stays open is recorded.
func (g *AdminConnLimiter) admitConn(newcomer net.Conn) {
	var last net.Conn
	for conn, guest := range g.conns {
		if guest.hasRequest && g.now().Sub(guest.since) < g.patience {
			continue
		}
		if was := g.conns[last]; last == nil || was.hasRequest && !guest.hasRequest || was.hasRequest == guest.hasRequest && guest.since.Before(was.since) {
			last = conn
		}
	}
	if last == nil {
		last = newcomer
	} else {
		delete(g.conns, last)
		g.conns[newcomer] = adminConn{since: g.now()}
	}
	_ = last.Close() // the connection ends in any case
	g.metrics.CountConnectionClosed()
	if g.closed++; g.now().Sub(g.loggedAt) >= adminLogEvery {
		g.log.Warn("connections of admin.address were closed: too many are open", "most", g.maxConns, "closed", g.closed)
		g.closed, g.loggedAt = 0, g.now()
	}
}
