package startup

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-proxy/sluice/proxy/wire"
)

// GuessLimiter bounds the number of wrong passwords or cancel keys from one source. Sluice refuses a source that has
// used up its number until the number grows again, even with a right answer. Otherwise a guesser could send many
// answers at once. It refuses at once, so that no connection waits.
//
// A source is an IPv4 address, or the /64 of an IPv6 address. All clients of one address translator are one source.
// Clients of this machine (loopback, Unix sockets) have no distinct source, and no bound. GuessLimiter is safe for
// concurrent use.
type GuessLimiter struct {
	share rate.Limit // wrong answers per second
	burst int

	mu      sync.Mutex
	sources map[netip.Prefix]*rate.Limiter
	swept   time.Time
}

const (
	// mostSources bounds the sources of wrong passwords that have an entry of their own, some 2 MiB. Further sources
	// share one entry.
	mostSources = 10_000
	// sweepSources is the shortest interval between two removals of idle sources (removeIdleSources). An idle source
	// has its whole share of wrong answers again.
	sweepSources = time.Second
)

// NewGuessLimiter returns a GuessLimiter that allows a source burst wrong answers, then one more per period every.
func NewGuessLimiter(burst int, every time.Duration) *GuessLimiter {
	return &GuessLimiter{share: rate.Every(every), burst: burst, sources: map[netip.Prefix]*rate.Limiter{}}
}

// AddrSource returns the source of a connection by its address. ok is false for a connection from this machine.
func AddrSource(addr net.Addr) (source netip.Prefix, ok bool) {
	tcp, isTCP := addr.(*net.TCPAddr)
	if !isTCP {
		return source, false
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if !ip.IsValid() || ip.IsLoopback() {
		return source, false
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	source, err := ip.Prefix(bits)
	return source, err == nil
}

// CheckGuess calls right to check an answer from an address, and returns its result. If the source has used up its
// wrong answers, heard is false, and CheckGuess does not call right. right must not block, because a lock is held.
func (g *GuessLimiter) CheckGuess(from net.Addr, now time.Time, right func() bool) (ok, heard bool) {
	source, bounded := AddrSource(from)
	if !bounded {
		return right(), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.sources[source]
	if known == nil && len(g.sources) >= mostSources {
		g.removeIdleSources(now)
		if len(g.sources) >= mostSources {
			source = netip.Prefix{}
			known = g.sources[source]
		}
	}
	if known != nil && known.TokensAt(now) < 1 {
		return false, false
	}
	if ok = right(); !ok {
		if known == nil {
			known = rate.NewLimiter(g.share, g.burst)
			g.sources[source] = known
		}
		known.AllowN(now, 1)
	}
	return ok, true
}

// removeIdleSources removes sources that may again send their whole share of wrong answers. The caller holds mu.
func (g *GuessLimiter) removeIdleSources(now time.Time) {
	if now.Sub(g.swept) < sweepSources {
		return
	}
	g.swept = now
	for source, l := range g.sources {
		if l.TokensAt(now) >= float64(g.burst) {
			delete(g.sources, source)
		}
	}
}

// passwordBurst is the number of wrong passwords that one source may send at once, and passwordEvery the time for each
// further one. These bounds allow typing errors, and 86,000 guesses a day.
const (
	passwordBurst = 20
	passwordEvery = time.Second
	// failureHold is the delay of the error for a wrong password, as by PostgreSQL's auth_delay. failureHold is the only
	// limit for a guesser on this machine.
	failureHold = 500 * time.Millisecond
)

// ErrTooManyFailures refuses a client after too many wrong passwords from the client's source.
var ErrTooManyFailures = &wire.Error{Fatal: true, Code: "53300", Message: "too many failed authentications from this address",
	Hint: "Try again later: one more attempt is heard each second."}

// delayFailure waits for failureHold, or until the connection fails or is closed on this side. delayFailure drops the
// client's input. The end of the client's stream does not shorten the wait, because a guesser may end the stream at
// once.
func (g *clientHandshake) delayFailure() {
	end := time.Now().Add(failureHold)
	if g.raw.SetReadDeadline(end) != nil {
		return
	}
	var unheard [64]byte
	for {
		switch _, err := g.raw.Read(unheard[:]); {
		case errors.Is(err, io.EOF):
			time.Sleep(time.Until(end))
			return
		case err != nil || !time.Now().Before(end):
			return
		}
	}
}
