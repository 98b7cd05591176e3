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
	// adminConns is the maximum number of connections to the admin address. Probes, a scraper or two and a person need
	// only a few.
	adminConns = 32
	// adminPatience is how long a request may use its connection in any case. It is many times the
	// duration of a probe or a scrape.
	adminPatience = time.Second
	// adminLogEvery is the interval at which closed connections are logged.
	adminLogEvery = 10 * time.Second
)

// AdminGuests bounds the connections to the admin address, so that enough file descriptors remain for clients and
// backends. If there are too many, it closes the connection that has been idle for longest, so that silent connections
// do not block a probe. A connection with a request is closed only after adminPatience.
type AdminGuests struct {
	most     int
	patience time.Duration
	log      *slog.Logger
	metrics  *metrics.Admin
	now      func() time.Time

	mu       sync.Mutex
	guests   map[net.Conn]adminGuest
	closed   int // since the last log line
	loggedAt time.Time
}

// adminGuest is one connection to the admin address. since is when the connection was opened, or when its last request
// began or ended.
type adminGuest struct {
	since time.Time
	asks  bool
}

// NewAdminGuests returns the bounds of one admin address. Closed connections are logged and counted
// by m.
func NewAdminGuests(log *slog.Logger, m *metrics.Admin) *AdminGuests {
	return &AdminGuests{most: adminConns, patience: adminPatience, log: log, metrics: m, now: time.Now, guests: map[net.Conn]adminGuest{}}
}

// see is http.Server's ConnState. The server calls it for a new connection before it accepts the
// next one.
func (g *AdminGuests) see(conn net.Conn, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, in := g.guests[conn]
	switch {
	case state == http.StateClosed || state == http.StateHijacked:
		delete(g.guests, conn)
	case state == http.StateNew && len(g.guests) >= g.most:
		g.makeRoom(conn)
	case state == http.StateNew || in:
		g.guests[conn] = adminGuest{g.now(), state == http.StateActive}
	}
}

// makeRoom closes one connection: an old one if possible, otherwise the newcomer. It adds the newcomer unless it has
// closed it.
func (g *AdminGuests) makeRoom(newcomer net.Conn) {
	var last net.Conn
	for conn, guest := range g.guests {
		if guest.asks && g.now().Sub(guest.since) < g.patience {
			continue
		}
		if was := g.guests[last]; last == nil || was.asks && !guest.asks || was.asks == guest.asks && guest.since.Before(was.since) {
			last = conn
		}
	}
	if last == nil {
		last = newcomer
	} else {
		delete(g.guests, last)
		g.guests[newcomer] = adminGuest{since: g.now()}
	}
	_ = last.Close() // the connection ends in any case
	g.metrics.ConnectionClosed()
	if g.closed++; g.now().Sub(g.loggedAt) >= adminLogEvery {
		g.log.Warn("connections of admin.address were closed: too many are open", "most", g.most, "closed", g.closed)
		g.closed, g.loggedAt = 0, g.now()
	}
}
