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
	// adminConns is how many connections the admin address has at once. A handful asks: probes, a
	// scraper or two, a person.
	adminConns = 32
	// adminPatience is how long a request keeps its connection in any case: many times what a probe
	// or a scrape takes.
	adminPatience = time.Second
	// adminTellEvery is how often the log is told of connections that were closed.
	adminTellEvery = 10 * time.Second
)

// AdminGuests bounds the connections of the admin address, so that they leave descriptors for all
// else. Where there are too many the one that has done nothing for longest is closed, so that those
// which say nothing keep no probe out; of those with a request only one that has had its time.
type AdminGuests struct {
	most     int
	patience time.Duration
	log      *slog.Logger
	metrics  *metrics.Admin
	now      func() time.Time

	mu     sync.Mutex
	guests map[net.Conn]adminGuest
	closed int // since told
	told   time.Time
}

// adminGuest is one connection. since is when it last began or ended a request, or came.
type adminGuest struct {
	since time.Time
	asks  bool
}

// NewAdminGuests returns the bounds of one admin address. The log and m hear of connections that are closed.
func NewAdminGuests(log *slog.Logger, m *metrics.Admin) *AdminGuests {
	return &AdminGuests{most: adminConns, patience: adminPatience, log: log, metrics: m, now: time.Now, guests: map[net.Conn]adminGuest{}}
}

// see is http.Server's ConnState. For a new connection it is called before the next one is accepted.
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

// makeRoom closes one connection, and takes the newcomer in unless that is the one.
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
	_ = last.Close() // it is gone either way
	g.metrics.ConnectionClosed()
	if g.closed++; g.now().Sub(g.told) >= adminTellEvery {
		g.log.Warn("connections of admin.address were closed: too many are open", "most", g.most, "closed", g.closed)
		g.closed, g.told = 0, g.now()
	}
}
