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

// Guesses bounds how many wrong passwords or cancel keys one source tries. A source that has used up
// its share is not heard until the share grows again. Right answers are refused too then, or a guesser
// would find the right one among many that it sends at once. The refusal comes at once: no connection
// is kept waiting.
//
// A source is an IPv4 address, or the /64 of an IPv6 one; all who come through one address translator
// are one source. Clients of this machine (loopback, Unix sockets) cannot be told apart, and have no
// bound. Any goroutine may call the methods.
type Guesses struct {
	share rate.Limit // wrong answers a second
	burst int

	mu      sync.Mutex
	sources map[netip.Prefix]*rate.Limiter
	swept   time.Time
}

const (
	// mostSources bounds the sources that are remembered, some 2 MiB of them. Those beyond share one.
	mostSources = 10_000
	// sweepSources is how often those are looked for that have their whole share again.
	sweepSources = time.Second
)

// NewGuesses allows each source burst wrong answers at once, and every as the time between two
// from then on.
func NewGuesses(burst int, every time.Duration) *Guesses {
	return &Guesses{share: rate.Every(every), burst: burst, sources: map[netip.Prefix]*rate.Limiter{}}
}

// SourceOf is the source that a connection comes from; ok is false for one of this machine.
func SourceOf(addr net.Addr) (source netip.Prefix, ok bool) {
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

// Try asks right whether an answer is right, and reports what it said. heard is false where the source
// has used up its share: then right is not asked. right is called under a lock, and must not block.
func (g *Guesses) Try(from net.Addr, now time.Time, right func() bool) (ok, heard bool) {
	source, bounded := SourceOf(from)
	if !bounded {
		return right(), true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.sources[source]
	if known == nil && len(g.sources) >= mostSources {
		g.sweep(now)
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

// sweep forgets sources that have their whole share again. The caller holds mu.
func (g *Guesses) sweep(now time.Time) {
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

// The share of passwords: a person who mistypes is not kept out, and a day of guesses is 86,000.
const (
	passwordBurst = 20
	passwordEvery = time.Second
	// failureHold is how long a client whose password was wrong waits for its error, as with PostgreSQL's
	// auth_delay. Nothing else slows a guesser on this machine.
	failureHold = 500 * time.Millisecond
)

// ErrTooManyFailures refuses a client whose source has tried too many wrong passwords.
var ErrTooManyFailures = &wire.Error{Fatal: true, Code: "53300", Message: "too many failed authentications from this address",
	Hint: "Try again later: one more attempt is heard each second."}

// holdFailure waits for failureHold, or until the connection is broken or closed here. What the client
// sends meanwhile is dropped. The end of its stream does not shorten the wait: a guesser may send it at once.
func (g *handshake) holdFailure() {
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
